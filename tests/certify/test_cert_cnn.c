/* The bounds of the text CNN against golden values and against the truth. */
#include <float.h>

#include "alloc_fail.h"
#include "certify/cert_cnn_joint.h"
#include "golden.h"
#include "harness.h"

enum { IBP, JOINT, GBM, GBM_WINDOW };
static const size_t from_weak_to_strong[] = {GBM, GBM_WINDOW, IBP, JOINT};

/* ---- golden values ------------------------------------------------------------------------ */

/* Position p holds words 3p, 3p + 1, 3p + 2 of the vocabulary, in this order. */
static model *golden_model(const json_t *g, cert_case *c)
{
    enum { POSITIONS = 4, WORDS = 12, DIM = 2 };
    static const char *const words[WORDS] = {"a", "b", "c", "d", "e", "f",
                                             "g", "h", "i", "j", "k", "l"};
    static const char *const settings[] = {"filters=2", "kernels=2,3", NULL};
    static const char *const names[] = {"W2", "b2", "W3", "b3", "F", "fb"};
    float data[(WORDS + STET_FIRST_WORD) * DIM] = {0};
    const json_t *cert = json_object_get(g, "cert"), *params = json_object_get(g, "params");
    CHECK_EQ(numbers(json_object_get(cert, "E"), data + STET_FIRST_WORD * DIM), WORDS * DIM);
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, WORDS, &v));
    const stet_vectors t = {.n = WORDS + STET_FIRST_WORD, .dim = DIM, .data = data};
    const stet_model_new_args how = {.name = "cnn",
                                     .settings = settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = 8,
                                     .n_classes = 2};
    model *m;
    CHECK_OK(stet_model_new(&how, &m));
    stet_vocab_free(v);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(numbers(json_object_get(params, names[i]), model_value(m, i)),
                 shape_count(m->params[i].shape));
    CHECK_OK(stet_model_compile(m));
    *c = (cert_case){0};
    for (uint32_t p = 0; p < POSITIONS; p++) {
        c->start[p + 1] = 3 * (p + 1);
        for (uint32_t s = 0; s < 3; s++)
            c->word[3 * p + s] = STET_FIRST_WORD + 3 * p + s;
    }
    c->task = (cert_task){.n = POSITIONS,
                          .start = c->start,
                          .word = c->word,
                          .budget = STET_ANY,
                          .label = (int)json_integer_value(json_object_get(cert, "y"))};
    return m;
}

TEST(bounds_equal_the_golden_values)
{
    static const char *const names[] = {"ibp", "lin_opt", "gbm", "gbm_win"};
    json_t *g = golden("cnn.json");
    const json_t *cert = json_object_get(g, "cert");
    cert_case c;
    model *m = golden_model(g, &c);
    harness h;
    CHECK_OK(harness_init(&h, &cert_cnn, m));
    CHECK_OK(cert_cnn.open(h.work, &c.task));
    double drop[4], least[HARNESS_CLASSES];
    uint32_t worst[4];
    for (size_t i = 0; i < 4; i++) {
        cert_bound b = {.drop = drop, .worst = worst};
        CHECK_OK(cert_cnn.bound(h.work, i, 1 - c.task.label, 100, &b));
        CHECK_NEAR(b.margin + b.slack,
                   json_number_value(json_object_get(json_object_get(cert, "bounds"), names[i])),
                   2e-6);
        CHECK(b.slack > 0 && b.slack < 2e-5);
    }
    CHECK_EQ(harness_minimum(m, &c.task, least), 81);
    CHECK_NEAR(least[1 - c.task.label], json_number_value(json_object_get(cert, "exhaustive_min")),
               2e-6);
    harness_deinit(&h);
    stet_model_free(m);
    json_decref(g);
}

TEST(windows_have_the_golden_ranges)
{
    static const char *const kernels[] = {"2", "3"};
    json_t *g = golden("cnn.json");
    const json_t *bounds = json_object_get(json_object_get(g, "cert"), "window_bounds");
    cert_case c;
    model *m = golden_model(g, &c);
    harness h;
    CHECK_OK(harness_init(&h, &cert_cnn, m));
    CHECK_OK(cert_cnn.open(h.work, &c.task));
    const cnn_work *w = h.work;
    for (size_t i = 0; i < 2; i++) {
        real lo[16], hi[16];
        const json_t *b = json_object_get(bounds, kernels[i]);
        const size_t n = numbers(json_object_get(b, "lo"), lo);
        CHECK_EQ(numbers(json_object_get(b, "hi"), hi), n);
        CHECK_EQ(n, w->r[i].n * 2);
        for (size_t k = 0; k < n; k++) {
            CHECK_NEAR(w->r[i].lo[k], lo[k], 1e-5);
            CHECK_NEAR(w->r[i].hi[k], hi[k], 1e-5);
        }
    }
    harness_deinit(&h);
    stet_model_free(m);
    json_decref(g);
}

