/* Words of a CNN that are computed when they are needed: the same bits as all at once, no others, and
 * for any number of threads. */
#include <pthread.h>

#include "model/cnn.h"
#include "model/small_model.h"

enum { WORDS = 700, DIM = 200, THREADS = 6, ROUNDS = 20, LIST = 150 };

static model *make_cnn(void)
{
    static const char *const settings[] = {"filters=30", "kernels=2,3,5", NULL};
    static char text[WORDS][8];
    const char *words[WORDS];
    enum { N = WORDS + STET_FIRST_WORD };
    static float data[N * DIM];
    rng r = rng_stream(3, STREAM_TEST, 1);
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    for (int i = 0; i < N * DIM; i++)
        data[i] = i < DIM ? 0 : (float)rng_normal(&r);
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, WORDS, &v));
    const stet_vectors t = {.n = N, .dim = DIM, .data = data};
    const stet_model_new_args how = {.name = "cnn",
                                     .settings = settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = 40,
                                     .n_classes = 2,
                                     .seed = 3};
    model *m;
    CHECK_OK(stet_model_new(&how, &m));
    stet_vocab_free(v);
    return m;
}

static const real *row(const model *m, uint32_t word)
{
    const cnn_compiled *c = m->compiled;
    return c->word + word * c->width;
}

static bool same(const model *a, const model *b, uint32_t word)
{
    const cnn_compiled *c = a->compiled;
    return memcmp(row(a, word), row(b, word), c->width * sizeof(real)) == 0;
}

/* Words that somebody has touched. */
static size_t touched(const model *m)
{
    const cnn_compiled *c = m->compiled;
    size_t n = 0;
    for (size_t i = 0; i < m->n_words; i++)
        n += atomic_load(&c->state[i]) != 0;
    return n;
}

TEST(a_view_computes_its_own_words_alone)
{
    model *all = make_cnn(), *m = make_cnn();
    CHECK_OK(stet_model_compile(all));
    CHECK_EQ(touched(all), all->n_words);
    const uint32_t ids[] = {5, 600, 5, 77, 301};
    const stet_edit edits[] = {{0, 9}, {1, 600}, {3, 450}, {2, 8}};
    const size_t start[] = {1, 3, 4}; /* the first edit is nobody's */
    float x[4], y[4];
    stet_view *v, *w;
    CHECK_OK(stet_view_open(m, NULL, ids, 5, &v));
    CHECK_OK(stet_view_open(all, NULL, ids, 5, &w));
    CHECK_EQ(touched(m), 4);
    CHECK(memcmp(stet_view_logits(v), stet_view_logits(w), 2 * sizeof *x) == 0);
    CHECK_OK(stet_view_edits(v, edits, start, 2, x));
    CHECK_OK(stet_view_edits(w, edits, start, 2, y));
    CHECK_EQ(touched(m), 6);
    CHECK(memcmp(x, y, sizeof x) == 0);
    CHECK_OK(stet_model_compile(m)); /* the others */
    for (uint32_t i = 0; i < m->n_words; i++)
        CHECK(same(m, all, i));
    stet_view_free(v);
    stet_view_free(w);
    stet_model_free(m);
    stet_model_free(all);
}

typedef struct reader {
    const model *m, *all;
    pthread_barrier_t *gate;
    size_t id;
    bool wrong;
} reader;

static void *read_words(void *p)
{
    reader *r = p;
    rng g = rng_stream(9, STREAM_TEST, r->id / 2); /* two each want the same words */
    for (size_t round = 0; round < ROUNDS; round++) {
        uint32_t word[LIST];
        for (size_t i = 0; i < LIST; i++)
            word[i] = (uint32_t)rng_below(&g, r->m->n_words * (round + 1) / ROUNDS);
        pthread_barrier_wait(r->gate); /* all at the same moment */
        if (r->id == 0 && round == ROUNDS / 2)
            r->wrong |= stet_model_compile(r->m) != STET_OK;
        r->wrong |= cnn_need(r->m, word, 1, LIST) != STET_OK;
        for (size_t i = 0; i < LIST; i++)
            r->wrong |= !same(r->m, r->all, word[i]);
    }
    return NULL;
}

TEST(threads_share_words)
{
    model *all = make_cnn();
    CHECK_OK(stet_model_compile(all));
    pthread_barrier_t gate;
    CHECK(pthread_barrier_init(&gate, NULL, THREADS) == 0);
    for (int turn = 0; turn < 10; turn++) {
        model *m = make_cnn();
        CHECK_OK(model_ready(m));
        pthread_t thread[THREADS];
        reader r[THREADS];
        for (size_t t = 0; t < THREADS; t++) {
            r[t] = (reader){m, all, &gate, t, false};
            CHECK(pthread_create(&thread[t], NULL, read_words, &r[t]) == 0);
        }
        for (size_t t = 0; t < THREADS; t++) {
            pthread_join(thread[t], NULL);
            CHECK(!r[t].wrong);
        }
        stet_model_free(m);
    }
    pthread_barrier_destroy(&gate);
    stet_model_free(all);
}
