/* cli/cmd_train.c - stet train. Options of every model and defence join the table by name; those given are
 * handed to the chosen one, and an option of another one is an error. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/kinds.h"
#include "stet/train.h"

enum { MAX_SETTINGS = 128 };

typedef struct train_cfg {
    cli_common common;
    const char *data, *valid, *synonyms, *label, *text, *out, *defense, *recipe, *init, *feature_cache;
    const char *fold, *teacher;
    int teacher_of;
    double teacher_weight;
    stet_strings vectors;
    int model, schedule, tokenizer, precision;
    bool resume, skip_bad;
    double smooth, smooth_frequency, rate, state_rate, decay, dropout, clip, warmup;
    double score_rate, score_decay, vector_rate;
    bool word_scores;
    int64_t max_len, max_words, min_count, batch, length_pool, epochs, patience, save_every;
    const char *setting[MAX_SETTINGS]; /* options of models and defences, as given */
    int64_t steps;                     /* stet bench train */
    const char *dump;
} train_cfg;

static const stet_opt own_opts[] = {
    STET_OPT_TOPIC("Data"),
    STET_OPT_STR("data", train_cfg, data, NULL, "FILE",
                 "labelled texts: TSV, CSV, JSON lines, aclImdb folder; plain, .gz, .xz, .zst"),
    STET_OPT_STR("valid", train_cfg, valid, "0.1", "FILE|SHARE",
                 "validation texts, or the share of --data held out"),
    STET_OPT_STR("fold", train_cfg, fold, NULL, "KofN",
                 "deal the texts into N folds and hold out fold K, to validate on unless --valid "
                 "names a file: the run can then teach these texts (--teacher)"),
    STET_OPT_LIST("vectors", train_cfg, vectors, "FILE",
                  "word vectors (GloVe, word2vec, fastText); repeat for several files"),
    STET_OPT_STR("synonyms", train_cfg, synonyms, NULL, "SET",
                 "substitution sets: their words join the vocabulary"),
    STET_OPT_REAL("smooth", train_cfg, smooth, "-1", -1, 1e9, "LAMBDA",
                  "smooth the vectors over the substitution graph; -1: 4 with --defense smooth"),
    STET_OPT_REAL("smooth-frequency", train_cfg, smooth_frequency, "0", 0, 2, "P",
                  "frequent words keep more of their own vector: weight by count to the power P"),
    STET_OPT_STR("label", train_cfg, label, NULL, "COLUMN",
                 "column or field of the label, by name or number"),
    STET_OPT_STR("text", train_cfg, text, NULL, "COLUMN,...", "columns or fields of the text"),
    STET_OPT_FLAG("skip-bad", train_cfg, skip_bad, "skip malformed lines and report how many"),
    STET_OPT_CHOICE("tokenizer", train_cfg, tokenizer, "word", "word|keras",
                    "how texts are cut into words"),
    STET_OPT_INT("max-len", train_cfg, max_len, "512", 1, 1 << 20, "N",
                 "words read of each text; of models on word pieces: pieces"),
    STET_OPT_INT("max-words", train_cfg, max_words, "0", 0, 1e9, "N",
                 "largest vocabulary; 0: no limit"),
    STET_OPT_INT("min-count", train_cfg, min_count, "1", 1, 1e9, "N", "rarer words are unknown"),
    STET_OPT_TOPIC("Model"),
    STET_OPT_CHOICE("model", train_cfg, model, "cnn", cli_model_choices, "kind of classifier"),
    STET_OPT_STR(
        "recipe", train_cfg, recipe, NULL, "NAME",
        "settings for the kind of model, all at once; options given beside it win. robust: "
        "what proves most texts, recommended, needs --synonyms; eibc: a rival (cnn)"),
    STET_OPT_FLAG("word-scores", train_cfg, word_scores,
                  "beside the network, train a score for every word and class"),
    STET_OPT_REAL("tune-vectors", train_cfg, vector_rate, "0", 0, 100, "RATE",
                  "train the word vectors too, at this rate; 0: they stay as they are"),
    STET_OPT_STR("init", train_cfg, init, NULL, "FOLDER",
                 "weights to start from: any BERT that Hugging Face's transformers saved"),
    STET_OPT_STR("feature-cache", train_cfg, feature_cache, NULL, "FILE",
                 "with --bert-head: keep BERT's rows of every text there, for later epochs and runs"),
    STET_OPT_TOPIC("Training"),
    STET_OPT_OUT(train_cfg, out, NULL, "run folder"),
    STET_OPT_FLAG("resume", train_cfg, resume,
                  "continue from the folder's checkpoint, if there is one"),
    STET_OPT_INT("epochs", train_cfg, epochs, "0", 0, 1e6, "N", cli_epochs_help),
    STET_OPT_INT("patience", train_cfg, patience, "3", 0, 1e6, "N",
                 "epochs without a better validation accuracy; 0: never stop early"),
    STET_OPT_INT("batch", train_cfg, batch, "0", 0, 65536, "N", cli_batch_help),
    STET_OPT_INT("length-pool", train_cfg, length_pool, "16", 1, 1e6, "N",
                 "sort the texts of this many batches by length; 1: plain shuffling"),
    STET_OPT_REAL("lr", train_cfg, rate, "-1", -1, 100, "RATE", cli_rate_help),
    STET_OPT_REAL("state-lr", train_cfg, state_rate, "-1", -1, 100, "RATE", cli_state_rate_help),
    STET_OPT_REAL("score-lr", train_cfg, score_rate, "0.01", 0, 100, "RATE",
                  "learning rate of word scores"),
    STET_OPT_REAL("score-decay", train_cfg, score_decay, "0", 0, 100, "X",
                  "weight decay of word scores"),
    STET_OPT_REAL("weight-decay", train_cfg, decay, "-1", -1, 100, "X", cli_decay_help),
    STET_OPT_REAL("dropout", train_cfg, dropout, "-1", -1, 0.99, "P", cli_dropout_help),
    STET_OPT_REAL("clip", train_cfg, clip, "-1", -1, 1e9, "NORM", cli_clip_help),
    STET_OPT_CHOICE("schedule", train_cfg, schedule, "own", "constant|cosine|step|linear|own",
                    "learning rate over time; own: linear for models that warm up, else constant"),
    STET_OPT_REAL("warmup", train_cfg, warmup, "-1", -1, 1, "SHARE", cli_warmup_help),
    STET_OPT_CHOICE("precision", train_cfg, precision, "fp32", "fp32|tf32|bf16",
                    "products on the GPU: in float, or with rounded factors, which is faster"),
    STET_OPT_INT("save-every", train_cfg, save_every, "500", 0, 1e9, "STEPS",
                 "steps between checkpoints within an epoch"),
    STET_OPT_TOPIC("Teachers"),
    STET_OPT_STR("teacher", train_cfg, teacher, NULL, "RUN,...",
                 "soft labels from these run folders, or folders of them; one trained with --fold "
                 "teaches the texts that it has not seen, any other all"),
    STET_OPT_REAL("teacher-weight", train_cfg, teacher_weight, "0.7", 0, 1, "W",
                  "weight of the teachers' mean answer; 1 - W is left to the label"),
    STET_OPT_CHOICE("teacher-of", train_cfg, teacher_of, "clean", "clean|both",
                    "soft labels for the clean texts, or for the worst case of --defense "
                    "certified, too"),
    STET_OPT_TOPIC("Defence"),
};
enum { N_OWN = sizeof own_opts / sizeof *own_opts };
static const stet_opt common_opts[] = {CLI_COMMON_OPTS(train_cfg), STET_OPT_END};
enum { N_COMMON = sizeof common_opts / sizeof *common_opts };