/* ---- the truth ---------------------------------------------------------------------------- */

static const char *const shapes[][3] = {
    {"filters=3", "kernels=1,2", NULL},
    {"filters=4", "kernels=2,3", NULL},
    {"filters=5", "kernels=3", NULL},
    {"filters=2", "kernels=2,4,7", NULL}, /* wider than many of the texts */
};
static const size_t budgets[] = {STET_ANY, 1, 2};

static model *random_model(size_t i, uint64_t seed)
{
    return harness_model("cnn", shapes[i % 4], 3 + i % 5, 2 + i % 3, 1 + (double)(i % 3), seed + i);
}

static void exhaust(size_t models, size_t cases, uint64_t seed, double raise, harness_tally *tally)
{
    for (size_t i = 0; i < models; i++) {
        rng r = rng_stream(seed, STREAM_TEST, i);
        model *m = random_model(i, seed);
        harness h;
        CHECK_OK(harness_init(&h, &cert_cnn, m));
        for (size_t k = 0; k < cases; k++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 7), 5, budgets[k % 3], &r, &c);
            harness_check(&h, &c, k % 2 ? 10 : 40, raise, tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

TEST(no_combination_of_words_goes_below_a_bound)
{
    harness_tally tally = {0};
    exhaust(60, 60, 1, 0, &tally);
    CHECK_EQ(tally.cases, 3600);
    CHECK(tally.combinations > 50000);
    CHECK_EQ(tally.violations, 0);
    for (size_t i = 0; cert_cnn.methods[i]; i++)
        printf("%s: true drop / drop of the bound %.3f\n", cert_cnn.methods[i],
               tally.true_drop / tally.drop[i]);
    CHECK(tally.true_drop / tally.drop[JOINT] > 0.8); /* sound, and not by being loose */
}

static stet_status open_closer(void *work, const cert_task *t)
{
    TRY(cert_cnn.open(work, t));
    return cnn_look_closer(work);
}

static stet_status open_closest(void *work, const cert_task *t)
{
    TRY(open_closer(work, t));
    return cnn_look_closer(work);
}

/* With a close look at rounding for every task; half of them have no choices, so that the bound is
 * the value less the rounding, and nothing else hides an error of either. The closest look gains no
 * more than is said beforehand. */
TEST(close_looks_at_rounding_are_sound_and_closer)
{
    stet_status (*const opens[])(void *, const cert_task *) = {open_closer, open_closest};
    for (size_t look = 0; look < 2; look++) {
        cert_family close = cert_cnn;
        close.open = opens[look];
        harness_tally tally = {0};
        double before = 0, after = 0;
        for (size_t i = 0; i < 60; i++) {
            rng r = rng_stream(21, STREAM_TEST, i);
            model *m = random_model(i, 21);
            harness h;
            CHECK_OK(harness_init(&h, &close, m));
            for (size_t k = 0; k < 40; k++) {
                cert_case c;
                harness_case(m, 1 + rng_below(&r, 7), k % 2 ? 1 : 4, budgets[k % 3], &r, &c);
                harness_check(&h, &c, 10, 0, &tally);
                cnn_work *w = h.work;
                const int other = 1 - (c.task.label == 1);
                CHECK_OK(cert_cnn.open(w, &c.task));
                if (look)
                    CHECK_OK(cnn_look_closer(w));
                const double slack = cnn_slack(w, other, 0, 0),
                             least = (1 - cnn_still_to_gain(w)) * slack;
                CHECK_OK(cnn_look_closer(w));
                before += slack;
                after += cnn_slack(w, other, 0, 0);
                CHECK_LE(least, cnn_slack(w, other, 0, 0) * (1 + 1e-6));
            }
            harness_deinit(&h);
            stet_model_free(m);
        }
        printf("slack %.3g of what it was\n", after / before);
        CHECK_EQ(tally.violations, 0);
        CHECK_LE(after, (look ? 0.95 : 0.9) * before);
    }
}

TEST(a_raised_bound_is_noticed)
{
    harness_tally tally = {0};
    exhaust(8, 30, 1, 1e-3, &tally);
    CHECK(tally.violations > 0);
}

/* Slack with the wrong sign, and ranges of the wrong end, must both be noticed: one exact task
 * shows the first (one word changes: the joint bound is the truth), ranges drawn together the
 * second. */
TEST(slack_of_the_wrong_sign_is_noticed)
{
    size_t noticed = 0;
    for (size_t i = 0; i < 10; i++) {
        rng r = rng_stream(5, STREAM_TEST, i);
        model *m = random_model(i, 50);
        harness h;
        CHECK_OK(harness_init(&h, &cert_cnn, m));
        cert_case c;
        double drop[HARNESS_POSITIONS], least[HARNESS_CLASSES];
        uint32_t worst[HARNESS_POSITIONS];
        harness_case(m, 6, 4, 1, &r, &c);
        CHECK_OK(cert_cnn.open(h.work, &c.task));
        harness_minimum(m, &c.task, least);
        for (int other = 0; other < (int)m->n_classes; other++) {
            cert_bound b = {.drop = drop, .worst = worst};
            if (other == c.task.label)
                continue;
            CHECK_OK(cert_cnn.bound(h.work, JOINT, other, 40, &b));
            CHECK_LE(b.margin, least[other]);
            noticed += b.margin + 2 * b.slack > least[other];
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
    CHECK(noticed > 0);
}

TEST(a_swapped_end_of_a_range_is_noticed)
{
    size_t noticed = 0;
    for (size_t i = 0; i < 20; i++) {
        rng r = rng_stream(6, STREAM_TEST, i);
        model *m = random_model(i, 70);
        harness h;
        CHECK_OK(harness_init(&h, &cert_cnn, m));
        cert_case c;
        double least[HARNESS_CLASSES];
        harness_case(m, 6, 4, STET_ANY, &r, &c);
        CHECK_OK(cert_cnn.open(h.work, &c.task));
        harness_minimum(m, &c.task, least);
        cnn_work *w = h.work;
        for (size_t f = 0; f < w->s->features; f++)
            w->lo[f] = w->hi[f];
        for (int other = 0; other < (int)m->n_classes; other++) {
            cert_bound b = {0};
            if (other == c.task.label)
                continue;
            CHECK_OK(cert_cnn.bound(h.work, IBP, other, 0, &b));
            noticed += b.margin > least[other];
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
    CHECK(noticed > 0);
}

/* ---- order -------------------------------------------------------------------------------- */

/* Each region contains the next: around the clean word, the words themselves, all words together. A
 * smaller budget never gives a weaker interval. */
TEST(dearer_methods_and_smaller_budgets_prove_no_less)
{
    for (size_t i = 0; i < 40; i++) {
        rng r = rng_stream(2, STREAM_TEST, i);
        model *m = random_model(i, 90);
        harness h;
        CHECK_OK(harness_init(&h, &cert_cnn, m));
        for (size_t k = 0; k < 30; k++) {
            cert_case c;
            double drop[HARNESS_POSITIONS],
                before[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
            uint32_t worst[HARNESS_POSITIONS];
            harness_case(m, 1 + rng_below(&r, 20), 6, STET_ANY, &r, &c);
            for (size_t budget = 4; budget > 0; budget--) {
                c.task.budget = budget == 4 ? STET_ANY : budget;
                CHECK_OK(cert_cnn.open(h.work, &c.task));
                double last = -INFINITY;
                for (size_t q = 0; q < 4; q++) {
                    const size_t method = from_weak_to_strong[q];
                    cert_bound b = {.drop = drop, .worst = worst};
                    CHECK_OK(cert_cnn.bound(h.work, method, (c.task.label + 1) % (int)m->n_classes,
                                            20, &b));
                    if (budget == 4 ||
                        method == JOINT) /* a budget suits a sum over positions better */
                        CHECK_LE(last - 1e-4, b.margin); /* of rounding */
                    last = b.margin;
                    if (method != JOINT) {
                        CHECK_LE(before[method] - 1e-4, b.margin);
                        before[method] = b.margin;
                    }
                }
            }
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

TEST(refinement_never_weakens_a_bound_much)
{
    rng r = rng_stream(3, STREAM_TEST, 0);
    model *m = harness_model("cnn", shapes[1], 6, 2, 1, 4);
    harness h;
    CHECK_OK(harness_init(&h, &cert_cnn, m));
    double gained = 0;
    for (size_t k = 0; k < 50; k++) {
        cert_case c;
        double drop[HARNESS_POSITIONS], last = -INFINITY, first = 0;
        uint32_t worst[HARNESS_POSITIONS];
        harness_case(m, 24, 6, STET_ANY, &r, &c);
        CHECK_OK(cert_cnn.open(h.work, &c.task));
        for (size_t steps = 0; steps <= 100; steps = steps ? steps * 10 : 10) {
            cert_bound b = {.drop = drop, .worst = worst};
            CHECK_OK(cert_cnn.bound(h.work, JOINT, 1 - c.task.label, steps, &b));
            CHECK_LE(last - 0.05 * fabs(last) - 1e-3, b.margin);
            first = steps == 0 ? b.margin : first;
            last = b.margin;
        }
        CHECK_LE(first, last + 1e-6);
        gained += last - first;
    }
    CHECK(gained > 0);
    harness_deinit(&h);
    stet_model_free(m);
}

/* ---- the witness -------------------------------------------------------------------------- */

TEST(weights_of_a_witness_are_a_convex_combination)
{
    static const char *const keys[] = {"low", "over", "cap", "split"};
    rng r = rng_stream(7, STREAM_TEST, 0);
    model *m = harness_model("cnn", shapes[1], 6, 2, 1, 4);
    harness h;
    CHECK_OK(harness_init(&h, &cert_cnn, m));
    cert_case c;
    double drop[HARNESS_POSITIONS], sum[8] = {0};
    uint32_t worst[HARNESS_POSITIONS];
    harness_case(m, 20, 6, STET_ANY, &r, &c);
    cert_bound b = {.drop = drop, .worst = worst};
    CHECK_OK(cert_cnn.open(h.work, &c.task));
    CHECK(!cert_cnn.witness(h.work, IBP, 1 - c.task.label));
    CHECK_OK(cert_cnn.bound(h.work, JOINT, 1 - c.task.label, 30, &b));
    json_t *w = cert_cnn.witness(h.work, JOINT, 1 - c.task.label);
    size_t items = 0;
    for (size_t k = 0; k < 4; k++) {
        const json_t *rows = json_object_get(w, keys[k]), *row;
        size_t i;
        CHECK(json_is_array(rows));
        json_array_foreach(rows, i, row)
        {
            const json_int_t f = json_integer_value(json_array_get(row, 0));
            CHECK(f >= 0 && f < 8 && json_array_size(row) >= 3);
            sum[f] += json_real_value(json_array_get(row, 1));
            items++;
        }
    }
    CHECK(items > 0);
    for (size_t f = 0; f < 8; f++)
        CHECK_LE(sum[f], 1 + 1e-12);
    json_decref(w);
    harness_deinit(&h);
    stet_model_free(m);
}

/* ---- what must not be believed ------------------------------------------------------------ */

static void refuses(size_t which, real value)
{
    model *m = harness_model("cnn", shapes[1], 4, 2, 1, 8);
    harness h;
    if (which == SIZE_MAX)
        m->table[30] = value;
    else
        model_value(m, (int)which)[1] = value;
    CHECK_FAILS(harness_init(&h, &cert_cnn, m), STET_EFORMAT, "not finite");
    stet_model_free(m);
}

TEST(models_with_numbers_that_are_not_finite_are_refused)
{
    const real bad[] = {(real)NAN, (real)INFINITY, (real)-INFINITY, FLT_MAX};
    for (size_t i = 0; i < 4; i++) {
        refuses(SIZE_MAX, bad[i]);
        for (size_t p = 0; p < 6; p++)
            refuses(p, bad[i]);
    }
}

TEST(words_outside_the_vocabulary_are_refused)
{
    model *m = harness_model("cnn", shapes[1], 4, 2, 1, 8);
    harness h;
    CHECK_OK(harness_init(&h, &cert_cnn, m));
    const uint32_t start[] = {0, 2}, word[] = {STET_FIRST_WORD, (uint32_t)m->n_words};
    const cert_task t = {.n = 1, .start = start, .word = word, .budget = STET_ANY};
    CHECK_FAILS(cert_cnn.open(h.work, &t), STET_EUSAGE, "word");
    harness_deinit(&h);
    stet_model_free(m);
}

TEST(every_failed_allocation_is_survived)
{
    rng r = rng_stream(9, STREAM_TEST, 0);
    model *m = harness_model("cnn", shapes[1], 6, 2, 1, 4);
    cert_case c;
    harness_case(m, 12, 4, 2, &r, &c);
    harness_use u = {&cert_cnn, m, &c};
    CHECK_LE(5, ALLOC_FAIL_LOOP(harness_complete, &u));
    stet_model_free(m);
}
