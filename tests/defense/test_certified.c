/* Training on the worst case: the loss is what it says, lists of defences compose, ramps ramp,
 * training makes texts certified, mistakes are named. */
#include "alloc_fail.h"
#include "defense_run.h"

/* Models and bounds. */
static const struct {
    int kind;
    const char *bound;
} cases[] = {{CNN, "bound=ibp"}, {CNN, "bound=joint"}, {BILSTM, "bound=ibp"}, {S4, "bound=ibp"}};
enum { CASES = sizeof cases / sizeof *cases };

TEST(the_loss_mixes_clean_and_worst_case)
{
    for (int k = 0; k < CASES; k++)
        for (size_t classes = 2; classes <= 3; classes++) {
            run x;
            CHECK_OK(run_start(&x, cases[k].kind, classes, "certified",
                               (const char *const[]){cases[k].bound, "kappa=0.4", "ramp=0", NULL},
                               true));
            const double loss = run_step(&x, 0), ce = metric(&x, "ce"), worst = metric(&x, "worst");
            CHECK_NEAR(loss, 0.6 * ce + 0.4 * worst, 1e-5 * loss);
            CHECK(worst > ce); /* the text as it is is one of those bounded */
            CHECK(metric(&x, "kappa") == 0.4 && metric(&x, "eps") == 1);
            run_end(&x);
        }
}

/* Without substitutes in reach the worst case is the text itself, dropout included. */
TEST(at_eps_zero_the_worst_case_is_the_clean_text)
{
    for (int k = 0; k < CASES; k++)
        for (size_t classes = 2; classes <= 3; classes++) {
            run x;
            CHECK_OK(run_start(&x, cases[k].kind, classes, "certified",
                               (const char *const[]){cases[k].bound, "eps-ramp=1", NULL}, true));
            x.dropout = 0.4;
            run_step(&x, 0);
            CHECK(metric(&x, "eps") == 0);
            CHECK_NEAR(metric(&x, "worst"), metric(&x, "ce"), 1e-5);
            run_end(&x);
        }
}

/* The clean logits, dropout included, are those of the plain forward pass. */
TEST(with_kappa_zero_training_is_standard_training)
{
    for (int k = 0; k < CASES; k++) {
        run x, y;
        CHECK_OK(run_start(&x, cases[k].kind, 2, "certified",
                           (const char *const[]){cases[k].bound, "kappa=0", NULL}, true));
        CHECK_OK(run_start(&y, cases[k].kind, 2, "standard", NULL, true));
        x.dropout = y.dropout = 0.3;
        for (int i = 0; i < 10; i++)
            CHECK_NEAR(run_step(&x, 0.1), run_step(&y, 0.1), 1e-5);
        run_end(&x);
        run_end(&y);
    }
}

TEST(both_ramps_are_linear_and_end_where_they_say)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "certified",
                       (const char *const[]){"kappa=0.5", "ramp=0.4", "eps-ramp=0.2", NULL}, true));
    for (int i = 0; i < 60; i++) { /* of 100 steps */
        run_step(&x, 0);
        CHECK_NEAR(metric(&x, "kappa"), 0.5 * fmin(1, i / 40.0), 1e-12);
        CHECK_NEAR(metric(&x, "eps"), fmin(1, i / 20.0), 1e-12);
    }
    run_end(&x);
}

/* Six epochs with both weights at their final value in the last two and equally spaced before, the end
 * included: here, six steps that reach it at the fourth. */
TEST(a_ramp_has_the_schedule_of_the_specification)
{
    static const double kappa[] = {0, 0.266667, 0.533333, 0.8, 0.8, 0.8},
                        eps[] = {0, 1 / 3.0, 2 / 3.0, 1, 1, 1};
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "certified",
                       (const char *const[]){"kappa=0.8", "ramp=0.5", "eps-ramp=0.5", NULL}, true));
    x.total_steps = 6;
    for (int i = 0; i < 6; i++) {
        const double loss = run_step(&x, 0);
        CHECK_NEAR(metric(&x, "kappa"), kappa[i], 1e-6);
        CHECK_NEAR(metric(&x, "eps"), eps[i], 1e-6);
        CHECK_NEAR(loss, (1 - kappa[i]) * metric(&x, "ce") + kappa[i] * metric(&x, "worst"),
                   1e-5 * (1 + loss));
    }
    run_end(&x);
}

