/* The contract of a defence, one step at a time: every hook does what defense_impl.h says, alone and
 * in a list. Whole runs and prediction rules are in test_hook_runs.c. */
#include "alloc_fail.h"
#include "defense_run.h"
#include "toy_defenses.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void same_gradients(const run *a, const run *b, double tolerance)
{
    CHECK_EQ(a->m->n_values, b->m->n_values);
    for (size_t i = 0; i < a->m->n_values; i++)
        CHECK_NEAR((double)a->grad[i], (double)b->grad[i], tolerance);
}

/* ---- single steps ------------------------------------------------------------------------- */

TEST(absent_hooks_leave_the_step_as_it_is)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "standard,gbm", NULL, false));
    const stet_corpus corpus = small_corpus(2, 2), *c = &corpus;
    const uint32_t *pick = all_texts;
    size_t n = TEXTS;
    arena mem = {0};
    step_view v = view_of(&x, &x.batches, &mem);
    CHECK_OK(defense_list_batch(&x.l, &v, &c, &pick, &n));
    CHECK(c == &corpus && pick == all_texts && n == TEXTS && v.n_own == TEXTS);
    CHECK(x.m->rule == NULL && x.m->n_added == 0);
    CHECK_EQ(arena_save(&mem).used, 0);
    run_end(&x);
}

TEST(added_texts_are_part_of_the_batch)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run plain, copies, fewer;
        CHECK_OK(run_start(&plain, kind, 2, "standard", NULL, false));
        CHECK_OK(run_start(&copies, kind, 2, "drop", SETTINGS("drop=0"), false));
        CHECK_OK(run_start(&fewer, kind, 2, "drop", SETTINGS("drop=0.5"), false));
        /* each text twice: the same mean */
        const double loss = run_step(&plain, 0);
        CHECK_NEAR(run_step(&copies, 0), loss, 1e-5);
        same_gradients(&plain, &copies, 1e-5);
        const double one = run_step(&fewer, 0), two = run_step(&fewer, 0);
        CHECK(fabs(one - loss) > 1e-4 && fabs(two - one) > 1e-6); /* drawn anew at each step */
        run_end(&plain);
        run_end(&copies);
        run_end(&fewer);
    }
}

/* A defence after the others, to look at what they leave. */
static struct {
    size_t n_texts, n_own, added, unknown;
} seen;
static node *spy_loss(void *state, const step_view *v, node *base)
{
    (void)state;
    seen.n_texts = v->x->seq.n_texts;
    seen.n_own = v->n_own;
    seen.added = seen.unknown = 0;
    for (size_t b = 0; b < v->x->seq.n_texts; b++)
        seen.added += v->x->order[b] >= v->n_own;
    for (size_t i = 0; i < v->x->seq.n_tokens; i++)
        seen.unknown += v->x->word[v->x->seq.row[i]] == STET_UNK;
    CHECK_EQ(v->logits->shape.dim[0], seen.n_texts);
    return base;
}
static const defense_desc toy_spy = {
    .name = "spy", .summary = "looks", .opts = no_opts, .loss = spy_loss};

TEST(batch_hooks_are_asked_in_the_order_of_the_list)
{
    defense_register(&toy_spy);
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "drop,blank,spy", SETTINGS("drop=0"), false));
    run_step(&x, 0);
    CHECK(seen.n_texts == 2 * TEXTS && seen.n_own == TEXTS && seen.added == TEXTS);
    const size_t half = seen.unknown; /* copies were made of the words */
    run_end(&x);
    CHECK_OK(run_start(&x, CNN, 2, "blank,drop,spy", SETTINGS("drop=0"), false));
    run_step(&x, 0);
    CHECK_EQ(seen.unknown, 2 * TEXTS * LEN); /* copies were made of what was blank */
    CHECK(half < seen.unknown && half >= TEXTS * LEN);
    run_end(&x);
}

