/* PGD-K, FreeLB, FreeLB++ and TA-VAT: the golden cases, and steps on small models. */
#include "defense/embedding_adv.h"
#include "defense/tavat.h"

#include "alloc_fail.h"
#include "defense_run.h"
#include "golden_net.h"
#include "tensor/host/ranges.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the golden file ---------------------------------------------------------------------- */

static adv_cfg cfg_of(const json_t *c)
{
    const char *norm = json_string_value(at_key(c, "norm"));
    return (adv_cfg){.steps = json_integer_value(at_key(c, "K")),
                     .step = json_number_value(at_key(c, "step")),
                     .start = json_number_value(at_key(c, "mag")),
                     .radius = json_number_value(at_key(c, "eps")),
                     .norm = strcmp(norm, "l2") == 0     ? ADV_L2
                             : strcmp(norm, "linf") == 0 ? ADV_LINF
                                                         : ADV_TOKEN};
}

/* The start that the file draws. */
static node *start_of(net_step *s, const json_t *file, const adv_cfg *c)
{
    const size_t T = s->x.seq.n_tokens, D = s->m->dim;
    real drawn[NET_MOST], *u = arena_new(&s->mem, real, T * D);
    CHECK(u);
    CHECK_EQ(numbers(at_key(at_key(file, "draws"), "u"), drawn), T * D);
    batch_order(s, D, drawn, u);
    return adv_begin(&s->t, c, &s->own.seq, tape_numbers(&s->t, shape2(T, D), u));
}

/* A step of the defence from that start; its loss. */
static double step_from(net_step *s, adv_state *state, node *delta)
{
    double loss;
    s->v.logits = adv_forward(state, &s->v, &s->own, delta);
    node *y = op_cross_entropy(&s->t, s->v.logits, s->x.label);
    if (state->free)
        y = defense_freelb.loss(state, &s->v, y);
    CHECK_OK(tape_backward(&s->t, y));
    CHECK_OK(tape_read(&s->t, &y, 1, &loss));
    return loss;
}

/* Every point of the way: where it is, its loss and its gradient there. */
static void check_way(const json_t *file, const json_t *c, const char *grad)
{
    const adv_cfg cfg = cfg_of(c);
    const json_t *steps = at_key(c, "steps");
    net_step s;
    net_step_begin(&s, file);
    node *delta = start_of(&s, file, &cfg),
         *at = op_gather(&s.t, s.p.rows, s.x.seq.row, s.x.seq.n_tokens);
    const double part = strcmp(grad, "grad") == 0 ? 1 : 1 / (double)cfg.steps;
    for (size_t k = 0; k < json_array_size(steps); k++) {
        const json_t *point = json_array_get(steps, k);
        probe p = {.x = &s.own, .rows = op_add(&s.t, at, delta)};
        check_words(&s, "delta", at_key(point, "delta"), s.m->dim, delta->value);
        CHECK_OK(probe_run(&s.v, &p));
        CHECK_NEAR(p.value->value[0], json_number_value(at_key(point, "loss")), value_tolerance);
        node *g = op_scale(&s.t, p.drows, part);
        if (json_object_get(point, grad)) /* where it is not, the next delta tells */
            check_words(&s, grad, at_key(point, grad), s.m->dim, g->value);
        delta = adv_move(&s.t, &cfg, &s.own.seq, delta, g);
    }
    if (json_object_get(c, "final"))
        check_words(&s, "final delta", at_key(at_key(c, "final"), "delta"), s.m->dim, delta->value);
    net_step_end(&s);
}

