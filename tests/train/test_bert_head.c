/* tests/train/test_bert_head.c - heads on a frozen BERT: what they read, what learns, bounds, the file of rows. */
#include <sys/stat.h>
#include <unistd.h>

#include "small_run.h"
#include "stet/bound.h"
#include "stet/text.h"

#include "bound/hulls.h" /* after small_run.h, which calls an argument `model` */
#include "model/bert.h"
#include "model/tiny_bert.h"

static stet_model *tiny_with(const char *head)
{
    const char *const settings[] = {head, NULL};
    const stet_model_new_args how = {.size = sizeof how,
                                     .name = "bert",
                                     .settings = settings,
                                     .init = tiny_bert(),
                                     .max_len = 12,
                                     .n_classes = 3,
                                     .seed = 3};
    stet_model *m;
    CHECK_OK(stet_model_new(&how, &m));
    return m;
}

/* Rows (n + 2, H) that the encoder makes of n pieces. */
static real *rows_of(const model *m, const uint32_t *ids, size_t n)
{
    static const uint32_t first = 0;
    uint64_t start[2] = {0, n};
    int32_t label = 0;
    const stet_corpus c = {.n_texts = 1,
                           .n_tokens = n,
                           .n_classes = m->n_classes,
                           .ids = (uint32_t *)ids,
                           .start = start,
                           .label = &label};
    batcher b;
    batch x;
    arena mem = {0};
    tape t;
    pass p;
    real *out = mem_alloc((n + 2) * m->dim, sizeof *out);
    CHECK_OK(batcher_init(&b, m));
    CHECK_OK(batch_make(&b, m, &c, &first, 1, &mem, &x));
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(pass_init(&p, m, &t, NULL, NULL, &x));
    CHECK_OK(tape_download(&t, bert_rows(m, &p), out));
    batcher_deinit(&b);
    arena_deinit(&mem);
    return out;
}

/* A model of the head's kind whose word vectors are these rows, one word a row. */
static stet_model *with_vectors(const model *m, const char *kind, const char *const *settings,
                                const real *rows, size_t n)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(names, n, &v));
    stet_vectors t = {.n = n + STET_FIRST_WORD, .dim = m->dim};
    t.data = mem_zalloc(t.n * t.dim, sizeof *t.data);
    for (size_t i = 0; i < n * m->dim; i++)
        t.data[STET_FIRST_WORD * m->dim + i] = (float)rows[i];
    const stet_model_new_args how = {.size = sizeof how,
                                     .name = kind,
                                     .settings = settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = 12,
                                     .n_classes = 3};
    stet_model *twin;
    CHECK_OK(stet_model_new(&how, &twin));
    CHECK_EQ(twin->n_values, m->head->n_values);
    memcpy(twin->value, m->head->value, twin->n_values * sizeof *twin->value);
    mem_free(t.data);
    stet_vocab_free(v);
    return twin;
}

TEST(a_head_reads_the_rows_of_the_last_layer)
{
    static const struct {
        const char *head, *kind, *settings[3];
    } heads[] = {{"bert-head=cnn:kernels=2,3:filters=4", "cnn", {"kernels=2,3", "filters=4"}},
                 {"bert-head=bilstm:hidden=5", "bilstm", {"hidden=5"}},
                 {"bert-head=s4:channels=4", "s4", {"channels=4"}}};
    static const uint32_t ids[] = {5, 7, 9, 12, 20}, words[] = {2, 3, 4, 5, 6, 7, 8};
    for (size_t i = 0; i < 3; i++) {
        stet_model *m = tiny_with(heads[i].head);
        real *rows = rows_of(m, ids, 5);
        float a[3], b[3];
        stet_model *twin = with_vectors(m, heads[i].kind, heads[i].settings, rows, 7);
        CHECK_OK(model_logits_of(m, ids, 5, a));
        CHECK_OK(model_logits_of(twin, words, 7, b));
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(a[k], b[k], 1e-5);
        stet_model_free(twin);
        stet_model_free(m);
        mem_free(rows);
    }
}

TEST(every_row_is_in_the_box)
{
    stet_model *m = tiny_with("bert-head=bilstm");
    real lo[16], hi[16], most = 0;
    table_hull(m->head, lo, hi);
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (int k = 0; k < 200; k++) {
        uint32_t ids[10];
        const size_t n = 1 + rng_below(&r, 10);
        for (size_t i = 0; i < n; i++)
            ids[i] = (uint32_t)(4 + rng_below(&r, 36));
        real *rows = rows_of(m, ids, n);
        for (size_t i = 0; i < (n + 2) * 16; i++) {
            const real x = rows[i], mid = (lo[i % 16] + hi[i % 16]) / 2;
            CHECK(lo[i % 16] <= x && x <= hi[i % 16]);
            const real share = (x - mid) / (hi[i % 16] - mid);
            most = share > most ? share : most;
        }
        mem_free(rows);
    }
    CHECK_LE(0.5, (double)most); /* it is no larger than it must be */
    stet_model_free(m);
}

/* ---- training ----------------------------------------------------------------------------- */

static const char *kept(const char *name) /* longer than at() keeps it */
{
    static char path[16][256];
    static int next;
    char *p = path[next++ % 16];
    snprintf(p, 256, "%s", at(name));
    return p;
}

