/* The checker's own bounds against the truth and against the certifier's: never above what the
 * float32 program does on any combination of words, never below what the certifier claims. */
#include <inttypes.h>

#include "pair.h"
#include "verify/ver_line.h"

/* Own bounds against the minimum over all combinations of random texts; how many are positive. */
static size_t compare_with_truth(const char *kind, const char *const *settings, size_t n,
                                 size_t cases, double noise)
{
    size_t positive = 0;
    for (size_t i = 0; i < cases; i++) {
        rng r = rng_stream(i, STREAM_TEST, 5);
        model *m = new_model(kind, settings, 4, 3, 1.5, i);
        cert_case c;
        harness_case(m, 1 + rng_below(&r, n), 3, i % 3 == 0 ? STET_ANY : i % 3, &r, &c);
        pair p;
        double least[HARNESS_CLASSES];
        ver_task t;
        pair_open_close(&p, m, &c, noise, &r, least, &t);
        positive += check_bounds(&p, c.task.label, least);
        pair_close(&p);
    }
    return positive;
}

TEST(cnn_bounds_never_exceed_the_truth)
{
    CHECK_LE(20, compare_with_truth("cnn", cnn, 5, 60, 0.1));
    compare_with_truth("cnn", cnn, 5, 60, 1);
    CHECK_LE(20, compare_with_truth("s4cnn", s4cnn, 5, 60, 0.1));
    CHECK_LE(20, compare_with_truth("cnn", dense, 5, 60, 0.1));
    compare_with_truth("cnn", dense, 5, 60, 1);
}

TEST(bilstm_bounds_never_exceed_the_truth)
{
    for (size_t k = 0; k < POOLS; k++) {
        CHECK_LE(20, compare_with_truth("bilstm", bilstm_pools[k], 5, 60, 0.1));
        compare_with_truth("bilstm", bilstm_pools[k], 5, 40, 1);
    }
}

TEST(s4_bounds_never_exceed_the_truth)
{
    CHECK_LE(20, compare_with_truth("s4", s4, 5, 60, 0.05));
    compare_with_truth("s4", s4, 5, 60, 1);
    compare_with_truth("s4", s4_deep, 5, 60, 0.05);
    for (size_t k = 0; k < S4_VARIANTS; k++) {
        CHECK_LE(10, compare_with_truth("s4", s4_variants[k], 5, 60, 0.05));
        compare_with_truth("s4", s4_variants[k], 5, 60, 1);
    }
}

/* A task without choices: the bound is the margin but for rounding. */
static void compare_values(const char *kind, const char *const *settings, double tolerance)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 6);
        pair p;
        pair_open(&p, harness_fresh(new_model(kind, settings, 6, 3, 1, seed)));
        cert_case c;
        harness_case(p.m, 1 + rng_below(&r, 20), 1, STET_ANY, &r, &c);
        double least[HARNESS_CLASSES];
        harness_minimum(p.m, &c.task, least);
        const ver_task t = task_of(&p, &c.task);
        open_task(&p, &t);
        for (int other = 0; other < 3; other++) {
            if (other == c.task.label)
                continue;
            double own;
            CHECK_OK(p.v.kind->bound(&p.w, c.task.label, other, p.v.kind->value, NULL, &own));
            CHECK_NEAR(own, least[other], tolerance);
            CHECK_NEAR(p.v.kind->margin(&p.w, c.task.label, other), least[other], 1e-5);
        }
        pair_close(&p);
    }
}

TEST(a_cnn_without_choices_is_evaluated)
{
    compare_values("cnn", cnn, 2e-5);
    compare_values("s4cnn", s4cnn, 2e-5);
    compare_values("cnn", dense, 1e-4);
}

TEST(a_bilstm_without_choices_is_evaluated)
{
    for (size_t k = 0; k < POOLS; k++)
        compare_values("bilstm", bilstm_pools[k], 1e-4);
}

TEST(an_s4_without_choices_is_evaluated)
{
    compare_values("s4", s4, 1e-3);
    compare_values("s4", s4_deep, 1e-2);
    for (size_t k = 0; k < S4_VARIANTS; k++)
        compare_values("s4", s4_variants[k], 1e-2);
}

