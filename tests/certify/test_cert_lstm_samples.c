/* Over three million variants of texts of up to 32 words against every bound of the BiLSTM. */
#include "harness.h"

TEST(no_sample_of_millions_goes_below_a_bound)
{
    enum { MODELS = 32, POOLS = 4, CASES = 10, VARIANTS = 10000 };
    static const size_t budgets[] = {STET_ANY, STET_ANY, 5};
    harness_tally tally = {0};
    for (size_t i = 0; i < MODELS; i++) {
        rng r = rng_stream(31, STREAM_TEST, i);
        static const char *const pools[POOLS][2] = {
            {"pool=last"}, {"pool=max"}, {"pool=mean"}, {"pool=max", "span=7"}};
        const char *const settings[] = {i % 3 ? "hidden=16" : "hidden=40", pools[i % POOLS][0],
                                        pools[i % POOLS][1], NULL};
        model *m =
            harness_model("bilstm", settings, 12, 2 + i % 3, 0.2 + 0.3 * (double)(i % 4), 500 + i);
        harness h;
        CHECK_OK(harness_init(&h, &cert_bilstm, m));
        for (size_t k = 0; k < CASES; k++) {
            cert_case c;
            harness_case(m, HARNESS_POSITIONS / 2 + rng_below(&r, HARNESS_POSITIONS / 2), 6,
                         budgets[k % 3], &r, &c);
            harness_sample(&h, &c.task, 0, VARIANTS, &r, &tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
    CHECK_EQ(tally.combinations, MODELS * CASES * VARIANTS);
    CHECK_EQ(tally.violations, 0);
}
