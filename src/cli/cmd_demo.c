/* cli/cmd_demo.c - stet demo: the whole story on the built-in corpus, with nothing downloaded. Each
 * stage leaves its files in the folder and is skipped when they are there, so an interrupted
 * demonstration goes on where it stopped. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/kinds.h"
#include "cli/measured.h"
#include "cli/numbers.h"
#include "cli/source.h"
#include "stet/report.h"
#include "stet/results.h"
#include "stet/train.h"

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Demonstration"),
    STET_OPT_OUT(demo_cfg, out, "demo", "folder for everything that is made"),
    STET_OPT_CHOICE("model", demo_cfg, model, "cnn", cli_model_choices, "kind of classifier"),
    STET_OPT_INT("texts", demo_cfg, texts, "5000", 200, 1e6, "N", "training texts to generate"),
    STET_OPT_INT("epochs", demo_cfg, epochs, "20", 1, 1e6, "N", "passes over the training texts"),
    STET_OPT_INT("limit", demo_cfg, limit, "0", 0, 1e9, "N",
                 "test texts to attack and to prove; 0: 1000, or 100 for slow kinds"),
    STET_OPT_TOPIC("The same on your files"),
    STET_OPT_STR("data", demo_cfg, data, NULL, "FILE", "labelled texts to train on"),
    STET_OPT_STR("test", demo_cfg, test, NULL, "FILE",
                 "labelled texts to test on; without it, part of --data"),
    STET_OPT_STR("vectors", demo_cfg, vectors, NULL, "FILE",
                 "word vectors; without it, trained on the texts"),
    STET_OPT_STR("synonyms", demo_cfg, synonyms, NULL, "SET",
                 "substitution sets of `stet synonyms build`; without it, from WordNet"),
    CLI_COMMON_OPTS(demo_cfg),
    STET_OPT_END,
};

/* ---- the models --------------------------------------------------------------------------- */

/* A model of the story: how it is trained. */
typedef struct rival {
    const char *folder, *what;
    double smooth;
    const char *defense;
    const char *const *settings;
} rival;

static const char *const gbm_settings[] = {"beta=0.001", "gbm-of=logits", NULL};
static const rival rivals[] = {
    {"standard", "standard training", 0, "standard", NULL},
    {"smoothed", "word vectors smoothed over synonyms", 4, "standard", NULL},
    {"robust", "smoothed word vectors and the growth bound of the logits", 4, "gbm", gbm_settings},
};
enum { N_RIVALS = sizeof rivals / sizeof *rivals };

static const char *const attacks[] = {"pwws", "ga", "pso", "textfooler", "greedy"};
enum { N_ATTACKS = sizeof attacks / sizeof *attacks };
static const char profile[] = "original";

static stet_status train(const demo_cfg *cfg, const demo_files *f, const rival *r, const char *dir)
{
    const char *const vectors[] = {f->vectors};
    stet_train_args a = STET_TRAIN_DEFAULTS;
    a.out = dir;
    a.resume = true;
    a.data = f->train;
    a.vectors = vectors;
    a.n_vectors = 1;
    a.synonyms = f->synonyms;
    a.smooth = r->smooth;
    a.defense = r->defense;
    a.defense_settings = r->settings;
    a.model = stet_model_kind_name((size_t)cfg->model);
    a.rate = 1e-3;
    a.epochs = (size_t)cfg->epochs;
    a.patience = 6;
    a.seed = (uint64_t)cfg->common.seed;
    stet_train_result result;
    return stet_train(&a, &result);
}

static int64_t texts_to_try(const demo_cfg *cfg)
{
    return cfg->limit                                                ? cfg->limit
           : stet_model_kind_training((size_t)cfg->model).slow_edits ? 100
                                                                     : 1000;
}

/* ---- measuring ---------------------------------------------------------------------------- */

typedef struct subject {
    const demo_cfg *cfg;
    const demo_files *f;
    const char *dir;
    cli_texts t;
    stet_results old; /* of an earlier run */
} subject;

static stet_status load(const demo_cfg *cfg, const demo_files *f, const char *dir, subject *s)
{
    *s = (subject){.cfg = cfg, .f = f, .dir = dir};
    const cli_source from = {.data = f->test, .synonyms = f->synonyms, .limit = texts_to_try(cfg)};
    const stet_status st = cli_texts_load(&from, dir, (uint64_t)cfg->common.seed, &s->t);
    return st == STET_OK ? stet_results_read(dir, &s->old) : st;
}

static void unload(subject *s)
{
    stet_results_deinit(&s->old);
    cli_texts_free(&s->t);
}

