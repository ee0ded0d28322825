/* Whole texts of a compiled CNN: the answers of the forward pass, and the same bits in any company,
 * whether windows are shared or not. */
#include "model/cnn.h"
#include "model/rule.h"
#include "model/small_model.h"

enum { MOST = 700, ROWS = MOST * SMALL_MAX_LEN, K = 3 };

typedef struct texts {
    uint32_t ids[ROWS];
    uint64_t start[MOST + 1];
    int32_t label[MOST];
    stet_corpus c;
} texts;

static void begin(texts *t)
{
    memset(t, 0, sizeof *t);
    t->c = (stet_corpus){.n_classes = K, .ids = t->ids, .start = t->start, .label = t->label};
}

static void add(texts *t, const uint32_t *ids, size_t n)
{
    memcpy(t->ids + t->start[t->c.n_texts], ids, n * sizeof *ids);
    t->start[t->c.n_texts + 1] = t->start[t->c.n_texts] + n;
    t->c.n_texts++;
    t->c.n_tokens += n;
}

static uint32_t any_word(rng *r)
{
    return STET_FIRST_WORD + (uint32_t)rng_below(r, SMALL_WORDS);
}

/* Copies of a text of n words: each position is fixed, or has one of `choices` words, or, one time in
 * `rarely`, any word. */
static void add_copies(texts *t, rng *r, size_t n, size_t copies, size_t choices, size_t rarely)
{
    uint32_t list[SMALL_MAX_LEN][8], ids[SMALL_MAX_LEN];
    size_t some[SMALL_MAX_LEN];
    for (size_t i = 0; i < n; i++) {
        some[i] = rng_below(r, 2) ? 1 : choices;
        for (size_t k = 0; k < choices; k++)
            list[i][k] = any_word(r);
    }
    for (size_t c = 0; c < copies; c++) {
        for (size_t i = 0; i < n; i++)
            ids[i] = rng_below(r, rarely) ? list[i][rng_below(r, some[i])] : any_word(r);
        add(t, ids, n);
    }
}

enum { PLAIN, DENSE = 21, WIDE = 23 };
static const int kinds[] = {PLAIN, DENSE, WIDE};

/* All texts at once, each alone, and by the forward pass of a model that is not compiled. */
static void compare(int kind, uint64_t seed, const texts *t)
{
    static float all[MOST * K], alone[K], forward[MOST * K];
    CHECK(small_kinds[DENSE].settings == small_cnn_dense);
    CHECK(small_kinds[WIDE].settings == small_cnn_wide);
    model *m = small_model(kind, K, seed), *plain = small_model(kind, K, seed);
    CHECK_OK(stet_model_compile(m));
    CHECK_OK(model_network_logits(m, &t->c, all));
    CHECK_OK(model_network_logits(plain, &t->c, forward));
    for (size_t i = 0; i < t->c.n_texts; i++) {
        const stet_corpus one = corpus_piece(&t->c, i, 1);
        CHECK_OK(cnn_texts(m, &one, alone));
        CHECK(memcmp(alone, all + i * K, sizeof alone) == 0);
        for (size_t k = 0; k < K; k++)
            CHECK_NEAR(all[i * K + k], forward[i * K + k], 1e-4);
    }
    stet_model_free(m);
    stet_model_free(plain);
}

static texts t;

TEST(copies_share_windows)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        rng r = rng_stream(5, STREAM_TEST, k);
        for (size_t choices = 1; choices <= 8; choices *= 2) {
            begin(&t);
            add_copies(&t, &r, 29, 600, choices, 40);
            compare(kinds[k], 7 + choices, &t);
        }
    }
}

TEST(rare_words_alone)
{
    rng r = rng_stream(6, STREAM_TEST, 1);
    begin(&t);
    add_copies(&t, &r, 20, 300, 2, 1); /* every word is any word */
    add_copies(&t, &r, 20, 300, 2, 1000);
    compare(PLAIN, 3, &t);
}

TEST(texts_of_all_lengths)
{
    rng r = rng_stream(6, STREAM_TEST, 2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        begin(&t);
        add(&t, t.ids, 0); /* no word is an unknown one */
        for (size_t n = 1; n <= 8; n++)
            add_copies(&t, &r, n, n == 5 ? 3 : 150 * (n == 3 || n == 7) + 1, 2, 30);
        add_copies(&t, &r, SMALL_MAX_LEN, 130, 3, 50);
        compare(kinds[k], 11, &t);
    }
}

/* Texts are cut to what the model reads. */
TEST(long_texts)
{
    uint32_t ids[SMALL_MAX_LEN + 9];
    float x[2 * K];
    rng r = rng_stream(6, STREAM_TEST, 3);
    for (size_t i = 0; i < SMALL_MAX_LEN + 9; i++)
        ids[i] = any_word(&r);
    begin(&t);
    add(&t, ids, SMALL_MAX_LEN + 9);
    add(&t, ids, SMALL_MAX_LEN);
    model *m = small_model(PLAIN, K, 2);
    CHECK_OK(stet_model_compile(m));
    CHECK_OK(model_network_logits(m, &t.c, x));
    CHECK(memcmp(x, x + K, K * sizeof *x) == 0);
    begin(&t);
    CHECK_OK(model_network_logits(m, &t.c, x)); /* none at all */
    stet_model_free(m);
}
