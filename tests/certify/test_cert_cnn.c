/* The bounds of the text CNN against the truth. */
#include "certify/cert_cnn.h"
#include "harness.h"

static const char *const shapes[][3] = {
    {"filters=3", "kernels=1,2", NULL},
    {"filters=4", "kernels=2,3", NULL},
    {"filters=5", "kernels=3", NULL},
    {"filters=2", "kernels=2,4,7", NULL}, /* wider than many of the texts */
};

static void exhaust(size_t models, size_t cases, uint64_t seed, double raise, harness_tally *tally)
{
    static const size_t budgets[] = {STET_ANY, 1, 2};
    for (size_t i = 0; i < models; i++) {
        rng r = rng_stream(seed, STREAM_TEST, i);
        model *m = harness_model("cnn", shapes[i % 4], 3 + i % 5, 2 + i % 3, 1 + (double)(i % 3), seed + i);
        harness h;
        CHECK_OK(harness_init(&h, &cert_cnn, m));
        for (size_t k = 0; k < cases; k++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 6), 4, budgets[k % 3], &r, &c);
            harness_check(&h, &c, 10, raise, tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

TEST(no_combination_of_words_goes_below_a_bound)
{
    harness_tally tally = {0};
    exhaust(40, 60, 1, 0, &tally);
    CHECK_EQ(tally.cases, 2400);
    CHECK_EQ(tally.violations, 0);
    for (size_t i = 0; cert_cnn.methods[i]; i++)
        printf("%s: true drop / drop of the bound %.3f\n", cert_cnn.methods[i], tally.true_drop / tally.drop[i]);
}
