/* cli/cmd_demo.c - stet demo: the whole story on the built-in corpus, with nothing downloaded. Each stage writes its files
 * into the folder and is skipped when they are there, so an interrupted demonstration goes on where it stopped. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "stet/attack.h"
#include "stet/train.h"

typedef struct demo_cfg {
    cli_common common;
    const char *out;
    int model;
    int64_t texts;
} demo_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Demonstration"),
    STET_OPT_OUT(demo_cfg, out, "demo", "folder for everything that is made"),
    STET_OPT_CHOICE("model", demo_cfg, model, "cnn", "cnn|bilstm|s4", "kind of classifier"),
    STET_OPT_INT("texts", demo_cfg, texts, "4000", 200, 1e6, "N", "training texts to generate"),
    CLI_COMMON_OPTS(demo_cfg),
    STET_OPT_END,
};

/* ---- files -------------------------------------------------------------------------------- */

static const char *in(const demo_cfg *cfg, const char *name)
{
    static char path[8][512];
    static size_t next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", cfg->out, name);
    return p;
}

static bool there(const char *path)
{
    return access(path, R_OK) == 0;
}

/* ---- stages ------------------------------------------------------------------------------- */

static stet_status make_texts(const char *path, size_t n, uint64_t seed)
{
    if (there(path))
        return STET_OK;
    stet_dataset *d;
    stet_status st = stet_builtin_corpus(n, seed, &d);
    if (st != STET_OK)
        return st;
    st = stet_dataset_save(d, path);
    stet_dataset_free(d);
    return st;
}

static stet_status make_corpus(const demo_cfg *cfg)
{
    stet_status st = make_texts(in(cfg, "train.tsv"), (size_t)cfg->texts, (uint64_t)cfg->common.seed);
    if (st == STET_OK)
        st = make_texts(in(cfg, "test.tsv"), 1000, (uint64_t)cfg->common.seed + 1);
    if (st != STET_OK || there(in(cfg, "synonyms.subst")))
        return st;
    stet_subst *s;
    st = stet_builtin_subst(&s);
    if (st != STET_OK)
        return st;
    st = stet_subst_save(s, in(cfg, "synonyms.subst"));
    stet_subst_free(s);
    return st;
}

static stet_status make_vectors(const demo_cfg *cfg)
{
    if (there(in(cfg, "vectors.txt")))
        return STET_OK;
    stet_dataset *d;
    const stet_data_options how = STET_DATA_DEFAULTS;
    stet_status st = stet_dataset_load(in(cfg, "train.tsv"), &how, &d);
    if (st != STET_OK)
        return st;
    stet_embed_options embed = STET_EMBED_DEFAULTS;
    embed.dim = 50;
    embed.seed = (uint64_t)cfg->common.seed;
    stet_vocab *v = NULL;
    stet_vectors t = { 0 };
    st = stet_embed_train(d, STET_TOK_WORD, &embed, &v, &t);
    if (st == STET_OK)
        st = stet_vectors_save_text(&t, v, in(cfg, "vectors.txt"));
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_dataset_free(d);
    return st;
}

/* ---- the two models ----------------------------------------------------------------------- */

/* A model of the story: how it is trained. */
typedef struct rival {
    const char *folder, *what;
    double smooth;
    const char *defense;
    const char *const *settings;
} rival;

static const char *const gbm_settings[] = { "beta=0.001", "gbm-of=logits", NULL };
static const rival rivals[] = {
    { "standard", "standard training", 0, "standard", NULL },
    { "robust", "growth bound of the logits, vectors smoothed over synonyms", 4, "gbm", gbm_settings },
};
enum { N_RIVALS = sizeof rivals / sizeof *rivals };

static const char *const attacks[] = { "pwws", "ga", "pso", "textfooler", "greedy" };
enum { N_ATTACKS = sizeof attacks / sizeof *attacks, ATTACKED = 200 };

static stet_status train(const demo_cfg *cfg, const rival *r)
{
    char out[512], data[512], words[512], sets[512];
    snprintf(out, sizeof out, "%s", in(cfg, r->folder));
    snprintf(data, sizeof data, "%s", in(cfg, "train.tsv"));
    snprintf(words, sizeof words, "%s", in(cfg, "vectors.txt"));
    snprintf(sets, sizeof sets, "%s", in(cfg, "synonyms.subst"));
    const char *const vectors[] = { words };
    stet_train_args a = STET_TRAIN_DEFAULTS;
    a.out = out;
    a.resume = true;
    a.data = data;
    a.vectors = vectors;
    a.n_vectors = 1;
    a.synonyms = sets;
    a.smooth = r->smooth;
    a.defense = r->defense;
    a.defense_settings = r->settings;
    a.model = stet_model_kind_name((size_t)cfg->model);
    a.rate = 1e-3;
    a.epochs = 6;
    a.seed = (uint64_t)cfg->common.seed;
    stet_train_result result;
    return stet_train(&a, &result);
}

/* What a model does on the test texts, clean and under each attack. */
typedef struct scores {
    double clean, aua[N_ATTACKS], candidates;
} scores;