/* Is the result of this very model there from an earlier run? */
static bool done(const subject *s, const char *name)
{
    char print[17];
    snprintf(print, sizeof print, "%016" PRIx64, stet_model_fingerprint(s->t.model));
    bool found = false;
    for (size_t i = 0; i < s->old.n; i++) {
        json_t *o = strcmp(s->old.name[i], name) == 0 ? json_loads(s->old.json[i], 0, NULL) : NULL;
        const char *is = json_string_value(json_object_get(o, "model_fingerprint"));
        found = found || (is && strcmp(is, print) == 0);
        json_decref(o);
    }
    return found;
}

static void keep(const subject *s, const char *command, const char *name, size_t texts,
                 json_t *numbers)
{
    if (numbers)
        json_object_set_new(numbers, "command", json_string(command));
    cli_record(&(cli_measured){.cmd = &cmd_demo,
                               .cfg = s->cfg,
                               .dir = s->dir,
                               .name = name,
                               .model = s->t.model,
                               .data = s->t.data,
                               .data_path = s->f->test,
                               .texts = texts,
                               .sets = &s->t.sets,
                               .sets_path = s->f->synonyms},
               numbers);
}

static stet_status eval(const subject *s)
{
    if (done(s, "eval"))
        return STET_OK;
    const stet_model *m = s->t.model;
    stet_corpus c = {0};
    stet_scores scores = {0};
    stet_status st = stet_model_encode(m, s->t.data, &c);
    if (st == STET_OK)
        st = stet_model_scores(m, &c, &scores);
    if (st == STET_OK)
        keep(s, "eval", "eval", scores.n, numbers_of_eval(m, &scores));
    stet_scores_deinit(&scores);
    stet_corpus_deinit(&c);
    return st;
}

static stet_status attack(const subject *s, const char *attack_name)
{
    char name[64], log[DEMO_PATH + 64];
    snprintf(name, sizeof name, "attack-%s-%s", attack_name, profile);
    snprintf(log, sizeof log, "%s/%s.jsonl", s->dir, attack_name);
    if (done(s, name))
        return STET_OK;
    stet_kept *kept;
    if (stet_kept_new(NULL, &kept) != STET_OK)
        return STET_ENOMEM;
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = s->t.model;
    a.data = s->t.data;
    a.index = s->t.index;
    a.n_index = s->t.n_index;
    a.sets = &s->t.sets;
    a.attack = attack_name;
    a.prover = stet_certify_prover;
    a.profile = profile;
    a.seed = (uint64_t)s->cfg->common.seed;
    a.log = log;
    a.each = stet_kept_attacked;
    a.each_user = kept;
    stet_attack_result r;
    const stet_status st = stet_attack_run(&a, &r);
    if (st == STET_OK)
        keep(s, "attack", name, s->t.n_index,
             numbers_of_attack(attack_name, profile, NULL, &r, kept));
    stet_kept_free(kept);
    return st;
}

static stet_status prove(const subject *s)
{
    if (!stet_certify_methods(stet_model_kind(s->t.model)) || done(s, "certify-auto"))
        return STET_OK;
    stet_kept *kept;
    if (stet_kept_new(s->t.model, &kept) != STET_OK)
        return STET_ENOMEM;
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = s->t.model;
    a.data = s->t.data;
    a.index = s->t.index;
    a.n_index = s->t.n_index;
    a.sets = &s->t.sets;
    a.each = stet_kept_certified;
    a.each_user = kept;
    stet_certify_result r = {0};
    const stet_status st = stet_certify_run(&a, &r);
    if (st == STET_OK)
        keep(s, "certify", "certify-auto", s->t.n_index, numbers_of_certify(&a.how, &r, kept));
    if (st == STET_OK)
        stet_certify_result_deinit(&r);
    stet_kept_free(kept);
    return st;
}

static stet_status try_model(const demo_cfg *cfg, const demo_files *f, const rival *r,
                             const char *dir)
{
    subject s;
    stet_status st = load(cfg, f, dir, &s);
    if (st == STET_OK)
        st = eval(&s);
    if (st == STET_OK)
        cli_note("%s: %d attacks on %zu texts", r->folder, N_ATTACKS, s.t.n_index);
    for (size_t k = 0; st == STET_OK && k < N_ATTACKS; k++)
        st = attack(&s, attacks[k]);
    if (st == STET_OK)
        st = prove(&s);
    unload(&s);
    return st;
}

/* ---- what came out ------------------------------------------------------------------------ */

static const char *percent(const json_t *share)
{
    return json_is_number(share) ? cli_fmt("%.1f", 100 * json_number_value(share)) : "-";
}