TEST(pgd_is_that_of_the_golden_file)
{
    static const char *const cases[] = {"sentence_l2_projected", "sentence_l2_free", "linf",
                                        "token_l2"};
    json_t *file = golden_defenses();
    for (size_t i = 0; i < 4; i++) {
        const json_t *c = at_key(at_key(file, "pgd"), cases[i]), *final = at_key(c, "final");
        adv_state state = {.cfg = cfg_of(c)};
        net_step s;
        net_step_begin(&s, file);
        const double loss = step_from(&s, &state, start_of(&s, file, &state.cfg));
        CHECK_NEAR(loss, json_number_value(at_key(final, "loss")), value_tolerance);
        check_grad(&s, at_key(final, "grad"));
        CHECK_NEAR(state.first->value[0],
                   json_number_value(at_key(json_array_get(at_key(c, "steps"), 0), "loss")),
                   value_tolerance);
        net_step_end(&s);
        check_way(file, c, "grad");
    }
    json_decref(file);
}

TEST(freelb_is_that_of_the_golden_file)
{
    static const char *const cases[] = {"freelb", "freelb_pp"};
    json_t *file = golden_defenses();
    for (size_t i = 0; i < 2; i++) {
        const json_t *c = at_key(at_key(file, "freelb"), cases[i]);
        adv_state state = {.cfg = cfg_of(c), .free = true};
        net_step s;
        net_step_begin(&s, file);
        const double loss = step_from(&s, &state, start_of(&s, file, &state.cfg));
        CHECK_NEAR(loss, json_number_value(at_key(c, "objective")), value_tolerance);
        check_grad(&s, at_key(c, "grad"));
        net_step_end(&s);
    }
    check_way(file, at_key(at_key(file, "freelb"), "freelb"), "grad_delta");
    const json_t *plain = at_key(at_key(file, "freelb"), "standard");
    adv_state one = {.cfg = {.steps = 1, .step = 0.3}, .free = true};
    net_step s;
    net_step_begin(&s, file);
    const double loss = step_from(&s, &one, tape_zeros(&s.t, shape2(s.x.seq.n_tokens, 3)));
    CHECK_NEAR(loss, json_number_value(at_key(plain, "loss")), value_tolerance);
    check_grad(&s, at_key(plain, "grad"));
    net_step_end(&s);
    json_decref(file);
}

/* The table of the file, moves of both parts, the sum of the losses, what the table gathers. */
TEST(ta_vat_is_that_of_the_golden_file)
{
    json_t *file = golden_defenses();
    const json_t *c = at_key(file, "tavat"), *after = at_key(c, "D_after");
    const adv_cfg cfg = {.steps = json_integer_value(at_key(c, "K")),
                         .step = json_number_value(at_key(c, "step")),
                         .start = json_number_value(at_key(c, "mag")),
                         .radius = json_number_value(at_key(c, "eps"))};
    const json_t *second = json_array_get(at_key(c, "steps"), 1);
    net_step s;
    net_step_begin(&s, file);
    tavat_state *state = NULL;
    CHECK_OK(defense_tavat.start(&cfg, s.m, NULL, (void **)&state));
    CHECK_EQ(numbers(at_key(c, "D"), state->table), s.m->n_words * s.m->dim);
    node *of_words;
    CHECK_OK(tavat_begin(state, &s.v, &of_words));
    s.v.logits = tavat_forward(state, &s.v, &s.own, start_of(&s, file, &cfg), of_words);
    CHECK(s.v.logits);
    check_words(&s, "delta_s", at_key(second, "delta_s"), s.m->dim, state->of_text->value);
    check_words(&s, "delta_t", at_key(second, "delta_t"), s.m->dim, state->of_words->value);
    node *y = defense_tavat.loss(state, &s.v, op_cross_entropy(&s.t, s.v.logits, s.x.label));
    CHECK_OK(tape_backward(&s.t, y));
    CHECK_NEAR(y->value[0], json_number_value(at_key(c, "loss_sum")), value_tolerance);
    check_grad(&s, at_key(c, "grad"));
    const char *word;
    json_t *row;
    size_t n = 0;
    json_object_foreach((json_t *)after, word, row)
    {
        check_numbers("D_after", row, state->table + (size_t)atoi(word) * s.m->dim,
                      gradient_tolerance);
        n++;
    }
    CHECK_EQ(n, 7);
    defense_tavat.end(state);
    net_step_end(&s);
    json_decref(file);
}