static struct {
    uint64_t batch[2], loss[2];
    size_t n_batch, n_loss;
} drawn;
static uint64_t first_draw(const step_view *v)
{
    rng r = step_stream(v);
    return rng_u64(&r);
}
static stet_status drawing_batch(void *state, const step_view *v, step_texts *t)
{
    (void)state, (void)t;
    drawn.batch[drawn.n_batch++] = first_draw(v);
    return STET_OK;
}
static node *drawing_loss(void *state, const step_view *v, node *base)
{
    (void)state;
    drawn.loss[drawn.n_loss++] = first_draw(v);
    return base;
}
static const defense_desc toy_draws = {.name = "draws",
                                       .summary = "draws",
                                       .opts = no_opts,
                                       .batch = drawing_batch,
                                       .loss = drawing_loss};
static const defense_desc toy_too = {.name = "too",
                                     .summary = "draws too",
                                     .opts = no_opts,
                                     .batch = drawing_batch,
                                     .loss = drawing_loss};

TEST(defences_of_a_list_draw_apart)
{
    defense_register(&toy_draws);
    defense_register(&toy_too);
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "draws,too", NULL, false));
    run_step(&x, 0);
    CHECK(drawn.n_batch == 2 && drawn.n_loss == 2);
    CHECK(drawn.batch[0] != drawn.batch[1]);
    CHECK(drawn.batch[0] == drawn.loss[0] && drawn.batch[1] == drawn.loss[1]);
    run_end(&x);
}

TEST(a_batch_hook_can_ask_for_gradients)
{
    defense_register(&toy_spy);
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x, y;
        CHECK_OK(run_start(&x, kind, 2, "strike,spy", NULL, false));
        const double loss = run_step(&x, 0);
        const size_t struck = seen.unknown;
        CHECK(seen.n_texts == 2 * TEXTS && seen.added == TEXTS);
        CHECK_OK(run_start(&y, kind, 2, "drop,spy", SETTINGS("drop=0"), false));
        CHECK(fabs(run_step(&y, 0) - loss) > 1e-5);
        CHECK(struck > seen.unknown && struck <= seen.unknown + TEXTS); /* one word a copy */
        run_end(&x);
        run_end(&y);
    }
}

/* Against differences, and against the gradient of the batch that shares its rows. */
TEST(a_probe_gives_the_gradient_of_every_position)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, 3, "standard", NULL, false));
        const stet_corpus c = small_corpus(2, 3);
        arena mem = {0};
        batch shared, own;
        CHECK_OK(batch_make(&x.batches, x.m, &c, all_texts, TEXTS, &mem, &shared));
        CHECK_OK(batch_spread(&shared, &mem, &own));
        CHECK_EQ(own.seq.n_rows, TEXTS * LEN);
        tape t;
        pass at = {.t = &t};
        tape_init(&t, &mem, NULL, false);
        step_view v = view_of(&x, &x.batches, &mem);
        v.p = &at;
        probe of_words = {.x = &shared}, of_places = {.x = &own};
        CHECK_OK(probe_run(&v, &of_words));
        CHECK_OK(probe_run(&v, &of_places));
        CHECK_NEAR(of_words.value->value[0], of_places.value->value[0], 1e-5);
        const size_t D = x.m->dim;
        real *sum = arena_znew(&mem, real, shared.seq.n_rows * D);
        for (size_t i = 0; i < own.seq.n_rows; i++)
            for (size_t k = 0; k < D; k++)
                sum[shared.seq.row[i] * D + k] += of_places.drows->value[i * D + k];
        for (size_t i = 0; i < shared.seq.n_rows * D; i++)
            CHECK_NEAR((double)sum[i], (double)of_words.drows->value[i], 1e-5);
        rng r = rng_stream(1, STREAM_TEST, 0);
        for (int k = 0; k < 20; k++) {
            const size_t i = rng_below(&r, own.seq.n_rows * D);
            const double h = 1e-2;
            double y[2];
            real *rows = of_places.at->value; /* on the host, and nobody else's */
            const real before = rows[i];
            for (int side = 0; side < 2; side++) {
                rows[i] = before + (real)(side ? h : -h);
                probe p = {.x = &own, .rows = of_places.at};
                CHECK_OK(probe_run(&v, &p));
                y[side] = (double)p.value->value[0];
            }
            rows[i] = before;
            CHECK_NEAR((y[1] - y[0]) / (2 * h), (double)of_places.drows->value[i], 2e-3);
        }
        for (size_t i = 0; i < x.m->n_values; i++)
            CHECK(x.grad[i] == 0); /* no weight, no gradient of the parameters */
        arena_deinit(&mem);
        run_end(&x);
    }
}

