/* tests/defense/defense_run.h - steps of a defence on a small model, without the training loop. */
#ifndef TESTS_DEFENSE_RUN_H
#define TESTS_DEFENSE_RUN_H

#include "defense/defenses.h"
#include "model/small_model.h"
#include "test.h"

enum { TEXTS = 6, LEN = 9, CNN = 0, BILSTM = 1, S4 = 2 };
static const uint32_t all_texts[TEXTS] = {0, 1, 2, 3, 4, 5};

static inline stet_corpus small_corpus(uint64_t seed, size_t n_classes)
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
        label[i] = (int32_t)(i % n_classes);
    return (stet_corpus){TEXTS, TEXTS * LEN, n_classes, ids, start, label};
}

static inline stet_subst *small_subst(void)
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

/* A run of some defences on one model. */
typedef struct run {
    defense_list l;
    model *m;
    stet_subst *subst;
    batcher batches;
    real *grad;
    uint64_t step, total_steps;
    double dropout;
    const real *target; /* (TEXTS, K) soft labels, or NULL */
    bool target_in_worst;
    step_metrics metrics; /* of the last step */
} run;

/* Settings are "name=value", NULL at the end. */
static inline stet_status run_start(run *x, int kind, size_t n_classes, const char *names,
                                    const char *const *settings, bool synonyms)
{
    *x = (run){.m = small_model(kind, n_classes, 7), .total_steps = 100};
    CHECK_OK(defense_list_init(&x->l, names, settings));
    x->subst = synonyms ? small_subst() : NULL;
    CHECK_OK(batcher_init(&x->batches, x->m));
    CHECK_OK(defense_list_parameters(&x->l, x->m, 5));
    x->grad = mem_zalloc(x->m->n_values, sizeof *x->grad);
    CHECK(x->grad);
    return defense_list_start(&x->l, x->m, x->subst);
}

static inline void run_end(run *x)
{
    defense_list_end(&x->l);
    mem_free(x->grad);
    batcher_deinit(&x->batches);
    stet_subst_free(x->subst);
    stet_model_free(x->m);
}

static inline step_view view_of(run *x, batcher *batches, arena *mem)
{
    return (step_view){.m = x->m,
                       .subst = x->subst,
                       .step = x->step,
                       .total_steps = x->total_steps,
                       .steps_per_epoch = 10,
                       .seed = 5,
                       .target = x->target,
                       .own = all_texts,
                       .target_in_worst = x->target_in_worst,
                       .mem = mem,
                       .batches = batches,
                       .grad = x->grad};
}

/* The loss of a batch of all texts, its gradient in x->grad. */
static inline stet_status run_loss(run *x, batcher *batches, defense_list *l, arena *mem,
                                   double *loss)
{
    const stet_corpus corpus = small_corpus(2, x->m->n_classes), *c = &corpus;
    const uint32_t *pick = all_texts;
    size_t n = TEXTS;
    batch b;
    tape t;
    pass p = {.t = &t};
    step_view v = view_of(x, batches, mem);
    v.p = &p;
    tape_init(&t, mem, NULL, true);
    memset(x->grad, 0, x->m->n_values * sizeof *x->grad);
    stet_status st = defense_list_batch(l, &v, &c, &pick, &n);
    if (st != STET_OK)
        return st;
    if (batch_make(batches, x->m, c, pick, n, mem, &b) != STET_OK)
        return STET_ENOMEM;
    if (pass_init(&p, x->m, &t, NULL, x->grad, &b) != STET_OK)
        return STET_ENOMEM;
    rng drops = rng_stream(5, STREAM_DROPOUT, x->step);
    p.dropout = x->dropout;
    p.stream = &drops;
    v.x = &b;
    node *y = defense_list_loss(l, &v);
    *loss = NAN;
    st = tape_backward(&t, y);
    store_letter numbers = {0};
    if (st == STET_OK)
        st = defense_list_metrics(l, &t, y, &numbers, &x->metrics);
    return st == STET_OK ? metrics_receive(t.store, &numbers, loss, &x->metrics) : st;
}

/* One step: the loss; parameters are moved by -rate times its gradient. */
static inline double run_step(run *x, double rate)
{
    arena mem = {0};
    double loss;
    CHECK_OK(run_loss(x, &x->batches, &x->l, &mem, &loss));
    for (size_t i = 0; i < x->m->n_values; i++)
        x->m->value[i] -= (real)rate * x->grad[i];
    step_view v = view_of(x, &x->batches, &mem);
    tape t;
    pass p = {.t = &t};
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(pass_params(&p, x->m, NULL, NULL));
    v.p = &p;
    CHECK_OK(defense_list_after_step(&x->l, &v));
    arena_deinit(&mem);
    x->step++;
    return loss;
}

static inline double metric(const run *x, const char *name)
{
    for (size_t i = 0; i < x->metrics.n; i++)
        if (strcmp(x->metrics.v[i].name, name) == 0)
            return x->metrics.v[i].value;
    return NAN;
}

/* For ALLOC_FAIL_LOOP: start, one loss, end, in memory that may run out anywhere. */
typedef struct scarce_run {
    run *x;
    const char *names;
    const char *const *settings;
} scarce_run;

static inline stet_status scarce_step(void *ctx)
{
    const scarce_run *s = ctx;
    arena mem = {0};
    batcher batches = {0};
    defense_list l;
    double loss;
    stet_status st = defense_list_init(&l, s->names, s->settings);
    if (st == STET_OK)
        st = batcher_init(&batches, s->x->m);
    if (st == STET_OK)
        st = defense_list_start(&l, s->x->m, s->x->subst);
    if (st == STET_OK)
        st = run_loss(s->x, &batches, &l, &mem, &loss);
    defense_list_end(&l);
    batcher_deinit(&batches);
    arena_deinit(&mem);
    return st;
}

#endif
