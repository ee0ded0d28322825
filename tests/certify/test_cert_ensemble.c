/* Bounds of an ensemble against the truth: every combination of small texts, samples of longer ones. */
#include "alloc_fail.h"
#include "certify/certifier.h"
#include "harness.h"
#include "model/ensemble.h"

static const char *const cnn[] = {"filters=4", "kernels=2,3", NULL};
static const char *const bilstm[] = {"hidden=3", NULL};
static const char *const s4[] = {"channels=4", "state=4", NULL};
static const char *const sum[] = {NULL};
static const struct {
    const char *name;
    const char *const *settings;
} kinds[] = {{"cnn", cnn}, {"sum", sum}, {"bilstm", bilstm}, {"s4", s4}};
enum { KINDS = 4 };
static const size_t budgets[] = {STET_ANY, 1, 2};

static const char *dir_of(size_t i)
{
    static char path[4][512];
    snprintf(path[i], sizeof path[i], "%s/%zu", test_dir(), i);
    return path[i];
}

/* Members of the kinds that `mask` names, two of the first. */
static model *together(size_t mask, size_t classes, uint64_t seed)
{
    const char *dirs[KINDS + 1];
    size_t n = 0;
    for (size_t k = 0; k < KINDS; k++) {
        const size_t copies = !(mask >> k & 1) ? 0 : n == 0 ? 2 : 1;
        for (size_t i = 0; i < copies; i++, n++) {
            model *m = harness_scored(kinds[k].name, kinds[k].settings, 5, classes, 1, 0.5,
                                      10 * seed + n);
            CHECK_OK(stet_model_save(m, dirs[n] = dir_of(n)));
            stet_model_free(m);
        }
    }
    stet_model *out;
    CHECK_OK(stet_model_ensemble(dirs, n, &out));
    CHECK_OK(stet_model_compile(out));
    for (size_t i = 0; i + 1 < n; i++)
        CHECK_OK(stet_model_compile(ensemble_of(out)->other[i]));
    return out;
}

static const size_t masks[] = {1, 2, 3, 6, 9};
enum { MASKS = sizeof masks / sizeof *masks };

TEST(no_bound_exceeds_the_truth)
{
    for (size_t k = 0; k < MASKS; k++) {
        harness_tally tally = {0}, lies = {0};
        for (size_t i = 0; i < 15; i++) {
            rng r = rng_stream(1, STREAM_TEST, 100 * k + i);
            model *m = together(masks[k], 2 + i % 3, i);
            harness h;
            CHECK_OK(harness_init(&h, &cert_ensemble, m));
            for (size_t c = 0; c < 12; c++) {
                cert_case x;
                harness_case(m, 1 + rng_below(&r, 6), 4, budgets[c % 3], &r, &x);
                harness_check(&h, &x, 20, 0, &tally);
                harness_check(&h, &x, 20, 2, &lies);
            }
            harness_deinit(&h);
            stet_model_free(m);
        }
        CHECK_EQ(tally.violations, 0);
        CHECK(lies.violations > tally.bounds / 20); /* what is wrong shows */
        CHECK(tally.drop[1] <= tally.drop[0]);      /* "best" is never behind "cheap" */
        printf("members %zx: %zu combinations\n", masks[k], tally.combinations);
    }
}

TEST(no_sample_of_a_longer_text_goes_below_a_bound)
{
    for (size_t k = 0; k < MASKS; k++) {
        harness_tally tally = {0};
        for (size_t i = 0; i < 3; i++) {
            rng r = rng_stream(2, STREAM_TEST, 100 * k + i);
            model *m = together(masks[k], 3, i);
            harness h;
            CHECK_OK(harness_init(&h, &cert_ensemble, m));
            cert_case c;
            harness_case(m, 20, 5, budgets[i % 3], &r, &c);
            harness_sample(&h, &c.task, 20, 1000, &r, &tally);
            harness_deinit(&h);
            stet_model_free(m);
        }
        CHECK_EQ(tally.violations, 0);
    }
}

/* Certificates of whole texts: split until decided, and no verdict that the truth denies. */
TEST(verdicts_are_true_and_mostly_decided)
{
    size_t verdicts[STET_VERDICTS] = {0};
    for (size_t i = 0; i < 8; i++) {
        rng r = rng_stream(3, STREAM_TEST, i);
        model *m = together(masks[i % MASKS], 2, 50 + i);
        stet_certify_how how = STET_CERTIFY_HOW;
        how.complete = true;
        stet_certifier *c;
        CHECK_OK(stet_certifier_new(m, &how, &c));
        for (size_t k = 0; k < 8; k++) {
            cert_case x;
            double least[HARNESS_CLASSES];
            harness_case(m, 1 + rng_below(&r, 5), 3, STET_ANY, &r, &x);
            uint32_t ids[HARNESS_POSITIONS], start[HARNESS_POSITIONS + 1], word[256], made = 0;
            for (size_t p = 0; p < x.task.n; p++) {
                ids[p] = x.task.word[x.task.start[p]];
                start[p] = made;
                for (uint32_t j = x.task.start[p] + 1; j < x.task.start[p + 1]; j++)
                    word[made++] = x.task.word[j];
            }
            start[x.task.n] = made;
            const stet_choices choices = {.n = x.task.n, .start = start, .word = word};
            stet_certificate out;
            CHECK_OK(stet_certify_text(c, ids, &choices, x.task.label, &out));
            harness_minimum(m, &x.task, least);
            const double worst = least[1 - x.task.label];
            CHECK(out.verdict != STET_CERTIFIED || (worst > 0 && out.margin <= worst));
            CHECK(out.verdict != STET_BROKEN || worst <= 0);
            verdicts[out.verdict]++;
            stet_certificate_deinit(&out);
        }
        stet_certifier_free(c);
        stet_model_free(m);
    }
    CHECK(verdicts[STET_CERTIFIED] > 5 && verdicts[STET_BROKEN] > 2);
    CHECK_LE(verdicts[STET_UNDECIDED], 2);
}

/* All that a proof needs is kept with the model: it is loaded anew each time. */
static stet_status certify_one(void *dir)
{
    stet_certifier *c = NULL;
    stet_model *m;
    const stet_certify_how how = STET_CERTIFY_HOW;
    stet_status st = stet_model_load(dir, &m);
    if (st != STET_OK)
        return st;
    const uint32_t ids[] = {2, 3};
    uint32_t start[] = {0, 2, 3}, word[] = {4, 5, 6};
    const stet_choices choices = {.n = 2, .start = start, .word = word};
    stet_certificate out;
    st = stet_certifier_new(m, &how, &c);
    if (st == STET_OK)
        st = stet_certify_text(c, ids, &choices, 0, &out);
    if (st == STET_OK)
        stet_certificate_deinit(&out);
    stet_certifier_free(c);
    stet_model_free(m);
    return st;
}

TEST(a_certificate_survives_every_failed_allocation)
{
    model *m = together(3, 2, 1);
    char dir[512];
    snprintf(dir, sizeof dir, "%s/all", test_dir());
    CHECK_OK(stet_model_save(m, dir));
    stet_model_free(m);
    stet_set_threads(1);
    CHECK_LE(50, ALLOC_FAIL_LOOP(certify_one, dir));
    stet_set_threads(0);
}