static node *twice(void *ctx, const pass *q, node *logits)
{
    return op_scale(q->t, op_cross_entropy(q->t, logits, ctx), 2);
}

TEST(a_probe_with_a_weight_is_part_of_the_steps_gradient)
{
    run x, y;
    CHECK_OK(run_start(&x, CNN, 2, "standard", NULL, false));
    CHECK_OK(run_start(&y, CNN, 2, "standard", NULL, false));
    const double loss = run_step(&y, 0);
    const stet_corpus c = small_corpus(2, 2);
    arena mem = {0};
    batch b;
    CHECK_OK(batch_make(&x.batches, x.m, &c, all_texts, TEXTS, &mem, &b));
    tape t;
    pass at_step = {.t = &t};
    tape_init(&t, &mem, NULL, false);
    step_view v = view_of(&x, &x.batches, &mem);
    v.p = &at_step;
    probe p = {.x = &b, .weight = 0.75}, q = {.x = &b, .weight = 0.125, .loss = twice};
    q.ctx = (void *)(uintptr_t)b.label;
    CHECK_OK(probe_run(&v, &p));
    CHECK_OK(probe_run(&v, &q)); /* 0.75 + 0.125 * 2 */
    CHECK_NEAR(p.value->value[0], loss, 1e-6);
    CHECK_NEAR(q.value->value[0], 2 * loss, 1e-6);
    same_gradients(&x, &y, 1e-6);
    for (size_t i = 0; i < b.seq.n_rows * x.m->dim; i++)
        CHECK_NEAR(2 * (double)p.drows->value[i], (double)q.drows->value[i], 1e-6);
    arena_deinit(&mem);
    run_end(&x);
    run_end(&y);
}

TEST(a_forward_pass_can_be_replaced)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run plain, none, some, more, free;
        CHECK_OK(run_start(&plain, kind, 2, "standard", NULL, false));
        CHECK_OK(run_start(&none, kind, 2, "push", SETTINGS("push=0"), false));
        CHECK_OK(run_start(&some, kind, 2, "push", SETTINGS("push=0.2"), false));
        CHECK_OK(run_start(&more, kind, 2, "push", SETTINGS("push=0.2", "push-steps=4"), false));
        const double loss = run_step(&plain, 0), pushed = run_step(&some, 0);
        CHECK_NEAR(run_step(&none, 0), loss, 1e-5);
        same_gradients(&plain, &none, 1e-5);
        if (small_kinds[kind].settings[0]) /* a sum of scores alone reads no vectors */
            CHECK(pushed > loss && run_step(&more, 0) > pushed);
        CHECK_NEAR(metric(&some, "before"), loss, 1e-5);
        CHECK_NEAR(metric(&some, "ce"), pushed, 1e-5);
        /* a mean over the points on the way, gradients included; without a step, of equal points */
        CHECK_OK(run_start(&free, kind, 2, "push",
                           SETTINGS("push=0", "push-steps=3", "push-free=yes"), false));
        CHECK_NEAR(run_step(&free, 0), loss / 4, 1e-5);
        same_gradients(&plain, &free, 1e-5);
        run_end(&plain), run_end(&none), run_end(&some), run_end(&more), run_end(&free);
    }
}

TEST(hooks_of_several_defences_compose)
{
    run x, y;
    CHECK_OK(
        run_start(&x, CNN, 2, "drop,push,gbm", SETTINGS("drop=0", "push=0", "beta=0.5"), false));
    CHECK_OK(run_start(&y, CNN, 2, "gbm", SETTINGS("beta=0.5"), false));
    CHECK_NEAR(run_step(&x, 0), run_step(&y, 0), 1e-4);
    same_gradients(&x, &y, 1e-4);
    run_end(&x);
    run_end(&y);
    CHECK_OK(run_start(&x, CNN, 2, "drop,certified", SETTINGS("drop=0.3", "ramp=0"), true));
    for (int i = 0; i < 5; i++)
        CHECK(isfinite(run_step(&x, 0.01)) && metric(&x, "worst") > 0);
    run_end(&x);
}

