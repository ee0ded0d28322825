/* Models that answer as one: sums without loss, folders, views, members that do not fit. */
#include <unistd.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "model/ensemble.h"
#include "model/small_model.h"

/* ---- sums --------------------------------------------------------------------------------- */

/* Whole numbers times 2^-20: their sums fit into 64 bits. */
TEST(the_largest_sum_wins_without_rounding)
{
    rng r = rng_stream(1, STREAM_TEST, 0);
    size_t close = 0;
    for (int trial = 0; trial < 20000; trial++) {
        const size_t n = 2 + rng_below(&r, 5), K = 2 + rng_below(&r, 3);
        float logits[6 * 4], out[4];
        int64_t sum[4] = {0};
        for (size_t i = 0; i < n * K; i++) {
            const int64_t whole = (int64_t)rng_below(&r, 1 << 24) - (1 << 23);
            const int by = (int)rng_below(&r, 35); /* up to 2^34 */
            logits[i] = ldexpf((float)whole, by - 20);
            sum[i % K] += whole * ((int64_t)1 << by);
        }
        if (trial % 2) { /* two classes that differ in the last bit of the smallest number, or not */
            for (size_t i = 0; i < n; i++)
                logits[i * K + 1] = logits[((i + 1) % n) * K];
            sum[1] = sum[0];
            if (trial % 4 == 1 && fabsf(logits[1]) >= 8) { /* a step is 2^-20 or more */
                logits[1] = nextafterf(logits[1], INFINITY);
                sum[1] = 0;
                for (size_t i = 0; i < n; i++)
                    sum[1] += (int64_t)ldexp((double)logits[i * K + 1], 20);
            }
        }
        ensemble_add(logits, n, K, out);
        size_t best = 0;
        for (size_t c = 1; c < K; c++)
            best = sum[c] > sum[best] ? c : best;
        CHECK_EQ(stet_argmax(out, K), (int)best);
        for (size_t c = 0; c < K; c++) {
            CHECK_EQ(out[c] == 0, sum[c] == sum[best]);
            const double by = ldexp((double)(sum[best] - sum[c]), -20);
            CHECK_NEAR(-(double)out[c], by, 1e-6 * by);
        }
        close += sum[0] != sum[1] && (float)sum[0] == (float)sum[1];
    }
    CHECK(close > 1000); /* sums that float32 could not tell apart */
}

/* ---- folders ------------------------------------------------------------------------------ */

static const char *dir_of(const char *name)
{
    static char path[8][512];
    static size_t turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static void save(int kind, size_t classes, uint64_t seed, const char *dir)
{
    model *m = small_model(kind, classes, seed);
    CHECK_OK(stet_model_save(m, dir));
    stet_model_free(m);
}

static stet_model *three(size_t classes)
{
    const char *const dirs[] = {dir_of("a"), dir_of("b"), dir_of("c")};
    save(0, classes, 1, dirs[0]);
    save(1, classes, 2, dirs[1]);
    save(7, classes, 3, dirs[2]);
    stet_model *m;
    CHECK_OK(stet_model_ensemble(dirs, 3, &m));
    return m;
}

static void logits_of(const stet_model *m, const char *text, float *logits)
{
    stet_words *w;
    stet_reading r = {0};
    CHECK_OK(stet_model_words(m, &w));
    CHECK_OK(stet_words_read(w, text, strlen(text), &r));
    uint32_t rows[64];
    CHECK_OK(model_logits_of(m, rows, words_rows(w, r.ids, r.n, rows), logits));
    stet_reading_deinit(&r);
    stet_words_free(w);
}

TEST(an_ensemble_adds_the_logits_of_its_members_and_survives_its_folder)
{
    const size_t K = 3;
    stet_model *m = three(K), *again;
    CHECK_OK(stet_model_save(m, dir_of("all")));
    CHECK_OK(stet_model_load(dir_of("all"), &again));
    CHECK_EQ(stet_model_fingerprint(m), stet_model_fingerprint(again));
    const char *const text[] = {"w1 w2 w3", "w9 nobody w4 w4 w30 w31", "w0"};
    for (size_t i = 0; i < 3; i++) {
        float sum[3], loaded[3], each[3];
        double want[3] = {0};
        logits_of(m, text[i], sum);
        logits_of(again, text[i], loaded);
        for (const char *const *d = (const char *const[]){"a", "b", "c", NULL}; *d; d++) {
            stet_model *one;
            CHECK_OK(stet_model_load(dir_of(*d), &one));
            logits_of(one, text[i], each);
            for (size_t c = 0; c < K; c++)
                want[c] += (double)each[c];
            stet_model_free(one);
        }
        for (size_t c = 0; c < K; c++) {
            CHECK_NEAR(sum[c] - sum[0], want[c] - want[0], 1e-5);
            CHECK_EQ(sum[c], loaded[c]);
        }
    }
    stet_model_free(m);
    stet_model_free(again);
}

TEST(views_say_what_a_full_evaluation_says)
{
    stet_model *m = three(2);
    CHECK_OK(stet_model_compile(m));
    const uint32_t ids[] = {2, 3, 4, 5, 6, 7};
    const stet_edit edits[] = {{0, 9}, {2, 11}, {1, 12}};
    const size_t start[] = {0, 2, 3, 3};
    const uint32_t want[3][6] = {{9, 3, 11, 5, 6, 7}, {2, 12, 4, 5, 6, 7}, {2, 3, 4, 5, 6, 7}};
    float got[6], full[2];
    stet_view *v;
    CHECK_OK(stet_view_open(m, NULL, ids, 6, &v));
    CHECK_OK(stet_view_edits(v, edits, start, 3, got));
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(model_logits_of(m, want[i], 6, full));
        for (size_t c = 0; c < 2; c++)
            CHECK_NEAR(got[2 * i + c], full[c], 1e-5);
    }
    stet_view_free(v);
    stet_model_free(m);
}