/* The line of a text w0 w1 ... of n words: word `other` at position 0 gives the class `after`. */
static json_t *broken_line(size_t n, int label, double clean, const char *other, int after)
{
    json_t *words = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(words, json_sprintf("w%zu", i));
    return json_pack("{s:i, s:i, s:i, s:s, s:i, s:f, s:o, s:{s:[s]}, s:[[i, s]], s:i}", "text", 0,
                     "label", label, "answer", label, "verdict", "broken", "budget", 0, "clean",
                     clean, "words", words, "sets", "0", other, "edits", 0, other, "after", after);
}

/* An LSTM with weights so large that a bound of its rounding says nothing of any text. */
TEST(a_counter_example_is_judged_by_its_value)
{
    enum { N = 30 };
    static const char *const wide[] = {"hidden=16", NULL};
    size_t seen[2] = {0}; /* edits that keep the class, that change it */
    for (uint64_t seed = 0; seed < 5; seed++) {
        pair p;
        pair_open(&p, harness_fresh(harness_model("bilstm", wide, 4, 2, 12, seed)));
        uint32_t ids[N];
        float logits[2];
        for (uint32_t i = 0; i < N; i++)
            ids[i] = STET_FIRST_WORD + i;
        CHECK_OK(model_logits_of(p.m, ids, N, logits));
        const int label = stet_argmax(logits, 2);
        const double clean = fabs((double)logits[0] - (double)logits[1]);
        for (uint32_t word = N; word < 60; word++) {
            ids[0] = STET_FIRST_WORD + word;
            CHECK_OK(model_logits_of(p.m, ids, N, logits));
            const bool changes = stet_argmax(logits, 2) != label;
            char text[32];
            snprintf(text, sizeof text, "w%" PRIu32, word);
            arena mem = {0};
            ver_line l;
            stet_verify_result r = {0};
            json_t *line = broken_line(N, label, clean, text, 1 - label);
            CHECK_OK(ver_line_read(&p.v, line, &mem, &l));
            if (fabsf(logits[0] - logits[1]) > 1e-3f) {
                CHECK_EQ(ver_line_check(&p.w, &l, VER_ANY, &mem, &r),
                         changes ? STET_OK : STET_EFORMAT);
                seen[changes]++;
            }
            arena_deinit(&mem);
            json_decref(line);
        }
        pair_close(&p);
    }
    CHECK(seen[0] > 10 && seen[1] > 10);
}

/* Bounds in double lie below the exact ones, by no more than their own rounding; a growth bound is
 * below the intervals that are derived in its place. */
static void check_exact(pair *p, int label, int other, const char *method, const json_t *witness,
                        double own)
{
    double exact;
    p->w.exact = true;
    CHECK_OK(p->v.kind->bound(&p->w, label, other, method, witness, &exact));
    p->w.exact = false;
    if (own > -1e20) /* those of huge biases have their own rounding */
        CHECK_LE(own, exact + 1e-300);
    if (strncmp(method, "gbm", 3) != 0 && fabs(own) < 1e6)
        CHECK_NEAR(own, exact, 1e-10 * (1 + fabs(own)));
}

static float huge_bias; /* of all filters, where it is not 0 */

/* Whatever the certifier proves, with its witness, the checker can follow. */
static size_t follow(const cert_family *f, const char *skip, const char *kind,
                     const char *const *settings, size_t n, size_t cases, double noise)
{
    size_t followed = 0;
    for (size_t i = 0; i < cases; i++) {
        rng r = rng_stream(i, STREAM_TEST, 7);
        model *m = new_model(kind, settings, 4, 3, 1.5, i);
        cert_case c;
        harness_case(m, 1 + rng_below(&r, n), 4, i % 3 == 0 ? STET_ANY : i % 3, &r, &c);
        make_close(m, &c, noise, &r);
        for (int k = 0; huge_bias != 0 && k < 15; k++)
            model_value(m, 2 * (k / 5) + 1)[k % 5] = huge_bias;
        for (size_t k = 0; huge_bias != 0 && k < shape_count(m->params[6].shape); k++)
            model_value(m, 6)[k] *= 0.15f; /* or the logits would be too large to be bounded */
        m = harness_fresh(m);
        harness h;
        pair p;
        double drop[HARNESS_POSITIONS];
        uint32_t worst[HARNESS_POSITIONS];
        f = f->of_model && f->of_model(m) ? f->of_model(m) : f;
        CHECK_OK(harness_init(&h, f, m));
        pair_open(&p, m);
        const ver_task t = task_of(&p, &c.task);
        CHECK_OK(f->open(h.work, &c.task));
        open_task(&p, &t);
        for (int other = 0; other < 3; other++)
            for (size_t method = 0; f->methods[method] && other != c.task.label; method++) {
                if (skip && strcmp(f->methods[method], skip) == 0)
                    continue;
                cert_bound b = {.drop = drop, .worst = worst};
                CHECK_OK(f->bound(h.work, method, other, 30, &b));
                json_t *witness = f->witness ? f->witness(h.work, method, other) : NULL;
                double own;
                CHECK_OK(
                    p.v.kind->bound(&p.w, c.task.label, other, f->methods[method], witness, &own));
                if (has_exact(&p))
                    check_exact(&p, c.task.label, other, f->methods[method], witness, own);
                json_decref(witness);
                if (isfinite(b.margin) && !(own >= b.margin - 1e-6 * (1 + fabs(b.margin))))
                    test_fail(__FILE__, __LINE__, "case %zu, %s: claimed %.9g, derived %.9g", i,
                              f->methods[method], b.margin, own);
                followed += b.margin > 0;
            }
        harness_deinit(&h);
        pair_close(&p);
    }
    return followed;
}