TEST(what_cannot_be_combined_is_named)
{
    defense_list l;
    CHECK_FAILS(
        defense_list_init(&l, "push,gbm,certified", NULL), STET_EUSAGE,
        "defences 'push' and 'certified' cannot be combined: both replace the forward pass");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "vote,reverse", NULL), STET_EUSAGE,
                "defences 'vote' and 'reverse' cannot be combined: both decide how the model");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "push,drop", SETTINGS("pus=1")), STET_EUSAGE,
                "defence 'push,drop' has no setting 'pus'; did you mean 'push'?");
    defense_list_end(&l);
    CHECK_OK(defense_list_init(&l, "smooth", NULL));
    CHECK_FAILS(defense_list_check(&l, NULL), STET_EUSAGE, "--smooth needs --synonyms");
    defense_list_end(&l);
}

TEST(a_defence_can_be_put_in_front)
{
    defense_list l;
    CHECK_OK(defense_list_init(&l, "gbm,drop", SETTINGS("beta=0.5", "drop=0.25")));
    CHECK_OK(defense_list_first(&l, "smooth", SETTINGS("smooth=3")));
    CHECK(l.n == 3 && l.d[0].desc == &defense_smooth && l.d[1].desc == &defense_gbm &&
          l.d[2].desc == &toy_drop);
    CHECK(defense_list_real(&l, "smooth") == 3 && defense_list_real(&l, "beta") == 0.5 &&
          defense_list_real(&l, "drop") == 0.25 && defense_list_real(&l, "no such") == 0);
    CHECK_OK(defense_list_first(&l, "smooth", SETTINGS("smooth=5"))); /* is there already */
    CHECK(l.n == 3 && defense_list_real(&l, "smooth") == 5);
    defense_list_end(&l);
}

TEST(tensors_are_added_and_frozen)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        model *plain = small_model(kind, 2, 7);
        CHECK_OK(run_start(&x, kind, 2, "scale", SETTINGS("target=-2"), false));
        CHECK_EQ(x.m->n_params, plain->n_params);
        CHECK_EQ(x.m->n_values, plain->n_values + 2);
        /* the network begins as it would without */
        CHECK(memcmp(x.m->value, plain->value, plain->n_values * sizeof(real)) == 0);
        const real *own = model_value(x.m, model_param_id(x.m, "scale.two"));
        CHECK(own[0] != own[1] && fabs((double)own[0]) < 1);
        for (int i = 0; i < 60; i++)
            run_step(&x, 0.1);
        CHECK_NEAR((double)own[0], -2, 1e-3);
        CHECK_NEAR((double)own[1], -2, 1e-3);
        const size_t n_first = shape_count(x.m->params[0].shape);
        CHECK(memcmp(x.m->value, plain->value, n_first * sizeof(real)) == 0);
        CHECK(memcmp(x.m->value + n_first, plain->value + n_first,
                     (plain->n_values - n_first) * sizeof(real)) != 0);
        stet_model_free(plain);
        run_end(&x);
    }
}

TEST(weights_can_be_changed_after_a_step)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 3, "clip", SETTINGS("clip-bias=0.001"), false));
    for (int i = 0; i < 10; i++) {
        run_step(&x, 0.1);
        for (int k = 0; k < 3; k++)
            CHECK(fabs((double)model_value(x.m, (int)x.m->n_params - 1)[k]) <=
                  0.0010001 * pow(0.99, i));
    }
    CHECK(metric(&x, "clipped") >= 9); /* as it was before the last step's clipping */
    run_end(&x);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Every toy but for the tensors, which would stay with the model from one use to the next. */
TEST(want_of_memory_in_a_hook_is_reported_and_nothing_leaks)
{
    run x;
    const char *const settings[] = {"push-steps=2", NULL};
    CHECK_OK(run_start(&x, CNN, 2, "strike,drop,blank,push,clip", settings, false));
    CHECK_LE(8, ALLOC_FAIL_LOOP(scarce_step,
                                &((scarce_run){&x, "strike,drop,blank,push,clip", settings})));
    run_end(&x);
}
