#include "text/embed.h"

#include "alloc_fail.h"
#include "base/mem.h"
#include "base/rng.h"
#include "test.h"

/* ---- counting ----------------------------------------------------------------------------- */

static float count_of(const cooc *x, uint32_t row, uint32_t col)
{
    const cooc_block *b = &x->block[row % COOC_GROUPS][col % COOC_GROUPS];
    float found = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].row == row && b->v[i].col == col) {
            CHECK(found == 0); /* once only */
            found = b->v[i].x;
        }
    }
    return found;
}

TEST(pairs_are_weighted_by_distance_within_texts)
{
    /* a b a . c | c ? a     (. is a word outside the window's reach of nothing, ? is unknown) */
    enum { A = 2, B, C, DOT, N };
    uint32_t ids[] = {A, B, A, DOT, C, C, STET_UNK, A};
    uint64_t start[] = {0, 5, 5, 8};
    const stet_corpus corpus = {.n_texts = 3, .n_tokens = 8, .ids = ids, .start = start};
    cooc x;
    CHECK_OK(cooc_count(&corpus, N, 2, &x));
    CHECK_NEAR(count_of(&x, A, B), 2, 0);
    CHECK_NEAR(count_of(&x, B, A), 2, 0);
    CHECK_NEAR(count_of(&x, A, A), 1, 0); /* two places apart, seen from both */
    CHECK_NEAR(count_of(&x, A, DOT), 1, 0);
    CHECK_NEAR(count_of(&x, B, DOT), 0.5, 0);
    CHECK_NEAR(count_of(&x, A, C), 1, 0); /* 1/2 in the first text, 1/2 across the unknown word */
    CHECK_NEAR(count_of(&x, DOT, C), 1, 0);
    CHECK_NEAR(count_of(&x, C, C), 0, 0); /* not over the border of two texts */
    CHECK_NEAR(count_of(&x, B, C), 0, 0); /* too far */
    CHECK_EQ(x.n, 11);
    cooc_deinit(&x);
}

static stet_corpus random_corpus(size_t n_texts, size_t len, uint32_t n_words)
{
    stet_corpus c = {.n_texts = n_texts, .n_tokens = n_texts * len};
    c.ids = mem_alloc(c.n_tokens, sizeof *c.ids);
    c.start = mem_alloc(n_texts + 1, sizeof *c.start);
    CHECK(c.ids && c.start);
    rng r = rng_stream(5, STREAM_TEST, 0);
    for (size_t i = 0; i < c.n_tokens; i++) {
        const double u = rng_double(&r);
        c.ids[i] = STET_UNK + (uint32_t)(u * u * (double)(n_words - STET_UNK));
    }
    for (size_t i = 0; i <= n_texts; i++)
        c.start[i] = i * len;
    return c;
}

TEST(counts_agree_with_a_plain_double_loop)
{
    enum { N = 90, WINDOW = 5, TEXTS = 40, LEN = 60 };
    stet_corpus c = random_corpus(TEXTS, LEN, N);
    static double expected[N][N];
    for (size_t t = 0; t < TEXTS; t++)
        for (size_t i = t * LEN; i < (t + 1) * LEN; i++)
            for (size_t j = i + 1; j < (t + 1) * LEN && j <= i + WINDOW; j++)
                if (c.ids[i] != STET_UNK && c.ids[j] != STET_UNK) {
                    expected[c.ids[i]][c.ids[j]] += 1.0 / (double)(j - i);
                    expected[c.ids[j]][c.ids[i]] += 1.0 / (double)(j - i);
                }
    cooc x;
    CHECK_OK(cooc_count(&c, N, WINDOW, &x));
    size_t n = 0;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < N; j++) {
            CHECK_NEAR(count_of(&x, i, j), expected[i][j], 1e-5);
            n += expected[i][j] > 0;
        }
    CHECK_EQ(x.n, n);
    cooc_deinit(&x);
    stet_corpus_deinit(&c);
}

/* ---- training ----------------------------------------------------------------------------- */