TEST(the_cnn_certifier_can_be_followed)
{
    CHECK_LE(20, follow(&cert_cnn, NULL, "cnn", cnn, 8, 150, 0.1));
    follow(&cert_cnn, NULL, "cnn", cnn, 8, 100, 1);
    CHECK_LE(20, follow(&cert_s4cnn, NULL, "s4cnn", s4cnn, 8, 100, 0.1));
    CHECK_LE(20, follow(&cert_cnn, NULL, "cnn", dense, 8, 150, 0.1));
    follow(&cert_cnn, NULL, "cnn", dense, 8, 100, 1);
    static const float bias[] = {-1e20f, -1e30f, 1e25f, 1e30f};
    for (size_t k = 0; k < sizeof bias / sizeof *bias; k++) {
        huge_bias = bias[k];
        follow(&cert_cnn, NULL, "cnn", cnn, 8, 20, 0.1);
    }
    huge_bias = 0;
}

TEST(the_bilstm_certifier_can_be_followed)
{
    static const double noise[] = {0.03, 0.1, 0.3, 1};
    for (size_t pool = 0; pool < POOLS; pool++) {
        CHECK_LE(10, follow(&cert_bilstm, NULL, "bilstm", bilstm_pools[pool], 12, 60, 0.1));
        for (size_t k = 0; k < 4;
             k++) /* long enough for decisions that a little rounding might turn */
            follow(&cert_bilstm, NULL, "bilstm", bilstm_pools[pool], 20, pool ? 30 : 120, noise[k]);
    }
}

TEST(the_s4_certifier_can_be_followed)
{
    CHECK_LE(20, follow(&cert_s4, NULL, "s4", s4, 12, 100, 0.05));
    follow(&cert_s4, NULL, "s4", s4, 12, 60, 1);
    follow(&cert_s4, NULL, "s4", s4_deep, 12, 60, 0.05);
    for (size_t k = 0; k < S4_VARIANTS; k++) {
        CHECK_LE(10, follow(&cert_s4, NULL, "s4", s4_variants[k], 12, 60, 0.05));
        follow(&cert_s4, NULL, "s4", s4_variants[k], 12, 40, 1);
    }
}

/* ---- scores of words ---------------------------------------------------------------------- */

TEST(bounds_with_scores_never_exceed_the_truth)
{
    for (size_t k = 0; k < SCORED; k++) {
        word_scores = 0.05;
        CHECK_LE(10, compare_with_truth(scored[k].name, scored[k].settings, 5, 60, 0.05));
        word_scores = 1;
        compare_with_truth(scored[k].name, scored[k].settings, 5, 60, 1);
    }
}

TEST(texts_with_scores_and_without_choices_are_evaluated)
{
    word_scores = 1;
    for (size_t k = 0; k < SCORED; k++)
        compare_values(scored[k].name, scored[k].settings, scored[k].tolerance);
}

TEST(a_certifier_that_reads_scores_can_be_followed)
{
    for (size_t k = 0; k < SCORED; k++) {
        word_scores = 0.1;
        CHECK_LE(20,
                 follow(scored[k].family, NULL, scored[k].name, scored[k].settings, 10, 100, 0.05));
        word_scores = 1;
        follow(scored[k].family, NULL, scored[k].name, scored[k].settings, 16, 60, 0.3);
    }
}