/* ---- one table of all options ------------------------------------------------------------- */

static const stet_opt bench_opts[] = {
    STET_OPT_TOPIC("Timing"),
    STET_OPT_INT("steps", train_cfg, steps, "100", 0, 1e9, "N", "steps to time; 0: one epoch"),
    STET_OPT_STR("dump", train_cfg, dump, NULL, "DIR",
                 "write the untrained model and the batches there, for a rival"),
};
enum { N_BENCH = sizeof bench_opts / sizeof *bench_opts };

static stet_opt table[N_OWN + 1 + MAX_SETTINGS + N_COMMON];
static stet_opt bench_table[N_BENCH + sizeof table / sizeof *table];
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
                       .offset = offsetof(train_cfg, setting) + n_settings * sizeof(char *),
                       .arg = opts->arg ? opts->arg : "yes|no",
                       .help = help_text[n_settings]};
        n_settings++;
    }
    return at;
}

__attribute__((constructor)) static void build_table(void)
{
    size_t at = 0;
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
    table[at++] =
        (stet_opt)STET_OPT_STR("defense", train_cfg, defense, "standard", "NAME,...", defense_help);
    for (size_t d = 0; d < stet_defenses(); d++)
        at = add_settings(stet_defense_options(d), false, d, at);
    for (size_t i = 0; i < N_COMMON; i++)
        table[at++] = common_opts[i];
    memcpy(bench_table, bench_opts, sizeof bench_opts);
    memcpy(bench_table + N_BENCH, table, at * sizeof *table);
}

/* ---- running ------------------------------------------------------------------------------ */

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
    return cli_usage("--%s is an option of model%s %s", settings[setting].name, several ? "s" : "",
                     names);
}