static void print_table(const json_t *report)
{
    const json_t *rows =
                     json_object_get(json_array_get(json_object_get(report, "summary"), 0), "rows"),
                 *models = json_object_get(report, "models");
    cli_table t = {0};
    cli_row(&t, "model", "clean", "PWWS", "GA", "PSO", "TextFooler", "greedy", "proved", "sum of M",
            NULL);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *aua = json_object_get(row, "aua"),
                     *m = json_array_get(models, i);
        const char *v[N_ATTACKS];
        for (size_t k = 0; k < N_ATTACKS; k++)
            v[k] = percent(json_object_get(aua, attacks[k]));
        cli_row(&t, json_string_value(json_object_get(row, "model")),
                percent(json_object_get(row, "sample_clean")), v[0], v[1], v[2], v[3], v[4],
                percent(json_object_get(row, "certified")),
                cli_fmt("%.0f", json_number_value(
                                    json_object_get(json_object_get(m, "bounds"), "gbm_sum"))),
                NULL);
    }
    cli_table_print(&t);
}

/* How far apart two figures must be before they say something: the widest interval. */
static double widest(const json_t *report)
{
    const json_t *rows =
                     json_object_get(json_array_get(json_object_get(report, "summary"), 0), "rows"),
                 *row, *v;
    double most = 0;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *key;
        json_object_foreach(json_object_get(row, "intervals"), key, v)
        {
            const double wide =
                json_number_value(json_array_get(v, 1)) - json_number_value(json_array_get(v, 0));
            most = wide > most ? wide : most;
        }
    }
    return 100 * most / 2;
}

/* One text of the standard model, so that the numbers have a face. */
static void print_example(const json_t *report)
{
    const json_t *results = json_object_get(json_array_get(json_object_get(report, "models"), 0),
                                            "results"),
                 *o;
    size_t k;
    json_array_foreach(results, k, o)
    {
        const json_t *example = json_array_get(json_object_get(o, "examples"), 0);
        if (json_object_get(o, "aua") && example) {
            printf("\n%s flipped this text of the standard model:\n",
                   json_string_value(json_object_get(o, "attack")));
            cli_diff_print(example);
            return;
        }
    }
}

static stet_status tell(const demo_cfg *cfg, const char *const *dirs)
{
    char page[DEMO_PATH], *text = NULL;
    snprintf(page, sizeof page, "%s/report.html", cfg->out);
    stet_report_args a = {.dirs = dirs, .n_dirs = N_RIVALS};
    stet_status st = stet_report_write(&a, page);
    a.format = STET_REPORT_JSON;
    if (st == STET_OK)
        st = stet_report(&a, &text);
    json_t *report = text ? json_loads(text, 0, NULL) : NULL;
    if (st == STET_OK && cfg->common.json) {
        fputs(text, stdout);
    } else if (st == STET_OK) {
        const json_t *data =
            json_object_get(json_array_get(json_object_get(report, "summary"), 0), "data");
        const long long texts = json_integer_value(json_object_get(data, "texts"));
        printf("\nAccuracy in %% on the same %lld unseen texts: clean, under attack, proved.\n\n",
               texts < texts_to_try(cfg) ? texts : (long long)texts_to_try(cfg));
        print_table(report);
        printf("\nA figure is good to about ±%.1f (95 %% intervals are in the report).\n",
               widest(report));
        print_example(report);
        printf("\nThe report: %s\nTry a sentence of your own: stet try %s/robust\n", page,
               cfg->out);
    }
    json_decref(report);
    stet_free(text);
    return st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    (void)rest;
    const demo_cfg *cfg = config;
    if ((cfg->test || cfg->vectors || cfg->synonyms) && !cfg->data)
        return cli_usage("--test, --vectors and --synonyms need --data");
    if (stet_model_kind_training((size_t)cfg->model).reads_itself)
        return cli_usage("--model %s: the demonstration needs a model on word vectors",
                         stet_model_kind_name((size_t)cfg->model));
    if (strlen(cfg->out) > DEMO_PATH / 2)
        return cli_usage("-o: the path is too long");
    demo_files f;
    char dir[N_RIVALS][DEMO_PATH];
    const char *dirs[N_RIVALS];
    stet_status st = demo_files_make(cfg, &f);
    for (size_t i = 0; st == STET_OK && i < N_RIVALS; i++) {
        snprintf(dir[i], sizeof dir[i], "%s/%s", cfg->out, rivals[i].folder);
        dirs[i] = dir[i];
        cli_note("%s: %s", rivals[i].folder, rivals[i].what);
        st = train(cfg, &f, &rivals[i], dir[i]);
        if (st == STET_OK)
            st = try_model(cfg, &f, &rivals[i], dir[i]);
    }
    return st == STET_OK ? tell(cfg, dirs) : st;
}

const cli_command cmd_demo = {
    .name = "demo",
    .args = "",
    .summary = "train, attack, certify and report on a built-in corpus",
    .details = "Trains three models (standard, smoothed word vectors, and those with the growth "
               "bound), attacks\nthem, proves what can be proved, prints one table and writes "
               "report.html. Nothing is downloaded.\nIf it is interrupted, the same command "
               "continues where it stopped.",
    .examples = "  stet demo\n  stet demo --model bilstm -o demo-bilstm\n",
    .opts = opts,
    .cfg_size = sizeof(demo_cfg),
    .run = run,
};
