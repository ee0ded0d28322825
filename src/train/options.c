/* train/options.c - the options of training as data: see stet/train.h. Those of every model and
 * defence join the table by name; those given are handed to the chosen one, and an option of another
 * one is an error. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/number.h"
#include "stet/train.h"
#include "train/split.h"

enum { MAX_SETTINGS = 128 };

/* What is behind a stet_train_settings. */
typedef struct train_settings {
    const char *data, *valid, *synonyms, *label, *text, *out, *defense, *recipe, *init,
        *feature_cache;
    const char *fold, *teacher;
    int teacher_of;
    double teacher_weight;
    stet_strings vectors;
    int model, schedule, tokenizer, precision;
    bool resume, skip_bad;
    double smooth, smooth_frequency, rate, state_rate, decay, dropout, clip, warmup;
    double score_rate, score_decay, vector_rate, hold;
    bool word_scores;
    int64_t word_layer;
    int64_t max_len, max_words, min_count, batch, length_pool, epochs, patience, save_every;
    const char *setting[MAX_SETTINGS]; /* options of models and defences, as given */
} train_settings;
_Static_assert(sizeof(train_settings) <= sizeof(stet_train_settings), "room for the settings");

static char model_choices[256], rate_help[256], state_rate_help[256], decay_help[256],
    dropout_help[256], epochs_help[256], batch_help[256], clip_help[256], warmup_help[256];

