/* Training with growth bounds: the term is in the loss with its gradient, boxes are kept, mistakes
 * are named. */
#include "alloc_fail.h"
#include "bound/gbm_ops.h"
#include "defense/defenses.h"
#include "model/small_model.h"
#include "tensor/optim.h"
#include "test.h"

enum { TEXTS = 6, LEN = 9, BILSTM = 1 };

static stet_corpus small_corpus(uint64_t seed)
{
    static uint32_t ids[TEXTS * LEN];
    static uint64_t start[TEXTS + 1];
    static int32_t label[TEXTS];
    rng r = rng_stream(seed, STREAM_TEST, 1);
    for (size_t i = 0; i < TEXTS * LEN; i++)
        ids[i] = (uint32_t)(STET_UNK + rng_below(&r, SMALL_WORDS + 1));
    for (size_t i = 0; i <= TEXTS; i++)
        start[i] = i * LEN;
    for (size_t i = 0; i < TEXTS; i++)
        label[i] = (int32_t)(i % 2);
    return (stet_corpus){TEXTS, TEXTS * LEN, 2, ids, start, label};
}

static stet_subst *small_subst(void)
{
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&b));
    for (int i = 0; i + 3 < SMALL_WORDS; i += 2) {
        char word[8], one[8], two[8];
        snprintf(word, sizeof word, "w%d", i);
        snprintf(one, sizeof one, "w%d", i + 1);
        snprintf(two, sizeof two, "w%d", i + 3);
        CHECK_OK(stet_subst_add_list(b, word, (const char *const[]){one, two}, 2));
    }
    CHECK_OK(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    return s;
}

/* A run of the defence on one model. */
typedef struct run {
    const defense_desc *d;
    void *cfg, *state;
    model *m;
    stet_subst *subst;
    batcher batches;
    real *grad;
    uint64_t step;
} run;

static stet_status run_start(run *x, int kind, const char *const *settings, bool synonyms)
{
    *x = (run){.d = defense_find("gbm"), .m = small_model(kind, 2, 7)};
    CHECK(x->d);
    x->cfg = mem_zalloc(1, x->d->cfg_size);
    CHECK_OK(stet_opt_defaults(x->d->opts, x->cfg));
    for (; settings[0]; settings += 2)
        CHECK_OK(stet_opt_set(x->d->opts, x->cfg, settings[0], settings[1]));
    x->subst = synonyms ? small_subst() : NULL;
    CHECK_OK(batcher_init(&x->batches, x->m));
    x->grad = mem_zalloc(x->m->n_values, sizeof *x->grad);
    CHECK(x->grad);
    return x->d->start(x->cfg, x->m, x->subst, &x->state);
}

static void run_end(run *x)
{
    x->d->end(x->state);
    mem_free(x->cfg);
    mem_free(x->grad);
    batcher_deinit(&x->batches);
    stet_subst_free(x->subst);
    stet_model_free(x->m);
}

/* One step: the loss, its gradient in x->grad, the parameters moved by -rate times it. */
static double run_step(run *x, double rate)
{
    static const uint32_t pick[TEXTS] = {0, 1, 2, 3, 4, 5};
    const stet_corpus c = small_corpus(2);
    arena mem = {0};
    batch b;
    tape t;
    node *params[MAX_PARAMS];
    memset(x->grad, 0, x->m->n_values * sizeof *x->grad);
    CHECK_OK(batch_make(&x->batches, x->m, &c, pick, TEXTS, &mem, &b));
    tape_init(&t, &mem, true);
    CHECK_OK(model_nodes(x->m, &t, x->grad, params));
    pass p = {.t = &t,
              .param = params,
              .rows = tape_constant(&t, shape2(b.seq.n_rows, x->m->dim), b.rows),
              .seq = &b.seq};
    const step_view v = {.m = x->m,
                         .p = &p,
                         .x = &b,
                         .logits = model_forward(x->m, &p),
                         .step = x->step++,
                         .total_steps = 100,
                         .seed = 5};
    node *y = x->d->loss(x->state, &v);
    CHECK_OK(tape_backward(&t, y));
    const double loss = (double)y->value[0];
    arena_deinit(&mem);
    for (size_t i = 0; i < x->m->n_values; i++)
        x->m->value[i] -= (real)rate * x->grad[i];
    return loss;
}

static double metric(const run *x, const char *name)
{
    step_metrics m = {.n = 0};
    x->d->metrics(x->state, &m);
    for (size_t i = 0; i < m.n; i++)
        if (strcmp(m.v[i].name, name) == 0)
            return m.v[i].value;
    return NAN;
}

TEST(the_loss_is_the_weighted_sum_of_its_two_terms)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, (const char *const[]){"beta", "0.25", NULL}, false));
        const double loss = run_step(&x, 0), ce = metric(&x, "ce"), gbm = metric(&x, "gbm");
        CHECK_NEAR(loss, 0.75 * ce + 0.25 * gbm, 1e-5 * loss);
        CHECK(gbm > 0);
        const double h = metric(&x, "gbm_h"), c = metric(&x, "gbm_c");
        CHECK(isnan(h) == (kind == 0) && isnan(c) == (kind != BILSTM));
        CHECK_NEAR(gbm, metric(&x, "gbm_v") + (isnan(h) ? 0 : h) + (isnan(c) ? 0 : c), 1e-4 * gbm);
        run_end(&x);
    }
}