TEST(without_a_gradient_nothing_moves)
{
    json_t *file = golden_defenses();
    const adv_cfg c = {.step = 0.3, .start = 0.5};
    adv_state state = {.cfg = {.steps = 3, .step = 0.3, .start = 0.5}};
    net_step s;
    net_step_begin(&s, file);
    real *w2 = model_value(s.m, 2);
    memset(w2, 0, 6 * sizeof *w2);
    node *delta = start_of(&s, file, &c);
    const double loss = step_from(&s, &state, delta);
    CHECK_NEAR(loss,
               json_number_value(at_key(at_key(at_key(file, "pgd"), "zero_gradient"), "loss")),
               value_tolerance);
    node *moved = adv_move(&s.t, &c, &s.own.seq, delta, tape_zeros(&s.t, delta->shape));
    CHECK(memcmp(moved->value, delta->value, s.x.seq.n_tokens * 3 * sizeof(real)) == 0);
    net_step_end(&s);
    json_decref(file);
}

/* The numbers of section 8.5, worked out by hand. */
TEST(a_step_and_a_start_by_hand)
{
    arena mem = {0};
    tape t;
    const uint32_t start[] = {0, 1}, row[] = {0};
    const seq_index seq = {
        .n_texts = 1, .n_tokens = 1, .n_rows = 1, .max_len = 1, .start = start, .row = row};
    real delta[] = {(real)0.03, (real)0.04}, g[] = {3, 4}, u[16];
    tape_init(&t, &mem, NULL, true);
    node *d = tape_numbers(&t, shape2(1, 2), delta), *gn = tape_numbers(&t, shape2(1, 2), g);
    const node *free = adv_move(&t, &(adv_cfg){.step = 0.1}, &seq, d, gn),
               *ball = adv_move(&t, &(adv_cfg){.step = 0.1, .radius = 0.1}, &seq, d, gn);
    CHECK_NEAR(free->value[0], 0.09, 1e-7);
    CHECK_NEAR(free->value[1], 0.12, 1e-7);
    CHECK_NEAR(ball->value[0], 0.06, 1e-7);
    CHECK_NEAR(ball->value[1], 0.08, 1e-7);
    const uint32_t four[] = {0, 4};
    for (int i = 0; i < 16; i++)
        u[i] = i % 2 ? 1 : -1;
    const seq_index long_seq = {.n_texts = 1, .n_tokens = 4, .n_rows = 4, .start = four};
    const node *began =
        adv_begin(&t, &(adv_cfg){.start = 0.5}, &long_seq, tape_numbers(&t, shape2(4, 4), u));
    CHECK_NEAR(began->value[0], -0.125, 1e-7);
    CHECK_NEAR(began->value[15], 0.125, 1e-7);
    arena_deinit(&mem);
}

/* Words whose perturbations are 0.2 and 0.1 long: factors 1 and 0.5. */
TEST(words_shrink_by_their_share_of_the_longest_by_hand)
{
    arena mem = {0};
    tape t;
    const uint32_t start[] = {0, 2}, row[] = {0, 1};
    const seq_index seq = {
        .n_texts = 1, .n_tokens = 2, .n_rows = 2, .max_len = 2, .start = start, .row = row};
    const real words[] = {(real)0.12, (real)0.16, (real)-0.08, (real)0.06}, g[] = {1, 2, 3, 4};
    tape_init(&t, &mem, NULL, true);
    const node *parts =
        tavat_move(&t, &(adv_cfg){.step = 0}, &seq, tape_zeros(&t, shape2(2, 2)),
                   tape_numbers(&t, shape2(2, 2), words), tape_numbers(&t, shape2(2, 2), g));
    CHECK_OK(tape_status(&t));
    const double want[] = {0, 0, 0.12, 0.16, 0, 0, -0.04, 0.03};
    for (size_t i = 0; i < 8; i++)
        CHECK_NEAR(parts->value[i], want[i], 1e-7);
    CHECK_NEAR(hypot((double)parts->value[2], (double)parts->value[3]), 0.2, 1e-7);
    CHECK_NEAR(hypot((double)parts->value[6], (double)parts->value[7]), 0.05, 1e-7);
    arena_deinit(&mem);
}

