/* DNE: the golden climb and its loss, draws and ensemble by hand, steps on small models, the rule. */
#include "defense/dne.h"

#include "alloc_fail.h"
#include "defense_run.h"
#include "golden_net.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

#ifdef STET_DOUBLE
static const double tolerance = 1e-11;
#else
static const double tolerance = 2e-4; /* weights of slots that are nearly one-hot */
#endif

/* ---- the golden file ---------------------------------------------------------------------- */

/* The sets of the file, whose lists begin with the word itself. */
typedef struct golden_sets {
    word_sets s;
    uint32_t start[32], word[64], slot[32];
} golden_sets;

static void sets_of(const json_t *hull, size_t n_words, golden_sets *out)
{
    *out = (golden_sets){.s = {.n_words = n_words}};
    for (uint32_t w = 0; w < n_words; w++) {
        char key[16];
        snprintf(key, sizeof key, "%u", w);
        const json_t *list = json_array_get(json_object_get(hull, key), 0);
        out->start[w + 1] = out->start[w];
        for (size_t k = 1; k < json_array_size(list); k++)
            out->word[out->start[w + 1]++] = (uint32_t)json_integer_value(json_array_get(list, k));
    }
    out->s.start = out->start;
    out->s.word = out->word;
}

/* Numbers of every slot, from the order of the file (the word first) to that of the batch (last). */
static void slots_from(const net_step *s, const hulls *h, const json_t *file, real *out)
{
    for (size_t b = 0; b < s->x.seq.n_texts; b++)
        for (size_t i = s->x.seq.start[b]; i < s->x.seq.start[b + 1]; i++) {
            real v[16];
            const json_t *text = json_array_get(file, s->x.order[b]);
            const size_t n = numbers(json_array_get(text, i - s->x.seq.start[b]), v);
            CHECK_EQ(n, h->start[i + 1] - h->start[i]);
            for (size_t j = 0; j < n; j++)
                out[h->start[i] + j] = v[(j + 1) % n];
        }
}

static void check_slots(const net_step *s, const hulls *h, const char *what, const json_t *file,
                        const node *state, int column)
{
    real want[64];
    slots_from(s, h, file, want);
    for (size_t i = 0; i < h->n_slots; i++)
        if (!(fabs((double)(want[i] - state->value[i * HULL_STATE + (size_t)column])) <=
              tolerance * fmax(1, fabs((double)want[i]))))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", what, i,
                      (double)state->value[i * HULL_STATE + (size_t)column], (double)want[i]);
}

static void check_case(const json_t *file, const char *name)
{
    const json_t *c = at_key(file, "dne"), *of = at_key(c, name), *rounds = at_key(of, "rounds");
    net_step s;
    golden_sets sets;
    hulls h;
    dne_state d = {.cfg = {.step = json_number_value(at_key(of, "step")),
                           .rounds = json_integer_value(at_key(of, "iterations"))}};
    real eta[64], first[64 * HULL_STATE] = {0};
    net_step_begin(&s, file);
    sets_of(at_key(c, "hull"), s.m->n_words, &sets);
    CHECK_OK(hulls_make(&sets.s, &s.x, 63, sets.slot, &s.mem, &h));
    slots_from(&s, &h, at_key(c, "eta"), eta);
    for (size_t i = 0; i < s.x.seq.n_tokens; i++) {
        double most = 0;
        for (size_t j = h.start[i]; j < h.start[i + 1]; j++)
            most = fmax(most, (double)eta[j]);
        for (size_t j = h.start[i]; j < h.start[i + 1]; j++)
            first[j * HULL_STATE + HULL_W] = (real)(log((double)eta[j] + 1e-6) - log(most + 1e-6));
    }
    node *rows = pass_rows(&s.p, h.word, h.n_rows),
         *state = tape_numbers(&s.t, shape2(h.n_slots, HULL_STATE), first), *begin = state;
    /* each round alone, for what the file has of it */
    for (size_t k = 0; k + 1 < json_array_size(rounds); k++) {
        const json_t *at = json_array_get(rounds, k);
        const double weight = k ? 1 / (double)d.cfg.rounds : 1;
        check_slots(&s, &h, "logits", at_key(at, "logits"), state, HULL_W);
        probe p = {.x = &s.own, .rows = hull_points(&s.t, &h, state, rows)};
        CHECK_OK(probe_run(&s.v, &p));
        CHECK_NEAR(p.value->value[0], json_number_value(at_key(at, "loss")), tolerance);
        state = hull_climb(&s.t, d.cfg.step, weight, &h, state, rows, p.drows);
        if (json_object_get(at, "grad_logits"))
            check_slots(&s, &h, "grad_logits", at_key(at, "grad_logits"), state, HULL_GRAD);
    }
    check_slots(&s, &h, "last logits",
                at_key(json_array_get(rounds, json_array_size(rounds) - 1), "logits"), state,
                HULL_W);
    /* and as a step */
    s.learned.n = 0;
    rows = pass_rows(&s.p, h.word, h.n_rows);
    node *z = dne_forward(&d, &s.v, &s.own, &h, rows, begin);
    node *y = dne_loss(&d, &s.t, op_cross_entropy(&s.t, z, s.x.label));
    CHECK_OK(tape_backward(&s.t, y));
    CHECK_NEAR(y->value[0], json_number_value(at_key(of, "objective")), 10 * tolerance);
    static const char *const names[] = {"W1", "b1", "W2", "b2"};
    for (int i = 0; i < 4; i++)
        check_numbers(names[i], at_key(at_key(of, "grad"), names[i]), s.grad + s.m->params[i].first,
                      10 * tolerance);
    real of_table[NET_MOST];
    table_grad(&s, of_table);
    check_numbers("E", at_key(at_key(of, "grad"), "E"), of_table, 10 * tolerance);
    net_step_end(&s);
}

