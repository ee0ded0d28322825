/* InfoBERT: the golden case, anchors, steps on small models. */
#include "defense/infobert.h"

#include "alloc_fail.h"
#include "defense_run.h"
#include "golden_net.h"

/* ---- the golden file ---------------------------------------------------------------------- */

/* Its texts stand in another order than the batch's, which falls by length. */
static const json_t *golden_case;
static const net_step *golden_step;

/* The place in the batch of a word of the file, and the other way round. */
static uint32_t place_of(uint32_t word)
{
    const net_step *s = golden_step;
    for (size_t b = 0; b < s->x.seq.n_texts; b++) {
        const uint64_t *start = s->texts.start + s->x.order[b];
        if (word >= start[0] && word < start[1])
            return s->x.seq.start[b] + (uint32_t)(word - start[0]);
    }
    return UINT32_MAX;
}

/* The pairs of the file are text by text; those of the batch, too, in its order. */
static void pair_places(uint32_t to[4])
{
    const json_t *anchors = at_key(json_array_get(at_key(golden_case, "steps"), 0), "anchors");
    uint32_t first[8] = {0};
    for (size_t b = 0; b < 3; b++)
        first[b + 1] = first[b] + (uint32_t)json_array_size(json_array_get(anchors, b));
    uint32_t at = 0;
    for (size_t b = 0; b < 3; b++) {
        const size_t text = golden_step->x.order[b];
        for (uint32_t i = first[text]; i < first[text + 1]; i++)
            to[i] = at++;
    }
}

static uint32_t number_at(const char *key, int64_t k, size_t i)
{
    return (uint32_t)json_integer_value(
        json_array_get(json_array_get(at_key(golden_case, key), (size_t)k), i));
}

static void golden_draw(const infobert_state *s, int64_t k, size_t T, size_t n,
                        const infobert_draws *to)
{
    (void)s;
    uint32_t place[4];
    pair_places(place);
    CHECK(n == 0 || n == 4);
    for (size_t i = 0; i < n; i++)
        to->order[i] = place[number_at("order", k, i)];
    for (size_t i = 0; n == 0 && i < T; i++)
        to->other[place_of((uint32_t)i)] = place_of(number_at("pi", k, i));
}

static void add_scorer(model *m, const json_t *scorer)
{
    static const char *const names[] = {"S1", "s1", "S2", "s2"};
    for (int i = 0; i < 4; i++)
        numbers(at_key(scorer, names[i]), model_value(m, (int)m->n_params + i));
}

TEST(it_is_that_of_the_golden_file)
{
    json_t *file = golden_defenses();
    const json_t *c = golden_case = at_key(file, "infobert"), *steps = at_key(c, "steps"),
                 *grad = at_key(c, "grad");
    infobert_cfg cfg = {.adv = {.steps = json_integer_value(at_key(c, "K")),
                                .step = json_number_value(at_key(c, "step")),
                                .start = json_number_value(at_key(c, "mag"))},
                        .keep = json_number_value(at_key(c, "beta")),
                        .share = json_number_value(at_key(c, "alpha")),
                        .low = 0.5,
                        .high = 0.9,
                        .hidden = 4};
    net_step s;
    net_step_begin_with(&s, file, &defense_infobert, &cfg);
    golden_step = &s;
    add_scorer(s.m, at_key(c, "scorer"));
    infobert_state *state = NULL;
    CHECK_OK(defense_infobert.start(&cfg, s.m, NULL, (void **)&state));
    state->draw = golden_draw;
    state->chunk = (size_t)json_integer_value(at_key(c, "chunk"));
    real drawn[NET_MOST], *u = arena_new(&s.mem, real, NET_MOST);
    CHECK_EQ(numbers(at_key(at_key(file, "draws"), "u"), drawn), s.x.seq.n_tokens * s.m->dim);
    batch_order(&s, s.m->dim, drawn, u);
    node *drawn_u = tape_numbers(&s.t, shape2(s.x.seq.n_tokens, s.m->dim), u);
    s.v.logits = infobert_forward(state, &s.v, &s.own,
                                  adv_begin(&s.t, &cfg.adv, &s.own.seq, drawn_u));
    CHECK_OK(tape_status(&s.t));
    node *ce = op_cross_entropy(&s.t, s.v.logits, s.x.label);
    const json_t *first = json_array_get(steps, 0), *last = json_array_get(steps, 1);
    CHECK_NEAR(ce->value[0], json_number_value(at_key(last, "ce")), value_tolerance);
    CHECK_NEAR(state->first->value[0],
               json_number_value(at_key(first, "ce")) +
                   cfg.keep * json_number_value(at_key(first, "U")),
               value_tolerance);
    CHECK_NEAR(state->last->value[0],
               cfg.keep * json_number_value(at_key(last, "U")) -
                   cfg.share * json_number_value(at_key(last, "I")),
               value_tolerance);
    node *y = defense_infobert.loss(state, &s.v, ce);
    CHECK_OK(tape_backward(&s.t, y));
    CHECK_NEAR(y->value[0], json_number_value(at_key(c, "objective")), value_tolerance);
    check_grad(&s, grad);
    static const char *const names[] = {"S1", "s1", "S2", "s2"};
    for (int i = 0; i < 4; i++)
        check_numbers(names[i], at_key(grad, names[i]),
                      s.grad + s.m->params[(int)s.m->n_params + i].first, gradient_tolerance);
    defense_infobert.end(state);
    net_step_end(&s);
    json_decref(file);
}