/* A word that stands twice in a text, with (0.1, 0) and (0.2, 0.1) at the end: its row gets their sum. */
TEST(a_word_gathers_from_all_its_places_by_hand)
{
    json_t *file = golden_defenses();
    enum { TWICE = 5, D = 3 };
    const adv_cfg cfg = {.steps = 1, .step = 0.3, .start = 0.5};
    net_step s;
    net_step_begin(&s, file);
    CHECK_EQ(s.m->dim, D);
    tavat_state *state = NULL;
    CHECK_OK(defense_tavat.start(&cfg, s.m, NULL, (void **)&state));
    const size_t T = s.x.seq.n_tokens, n = s.m->n_words * D;
    real before[NET_MOST], words[NET_MOST] = {0};
    memcpy(before, state->table, n * sizeof *before);
    static const double at[2][D] = {{0.1, 0, 0}, {0.2, 0.1, 0}};
    size_t seen = 0;
    for (size_t i = s.own.seq.start[0]; i < s.own.seq.start[1]; i++)
        for (size_t d = 0; s.own.word[s.own.seq.row[i]] == TWICE && d < D; d++) {
            CHECK(seen / D < 2);
            words[i * D + d] = (real)at[seen++ / D][d];
        }
    CHECK_EQ(seen, 2 * D);
    CHECK(tavat_forward(state, &s.v, &s.own, tape_zeros(&s.t, shape2(T, D)),
                        tape_numbers(&s.t, shape2(T, D), words)));
    static const double more[D] = {0.3, 0.1, 0};
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(state->table[i] - before[i], i / D == TWICE ? more[i % D] : 0, 1e-6);
    defense_tavat.end(state);
    net_step_end(&s);
    json_decref(file);
}

/* However many threads draw: entry i is number i of the stream. */
TEST(noise_is_that_of_one_stream)
{
    enum { MANY = 3 * RANGE_ELEMENTS + 5 };
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, false);
    rng r = rng_stream(7, STREAM_DEFENSE, 3);
    const node *n = adv_noise(&t, shape2(MANY, 1), r);
    CHECK(n);
    for (size_t i = 0; i < MANY; i++)
        CHECK(n->value[i] == (real)rng_range(&r, -1, 1));
    arena_deinit(&mem);
}

/* ---- steps -------------------------------------------------------------------------------- */

static void same_gradients(const run *a, const run *b, double tolerance)
{
    for (size_t i = 0; i < a->m->n_values; i++)
        CHECK_NEAR((double)a->grad[i], (double)b->grad[i], tolerance);
}

/* With dropout, too: all passes of a step have the same draws. */
TEST(without_moves_it_is_plain_training)
{
    static const struct {
        const char *name;
        const char *settings[4];
    } still[] = {{"pgd", {"pgd-steps=0", "pgd-start=0"}},
                 {"pgd", {"pgd-step=0", "pgd-start=0"}},
                 {"freelb", {"freelb-steps=1", "freelb-start=0"}},
                 {"freelb", {"freelb-step=0", "freelb-start=0"}},
                 {"freelb++", {"freelb++-step=0", "freelb++-start=0"}},
                 {"ta-vat", {"ta-vat-steps=1", "ta-vat-start=0"}}};
    for (int kind = 0; kind < SMALL_KINDS; kind++)
        for (size_t i = 0; i < sizeof still / sizeof *still; i++) {
            run plain, x;
            CHECK_OK(run_start(&plain, kind, 3, "standard", NULL, false));
            CHECK_OK(run_start(&x, kind, 3, still[i].name, still[i].settings, false));
            plain.dropout = x.dropout = 0.5;
            CHECK_NEAR(run_step(&plain, 0), run_step(&x, 0), 1e-5);
            same_gradients(&plain, &x, 1e-5);
            run_end(&plain);
            run_end(&x);
        }
}

