/* Soft labels: the loss is the mean over the labels that they mix, text by text. */
#include "alloc_fail.h"
#include "defense_run.h"

enum { MOST = TEXTS * 3 };

/* Text i is of class (i + by) % K: its own label for 0. */
static const real *turned(size_t by, size_t K, real *out)
{
    memset(out, 0, MOST * sizeof *out);
    for (size_t i = 0; i < TEXTS; i++)
        out[i * K + (i + by) % K] = 1;
    return out;
}

static const real *mixed(const real *a, const real *b, double weight, real *out)
{
    for (size_t i = 0; i < MOST; i++)
        out[i] = (real)((1 - weight) * (double)a[i] + weight * (double)b[i]);
    return out;
}

/* The loss of the first step; `term` NULL, or a number that the defence tells. */
static double first_loss(const char *names, const char *const *settings, size_t K,
                         const real *target, bool worst, const char *term)
{
    run x;
    CHECK_OK(run_start(&x, CNN, K, names, settings, true));
    x.target = target;
    x.target_in_worst = worst;
    const double loss = run_step(&x, 0.1), value = term ? metric(&x, term) : loss;
    run_end(&x);
    return value;
}

TEST(a_soft_label_that_is_sure_is_the_label)
{
    real own[MOST];
    for (size_t K = 2; K <= 3; K++)
        CHECK_NEAR(first_loss("standard", NULL, K, turned(0, K, own), false, NULL),
                   first_loss("standard", NULL, K, NULL, false, NULL), 1e-6);
}

TEST(the_loss_is_linear_in_the_soft_labels)
{
    real a[MOST], b[MOST], m[MOST];
    for (size_t K = 2; K <= 3; K++) {
        turned(0, K, a);
        turned(1, K, b);
        const double la = first_loss("standard", NULL, K, a, false, NULL),
                     lb = first_loss("standard", NULL, K, b, false, NULL),
                     lm = first_loss("standard", NULL, K, mixed(a, b, 0.3, m), false, NULL);
        CHECK(fabs(la - lb) > 0.01);
        CHECK_NEAR(lm, 0.7 * la + 0.3 * lb, 1e-6);
    }
}

TEST(gradients_follow_the_soft_labels)
{
    run x;
    real b[MOST];
    CHECK_OK(run_start(&x, CNN, 2, "standard", NULL, true));
    x.target = turned(1, 2, b); /* every label is the wrong one */
    const double before = run_step(&x, 0.5);
    for (int i = 0; i < 20; i++)
        run_step(&x, 0.5);
    CHECK(run_step(&x, 0) < 0.5 * before);
    x.target = NULL;
    CHECK(run_step(&x, 0) > before);
    run_end(&x);
}

/* All texts, or some of them in an order of their own: each keeps its row. */
TEST(the_worst_case_takes_them_where_it_is_asked_to)
{
    static const char *const shares[] = {"bound-share=1", "bound-share=0.5"};
    real own[MOST], other[MOST], m[MOST];
    for (size_t k = 0; k < 2; k++) {
        const char *const settings[] = {"kappa=0.5", "ramp=0", shares[k], NULL};
        const size_t K = 3;
        turned(0, K, own);
        turned(1, K, other);
        const double hard = first_loss("certified", settings, K, NULL, false, "worst");
        CHECK_NEAR(first_loss("certified", settings, K, own, true, "worst"), hard, 1e-6);
        CHECK_NEAR(first_loss("certified", settings, K, other, false, "worst"), hard, 1e-6);
        const double soft = first_loss("certified", settings, K, other, true, "worst");
        CHECK(fabs(soft - hard) > 0.01);
        CHECK_NEAR(first_loss("certified", settings, K, mixed(own, other, 0.25, m), true, "worst"),
                   0.75 * hard + 0.25 * soft, 1e-6);
    }
}

/* Texts that a defence adds have no soft label of their own. */
static stet_status add_copies(void *state, const step_view *v, step_texts *t)
{
    (void)state, (void)v;
    for (size_t i = 0; i < t->n_own; i++) {
        const stet_status st = texts_add(t, t->v[i].ids, t->v[i].n - 2, t->v[i].label);
        if (st != STET_OK)
            return st;
    }
    return STET_OK;
}

static const stet_opt no_opts[] = {STET_OPT_END};
static const defense_desc twice = {
    .name = "twice", .summary = "shorter copies", .opts = no_opts, .batch = add_copies};

TEST(added_texts_keep_their_label)
{
    real own[MOST];
    defense_register(&twice);
    CHECK_NEAR(first_loss("twice", NULL, 2, turned(0, 2, own), false, NULL),
               first_loss("twice", NULL, 2, NULL, false, NULL), 1e-6);
}

TEST(a_step_survives_every_failed_allocation)
{
    run x;
    real own[MOST];
    const char *const settings[] = {"ramp=0", NULL};
    CHECK_OK(run_start(&x, CNN, 2, "certified", settings, true));
    x.target = turned(0, 2, own);
    x.target_in_worst = true;
    scarce_run s = {&x, "certified", settings};
    CHECK_LE(5, ALLOC_FAIL_LOOP(scarce_step, &s));
    run_end(&x);
}