/* Some texts of the batch: the clean part stays that of all of them. */
TEST(a_share_of_the_texts_can_be_bounded)
{
    for (int k = 0; k < CASES; k++) {
        run x, all;
        CHECK_OK(run_start(
            &x, cases[k].kind, 2, "certified",
            (const char *const[]){cases[k].bound, "ramp=0", "bound-share=0.34", NULL}, true));
        CHECK_OK(run_start(&all, cases[k].kind, 2, "certified",
                           (const char *const[]){cases[k].bound, "ramp=0", NULL}, true));
        run_step(&all, 0);
        double mean = 0, least = INFINITY, most = -INFINITY;
        enum { STEPS = 300 };
        for (int i = 0; i < STEPS; i++) {
            run_step(&x, 0);
            CHECK_NEAR(metric(&x, "ce"), metric(&all, "ce"), 1e-6);
            const double worst = metric(&x, "worst");
            mean += worst / STEPS;
            least = fmin(least, worst), most = fmax(most, worst);
            const double proved = metric(&x, "certified") * 3; /* 3 of 6 texts */
            CHECK_NEAR(proved, round(proved), 1e-6);
        }
        CHECK(most > least);
        CHECK_NEAR(mean, metric(&all, "worst"), 0.2 * (most - least));
        run_end(&x);
        run_end(&all);
    }
}

TEST(defences_of_a_list_build_on_each_other)
{
    const char *settings[] = {
        "", "kappa=0.25", "ramp=0", "beta=0.125", "gbm-norm=init", "gbm-of=logits", NULL};
    for (int k = 0; k < CASES; k++) {
        run x;
        settings[0] = cases[k].bound;
        CHECK_OK(run_start(&x, cases[k].kind, 2, "certified,gbm", settings, true));
        double loss = run_step(&x, 0.01), ce = metric(&x, "ce"), worst = metric(&x, "worst");
        CHECK_NEAR(loss, 0.875 * (0.75 * ce + 0.25 * worst) + 0.125, 1e-5);
        CHECK(metric(&x, "gbm") > 0);
        run_end(&x);
        CHECK_OK(run_start(&x, cases[k].kind, 2, "gbm,certified", settings, true));
        loss = run_step(&x, 0.01), ce = metric(&x, "ce"), worst = metric(&x, "worst");
        CHECK_NEAR(loss, 0.75 * (0.875 * ce + 0.125) + 0.25 * worst, 1e-5);
        run_end(&x);
    }
}

/* The same steps with and without the worst case. */
TEST(training_on_the_worst_case_certifies_texts)
{
    for (int k = 0; k < CASES; k++) {
        double worst[2], share[2];
        for (int with = 0; with < 2; with++) {
            run x;
            CHECK_OK(run_start(&x, cases[k].kind, 2, "certified",
                               (const char *const[]){cases[k].bound, with ? "kappa=0.7" : "kappa=0",
                                                     "ramp=0.3", NULL},
                               true));
            for (int i = 0; i < 400; i++)
                run_step(&x, 0.05);
            worst[with] = metric(&x, "worst");
            share[with] = metric(&x, "certified");
            run_end(&x);
        }
        fprintf(stderr, "  %s, %s: worst-case loss %.3f without, %.3f with; certified %.2f, %.2f\n",
                small_kinds[cases[k].kind].name, cases[k].bound, worst[0], worst[1], share[0],
                share[1]);
        CHECK(worst[1] < 0.7 * worst[0] && share[1] >= share[0]);
    }
}

TEST(what_cannot_be_is_refused)
{
    run x;
    CHECK_FAILS(run_start(&x, CNN, 2, "certified", NULL, false), STET_EUSAGE, "--synonyms");
    run_end(&x);
    CHECK_FAILS(
        run_start(&x, BILSTM, 2, "certified", (const char *const[]){"bound=joint", NULL}, true),
        STET_EUSAGE, "joint bounds");
    run_end(&x);
    enum { DENSE = 21 };
    CHECK(small_kinds[DENSE].settings == small_cnn_dense);
    CHECK_FAILS(
        run_start(&x, DENSE, 2, "certified", (const char *const[]){"bound=joint", NULL}, true),
        STET_EUSAGE, "no joint bounds over substitution sets are known for training a cnn of these");
    run_end(&x);
    defense_list l;
    CHECK_FAILS(defense_list_init(&l, "gbm,certifed", NULL), STET_EUSAGE, "'certified'");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "gbm,", NULL), STET_EUSAGE, "no defence ''");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "gbm,gbm", NULL), STET_EUSAGE, "twice");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "certified", (const char *const[]){"beta=0.1", NULL}),
                STET_EUSAGE, "beta");
    defense_list_end(&l);
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    for (int k = 0; k < CASES; k++) {
        run x;
        const char *const settings[] = {cases[k].bound, "ramp=0",
                                        k == 0 ? "bound-share=0.5" : "bound-share=1", NULL};
        CHECK_OK(run_start(&x, cases[k].kind, 2, "certified,gbm", settings, true));
        CHECK_LE(8, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "certified,gbm", settings})));
        run_end(&x);
    }
}