/* A member with other words: each is asked about words by their spelling. */
TEST(members_may_know_other_words)
{
    const char *const words[] = {"w7", "w3", "mine", "w1"};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 4, &v));
    float data[6 * SMALL_DIM];
    rng r = rng_stream(5, STREAM_TEST, 2);
    for (size_t i = 0; i < 6 * SMALL_DIM; i++)
        data[i] = (float)rng_normal(&r);
    const stet_vectors t = {.n = 6, .dim = SMALL_DIM, .data = data};
    const stet_model_new_args how = {.name = "sum",
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = SMALL_MAX_LEN,
                                     .n_classes = 2,
                                     .word_scores = true,
                                     .seed = 4};
    stet_model *other, *both;
    CHECK_OK(stet_model_new(&how, &other));
    for (size_t i = 0; i < 6 * 2; i++)
        model_value(other, other->scores)[i] = (real)rng_normal(&r);
    CHECK_OK(stet_model_save(other, dir_of("few")));
    save(0, 2, 1, dir_of("a"));
    CHECK_OK(stet_model_ensemble((const char *const[]){dir_of("a"), dir_of("few")}, 2, &both));
    stet_model *first;
    CHECK_OK(stet_model_load(dir_of("a"), &first));
    float sum[2], one[2], two[2];
    logits_of(both, "w3 w1 w20 w7", sum);
    logits_of(first, "w3 w1 w20 w7", one);
    logits_of(other, "w3 w1 w20 w7", two);
    CHECK_NEAR(sum[1] - sum[0], (one[1] - one[0]) + (two[1] - two[0]), 1e-5);
    logits_of(both, "mine", sum); /* unknown to the first, so unknown to all */
    logits_of(first, "nobody", one);
    logits_of(other, "nobody", two);
    CHECK_NEAR(sum[1] - sum[0], (one[1] - one[0]) + (two[1] - two[0]), 1e-5);
    stet_model_free(first);
    stet_model_free(both);
    stet_model_free(other);
    stet_vocab_free(v);
}

TEST(what_does_not_fit_is_refused)
{
    stet_model *m = three(2), *none;
    CHECK_OK(stet_model_save(m, dir_of("all")));
    save(0, 3, 1, dir_of("classes"));
    CHECK_FAILS(stet_model_ensemble((const char *const[]){dir_of("a"), dir_of("classes")}, 2, &none),
                STET_EUSAGE, "it has other classes, and cannot join");
    CHECK_FAILS(stet_model_ensemble((const char *const[]){dir_of("a"), dir_of("all")}, 2, &none),
                STET_EUSAGE, "it answers by a rule itself");
    CHECK_FAILS(stet_model_ensemble((const char *const[]){dir_of("all"), dir_of("a")}, 2, &none),
                STET_EUSAGE, "it answers by a rule, and cannot be a member");
    CHECK_FAILS(stet_model_ensemble((const char *const[]){dir_of("a")}, 1, &none), STET_EUSAGE,
                "from 2 to 64");
    CHECK_FAILS(stet_model_ensemble((const char *const[]){dir_of("a"), dir_of("none")}, 2, &none),
                STET_EIO, "no such model folder");
    CHECK_OK(stet_model_save(m, dir_of("all")));
    model *odd = small_model(0, 3, 9);
    char path[600];
    snprintf(path, sizeof path, "%s/member-2", dir_of("all"));
    CHECK_OK(stet_model_save(odd, path)); /* another one in its place */
    CHECK_FAILS(stet_model_load(dir_of("all"), &none), STET_EFORMAT, "has other classes");
    stet_model_free(odd);
    stet_model_free(m);
}

TEST(the_identity_is_that_of_all_members)
{
    stet_model *m = three(2), *other;
    stet_identity a, b;
    CHECK_OK(stet_model_identity(m, &a));
    save(1, 2, 5, dir_of("b2"));
    CHECK_OK(stet_model_ensemble((const char *const[]){dir_of("a"), dir_of("b2"), dir_of("c")}, 3,
                                 &other));
    CHECK_OK(stet_model_identity(other, &b));
    CHECK_STR(a.config, b.config);
    CHECK(strcmp(a.weights, b.weights) != 0);
    CHECK(stet_model_fingerprint(m) != stet_model_fingerprint(other));
    stet_model_free(m);
    stet_model_free(other);
}

static stet_status load_and_ask(void *ctx)
{
    stet_model *m;
    stet_status st = stet_model_load(ctx, &m);
    if (st != STET_OK)
        return st;
    float p[2];
    st = stet_model_predict(m, "w1 w2", 5, p, NULL);
    stet_model_free(m);
    return st;
}

TEST(an_ensemble_survives_every_failed_allocation)
{
    stet_model *m = three(2);
    char dir[512];
    snprintf(dir, sizeof dir, "%s", dir_of("all"));
    CHECK_OK(stet_model_save(m, dir));
    stet_model_free(m);
    CHECK_LE(30, ALLOC_FAIL_LOOP(load_and_ask, dir));
}