/* Nothing to divide by: the words' parts are zero, and so is the longest of them. Two points with the same
 * loss, which are added. */
TEST(ta_vat_from_nothing_stays_where_it_is)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run plain, x;
        CHECK_OK(run_start(&plain, kind, 3, "standard", NULL, false));
        CHECK_OK(run_start(&x, kind, 3, "ta-vat",
                           SETTINGS("ta-vat-steps=2", "ta-vat-step=0", "ta-vat-start=0"), false));
        plain.dropout = x.dropout = 0.5;
        const double loss = run_step(&x, 0);
        CHECK(isfinite(loss));
        CHECK_NEAR(loss, 2 * run_step(&plain, 0), 1e-5);
        for (size_t i = 0; i < x.m->n_values; i++) {
            CHECK(isfinite((double)x.grad[i]));
            CHECK_NEAR((double)x.grad[i], 2 * (double)plain.grad[i], 2e-5);
        }
        run_end(&plain);
        run_end(&x);
    }
}

TEST(moves_raise_the_loss_and_training_answers)
{
    static const char *const names[] = {"pgd", "freelb", "freelb++"};
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < 3; i++) {
            run x;
            CHECK_OK(run_start(&x, kind, 2, names[i], NULL, false));
            const double loss = run_step(&x, 0.1);
            const double first = metric(&x, "adv_first"), last = metric(&x, "ce");
            CHECK(first < last && first < loss + 1e-6 && loss < last + 1e-6);
            for (int k = 0; k < 60; k++)
                run_step(&x, 0.1);
            CHECK(run_step(&x, 0.1) < 0.8 * loss);
            run_end(&x);
        }
}

/* (1 - beta) of all its points and beta of the term: losses and gradients. */
TEST(a_growth_bound_takes_its_share_of_every_point)
{
    run both, free, plain, bound;
    CHECK_OK(run_start(&both, CNN, 2, "freelb,gbm", SETTINGS("beta=0.25"), false));
    CHECK_OK(run_start(&bound, CNN, 2, "gbm", SETTINGS("beta=0.25"), false));
    CHECK_OK(run_start(&free, CNN, 2, "freelb", NULL, false));
    CHECK_OK(run_start(&plain, CNN, 2, "standard", NULL, false));
    const double together = run_step(&both, 0), term = run_step(&bound, 0),
                 points = run_step(&free, 0), clean = run_step(&plain, 0);
    CHECK_NEAR(together, term + 0.75 * (points - clean), 1e-4);
    for (size_t i = 0; i < both.m->n_values; i++)
        CHECK_NEAR(both.grad[i],
                   (double)bound.grad[i] + 0.75 * (double)(free.grad[i] - plain.grad[i]), 1e-4);
    run_end(&both), run_end(&free), run_end(&plain), run_end(&bound);
}

TEST(a_loss_that_is_changed_already_is_refused)
{
    static const char *const names[] = {"freelb", "freelb++", "ta-vat", "infobert", "dne"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        run x;
        arena mem = {0};
        double loss;
        char list[32];
        snprintf(list, sizeof list, "gbm,%s", names[i]);
        CHECK_OK(run_start(&x, CNN, 2, list, NULL, true));
        CHECK_FAILS(run_loss(&x, &x.batches, &x.l, &mem, &loss), STET_EUSAGE,
                    "list it before defences that change the loss");
        CHECK(strstr(stet_last_error(), names[i]) != NULL);
        arena_deinit(&mem);
        run_end(&x);
    }
}

TEST(two_of_them_are_refused)
{
    defense_list l;
    CHECK_FAILS(defense_list_init(&l, "pgd,freelb++", NULL), STET_EUSAGE,
                "'pgd' and 'freelb++' cannot be combined");
    defense_list_end(&l);
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "freelb", NULL, false));
    CHECK_LE(5, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "freelb", NULL})));
    run_end(&x);
}