/* "name=value" strings of the chosen model or of the chosen defences. */
static stet_status collect(const train_cfg *cfg, bool of_model, char store[][256], const char **out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_settings; i++) {
        if (!cfg->setting[i] || settings[i].of_model != of_model)
            continue;
        if (of_model && !(settings[i].models & 1u << cfg->model))
            return of_other_models(i);
        if (!of_model && !listed(stet_defense_name(settings[i].owner), cfg->defense))
            return cli_usage("--%s is an option of defence '%s': add it to --defense",
                             settings[i].name, stet_defense_name(settings[i].owner));
        snprintf(store[n], 256, "%s=%s", settings[i].name, cfg->setting[i]);
        out[n] = store[n];
        n++;
    }
    out[n] = NULL;
    return STET_OK;
}

static stet_status print_result(const train_cfg *cfg, const stet_train_result *r)
{
    if (!cfg->common.json) {
        printf("%s: validation accuracy %.2f %% (epoch %zu of %zu), %.1f s, %.1f s per epoch\n",
               cfg->out, 100 * r->valid_accuracy, r->best_epoch, r->epochs, r->seconds,
               r->seconds_per_epoch);
        return STET_OK;
    }
    json_t *o = cli_json_start(&cmd_train, cfg);
    json_object_update_new(
        o, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "out",
                     cli_json_string(cfg->out), "epochs", (json_int_t)r->epochs, "best_epoch",
                     (json_int_t)r->best_epoch, "steps", (json_int_t)r->steps, "train_texts",
                     (json_int_t)r->n_train, "valid_texts", (json_int_t)r->n_valid, "words",
                     (json_int_t)r->n_words, "valid_accuracy", r->valid_accuracy, "valid_loss",
                     r->valid_loss, "seconds", r->seconds, "seconds_per_epoch",
                     r->seconds_per_epoch, "smooth_residual", r->smooth_residual));
    return cli_json_print(o);
}

/* What the command line says, as the library wants it. Points into `cfg` and `store`. */
typedef struct run_args {
    stet_train_args a;
    char store[2][MAX_SETTINGS][256];
    const char *model_settings[MAX_SETTINGS + 1], *defense_settings[MAX_SETTINGS + 1];
} run_args;

/* -1 stands for the model's own value; no other number below 0 means anything. */
static stet_status check_own_values(const train_cfg *cfg)
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
            return cli_usage("--%s %g: expected -1 or a number of at least 0", own[i].name,
                             own[i].v);
    return STET_OK;
}

/* "2of5" */
static stet_status parse_fold(const char *text, size_t *fold, size_t *folds)
{
    unsigned long k = 0, n = 0;
    char rest;
    *fold = *folds = 0;
    if (text && (strspn(text, "0123456789of") != strlen(text) ||
                 sscanf(text, "%5luof%5lu%c", &k, &n, &rest) != 2 || n < 2 || k < 1 || k > n))
        return cli_usage("--fold %s: expected KofN, such as 2of5", text);
    *fold = k;
    *folds = n;
    return STET_OK;
}

static stet_status check_teacher(const train_cfg *cfg)
{
    return cfg->teacher_of && !(cfg->teacher && listed("certified", cfg->defense))
               ? cli_usage("--teacher-of both needs --teacher and --defense certified")
               : STET_OK;
}

static stet_status fill_args(const train_cfg *cfg, run_args *r)
{
    size_t fold, folds;
    stet_status st = check_own_values(cfg);
    if (st == STET_OK)
        st = parse_fold(cfg->fold, &fold, &folds);
    if (st == STET_OK)
        st = check_teacher(cfg);
    if (st == STET_OK)
        st = collect(cfg, true, r->store[0], r->model_settings);
    if (st == STET_OK)
        st = collect(cfg, false, r->store[1], r->defense_settings);
    if (st != STET_OK)
        return st;
    char *end;
    const double share = strtod(cfg->valid, &end);
    const bool is_share = *cfg->valid && *end == '\0';
    if (is_share && !(share > 0 && share < 1))
        return cli_usage("--valid %s: expected a file, or a share between 0 and 1", cfg->valid);
    r->a = (stet_train_args){
        .out = cfg->out,
        .resume = cfg->resume,
        .device = cli_device(&cfg->common),
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
        .model_settings = r->model_settings,
        .defense = cfg->defense,
        .defense_settings = r->defense_settings,
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
        .word_scores = cfg->word_scores,
        .score_rate = cfg->score_rate,
        .score_decay = cfg->score_decay,
        .vector_rate = cfg->vector_rate,
        .schedule = (stet_schedule)cfg->schedule,
        .seed = (uint64_t)cfg->common.seed,
        .save_every = (size_t)cfg->save_every,
        .precision = (const char *const[]){"fp32", "tf32", "bf16"}[cfg->precision],
    };
    return STET_OK;
}