static const stet_opt own_opts[] = {
    STET_OPT_TOPIC("Data"),
    STET_OPT_STR("data", train_settings, data, NULL, "FILE",
                 "labelled texts: TSV, CSV, JSON lines, aclImdb folder; plain, .gz, .xz, .zst"),
    STET_OPT_STR("valid", train_settings, valid, "0.1", "FILE|SHARE",
                 "validation texts, or the share of --data held out"),
    STET_OPT_STR("fold", train_settings, fold, NULL, "KofN",
                 "deal the texts into N folds and hold out fold K, to validate on unless --valid "
                 "names a file: the run can then teach these texts (--teacher)"),
    STET_OPT_LIST("vectors", train_settings, vectors, "FILE",
                  "word vectors (GloVe, word2vec, fastText); repeat for several files"),
    STET_OPT_STR("synonyms", train_settings, synonyms, NULL, "SET",
                 "substitution sets: their words join the vocabulary"),
    STET_OPT_REAL("smooth", train_settings, smooth, "-1", -1, 1e9, "LAMBDA",
                  "smooth the vectors over the substitution graph; -1: 4 with --defense smooth"),
    STET_OPT_REAL("smooth-frequency", train_settings, smooth_frequency, "0", 0, 2, "P",
                  "frequent words keep more of their own vector: weight by count to the power P"),
    STET_OPT_STR("label", train_settings, label, NULL, "COLUMN",
                 "column or field of the label, by name or number"),
    STET_OPT_STR("text", train_settings, text, NULL, "COLUMN,...", "columns or fields of the text"),
    STET_OPT_FLAG("skip-bad", train_settings, skip_bad, "skip malformed lines and report how many"),
    STET_OPT_CHOICE("tokenizer", train_settings, tokenizer, "word", "word|keras",
                    "how texts are cut into words"),
    STET_OPT_INT("max-len", train_settings, max_len, "512", 1, 1 << 20, "N",
                 "words read of each text; of models on word pieces: pieces"),
    STET_OPT_INT("max-words", train_settings, max_words, "0", 0, 1e9, "N",
                 "largest vocabulary; 0: no limit"),
    STET_OPT_INT("min-count", train_settings, min_count, "1", 1, 1e9, "N",
                 "rarer words are unknown"),
    STET_OPT_TOPIC("Model"),
    STET_OPT_CHOICE("model", train_settings, model, "cnn", model_choices, "kind of classifier"),
    STET_OPT_STR(
        "recipe", train_settings, recipe, NULL, "NAME",
        "settings for the kind of model, all at once; options given beside it win. robust: "
        "what proves most texts, recommended, needs --synonyms; eibc: a rival (cnn)"),
    STET_OPT_FLAG("word-scores", train_settings, word_scores,
                  "beside the network, train a score for every word and class"),
    STET_OPT_INT("word-layer", train_settings, word_layer, "0", 0, 65536, "N",
                 "units of a layer with ReLU that each word's vector goes through alone; the model "
                 "is saved with what comes out as its vectors; 0: none"),
    STET_OPT_REAL("tune-vectors", train_settings, vector_rate, "0", 0, 100, "RATE",
                  "train the word vectors too, at this rate; 0: they stay as they are"),
    STET_OPT_STR("init", train_settings, init, NULL, "FOLDER",
                 "weights to start from: any BERT that Hugging Face's transformers saved"),
    STET_OPT_STR(
        "feature-cache", train_settings, feature_cache, NULL, "FILE",
        "with --bert-head: keep BERT's rows of every text there, for later epochs and runs"),
    STET_OPT_TOPIC("Training"),
    STET_OPT_OUT(train_settings, out, NULL, "run folder"),
    STET_OPT_FLAG("resume", train_settings, resume,
                  "continue from the folder's checkpoint, if there is one"),
    STET_OPT_INT("epochs", train_settings, epochs, "0", 0, 1e6, "N", epochs_help),
    STET_OPT_INT("patience", train_settings, patience, "3", 0, 1e6, "N",
                 "epochs without a better validation accuracy; 0: never stop early"),
    STET_OPT_INT("batch", train_settings, batch, "0", 0, 65536, "N", batch_help),
    STET_OPT_INT("length-pool", train_settings, length_pool, "16", 1, 1e6, "N",
                 "sort the texts of this many batches by length; 1: plain shuffling"),
    STET_OPT_REAL("lr", train_settings, rate, "-1", -1, 100, "RATE", rate_help),
    STET_OPT_REAL("state-lr", train_settings, state_rate, "-1", -1, 100, "RATE", state_rate_help),
    STET_OPT_REAL("score-lr", train_settings, score_rate, "0.01", 0, 100, "RATE",
                  "learning rate of word scores"),
    STET_OPT_REAL("score-decay", train_settings, score_decay, "0", 0, 100, "X",
                  "weight decay of word scores"),
    STET_OPT_REAL("weight-decay", train_settings, decay, "-1", -1, 100, "X", decay_help),
    STET_OPT_REAL("dropout", train_settings, dropout, "-1", -1, 0.99, "P", dropout_help),
    STET_OPT_REAL("clip", train_settings, clip, "-1", -1, 1e9, "NORM", clip_help),
    STET_OPT_CHOICE("schedule", train_settings, schedule, "own", "constant|cosine|step|linear|own",
                    "learning rate over time; own: linear for models that warm up, else constant"),
    STET_OPT_REAL("hold", train_settings, hold, "0", 0, 1, "SHARE",
                  "share of the steps that a cosine schedule stays at the full rate"),
    STET_OPT_REAL("warmup", train_settings, warmup, "-1", -1, 1, "SHARE", warmup_help),
    STET_OPT_CHOICE("precision", train_settings, precision, "fp32", "fp32|tf32|bf16",
                    "products on the GPU: in float, or with rounded factors, which is faster"),
    STET_OPT_INT("save-every", train_settings, save_every, "500", 0, 1e9, "STEPS",
                 "steps between checkpoints within an epoch; more where one takes long"),
    STET_OPT_TOPIC("Teachers"),
    STET_OPT_STR("teacher", train_settings, teacher, NULL, "RUN,...",
                 "soft labels from these run folders, or folders of them; one trained with --fold "
                 "teaches the texts that it has not seen, any other all"),
    STET_OPT_REAL("teacher-weight", train_settings, teacher_weight, "0.7", 0, 1, "W",
                  "weight of the teachers' mean answer; 1 - W is left to the label"),
    STET_OPT_CHOICE("teacher-of", train_settings, teacher_of, "clean", "clean|both",
                    "soft labels for the clean texts, or for the worst case of --defense "
                    "certified, too"),
    STET_OPT_TOPIC("Defence"),
};
enum { N_OWN = sizeof own_opts / sizeof *own_opts };

/* ---- help that follows from the models ---------------------------------------------------- */

#define add(text, size, ...) number_print((text) + strlen(text), (size)-strlen(text), __VA_ARGS__)

