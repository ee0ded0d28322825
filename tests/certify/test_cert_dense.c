/* Bounds of a text CNN with a layer before the last, against the truth. */
#include <float.h>

#include "alloc_fail.h"
#include "certify/cert_cnn.h"
#include "certify/certifier.h"
#include "harness.h"
#include "model/cnn.h"

static const char *const shapes[][4] = {
    {"filters=3", "kernels=1,2", "dense=4", NULL},
    {"filters=4", "kernels=2,3", "dense=2", NULL},
    {"filters=5", "kernels=3", "dense=9", NULL},
    {"filters=2", "kernels=2,4,7", "dense=70", NULL}, /* more than a panel of units */
};
static const size_t budgets[] = {STET_ANY, 1, 2};

static model *random_model(size_t i, uint64_t seed)
{
    const size_t dim = 3 + i % 5, classes = 2 + i % 3;
    const double scale = 1 + (double)(i % 3);
    return i % 2 ? harness_scored("cnn", shapes[i % 4], dim, classes, scale, 0.3, seed + i)
                 : harness_model("cnn", shapes[i % 4], dim, classes, scale, seed + i);
}

static const cert_family *family_of(const model *m)
{
    const cert_family *f;
    CHECK_OK(cert_family_for(m, &f));
    CHECK_STR(f->methods[0], "ibp");
    CHECK(!f->methods[1]);
    return f;
}

static void exhaust(size_t models, size_t cases, uint64_t seed, double raise, harness_tally *tally)
{
    for (size_t i = 0; i < models; i++) {
        rng r = rng_stream(seed, STREAM_TEST, i);
        model *m = random_model(i, seed);
        harness h;
        CHECK_OK(harness_init(&h, family_of(m), m));
        for (size_t k = 0; k < cases; k++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 7), k % 4 ? 5 : 1, budgets[k % 3], &r, &c);
            harness_check(&h, &c, 10, raise, tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

TEST(no_combination_of_words_goes_below_a_bound_behind_a_layer)
{
    harness_tally tally = {0};
    exhaust(60, 60, 1, 0, &tally);
    CHECK_EQ(tally.cases, 3600);
    CHECK(tally.combinations > 50000);
    CHECK_EQ(tally.violations, 0);
    printf("ibp: true drop / drop of the bound %.3f\n", tally.true_drop / tally.drop[0]);
    CHECK(tally.true_drop / tally.drop[0] > 0.2); /* sound, and not by being loose */
}

static stet_status open_closest(void *work, const cert_task *t)
{
    TRY(cert_cnn.open(work, t));
    TRY(cnn_look_closer(work));
    return cnn_look_closer(work);
}

/* As many slacks as cases, from afar and after close looks at the rounding of features. */
TEST(close_looks_at_rounding_are_sound_behind_a_layer)
{
    harness_tally tally = {0};
    double slack[2] = {0};
    for (size_t i = 0; i < 30; i++) {
        rng r = rng_stream(21, STREAM_TEST, i);
        model *m = random_model(i, 21);
        cert_family close = *family_of(m);
        close.open = open_closest;
        harness h;
        CHECK_OK(harness_init(&h, &close, m));
        for (size_t k = 0; k < 40; k++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 7), k % 2 ? 1 : 4, budgets[k % 3], &r, &c);
            harness_check(&h, &c, 10, 0, &tally);
            for (int look = 0; look < 2; look++) {
                cert_bound b = {0};
                CHECK_OK((look ? open_closest : cert_cnn.open)(h.work, &c.task));
                CHECK_OK(cnn_dense_ibp(h.work, 1 - (c.task.label == 1), &b));
                slack[look] += b.slack;
            }
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
    CHECK_EQ(tally.violations, 0);
    CHECK_LE(slack[1], 0.95 * slack[0]);
}

/* Texts without choices are among them: their bound is the margin, less what rounding may take. */
TEST(a_bound_raised_a_little_is_noticed)
{
    harness_tally tally = {0};
    exhaust(20, 20, 2, 1e-3, &tally);
    CHECK(tally.violations > 50);
}

TEST(a_text_without_choices_has_its_own_margin)
{
    for (size_t i = 0; i < 20; i++) {
        rng r = rng_stream(3, STREAM_TEST, i);
        model *m = random_model(i, 3);
        harness h;
        cert_case c;
        float logits[HARNESS_CLASSES];
        double drop[HARNESS_POSITIONS];
        uint32_t worst[HARNESS_POSITIONS];
        harness_case(m, 6, 1, STET_ANY, &r, &c);
        CHECK_OK(harness_init(&h, family_of(m), m));
        CHECK_OK(h.family->open(h.work, &c.task));
        CHECK_OK(model_logits_of(m, c.word, c.task.n, logits));
        for (int other = 0; other < (int)m->n_classes; other++) {
            if (other == c.task.label)
                continue;
            cert_bound b = {.drop = drop, .worst = worst};
            CHECK_OK(h.family->bound(h.work, 0, other, 0, &b));
            const double margin = (double)logits[c.task.label] - (double)logits[other];
            CHECK_LE(b.margin, margin);
            CHECK_NEAR(b.margin, margin, 1e-3 * (1 + fabs(margin)));
            CHECK(b.slack > 0 && b.margin + b.slack >= margin - 1e-4 * (1 + fabs(margin)));
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

TEST(a_layer_with_numbers_that_are_not_finite_is_refused)
{
    const real bad[] = {(real)NAN, (real)INFINITY, (real)-INFINITY, FLT_MAX};
    for (size_t i = 0; i < 8; i++) {
        model *m = harness_model("cnn", shapes[1], 4, 2, 1, 8);
        harness h = {0};
        model_value(m, cnn_dense(m) + (int)(i / 4))[1] = bad[i % 4];
        CHECK_FAILS(harness_init(&h, family_of(m), m), STET_EFORMAT, "layer before the last");
        stet_model_free(m);
    }
}

TEST(other_methods_are_refused_and_auto_is_ibp)
{
    model *m = harness_model("cnn", shapes[1], 4, 2, 1, 8);
    static const char *const methods[] = {"joint", "gbm", "gbm-window", "slope"};
    for (size_t i = 0; i < 4; i++) {
        stet_certifier *c;
        const stet_certify_how how = {.method = methods[i], .budget = STET_ANY};
        CHECK_FAILS(stet_certifier_new(m, &how, &c), STET_EUSAGE, "it has auto, ibp, enumerate");
    }
    CHECK_EQ(cert_auto_methods(family_of(m)), 1);
    stet_model_free(m);
}

TEST(every_failed_allocation_is_survived)
{
    rng r = rng_stream(9, STREAM_TEST, 0);
    model *m = harness_model("cnn", shapes[1], 6, 2, 1, 4);
    cert_case c;
    harness_case(m, 12, 4, 2, &r, &c);
    harness_use u = {family_of(m), m, &c};
    CHECK_LE(5, ALLOC_FAIL_LOOP(harness_complete, &u));
    stet_model_free(m);
}