static stet_status before(const void *config, const char *const **out)
{
    const train_cfg *cfg = config;
    const char *kind = stet_model_kind_name((size_t)cfg->model);
    if (!cfg->recipe)
        return STET_OK;
    *out = stet_model_kind_recipe((size_t)cfg->model, cfg->recipe);
    return *out ? STET_OK
                : cli_usage("--recipe %s: a model of kind '%s' has no such recipe", cfg->recipe,
                            kind);
}

static stet_status run(void *config, const stet_rest *rest)
{
    (void)rest;
    const train_cfg *cfg = config;
    const bool vectors =
        cfg->vectors.n || stet_model_kind_training((size_t)cfg->model).reads_itself;
    if (!cfg->data || !cfg->out || !vectors)
        return cli_usage("expected --data FILE, --vectors FILE and -o DIR; missing:%s%s%s",
                         cfg->data ? "" : " --data", vectors ? "" : " --vectors",
                         cfg->out ? "" : " -o");
    static run_args r;
    stet_train_result result;
    stet_status st = fill_args(cfg, &r);
    if (st == STET_OK)
        st = stet_train(&r.a, &result);
    return st == STET_OK ? print_result(cfg, &result) : st;
}

const cli_command cmd_train = {
    .name = "train",
    .args = "",
    .summary = "train a classifier into a run folder",
    .details = "The folder holds config.json, model.safetensors, vocab.txt, train.jsonl and a "
               "model card. Ctrl-C leaves a checkpoint; --resume continues from it and ends "
               "in the same bytes as an undisturbed run. Without --resume an older run in the "
               "folder is replaced, but files that no run wrote are kept.",
    .examples = "  stet train --data train.tsv.xz --vectors glove.6B.300d.txt -o runs/cnn\n"
                "  stet train --data train.csv --model bilstm --vectors glove.txt --seed 7 -o "
                "runs/bilstm --resume\n"
                "  stet train --data train.tsv.xz --vectors glove.txt --synonyms jia.subst \\\n"
                "    --recipe robust -o runs/robust\n",
    .opts = table,
    .cfg_size = sizeof(train_cfg),
    .on_gpu = true,
    .run = run,
    .before = before,
};

/* ---- stet bench train --------------------------------------------------------------------- */

static stet_status bench(void *config, const stet_rest *rest)
{
    (void)rest;
    const train_cfg *cfg = config;
    if (!cfg->data ||
        (cfg->vectors.n == 0 && !stet_model_kind_training((size_t)cfg->model).reads_itself))
        return cli_usage("expected --data FILE and --vectors FILE");
    enum { N_LOSS = 20 };
    static run_args r;
    double loss[N_LOSS] = {0};
    stet_train_bench b;
    stet_status st = fill_args(cfg, &r);
    if (st == STET_OK)
        st = stet_train_time(&r.a, (size_t)cfg->steps, cfg->dump, loss, N_LOSS, &b);
    if (st != STET_OK)
        return st;
    if (!cfg->common.json) {
        printf("%s: %zu steps in %.2f s: %.1f ms a step, %.0f words/s, one epoch of %zu steps "
               "takes %.1f s\n",
               r.a.model, b.steps, b.seconds, 1e3 * b.seconds / (double)b.steps,
               (double)b.tokens / b.seconds, b.steps_per_epoch, b.epoch_seconds);
        return STET_OK;
    }
    json_t *losses = json_array();
    for (size_t i = 0; i < N_LOSS && i < b.steps; i++)
        json_array_append_new(losses, json_real(loss[i]));
    json_t *o = cli_json_start(&cmd_bench_train, cfg);
    json_object_update_new(o,
                           json_pack("{s:I, s:I, s:I, s:f, s:f, s:o}", "steps", (json_int_t)b.steps,
                                     "steps_per_epoch", (json_int_t)b.steps_per_epoch, "tokens",
                                     (json_int_t)b.tokens, "seconds", b.seconds, "epoch_seconds",
                                     b.epoch_seconds, "losses", losses));
    return cli_json_print(o);
}

const cli_command cmd_bench_train = {
    .name = "bench train",
    .args = "",
    .summary = "time training steps, without writing a model",
    .details = "With --dump the same batches and the same initial weights are written for another "
               "program;\n"
               "bench/train_vs_torch.py runs PyTorch on them and compares losses, then times.",
    .examples =
        "  stet bench train --data train.tsv.xz --vectors glove.txt --model bilstm --steps 100\n",
    .opts = bench_table,
    .cfg_size = sizeof(train_cfg),
    .on_gpu = true,
    .run = bench,
    .before = before,
};