TEST(the_loss_falls_in_every_epoch)
{
    enum { N = 200, EPOCHS = 12 };
    stet_corpus c = random_corpus(300, 50, N);
    cooc x;
    CHECK_OK(cooc_count(&c, N, 5, &x));
    stet_embed_options how = STET_EMBED_DEFAULTS;
    how.dim = 20;
    how.x_max = 100;
    how.epochs = EPOCHS;
    static float out[N * 20];
    double loss[EPOCHS];
    CHECK_OK(glove_train(&x, N, &how, out, loss));
    for (size_t e = 1; e < EPOCHS; e++)
        CHECK_LE(loss[e], loss[e - 1]);
    CHECK_LE(loss[EPOCHS - 1], loss[0] / 2);
    how.rate = 1e30;
    CHECK_FAILS(glove_train(&x, N, &how, out, NULL), STET_EUSAGE, "diverged in epoch");
    cooc_deinit(&x);
    stet_corpus_deinit(&c);
}

TEST(a_single_pair_is_fitted_to_the_logarithm_of_its_count)
{
    enum { A = 2, B = 3, N = 4, EPOCHS = 3000 };
    cooc x = {.n = 1};
    cooc_block *b = &x.block[A][B];
    CHECK_OK(mem_grow(&b->v, &b->cap, 1, sizeof *b->v));
    b->v[b->n++] = (cooc_entry){A, B, 7};
    stet_embed_options how = STET_EMBED_DEFAULTS;
    how.dim = 3;
    how.x_max = 100;
    how.epochs = EPOCHS;
    float out[N * 3];
    static double loss[EPOCHS];
    CHECK_OK(glove_train(&x, N, &how, out, loss));
    /* At first the prediction is near zero: two biases of at most 1/6, three products of (1/6)^2.
     */
    const double weight = pow(7.0 / 100, 0.75), slack = 2.0 / 6 + 3.0 / 36;
    CHECK_LE(loss[0], 0.5 * weight * pow(log(7) + slack, 2));
    CHECK_LE(0.5 * weight * pow(log(7) - slack, 2), loss[0]);
    CHECK_LE(loss[EPOCHS - 1], 1e-6);
    cooc_deinit(&x);
}

/* ---- from texts --------------------------------------------------------------------------- */

enum { FAMILIES = 6, MEMBERS = 4, CONTEXTS = 5, TEXTS = 3000 };

/* Sentences "the CONTEXT WORD is CONTEXT and CONTEXT": words of a family share the contexts that
 * they prefer, and meet all the others now and then. */
static stet_dataset *family_texts(size_t n)
{
    static char text[TEXTS][128];
    static stet_str list[TEXTS];
    rng r = rng_stream(9, STREAM_TEST, 0);
    for (size_t i = 0; i < n; i++) {
        const int family = (int)rng_below(&r, FAMILIES), member = (int)rng_below(&r, MEMBERS);
        int context[3][2];
        for (int k = 0; k < 3; k++) {
            context[k][0] = rng_double(&r) < 0.6 ? family : (int)rng_below(&r, FAMILIES);
            context[k][1] = (int)rng_below(&r, CONTEXTS);
        }
        const int len = snprintf(
            text[i], sizeof text[i], "the con%c%c fam%c%c is con%c%c and con%c%c",
            'a' + context[0][0], 'a' + context[0][1], 'a' + family, 'a' + member,
            'a' + context[1][0], 'a' + context[1][1], 'a' + context[2][0], 'a' + context[2][1]);
        list[i] = (stet_str){text[i], (size_t)len};
    }
    stet_dataset *d;
    static int labels[TEXTS];
    CHECK_OK(stet_dataset_new(list, labels, n, NULL, 1, &d));
    return d;
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t k = 0; k < n; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
    }
    return ab / sqrt(aa * bb);
}