TEST(the_climb_and_the_loss_are_those_of_the_golden_file)
{
    json_t *file = golden_defenses();
    check_case(file, "step_10");
    check_case(file, "step_1");
    json_decref(file);
}

/* ---- by hand ------------------------------------------------------------------------------ */

TEST(sure_answers_count_more)
{
    const double p[] = {0.9, 0.1, 0.6, 0.4, 0.4, 0.6};
    double out[2];
    dne_ensemble(p, 3, 2, out);
    CHECK_NEAR(out[0], 0.887877, 1e-6);
    CHECK_NEAR(out[1], 0.112123, 1e-6);
}

TEST(mixtures_are_drawn_from_the_dirichlet_distribution)
{
    enum { N = 20000 };
    const dne_cfg cases[] = {
        {.alpha = 1, .decay = 0.5}, {.alpha = 0.3, .decay = 1}, {.alpha = 4, .decay = 0.25}};
    for (size_t c = 0; c < 3; c++) {
        /* one near word, one of two steps, the word itself */
        const double a[3] = {cases[c].alpha, cases[c].alpha * cases[c].decay, cases[c].alpha},
                     all = a[0] + a[1] + a[2];
        double mean[3] = {0}, square[3] = {0}, eta[3];
        rng r = rng_stream(3, STREAM_TEST, c);
        for (int i = 0; i < N; i++) {
            dirichlet(&cases[c], &r, 3, 1, eta);
            CHECK_NEAR(eta[0] + eta[1] + eta[2], 1, 1e-12);
            for (int k = 0; k < 3; k++) {
                CHECK(eta[k] >= 0);
                mean[k] += eta[k] / N;
                square[k] += eta[k] * eta[k] / N;
            }
        }
        for (int k = 0; k < 3; k++) {
            CHECK_NEAR(mean[k], a[k] / all, 0.01);
            CHECK_NEAR(square[k] - mean[k] * mean[k], a[k] * (all - a[k]) / (all * all * (all + 1)),
                       0.005);
        }
    }
    const dne_cfg corner = {.alpha = 0};
    double eta[4];
    size_t hit[4] = {0};
    rng r = rng_stream(3, STREAM_TEST, 9);
    for (int i = 0; i < 400; i++) {
        dirichlet(&corner, &r, 4, 1, eta);
        CHECK_EQ((eta[0] == 1) + (eta[1] == 1) + (eta[2] == 1) + (eta[3] == 1), 1);
        for (int k = 0; k < 4; k++)
            hit[k] += eta[k] == 1;
    }
    for (int k = 0; k < 4; k++)
        CHECK(hit[k] > 60 && hit[k] < 140);
}