/* "; -1: the model's (cnn 1e-4, bilstm 1e-3)": the field at `offset` of every kind that has it. */
static void fill_default(char *text, size_t size, const char *what, size_t offset)
{
    add(text, size, "%s-1: the model's (", what);
    const char *between = "";
    for (size_t i = 0; i < stet_model_kinds(); i++) {
        const stet_model_training t = stet_model_kind_training(i);
        double x = *(const double *)((const char *)&t + offset);
        int places = 0;
        if (x < 0 || (x == 0 && offset >= offsetof(stet_model_training, clip)))
            continue; /* it has none */
        for (; x > 0 && x < 0.0999; x *= 10)
            places++;
        add(text, size, "%s%s %g", between, stet_model_kind_name(i), places ? 10 * x : x);
        if (places)
            add(text, size, "e-%d", places + 1);
        if (offset == offsetof(stet_model_training, decay) && t.decoupled)
            add(text, size, " decoupled");
        between = ", ";
    }
    add(text, size, ")");
}
/* "; 0: the model's (20; bert 3)": that of most, then those that differ. */
static void fill_count(char *text, size_t size, const char *what, size_t offset)
{
    size_t usual = 0;
    add(text, size, "%s0: the model's (", what);
    for (size_t i = 0; i < stet_model_kinds(); i++) {
        const stet_model_training t = stet_model_kind_training(i);
        const size_t n = *(const size_t *)((const char *)&t + offset);
        if (i == 0)
            add(text, size, "%zu", usual = n);
        else if (n != usual)
            add(text, size, "; %s %zu", stet_model_kind_name(i), n);
    }
    add(text, size, ")");
}

#define FILL_DEFAULT(text, what, field)                                                            \
    fill_default(text, sizeof text, what, offsetof(stet_model_training, field))

static void fill_help(void)
{
    for (size_t i = 0; i < stet_model_kinds(); i++)
        add(model_choices, sizeof model_choices, "%s%s", i ? "|" : "", stet_model_kind_name(i));
    FILL_DEFAULT(rate_help, "learning rate; ", rate);
    FILL_DEFAULT(state_rate_help, "rate of a state space's A, B, C and step; ", state_rate);
    FILL_DEFAULT(decay_help, "", decay);
    FILL_DEFAULT(dropout_help, "before the last layer; ", dropout);
    FILL_DEFAULT(clip_help, "largest gradient norm; 0: none; ", clip);
    FILL_DEFAULT(warmup_help, "share of the steps over which a linear schedule warms up; ", warmup);
    fill_count(epochs_help, sizeof epochs_help, "passes over the data, at most; ",
               offsetof(stet_model_training, epochs));
    fill_count(batch_help, sizeof batch_help, "texts per step; ",
               offsetof(stet_model_training, batch));
}

/* ---- one table of all options ------------------------------------------------------------- */

static stet_opt table[N_OWN + 1 + MAX_SETTINGS + 1];
static char help_text[MAX_SETTINGS][160];
static char defense_help[2048];
static struct {
    const char *name;
    bool of_model;
    size_t owner;    /* defence that has it */
    unsigned models; /* those that have it, a bit each */
} settings[MAX_SETTINGS];
static size_t n_settings;

static bool is_own(const char *name)
{
    for (size_t i = 0; i < N_OWN; i++)
        if (own_opts[i].name && strcmp(own_opts[i].name, name) == 0)
            return true;
    return false;
}

/* An option that several models have is listed once. */
static bool shared_with(const char *name, size_t owner)
{
    for (size_t i = 0; i < n_settings; i++)
        if (settings[i].of_model && strcmp(settings[i].name, name) == 0) {
            settings[i].models |= 1u << owner;
            return true;
        }
    return false;
}

static size_t add_settings(const stet_opt *opts, bool of_model, size_t owner, size_t at)
{
    for (; opts && opts->type != STET_T_END; opts++) {
        if (opts->type == STET_T_TOPIC || n_settings == MAX_SETTINGS || is_own(opts->name))
            continue;
        if (of_model && shared_with(opts->name, owner))
            continue;
        snprintf(help_text[n_settings], sizeof help_text[0], "%s%s%s%s", opts->help,
                 opts->def ? " (" : "", opts->def ? opts->def : "", opts->def ? ")" : "");
        settings[n_settings].name = opts->name;
        settings[n_settings].of_model = of_model;
        settings[n_settings].owner = owner;
        settings[n_settings].models = of_model ? 1u << owner : 0;
        table[at++] =
            (stet_opt){.name = opts->name,
                       .type = STET_T_STR,
                       .offset = offsetof(train_settings, setting) + n_settings * sizeof(char *),
                       .arg = opts->arg ? opts->arg : "yes|no",
                       .help = help_text[n_settings]};
        n_settings++;
    }
    return at;
}