/* The word nearest to `id` among those whose name begins with `prefix`. */
static const char *nearest(const stet_vectors *t, const stet_vocab *v, uint32_t id,
                           const char *prefix)
{
    double best = -2;
    const char *name = "";
    for (uint32_t i = STET_FIRST_WORD; i < t->n; i++) {
        if (i == id || strncmp(stet_vocab_word(v, i), prefix, strlen(prefix)) != 0)
            continue;
        const double c = cosine(t->data + id * t->dim, t->data + i * t->dim, t->dim);
        if (c > best) {
            best = c;
            name = stet_vocab_word(v, i);
        }
    }
    return name;
}

static const stet_embed_options small = {.dim = 16,
                                         .window = 4,
                                         .epochs = 30,
                                         .min_count = 2,
                                         .seed = 1,
                                         .rate = 0.05,
                                         .x_max = 10,
                                         .alpha = 0.75};

TEST(words_in_like_contexts_become_neighbours)
{
    stet_dataset *d = family_texts(TEXTS);
    stet_vocab *v;
    stet_vectors t;
    CHECK_OK(stet_embed_train(d, STET_TOK_WORD, &small, &v, &t));
    CHECK_EQ(t.n, STET_FIRST_WORD + 3 + FAMILIES * (MEMBERS + CONTEXTS));
    CHECK_EQ(t.n_known, t.n - STET_FIRST_WORD);
    CHECK(!t.known[STET_PAD] && !t.known[STET_UNK]);
    for (uint32_t id = STET_FIRST_WORD; id < t.n; id++) {
        const char *word = stet_vocab_word(v, id);
        CHECK(t.known[id]);
        if (strncmp(word, "fam", 3) == 0) {
            const char *other = nearest(&t, v, id, "fam");
            if (other[3] != word[3])
                test_fail(__FILE__, __LINE__, "nearest to %s is %s", word, other);
        }
    }
    double sum = 0;
    for (uint32_t id = STET_FIRST_WORD; id < t.n; id++)
        sum += (double)t.data[id * t.dim];
    CHECK_NEAR(t.data[STET_UNK * t.dim], sum / (double)t.n_known, 1e-6);
    for (size_t k = 0; k < t.dim; k++)
        CHECK(t.data[STET_PAD * t.dim + k] == 0);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_dataset_free(d);
}

TEST(the_same_seed_gives_the_same_bytes_with_any_number_of_threads)
{
    stet_dataset *d = family_texts(500);
    stet_vocab *v;
    stet_vectors first, t;
    stet_set_threads(1);
    CHECK_OK(stet_embed_train(d, STET_TOK_WORD, &small, &v, &first));
    stet_vocab_free(v);
    const size_t size = first.n * first.dim * sizeof *first.data;
    for (int threads = 2; threads < 6; threads++) {
        stet_set_threads(threads);
        CHECK_OK(stet_embed_train(d, STET_TOK_WORD, &small, &v, &t));
        CHECK_EQ(t.n, first.n);
        CHECK_EQ(memcmp(t.data, first.data, size), 0);
        stet_vectors_deinit(&t);
        stet_vocab_free(v);
    }
    stet_embed_options other = small;
    other.seed = 2;
    CHECK_OK(stet_embed_train(d, STET_TOK_WORD, &other, &v, &t));
    CHECK_NE(memcmp(t.data, first.data, size), 0);
    stet_vectors_deinit(&t);
    stet_vectors_deinit(&first);
    stet_vocab_free(v);
    stet_dataset_free(d);
}

TEST(rare_words_get_no_vector)
{
    static const stet_str texts[] = {{"a b a b", 7}, {"a b once", 8}};
    static const int labels[] = {0, 0};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(texts, labels, 2, NULL, 1, &d));
    stet_vocab *v;
    stet_vectors t;
    CHECK_OK(stet_embed_train(d, STET_TOK_WORD, &small, &v, &t));
    CHECK_EQ(stet_vocab_size(v), STET_FIRST_WORD + 2);
    CHECK_EQ(stet_vocab_id(v, "once", 4), STET_UNK);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_dataset_free(d);
}

