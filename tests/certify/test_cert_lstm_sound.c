/* The bounds of the BiLSTM against the truth: every combination of short texts, samples of long
 * ones. */
#include "certify/cert_lstm.h"
#include "harness.h"

/* Draw all words towards one point, so that sets are as close as synonyms are in a trained model. */
static void gather(model *m, double spread)
{
    const size_t D = m->dim;
    for (size_t i = STET_FIRST_WORD + 1; i < m->n_words; i++)
        for (size_t j = 0; j < D; j++) {
            const float at = m->table[STET_FIRST_WORD * D + j];
            m->table[i * D + j] = at + (float)spread * (m->table[i * D + j] - at);
        }
    m->desc->compiled_free(m->compiled);
    m->compiled = NULL;
    CHECK_OK(stet_model_compile(m));
}

static model *small_model(size_t i, uint64_t seed, double spread)
{
    static const char *const hidden[] = {"hidden=2", "hidden=3", "hidden=5"};
    const char *const settings[] = {hidden[i % 3], NULL};
    model *m = harness_model("bilstm", settings, 3 + i % 4, 2 + i % 2, 0.5 + 0.5 * (double)(i % 3), seed + i);
    gather(m, spread);
    return m;
}

static void exhaust(size_t models, size_t cases, uint64_t seed, double spread, double raise, harness_tally *tally)
{
    static const size_t budgets[] = {STET_ANY, 1, 2};
    for (size_t i = 0; i < models; i++) {
        rng r = rng_stream(seed, STREAM_TEST, i);
        model *m = small_model(i, seed, spread);
        harness h;
        CHECK_OK(harness_init(&h, &cert_bilstm, m));
        for (size_t k = 0; k < cases; k++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 6), 4, budgets[k % 3], &r, &c);
            harness_check(&h, &c, 0, raise, tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

static void no_violation(double spread)
{
    harness_tally tally = {0};
    exhaust(12, 60, 1, spread, 0, &tally);
    CHECK_EQ(tally.cases, 720);
    CHECK_EQ(tally.violations, 0);
    printf("words %g apart, true drop / drop of the bound:", spread);
    for (size_t i = 0; cert_bilstm.methods[i]; i++)
        printf(" %s %.3f", cert_bilstm.methods[i], tally.true_drop / tally.drop[i]);
    printf(" (%zu combinations)\n", tally.combinations);
}

TEST(no_combination_of_words_goes_below_a_bound)
{
    no_violation(1);
    no_violation(0.2);
    no_violation(0.02);
}

/* A bound that claims a little more than the truth is found out. */
TEST(a_broken_bound_is_caught)
{
    harness_tally tally = {0};
    exhaust(4, 40, 7, 0.02, 0.02, &tally);
    CHECK(tally.violations > 0);
}