/* A BERT of a few steps, and a head's run on it. */
static const char *encoder(void)
{
    const char *path = kept("encoder");
    if (!dir_exists(path)) {
        stet_train_args a = small_run("bert", path);
        stet_train_result r;
        a.rate = 5e-3;
        a.epochs = 2;
        CHECK_OK(stet_train(&a, &r));
    }
    return path;
}

static stet_train_args head_run(const char *head, const char *name)
{
    static const char *settings[2];
    settings[0] = head;
    stet_train_args a = small_run("bert", kept(name));
    a.model_settings = settings;
    a.init = encoder();
    a.rate = 1e-2;
    a.epochs = 2;
    a.patience = 0;
    return a;
}

static stet_model *trained(const stet_train_args *a)
{
    stet_train_result r;
    stet_model *m;
    CHECK_OK(stet_train(a, &r));
    CHECK_LE(0.8, r.valid_accuracy);
    CHECK_OK(stet_model_load(a->out, &m));
    return m;
}

TEST(nothing_but_the_head_learns)
{
    static const char *const heads[] = {"bert-head=cnn:filters=6", "bert-head=bilstm:hidden=6",
                                        "bert-head=s4:channels=8"};
    stet_model *base;
    CHECK_OK(stet_model_load(encoder(), &base));
    for (size_t i = 0; i < 3; i++) {
        const stet_train_args a = head_run(heads[i], "head");
        stet_model *m = trained(&a);
        const size_t n = m->params[m->head_first].first;
        CHECK_EQ(n, base->params[base->n_params - 2].first);
        CHECK(memcmp(m->value, base->value, n * sizeof *m->value) == 0);
        stet_model_free(m);
    }
    stet_model_free(base);
}

static double sum_of(const stet_model *m)
{
    stet_gbm g;
    double sum = 0;
    const stet_gbm_options how = STET_GBM_DEFAULTS;
    CHECK_OK(stet_gbm_of(m, &how, &g));
    for (size_t i = 0; i < g.rows * g.cols; i++)
        sum += (double)g.m[i];
    stet_gbm_deinit(&g);
    return sum;
}

TEST(the_growth_bound_of_a_head_falls_where_training_asks_for_it)
{
    static const char *const heads[] = {"bert-head=cnn:filters=6", "bert-head=bilstm:hidden=6",
                                        "bert-head=s4:channels=8"};
    static const char *const beta[] = {"beta=1e-2", NULL};
    for (size_t i = 0; i < 3; i++) {
        stet_train_args a = head_run(heads[i], "plain");
        stet_model *plain = trained(&a);
        a = head_run(heads[i], "bounded");
        a.defense = "gbm";
        a.defense_settings = beta;
        stet_train_result r;
        stet_model *bounded;
        CHECK_OK(stet_train(&a, &r));
        CHECK_OK(stet_model_load(a.out, &bounded));
        CHECK_LE(sum_of(bounded), 0.9 * sum_of(plain));
        stet_model_free(plain);
        stet_model_free(bounded);
    }
}

/* ---- the file of rows --------------------------------------------------------------------- */

static bool same_weights(const char *a, const char *b)
{
    char x[SHA256_HEX], y[SHA256_HEX];
    CHECK_OK(file_sha256(in_folder(a, "model.safetensors"), x, NULL));
    CHECK_OK(file_sha256(in_folder(b, "model.safetensors"), y, NULL));
    return strcmp(x, y) == 0;
}

static off_t size_of(const char *path)
{
    struct stat s;
    CHECK(stat(path, &s) == 0);
    return s.st_size;
}

TEST(rows_from_the_file_are_those_that_were_put_there)
{
    stet_train_result r;
    const char *first = kept("first"), *cache = kept("rows");
    stet_train_args a = head_run("bert-head=cnn:filters=6", "first");
    a.feature_cache = cache;
    CHECK_OK(stet_train(&a, &r));
    const off_t size = size_of(cache);
    a.out = kept("again");
    CHECK_OK(stet_train(&a, &r));
    CHECK(same_weights(first, a.out));
    CHECK_EQ(size_of(cache), size);
    CHECK(truncate(cache, size - 100) == 0); /* killed while it wrote */
    a.out = kept("cut");
    CHECK_OK(stet_train(&a, &r));
    CHECK(same_weights(first, a.out));
    CHECK_EQ(size_of(cache), size);
}

TEST(a_file_that_does_not_fit_is_refused)
{
    stet_train_result r;
    stet_train_args a = head_run("bert-head=cnn:filters=6", "fits");
    a.feature_cache = kept("bad-rows");
    CHECK_OK(stet_train(&a, &r));
    a.out = kept("damaged");
    FILE *f = fopen(a.feature_cache, "r+");
    CHECK(f && fseek(f, 300, SEEK_SET) == 0 && fputc(1, f) == 1 && fclose(f) == 0);
    CHECK_FAILS(stet_train(&a, &r), STET_EFORMAT, "damaged");
    a.init = tiny_bert();
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "features of other weights");
    CHECK_OK(file_write_all(a.feature_cache, "1\t2\n", 4));
    CHECK_FAILS(stet_train(&a, &r), STET_EFORMAT, "no file of features");
    a.feature_cache = "/";
    CHECK_FAILS(stet_train(&a, &r), STET_EIO, "/");
    a.feature_cache = kept("new-rows");
    a.defense = "pgd";
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "changes what is read");
}