TEST(impossible_requests_are_refused_in_words)
{
    static const stet_str texts[] = {{"alone", 5}, {"alone", 5}};
    static const int labels[] = {0, 0};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(texts, labels, 2, NULL, 1, &d));
    stet_vocab *v;
    stet_vectors t;
    CHECK_FAILS(stet_embed_train(d, STET_TOK_WORD, &small, &v, &t), STET_EUSAGE,
                "appear near each other");
    CHECK(!v && !t.data);
    static const struct {
        stet_embed_options how;
        const char *message;
    } cases[] = {
        {{.dim = 0, .window = 1, .epochs = 1, .rate = 1, .x_max = 1}, "dim is 0"},
        {{.dim = 1, .window = 0, .epochs = 1, .rate = 1, .x_max = 1}, "window is 0"},
        {{.dim = 1, .window = 1, .epochs = 0, .rate = 1, .x_max = 1}, "epochs is 0"},
        {{.dim = 1, .window = 1, .epochs = 1, .rate = 0, .x_max = 1}, "rate 0"},
        {{.dim = 1, .window = 1, .epochs = 1, .rate = NAN, .x_max = 1}, "rate nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_FAILS(stet_embed_train(d, STET_TOK_WORD, &cases[i].how, &v, &t), STET_EUSAGE,
                    cases[i].message);
    stet_dataset_free(d);
}

static stet_status train_once(void *dataset)
{
    stet_embed_options how = small;
    how.epochs = 1;
    stet_vocab *v;
    stet_vectors t;
    const stet_status st = stet_embed_train(dataset, STET_TOK_WORD, &how, &v, &t);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    return st;
}

TEST(every_failed_allocation_is_reported_and_nothing_leaks)
{
    stet_dataset *d = family_texts(20);
    CHECK_LE(20, ALLOC_FAIL_LOOP(train_once, d));
    stet_dataset_free(d);
}

/* ---- real texts --------------------------------------------------------------------------- */

/* 1: `b` is the nearest of all words to `a`. */
static size_t rank_of(const stet_vectors *t, const stet_vocab *v, const char *a, const char *b)
{
    const uint32_t i = stet_vocab_id(v, a, strlen(a)), j = stet_vocab_id(v, b, strlen(b));
    const double c = cosine(t->data + i * t->dim, t->data + j * t->dim, t->dim);
    size_t rank = 1;
    for (uint32_t k = STET_FIRST_WORD; k < t->n; k++)
        rank += k != i && k != j && cosine(t->data + i * t->dim, t->data + k * t->dim, t->dim) > c;
    return rank;
}

TEST(film_reviews_give_sensible_neighbours)
{
    stet_dataset *all, *d;
    const stet_data_options how = STET_DATA_DEFAULTS;
    CHECK_OK(stet_dataset_load(test_data("imdb/train.tsv.xz"), &how, &all));
    enum { LIMIT = 5000 };
    static size_t index[LIMIT];
    CHECK_EQ(stet_dataset_sample(all, LIMIT, 1, index), LIMIT);
    CHECK_OK(stet_dataset_pick(all, index, LIMIT, &d));
    stet_dataset_free(all);
    const stet_embed_options options = {.dim = 32,
                                        .window = 8,
                                        .epochs = 10,
                                        .min_count = 20,
                                        .seed = 1,
                                        .rate = 0.05,
                                        .x_max = 10,
                                        .alpha = 0.75};
    stet_vocab *v;
    stet_vectors t;
    CHECK_OK(stet_embed_train(d, STET_TOK_WORD, &options, &v, &t));
    static const char *const pairs[][2] = {{"terrible", "awful"}, {"actor", "actress"},
                                           {"he", "she"},         {"father", "mother"},
                                           {"two", "three"},      {"wonderful", "great"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const size_t rank = rank_of(&t, v, pairs[i][0], pairs[i][1]);
        if (rank > 20)
            test_fail(__FILE__, __LINE__, "%s is number %zu among the neighbours of %s",
                      pairs[i][1], rank, pairs[i][0]);
    }
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_dataset_free(d);
}