static void build_table(void)
{
    size_t at = 0;
    fill_help();
    for (size_t i = 0; i < N_OWN; i++) {
        table[at++] = own_opts[i];
        if (own_opts[i].name && strcmp(own_opts[i].name, "model") == 0)
            for (size_t k = 0; k < stet_model_kinds(); k++)
                at = add_settings(stet_model_kind_options(k), true, k, at);
    }
    snprintf(defense_help, sizeof defense_help,
             "what the training adds against substitutions, in the order given");
    for (size_t d = 0; d < stet_defenses(); d++)
        snprintf(defense_help + strlen(defense_help), sizeof defense_help - strlen(defense_help),
                 "; %s: %s", stet_defense_name(d), stet_defense_summary(d));
    table[at++] = (stet_opt)STET_OPT_STR("defense", train_settings, defense, "standard", "NAME,...",
                                         defense_help);
    for (size_t d = 0; d < stet_defenses(); d++)
        at = add_settings(stet_defense_options(d), false, d, at);
    table[at] = (stet_opt)STET_OPT_END;
}

const stet_opt *stet_train_options(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build_table);
    return table;
}

/* ---- what they say ------------------------------------------------------------------------ */

/* Is `name` one of the names between commas? */
static bool listed(const char *name, const char *names)
{
    const size_t n = strlen(name);
    for (const char *s = names; s; s = strchr(s, ','), s = s ? s + 1 : NULL)
        if (strncmp(s, name, n) == 0 && (s[n] == ',' || s[n] == '\0'))
            return true;
    return false;
}

static stet_status of_other_models(size_t setting)
{
    char names[256] = "";
    unsigned left = settings[setting].models;
    const bool several = left & (left - 1);
    for (size_t k = 0; left; k++) {
        if (!(left & 1u << k))
            continue;
        left &= ~(1u << k);
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s'%s'",
                 n == 0 ? ""
                 : left ? ", "
                        : " and ",
                 stet_model_kind_name(k));
    }
    return error_set(STET_EUSAGE, "--%s is an option of model%s %s", settings[setting].name,
                     several ? "s" : "", names);
}

/* "name=value" strings of the chosen model and of the chosen defences. */
typedef struct value_store {
    const char *of_model[MAX_SETTINGS + 1], *of_defense[MAX_SETTINGS + 1];
    char text[];
} value_store;

static stet_status check_owner(const train_settings *cfg, size_t i)
{
    if (settings[i].of_model)
        return settings[i].models & 1u << cfg->model ? STET_OK : of_other_models(i);
    const char *owner = stet_defense_name(settings[i].owner);
    return listed(owner, cfg->defense)
               ? STET_OK
               : error_set(STET_EUSAGE, "--%s is an option of defence '%s': add it to --defense",
                           settings[i].name, owner);
}

static stet_status collect(const train_settings *cfg, value_store **out)
{
    size_t room = 0, n[2] = {0};
    for (size_t i = 0; i < n_settings; i++)
        if (cfg->setting[i]) {
            TRY(check_owner(cfg, i));
            room += strlen(settings[i].name) + strlen(cfg->setting[i]) + 2;
        }
    value_store *store = *out = mem_zalloc(1, sizeof *store + room);
    if (!store)
        return STET_ENOMEM;
    char *at = store->text;
    for (size_t i = 0; i < n_settings; i++)
        if (cfg->setting[i]) {
            const bool of_model = settings[i].of_model;
            (of_model ? store->of_model : store->of_defense)[n[of_model]++] = at;
            at += sprintf(at, "%s=%s", settings[i].name, cfg->setting[i]) + 1;
        }
    return STET_OK;
}

