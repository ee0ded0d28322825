/* Training with growth bounds: the term is in the loss with its gradient, boxes are kept, mistakes
 * are named. */
#include "alloc_fail.h"
#include "bound/bounded_kinds.h"
#include "defense_run.h"
#include "tensor/optim.h"

static stet_status start(run *x, int kind, const char *const *settings, bool synonyms)
{
    return run_start(x, kind, 2, "gbm", settings, synonyms);
}

TEST(the_loss_is_the_weighted_sum_of_its_two_terms)
{
    for (int kind = next_bounded(0); kind < SMALL_KINDS; kind = next_bounded(kind + 1)) {
        run x;
        CHECK_OK(start(&x, kind, (const char *const[]){"beta=0.25", NULL}, false));
        const double loss = run_step(&x, 0), ce = metric(&x, "ce"), gbm = metric(&x, "gbm");
        CHECK_NEAR(loss, 0.75 * ce + 0.25 * gbm, 1e-5 * loss);
        CHECK(gbm > 0);
        const double h = metric(&x, "gbm_h"), c = metric(&x, "gbm_c");
        const char *name = small_kinds[kind].name;
        CHECK(isnan(h) == (strstr(name, "cnn") != NULL) && isnan(c) == (strcmp(name, "bilstm") != 0));
        CHECK_NEAR(gbm, metric(&x, "gbm_v") + (isnan(h) ? 0 : h) + (isnan(c) ? 0 : c), 1e-4 * gbm);
        run_end(&x);
    }
}

TEST(norms_divide_by_entries_or_by_the_first_value)
{
    for (int kind = next_bounded(0); kind < SMALL_KINDS; kind = next_bounded(kind + 1)) {
        run x;
        CHECK_OK(start(&x, kind, (const char *const[]){"beta=1", "gbm-norm=init", NULL}, false));
        CHECK_NEAR(run_step(&x, 0.01), 1, 1e-5);
        const double later = run_step(&x, 0);
        CHECK(later > 0 && later < 1); /* a step along the true gradient makes it smaller */
        run_end(&x);
        CHECK_OK(start(&x, kind, (const char *const[]){"beta=1", "gbm-norm=mean", NULL}, false));
        const double mean = run_step(&x, 0);
        CHECK_NEAR(mean * gbm_entries(x.m, GBM_OF_LAYER), metric(&x, "gbm"),
                   1e-4 * metric(&x, "gbm"));
        run_end(&x);
    }
}

/* The same steps with and without the term. */
TEST(training_with_the_term_makes_the_bound_fall)
{
    for (int kind = next_bounded(0); kind < SMALL_KINDS; kind = next_bounded(kind + 1))
        for (int logits = 0; logits < 2; logits++) {
            double last[2];
            for (int with = 0; with < 2; with++) {
                run x;
                CHECK_OK(
                    start(&x, kind,
                          (const char *const[]){with ? "beta=0.5" : "beta=0", "gbm-norm=init",
                                                logits ? "gbm-of=logits" : "gbm-of=layer", NULL},
                          false));
                for (int i = 0; i < 200; i++)
                    run_step(&x, 0.1);
                last[with] = metric(&x, "gbm");
                run_end(&x);
            }
            if (!(last[1] < 0.9 * last[0]))
                test_fail(__FILE__, __LINE__, "%s: %g with the term, %g without",
                          small_kinds[kind].name, last[1], last[0]);
        }
}

static const char *const box_names[] = {"gbm-boxes=t+o", "gbm-boxes=t+i", "gbm-boxes=t+l",
                                        "gbm-boxes=s+o", "gbm-boxes=s+i", "gbm-boxes=s+l"};

TEST(every_kind_of_box_and_term_works)
{
    static const char *const ofs[] = {"gbm-of=layer", "gbm-of=logits", "gbm-of=gain", "gbm-of=rho"};
    double term[6][4];
    for (size_t b = 0; b < 6; b++)
        for (size_t of = 0; of < 4; of++) {
            run x;
            CHECK_OK(start(&x, BILSTM,
                           (const char *const[]){box_names[b], ofs[of], "gbm-words=3",
                                                 "gbm-horizon=5", "gbm-rho0=0.1", "beta=0.5", NULL},
                           true));
            for (int i = 0; i < 5; i++)
                CHECK(isfinite(run_step(&x, 1e-3)));
            term[b][of] = metric(&x, "gbm");
            CHECK(term[b][of] > 0);
            double size = 0;
            for (size_t i = 0; i < x.m->n_values; i++)
                size += fabs((double)x.grad[i]);
            CHECK(size > 0);
            run_end(&x);
        }
    /* smaller boxes, smaller bounds: synonyms within the table, observed states within the
     * invariant */
    CHECK(term[3][0] < term[0][0] && term[0][0] < term[1][0] && term[5][0] < term[2][0]);
}

/* A run that is stopped and taken up again goes on with the same bits. */
TEST(kept_state_is_all_that_a_resumed_run_needs)
{
    for (size_t b = 0; b < 6; b++) {
        const char *const settings[] = {box_names[b], "gbm-norm=init", "beta=0.3", NULL};
        run whole, part;
        CHECK_OK(start(&whole, BILSTM, settings, true));
        for (int i = 0; i < 6; i++)
            run_step(&whole, 1e-2);
        CHECK_OK(start(&part, BILSTM, settings, true));
        size_t n, same;
        real *from, *to;
        CHECK_OK(defense_gbm.saved(whole.l.d[0].state, &from, &n));
        CHECK_OK(defense_gbm.saved(part.l.d[0].state, &to, &same));
        CHECK_EQ(n, same);
        memcpy(to, from, n * sizeof *to);
        memcpy(part.m->value, whole.m->value, part.m->n_values * sizeof(real));
        part.step = whole.step;
        for (int i = 0; i < 6; i++) {
            const double a = run_step(&whole, 1e-2), c = run_step(&part, 1e-2);
            CHECK(a == c);
        }
        run_end(&whole);
        run_end(&part);
    }
}

TEST(what_cannot_be_is_refused)
{
    run x;
    CHECK_FAILS(start(&x, BILSTM, (const char *const[]){"gbm-boxes=s+o", NULL}, false), STET_EUSAGE,
                "--synonyms");
    run_end(&x);
    CHECK_FAILS(start(&x, BILSTM, (const char *const[]){"gbm-of=gain", NULL}, false), STET_EUSAGE,
                "--synonyms");
    run_end(&x);
    CHECK_FAILS(start(&x, 0, (const char *const[]){"gbm-of=rho", NULL}, false), STET_EUSAGE,
                "bilstm");
    run_end(&x);
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    for (int kind = next_bounded(0); kind < SMALL_KINDS; kind = next_bounded(kind + 1)) {
        run x;
        const char *const settings[] = {kind == BILSTM ? "gbm-boxes=s+l" : "gbm-boxes=auto", NULL};
        CHECK_OK(start(&x, kind, settings, true));
        CHECK_LE(4, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "gbm", settings})));
        run_end(&x);
    }
}