TEST(two_steps_list_near_words_first_and_none_twice)
{
    /* 2: 3 4; 3: 2 5; 4: 5 <unk>; 5: none; <unk> is not followed */
    uint32_t start[] = {0, 0, 0, 2, 4, 6, 6}, word[] = {3, 4, 2, 5, 5, STET_UNK}, near[6];
    const word_sets s = {6, start, word};
    word_sets two;
    CHECK_OK(two_steps(&s, 10, &two, near));
    CHECK_EQ(two.start[3] - two.start[2], 4);
    CHECK_EQ(near[2], 2);
    const uint32_t want[] = {3, 4, 5, STET_UNK};
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(two.word[two.start[2] + i], want[i]);
    CHECK_EQ(two.start[4] - two.start[3], 3); /* 2 5 4 */
    CHECK_EQ(two.start[6] - two.start[5], 0);
    word_sets_deinit(&two);
    CHECK_OK(two_steps(&s, 3, &two, near));
    CHECK_EQ(two.start[3] - two.start[2], 3);
    CHECK_EQ(two.word[two.start[2] + 2], 5);
    word_sets_deinit(&two);
}

/* ---- steps -------------------------------------------------------------------------------- */

TEST(without_neighbours_and_moves_it_is_plain_training)
{
    for (int kind = 0; kind < 3; kind++) {
        run plain, x;
        CHECK_OK(run_start(&plain, kind, 3, "standard", NULL, true));
        CHECK_OK(run_start(&x, kind, 3, "dne", SETTINGS("dne-most=1", "dne-rounds=0"), true));
        CHECK_NEAR(run_step(&plain, 0), run_step(&x, 0), 1e-5);
        for (size_t i = 0; i < x.m->n_values; i++)
            CHECK_NEAR(plain.grad[i], x.grad[i], 1e-5);
        run_end(&plain);
        run_end(&x);
    }
}

TEST(moves_raise_the_loss_and_training_lowers_it)
{
    for (int kind = 0; kind < 3; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, 2, "dne", SETTINGS("dne-rounds=3", "dne-step=3"), true));
        const double loss = run_step(&x, 0.05), first = metric(&x, "dne_first");
        CHECK(loss - first > first); /* each of the three moved mixtures is worse than the drawn */
        for (int i = 0; i < 60; i++)
            run_step(&x, 0.05);
        CHECK(run_step(&x, 0.05) < loss);
        run_end(&x);
    }
}

TEST(gradients_of_all_mixtures_are_in_the_step)
{
    run x;
    double up, down;
    CHECK_OK(
        run_start(&x, CNN, 2, "dne,gbm", SETTINGS("dne-step=0", "dne-rounds=2", "beta=0.1"), true));
    run_step(&x, 0);
    const size_t at = x.m->n_values - 1; /* a bias of the last layer */
    const double h = 1e-2, got = (double)x.grad[at];
    x.m->value[at] += (real)h;
    x.step = 0;
    up = run_step(&x, 0);
    x.m->value[at] -= (real)(2 * h);
    x.step = 0;
    down = run_step(&x, 0);
    CHECK_NEAR(got, (up - down) / (2 * h), 2e-3);
    CHECK(fabs(got) > 1e-2);
    run_end(&x);
}

TEST(it_refuses_what_it_cannot_do)
{
    run x;
    CHECK_FAILS(run_start(&x, 4, 2, "dne", NULL, true), STET_EUSAGE, "word scores");
    run_end(&x);
    CHECK_FAILS(run_start(&x, CNN, 2, "dne", NULL, false), STET_EUSAGE, "--synonyms");
    run_end(&x);
    defense_list l;
    CHECK_FAILS(defense_list_init(&l, "dne,pgd", NULL), STET_EUSAGE, "forward pass");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "safer,dne", NULL), STET_EUSAGE, "answers");
    defense_list_end(&l);
}

/* The model's rule is made anew each time. */
static stet_status scarce_rule(void *ctx)
{
    const scarce_run *s = ctx;
    rule *r = s->x->m->rule;
    r->desc->end(r->state);
    r->state = NULL;
    const stet_status st = scarce_step(ctx);
    r->desc->end(r->state);
    r->state = NULL;
    return st;
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "dne", NULL, true));
    x.m->rule->desc->end(x.m->rule->state);
    x.m->rule->state = NULL;
    CHECK_LE(5, ALLOC_FAIL_LOOP(scarce_rule, &((scarce_run){&x, "dne", NULL})));
    run_end(&x);
}