TEST(norms_divide_by_entries_or_by_the_first_value)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, (const char *const[]){"beta", "1", "gbm-norm", "init", NULL},
                           false));
        CHECK_NEAR(run_step(&x, 0.01), 1, 1e-5);
        const double later = run_step(&x, 0);
        CHECK(later > 0 && later < 1); /* a step along the true gradient makes it smaller */
        run_end(&x);
        CHECK_OK(run_start(&x, kind, (const char *const[]){"beta", "1", "gbm-norm", "mean", NULL},
                           false));
        const double mean = run_step(&x, 0);
        CHECK_NEAR(mean * gbm_entries(x.m, GBM_OF_LAYER), metric(&x, "gbm"),
                   1e-4 * metric(&x, "gbm"));
        run_end(&x);
    }
}

/* The same steps with and without the term. */
TEST(training_with_the_term_makes_the_bound_fall)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++)
        for (int logits = 0; logits < 2; logits++) {
            double last[2];
            for (int with = 0; with < 2; with++) {
                run x;
                CHECK_OK(
                    run_start(&x, kind,
                              (const char *const[]){"beta", with ? "0.5" : "0", "gbm-norm", "init",
                                                    "gbm-of", logits ? "logits" : "layer", NULL},
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

static const char *const box_names[] = {"t+o", "t+i", "t+l", "s+o", "s+i", "s+l"};

TEST(every_kind_of_box_and_term_works)
{
    static const char *const ofs[] = {"layer", "logits", "gain", "rho"};
    double term[6][4];
    for (size_t b = 0; b < 6; b++)
        for (size_t of = 0; of < 4; of++) {
            run x;
            CHECK_OK(run_start(&x, BILSTM,
                               (const char *const[]){"gbm-boxes", box_names[b], "gbm-of", ofs[of],
                                                     "gbm-words", "3", "gbm-horizon", "5",
                                                     "gbm-rho0", "0.1", "beta", "0.5", NULL},
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
        const char *const settings[] = {"gbm-boxes", box_names[b], "gbm-norm", "init",
                                        "beta",      "0.3",        NULL};
        run whole, part;
        CHECK_OK(run_start(&whole, BILSTM, settings, true));
        for (int i = 0; i < 6; i++)
            run_step(&whole, 1e-2);
        CHECK_OK(run_start(&part, BILSTM, settings, true));
        size_t n, same;
        const real *from = whole.d->saved(whole.state, &n);
        real *to = part.d->saved(part.state, &same);
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
    CHECK_FAILS(run_start(&x, BILSTM, (const char *const[]){"gbm-boxes", "s+o", NULL}, false),
                STET_EUSAGE, "--synonyms");
    run_end(&x);
    CHECK_FAILS(run_start(&x, BILSTM, (const char *const[]){"gbm-of", "gain", NULL}, false),
                STET_EUSAGE, "--synonyms");
    run_end(&x);
    CHECK_FAILS(run_start(&x, 0, (const char *const[]){"gbm-of", "rho", NULL}, false), STET_EUSAGE,
                "bilstm");
    run_end(&x);
}

/* Start, one loss, end: memory may run out anywhere. */
static stet_status one_step(void *ctx)
{
    static const uint32_t pick[TEXTS] = {0, 1, 2, 3, 4, 5};
    const run *x = ctx;
    const stet_corpus c = small_corpus(2);
    arena mem = {0};
    batcher batches;
    void *state = NULL;
    stet_status st = batcher_init(&batches, x->m);
    if (st == STET_OK)
        st = x->d->start(x->cfg, x->m, x->subst, &state);
    batch b;
    tape t;
    node *params[MAX_PARAMS];
    tape_init(&t, &mem, true);
    if (st == STET_OK)
        st = batch_make(&batches, x->m, &c, pick, TEXTS, &mem, &b);
    if (st == STET_OK)
        st = model_nodes(x->m, &t, x->grad, params);
    if (st == STET_OK) {
        pass p = {.t = &t,
                  .param = params,
                  .rows = tape_constant(&t, shape2(b.seq.n_rows, x->m->dim), b.rows),
                  .seq = &b.seq};
        const step_view v = {
            .m = x->m, .p = &p, .x = &b, .logits = model_forward(x->m, &p), .seed = 5};
        st = tape_backward(&t, x->d->loss(state, &v));
    }
    x->d->end(state);
    batcher_deinit(&batches);
    arena_deinit(&mem);
    return st;
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        CHECK_OK(run_start(
            &x, kind, (const char *const[]){"gbm-boxes", kind == BILSTM ? "s+l" : "auto", NULL},
            true));
        CHECK_LE(4, ALLOC_FAIL_LOOP(one_step, &x));
        run_end(&x);
    }
}