/* -1 stands for the model's own value; no other number below 0 means anything. */
static stet_status check_own_values(const train_settings *cfg)
{
    const struct {
        const char *name;
        double v;
    } own[] = {
        {"lr", cfg->rate},         {"state-lr", cfg->state_rate}, {"weight-decay", cfg->decay},
        {"dropout", cfg->dropout}, {"clip", cfg->clip},           {"warmup", cfg->warmup},
        {"smooth", cfg->smooth}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].v < 0 && own[i].v != -1)
            return error_set(STET_EUSAGE, "--%s %g: expected -1 or a number of at least 0",
                             own[i].name, own[i].v);
    return STET_OK;
}

static stet_status check_teacher(const train_settings *cfg)
{
    return cfg->teacher_of && !(cfg->teacher && listed("certified", cfg->defense))
               ? error_set(STET_EUSAGE, "--teacher-of both needs --teacher and --defense certified")
               : STET_OK;
}

stet_status stet_train_settings_args(const stet_train_settings *s, stet_train_args *out,
                                     void **store)
{
    const train_settings *cfg = (const train_settings *)s;
    value_store *values;
    size_t fold, folds;
    char *end;
    *store = NULL;
    TRY(check_own_values(cfg));
    TRY(fold_parse(cfg->fold, &fold, &folds));
    TRY(check_teacher(cfg));
    const double share = strtod(cfg->valid, &end);
    const bool is_share = *cfg->valid && *end == '\0';
    if (is_share && !(share > 0 && share < 1))
        return error_set(STET_EUSAGE, "--valid %s: expected a file, or a share between 0 and 1",
                         cfg->valid);
    TRY(collect(cfg, &values));
    *store = values;
    *out = (stet_train_args){
        .size = sizeof *out,
        .out = cfg->out,
        .resume = cfg->resume,
        .data = cfg->data,
        .format = {.header = -1, .label = cfg->label, .text = cfg->text, .skip_bad = cfg->skip_bad},
        .valid = is_share ? NULL : cfg->valid,
        .valid_fraction = is_share ? share : 0,
        .fold = fold,
        .folds = folds,
        .teacher = cfg->teacher,
        .teacher_weight = cfg->teacher_weight,
        .teacher_worst = cfg->teacher_of == 1,
        .vectors = cfg->vectors.v,
        .n_vectors = cfg->vectors.n,
        .synonyms = cfg->synonyms,
        .smooth = cfg->smooth,
        .smooth_frequency = cfg->smooth_frequency,
        .tokenizer = (stet_tokenizer)cfg->tokenizer,
        .max_len = (size_t)cfg->max_len,
        .max_words = (size_t)cfg->max_words,
        .min_count = (uint64_t)cfg->min_count,
        .model = stet_model_kind_name((size_t)cfg->model),
        .init = cfg->init,
        .feature_cache = cfg->feature_cache,
        .model_settings = values->of_model,
        .defense = cfg->defense,
        .defense_settings = values->of_defense,
        .batch = (size_t)cfg->batch,
        .length_pool = (size_t)cfg->length_pool,
        .epochs = (size_t)cfg->epochs,
        .patience = (size_t)cfg->patience,
        .rate = cfg->rate,
        .state_rate = cfg->state_rate,
        .decay = cfg->decay,
        .dropout = cfg->dropout,
        .clip = cfg->clip,
        .warmup = cfg->warmup,
        .hold = cfg->hold,
        .word_scores = cfg->word_scores,
        .word_layer = (size_t)cfg->word_layer,
        .score_rate = cfg->score_rate,
        .score_decay = cfg->score_decay,
        .vector_rate = cfg->vector_rate,
        .schedule = (stet_schedule)cfg->schedule,
        .seed = 1,
        .save_every = (size_t)cfg->save_every,
        .precision = (const char *const[]){"fp32", "tf32", "bf16"}[cfg->precision],
    };
    return STET_OK;
}

stet_status stet_train_settings_recipe(const stet_train_settings *s, const char *const **words)
{
    const train_settings *cfg = (const train_settings *)s;
    *words = cfg->recipe ? stet_model_kind_recipe((size_t)cfg->model, cfg->recipe) : NULL;
    return *words || !cfg->recipe
               ? STET_OK
               : error_set(STET_EUSAGE, "--recipe %s: a model of kind '%s' has no such recipe",
                           cfg->recipe, stet_model_kind_name((size_t)cfg->model));
}
