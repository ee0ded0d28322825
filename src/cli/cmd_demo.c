/* cli/cmd_demo.c - stet demo: the whole story on the built-in corpus, with nothing downloaded. Each stage writes its files
 * into the folder and is skipped when they are there, so an interrupted demonstration goes on where it stopped. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "stet/lexicon.h"
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

typedef struct rival {
    const char *folder, *what;
    double smooth;
} rival;

static const rival rivals[] = {
    { "standard", "standard training", 0 },
    { "robust", "smoothed vectors", 4 },
};
enum { N_RIVALS = sizeof rivals / sizeof *rivals };

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
    a.model = stet_model_kind_name((size_t)cfg->model);
    a.rate = 1e-3;
    a.epochs = 6;
    a.seed = (uint64_t)cfg->common.seed;
    stet_train_result result;
    return stet_train(&a, &result);
}

static stet_status score(const demo_cfg *cfg, const rival *r, double *accuracy)
{
    stet_model *m = NULL;
    stet_dataset *d = NULL;
    stet_corpus c = { 0 };
    stet_scores s = { 0 };
    float *logits = NULL;
    const stet_data_options how = STET_DATA_DEFAULTS;
    stet_status st = stet_model_load(in(cfg, r->folder), &m);
    if (st == STET_OK)
        st = stet_dataset_load(in(cfg, "test.tsv"), &how, &d);
    if (st == STET_OK)
        st = stet_corpus_encode(d, stet_model_vocab(m), stet_model_tokenizer(m), stet_model_max_len(m), &c);
    if (st == STET_OK) {
        logits = malloc(c.n_texts * stet_model_classes(m) * sizeof *logits);
        st = logits ? stet_model_logits(m, &c, logits) : cli_fail(STET_ENOMEM, "out of memory");
    }
    if (st == STET_OK)
        st = stet_scores_of(logits, c.label, c.n_texts, stet_model_classes(m), &s);
    *accuracy = s.accuracy;
    stet_scores_deinit(&s);
    stet_corpus_deinit(&c);
    free(logits);
    stet_dataset_free(d);
    stet_model_free(m);
    return st;
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
    double accuracy[N_RIVALS] = { 0 };
    for (size_t i = 0; st == STET_OK && i < N_RIVALS; i++) {
        cli_note("training with %s", rivals[i].what);
        st = train(cfg, &rivals[i]);
        if (st == STET_OK)
            st = score(cfg, &rivals[i], &accuracy[i]);
    }
    if (st != STET_OK)
        return st;
    cli_table t = { 0 };
    cli_row(&t, "model", "training", "clean %", NULL);
    for (size_t i = 0; i < N_RIVALS; i++)
        cli_row(&t, rivals[i].folder, rivals[i].what, cli_fmt("%.1f", 100 * accuracy[i]), NULL);
    cli_table_print(&t);
    return STET_OK;
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