TEST(anchors_have_the_ranks_of_the_golden_file)
{
    json_t *file = golden_defenses();
    const infobert_cfg c = {.low = 0.5, .high = 0.9};
    const char *n;
    json_t *want;
    size_t cases = 0;
    json_object_foreach((json_t *)at_key(at_key(file, "infobert"), "anchor_ranks"), n, want)
    {
        real size[32];
        uint32_t got[32];
        const size_t words = (size_t)atoi(n);
        for (size_t i = 0; i < words; i++)
            size[i] = (real)i;
        CHECK_EQ(infobert_anchors(&c, size, 7, words, got), json_array_size(want));
        for (size_t i = 0; i < json_array_size(want); i++)
            CHECK_EQ(got[i], 7 + json_integer_value(json_array_get(want, i)));
        cases++;
    }
    CHECK_EQ(cases, 6);
    json_decref(file);
}

/* Two texts of one word, and a scorer of two units that each see one word beside its own text: scores
 * (2 0; 0 1), for softplus of -20 is nothing. */
TEST(what_is_shared_by_hand)
{
    static const char *const net =
        "{\"net\": {\"E\": [[1,0,0],[0,1,0]], \"W1\": [[20,0,0],[0,20,0],[0,0,20]],"
        " \"b1\": [0,0,0], \"W2\": [[1,2,0],[3,-1,0]], \"b2\": [0,0]},"
        " \"batch\": {\"ids\": [[0],[1]], \"y\": [0,1]}}";
    static const real first[] = {1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0}, shift[] = {-1, -1};
    json_t *file = json_loads(net, 0, NULL);
    CHECK(file);
    const infobert_cfg cfg = {.adv = {.steps = 1}, .share = 1, .low = 0, .high = 1, .hidden = 2};
    net_step s;
    net_step_begin_with(&s, file, &defense_infobert, &cfg);
    const int scorer = (int)s.m->n_params;
    memcpy(model_value(s.m, scorer), first, sizeof first);
    memcpy(model_value(s.m, scorer + 1), shift, sizeof shift);
    model_value(s.m, scorer + 2)[0] = (real)(20 + log(expm1(2))); /* softplus of the rest: 2 */
    model_value(s.m, scorer + 2)[1] = (real)(20 + log(expm1(1)));
    model_value(s.m, scorer + 3)[0] = -20;
    infobert_state *state = NULL;
    CHECK_OK(defense_infobert.start(&cfg, s.m, NULL, (void **)&state));
    CHECK(infobert_forward(state, &s.v, &s.own, tape_zeros(&s.t, shape2(2, 3))));
    CHECK_OK(tape_status(&s.t));
    CHECK_NEAR(-state->last->value[0], 0.473052, sizeof(real) == 4 ? 4e-6 : 1e-6);
    defense_infobert.end(state);
    net_step_end(&s);
    json_decref(file);
}

/* ---- steps -------------------------------------------------------------------------------- */

TEST(without_its_terms_it_is_freelb)
{
    static const char *const none[] = {"infobert-keep=0", "infobert-share=0", NULL};
    static const char *const same[] = {"freelb-step=0.04", "freelb-start=0.08", "freelb-radius=0",
                                       NULL};
    for (int kind = 0; kind < 3; kind++) {
        run a, b;
        CHECK_OK(run_start(&a, kind, 3, "infobert", none, false));
        CHECK_OK(run_start(&b, kind, 3, "freelb", same, false));
        a.dropout = b.dropout = 0.5;
        CHECK_NEAR(run_step(&a, 0), run_step(&b, 0), 1e-5);
        for (size_t i = 0; i < b.m->n_values; i++)
            CHECK_NEAR((double)a.grad[i], (double)b.grad[i], 1e-5);
        run_end(&a);
        run_end(&b);
    }
}

TEST(training_answers)
{
    for (int kind = 0; kind < 3; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, 2, "infobert", NULL, false));
        const double loss = run_step(&x, 0.1);
        for (int k = 0; k < 60; k++)
            run_step(&x, 0.1);
        CHECK(run_step(&x, 0.1) < 0.8 * loss);
        run_end(&x);
    }
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "infobert", NULL, false));
    CHECK_LE(5, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "infobert", NULL})));
    run_end(&x);
}