static stet_status clean_accuracy(stet_model *m, const stet_dataset *d, double *out)
{
    stet_corpus c = { 0 };
    stet_scores s = { 0 };
    stet_status st = stet_corpus_encode(d, stet_model_vocab(m), stet_model_tokenizer(m), stet_model_max_len(m), &c);
    float *logits = malloc((c.n_texts * stet_model_classes(m) + 1) * sizeof *logits);
    if (st == STET_OK)
        st = logits ? stet_model_logits(m, &c, logits) : cli_fail(STET_ENOMEM, "out of memory");
    if (st == STET_OK)
        st = stet_scores_of(logits, c.label, c.n_texts, stet_model_classes(m), &s);
    *out = s.accuracy;
    stet_scores_deinit(&s);
    stet_corpus_deinit(&c);
    free(logits);
    return st;
}

static stet_status attack(const demo_cfg *cfg, const rival *r, stet_model *m, const stet_dataset *d, const stet_sets *sets,
                          scores *out)
{
    size_t index[ATTACKED];
    const size_t n = stet_dataset_sample(d, ATTACKED, (uint64_t)cfg->common.seed, index);
    stet_status st = STET_OK;
    for (size_t k = 0; st == STET_OK && k < N_ATTACKS; k++) {
        char log[512], html[512];
        snprintf(log, sizeof log, "%s/%s/%s.jsonl", cfg->out, r->folder, attacks[k]);
        snprintf(html, sizeof html, "%s/%s/%s.html", cfg->out, r->folder, attacks[k]);
        stet_attack_args a = STET_ATTACK_DEFAULTS;
        a.model = m;
        a.data = d;
        a.index = index;
        a.n_index = n;
        a.sets = sets;
        a.attack = attacks[k];
        a.profile = "original";
        a.seed = (uint64_t)cfg->common.seed;
        a.log = log;
        a.html = html;
        stet_attack_result result;
        st = stet_attack_run(&a, &result);
        if (st == STET_OK) {
            out->aua[k] = result.aua;
            out->candidates = result.candidates_mean;
        }
    }
    return st;
}

static stet_status try_model(const demo_cfg *cfg, const rival *r, scores *out)
{
    stet_model *m = NULL;
    stet_dataset *d = NULL;
    stet_sets sets = {0};
    const stet_data_options how = STET_DATA_DEFAULTS;
    stet_status st = stet_model_load(in(cfg, r->folder), &m);
    if (st == STET_OK)
        st = stet_dataset_load(in(cfg, "test.tsv"), &how, &d);
    if (st == STET_OK)
        st = stet_sets_load(in(cfg, "synonyms.subst"), &sets);
    if (st == STET_OK)
        st = clean_accuracy(m, d, &out->clean);
    if (st == STET_OK)
        st = attack(cfg, r, m, d, &sets, out);
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
    return st;
}

static void print_table(const demo_cfg *cfg, const scores *s)
{
    printf("\naccuracy in %% on texts the models have not seen; under attack: %d of them, %.1f substitutes for a word that has any\n\n",
           ATTACKED, s[0].candidates);
    cli_table t = { 0 };
    cli_row(&t, "model", "clean", "PWWS", "GA", "PSO", "TextFooler", "greedy", NULL);
    for (size_t i = 0; i < N_RIVALS; i++)
        cli_row(&t, rivals[i].folder, cli_fmt("%.1f", 100 * s[i].clean), cli_fmt("%.1f", 100 * s[i].aua[0]),
                cli_fmt("%.1f", 100 * s[i].aua[1]), cli_fmt("%.1f", 100 * s[i].aua[2]), cli_fmt("%.1f", 100 * s[i].aua[3]),
                cli_fmt("%.1f", 100 * s[i].aua[4]), NULL);
    cli_table_print(&t);
    printf("\nwhat fooled the standard model: %s/standard/pwws.html\n", cfg->out);
}

static stet_status run(void *config, const stet_rest *rest)
{
    (void)rest;
    const demo_cfg *cfg = config;
    if (mkdir(cfg->out, 0777) != 0 && !there(cfg->out))
        return cli_fail(STET_EIO, "%s: cannot make the folder", cfg->out);
    cli_note("writing film reviews, synonyms and word vectors into %s/", cfg->out);
    stet_status st = make_corpus(cfg);
    if (st == STET_OK)
        st = make_vectors(cfg);
    scores s[N_RIVALS] = { { 0 } };
    for (size_t i = 0; st == STET_OK && i < N_RIVALS; i++) {
        cli_note("%s: %s", rivals[i].folder, rivals[i].what);
        st = train(cfg, &rivals[i]);
        if (st == STET_OK) {
            cli_note("%s: under attack", rivals[i].folder);
            st = try_model(cfg, &rivals[i], &s[i]);
        }
    }
    if (st != STET_OK)
        return st;
    if (!cfg->common.json) {
        print_table(cfg, s);
        return STET_OK;
    }
    for (size_t i = 0; st == STET_OK && i < N_RIVALS; i++) {
        json_t *o = cli_json_start(&cmd_demo, cfg), *aua = json_object();
        for (size_t k = 0; k < N_ATTACKS; k++)
            json_object_set_new(aua, attacks[k], json_real(s[i].aua[k]));
        json_object_update_new(o, json_pack("{s:s, s:f, s:o, s:f}", "model", rivals[i].folder, "clean", s[i].clean, "aua", aua,
                                            "candidates_mean", s[i].candidates));
        st = cli_json_print(o);
    }
    return st;
}

const cli_command cmd_demo = {
    .name = "demo",
    .args = "",
    .summary = "the whole story on a built-in corpus, nothing downloaded",
    .examples = "  stet demo\n  stet demo --model bilstm -o demo-bilstm\n",
    .opts = opts,
    .cfg_size = sizeof(demo_cfg),
    .run = run,
};
