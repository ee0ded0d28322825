/* ASCC: the golden search and its loss, hulls, and steps on small models. */
#include "defense/ascc.h"

#include "alloc_fail.h"
#include "defense_run.h"
#include "golden_net.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the golden file ---------------------------------------------------------------------- */

/* The sets of the file, whose lists end with the word itself. */
typedef struct golden_sets {
    word_sets s;
    uint32_t start[32], word[64], slot[32];
} golden_sets;

static void sets_of(const json_t *slots, size_t n_words, golden_sets *out)
{
    *out = (golden_sets){.s = {.n_words = n_words}};
    for (uint32_t w = 0; w < n_words; w++) {
        char key[16];
        snprintf(key, sizeof key, "%u", w);
        const json_t *list = json_object_get(slots, key);
        out->start[w + 1] = out->start[w];
        for (size_t k = 0; list && k + 1 < json_array_size(list); k++)
            out->word[out->start[w + 1]++] = (uint32_t)json_integer_value(json_array_get(list, k));
    }
    out->s.start = out->start;
    out->s.word = out->word;
}

/* Numbers of every slot, from the order of the file to that of the batch. */
static void slots_from(const net_step *s, const hulls *h, const json_t *file, real *out)
{
    for (size_t b = 0; b < s->x.seq.n_texts; b++) {
        const json_t *text = json_array_get(file, s->x.order[b]);
        for (size_t i = s->x.seq.start[b]; i < s->x.seq.start[b + 1]; i++) {
            const size_t n =
                numbers(json_array_get(text, i - s->x.seq.start[b]), out + h->start[i]);
            CHECK_EQ(n, h->start[i + 1] - h->start[i]);
        }
    }
}

static void check_slots(const net_step *s, const hulls *h, const char *what, const json_t *file,
                        const node *state, int column, double tolerance)
{
    real want[64];
    slots_from(s, h, file, want);
    for (size_t i = 0; i < h->n_slots; i++)
        if (!(fabs((double)(want[i] - state->value[i * HULL_STATE + (size_t)column])) <= tolerance))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", what, i,
                      (double)state->value[i * HULL_STATE + (size_t)column], (double)want[i]);
}

/* The model of the file maps vectors by T first: here the table has been mapped. */
static void map_table(model *m, const double T[9])
{
    for (size_t w = 0; w < m->n_words; w++) {
        real *x = m->table + 3 * w;
        const double v[3] = {(double)x[0], (double)x[1], (double)x[2]};
        for (int i = 0; i < 3; i++)
            x[i] = (real)(T[3 * i] * v[0] + T[3 * i + 1] * v[1] + T[3 * i + 2] * v[2]);
    }
}

#ifdef STET_DOUBLE
static const double slot_tolerance = 1e-9;
#else
static const double slot_tolerance = 2e-4; /* Adam divides by the root of squares */
#endif

TEST(the_search_and_the_loss_are_those_of_the_golden_file)
{
    json_t *file = golden_defenses();
    const json_t *c = at_key(file, "ascc"), *steps = at_key(c, "steps"),
                 *final = at_key(c, "final");
    double T[9];
    CHECK_EQ(doubles(at_key(c, "T"), T), 9);
    net_step s;
    golden_sets sets;
    hulls h;
    net_step_begin(&s, file);
    map_table(s.m, T);
    s.learned.n = 0;
    CHECK_OK(pass_init(&s.p, s.m, &s.t, &s.w, s.grad, &s.x)); /* rows of the new table */
    sets_of(at_key(c, "slots"), s.m->n_words, &sets);
    CHECK_OK(hulls_make(&sets.s, &s.x, 19, sets.slot, &s.mem, &h));
    for (size_t i = 0; i < s.m->n_words; i++)
        CHECK_EQ(sets.slot[i], 0);
    const ascc_cfg cfg = {.steps = (int64_t)json_array_size(steps),
                          .rate = json_number_value(at_key(c, "lr")),
                          .alpha = json_number_value(at_key(c, "alpha")),
                          .kl = json_number_value(at_key(c, "w_kl"))};
    real w[64], first[64 * HULL_STATE] = {0};
    slots_from(&s, &h, at_key(json_array_get(steps, 0), "w"), w);
    for (size_t i = 0; i < h.n_slots; i++)
        first[i * HULL_STATE + HULL_W] = w[i];
    node *rows = pass_rows(&s.p, h.word, h.n_rows),
         *state = tape_numbers(&s.t, shape2(h.n_slots, HULL_STATE), first), *begin = state;
    s.v.logits = model_forward(s.m, &s.p);
    node *base = op_cross_entropy(&s.t, s.v.logits, s.x.label), *kl;
    for (int64_t k = 0; k < cfg.steps; k++) {
        const json_t *at = json_array_get(steps, (size_t)k);
        check_slots(&s, &h, "w", at_key(at, "w"), state, HULL_W, slot_tolerance);
        double entropy = 0, p[8];
        for (size_t i = 0; i < s.x.seq.n_tokens; i++)
            entropy += hull_weights(state->value + h.start[i] * HULL_STATE, HULL_STATE,
                                    h.start[i + 1] - h.start[i], p);
        CHECK_NEAR(entropy / (double)s.x.seq.n_tokens,
                   json_number_value(at_key(at, "entropy_mean")), 10 * slot_tolerance);
        ascc_cfg one = cfg;
        one.steps = k + 1;
        state = ascc_search(&one, &s.v, &s.own, &h, rows, s.v.logits, begin);
        check_slots(&s, &h, "grad_w", at_key(at, "grad_w"), state, HULL_GRAD, slot_tolerance);
    }
    check_slots(&s, &h, "final w", at_key(final, "w"), state, HULL_W, slot_tolerance);
    node *y = ascc_loss(&cfg, &s.v, &s.own, hull_points(&s.t, &h, state, rows), base, &kl);
    CHECK_OK(tape_backward(&s.t, y));
    CHECK_NEAR(base->value[0], json_number_value(at_key(final, "ce")), slot_tolerance);
    CHECK_NEAR(kl->value[0], json_number_value(at_key(final, "kl")), slot_tolerance);
    CHECK_NEAR(y->value[0], json_number_value(at_key(final, "total")), slot_tolerance);
    const json_t *grad = at_key(final, "grad");
    static const char *const names[] = {"W1", "b1", "W2", "b2"};
    for (int i = 0; i < 4; i++)
        check_numbers(names[i], at_key(grad, names[i]), s.grad + s.m->params[i].first,
                      slot_tolerance);
    real of_table[NET_MOST], of_words[NET_MOST];
    table_grad(&s, of_table);
    for (size_t i = 0; i < s.m->n_words * 3; i++) /* back through T */
        of_words[i] = (real)((double)of_table[i - i % 3] * T[i % 3] +
                             (double)of_table[i - i % 3 + 1] * T[3 + i % 3] +
                             (double)of_table[i - i % 3 + 2] * T[6 + i % 3]);
    check_numbers("E", at_key(grad, "E"), of_words, slot_tolerance);
    net_step_end(&s);
    json_decref(file);
}

TEST(weights_and_entropy_by_hand)
{
    const real two[] = {2, 0, 2}, three[] = {2, 0, -2};
    double p[3];
    CHECK_NEAR(hull_weights(two, 1, 2, p), 0.365334, 1e-6); /* the third slot is not there */
    CHECK_NEAR(p[0], 0.880797, 1e-6);
    CHECK_NEAR(p[1], 0.119203, 1e-6);
    CHECK_NEAR(hull_weights(three, 1, 3, p), 0.441057, 1e-6);
    CHECK_NEAR(p[0], 0.866813, 1e-6);
    CHECK_NEAR(p[2], 0.015876, 1e-6);
    const real far[] = {1000, 0, -1000};
    CHECK_NEAR(hull_weights(far, 1, 3, p), 0, 1e-12);
    CHECK_NEAR(p[0] + p[1] + p[2], 1, 1e-12);
}

/* ---- mixtures stay among their words ------------------------------------------------------- */

/* The nearest point of the simplex. */
static void to_simplex(double *x, size_t n)
{
    double sorted[8], sum = 0, by = 0;
    memcpy(sorted, x, n * sizeof *x);
    for (size_t i = 1; i < n; i++) /* falling */
        for (size_t k = i; k > 0 && sorted[k] > sorted[k - 1]; k--) {
            const double t = sorted[k];
            sorted[k] = sorted[k - 1];
            sorted[k - 1] = t;
        }
    for (size_t i = 0; i < n; i++) {
        sum += sorted[i];
        if (sorted[i] - (sum - 1) / (double)(i + 1) > 0)
            by = (sum - 1) / (double)(i + 1);
    }
    for (size_t i = 0; i < n; i++)
        x[i] = fmax(x[i] - by, 0);
}

/* How far a point is from the hull of n others: projected gradient, which knows nothing of softmax. */
static double far_from_hull(const double *point, const double *vertex, size_t n, size_t dim,
                            double *weight)
{
    double far = 0, size = 1e-9;
    for (size_t i = 0; i < n * dim; i++)
        size += vertex[i] * vertex[i];
    for (size_t i = 0; i < n; i++)
        weight[i] = 1 / (double)n;
    for (int step = 0; step < 20000; step++) {
        double gap[8];
        far = 0;
        for (size_t d = 0; d < dim; d++) {
            gap[d] = -point[d];
            for (size_t i = 0; i < n; i++)
                gap[d] += weight[i] * vertex[i * dim + d];
            far += gap[d] * gap[d];
        }
        for (size_t i = 0; i < n; i++)
            for (size_t d = 0; d < dim; d++)
                weight[i] -= gap[d] * vertex[i * dim + d] / size;
        to_simplex(weight, n);
    }
    return sqrt(far);
}

TEST(projections_by_hand)
{
    double one[] = {0.8, 0.6, -0.2}, two[] = {2, 0, 0}, three[] = {0.2, 0.3, 0.1}, w[3];
    to_simplex(one, 3);
    to_simplex(two, 3);
    to_simplex(three, 3);
    const double want[][3] = {{0.6, 0.4, 0}, {1, 0, 0}, {1.0 / 3, 13.0 / 30, 7.0 / 30}};
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(one[i], want[0][i], 1e-12);
        CHECK_NEAR(two[i], want[1][i], 1e-12);
        CHECK_NEAR(three[i], want[2][i], 1e-12);
    }
    const double corner[] = {0, 0, 1, 0, 0, 1};
    CHECK_NEAR(far_from_hull((double[]){1, 1}, corner, 3, 2, w), sqrt(0.5), 1e-6);
    CHECK(fabs(w[0]) < 1e-6 && fabs(w[1] - 0.5) < 1e-6);
    CHECK_NEAR(far_from_hull((double[]){-1, 0.5}, corner, 3, 2, w), 1, 1e-6);
    CHECK(fabs(w[0] - 0.5) < 1e-6 && fabs(w[1]) < 1e-6 && fabs(w[2] - 0.5) < 1e-6);
    CHECK_NEAR(far_from_hull((double[]){0.2, 0.3}, corner, 3, 2, w), 0, 1e-6);
    CHECK(fabs(w[0] - 0.5) < 1e-5 && fabs(w[1] - 0.2) < 1e-5);
}

/* A word at (0, 1) with substitutes at (0, 0) and (1, 0): the points of these weights, which are the
 * nearest of the hull to where they are said to come from. */
TEST(points_of_weights_by_hand)
{
    static const struct {
        double weight[3], point[2], from[2];
    } cases[] = {{{0, 0.5, 0.5}, {0.5, 0.5}, {1, 1}},
                 {{0.5, 0, 0.5}, {0, 0.5}, {-1, 0.5}},
                 {{0.5, 0.2, 0.3}, {0.2, 0.3}, {0.2, 0.3}}};
    static const char *const net =
        "{\"net\": {\"E\": [[0,0,0],[1,0,0],[0,1,0]], \"W1\": [[1,0,0],[0,1,0],[0,0,1]],"
        " \"b1\": [0,0,0], \"W2\": [[1,2,0],[3,-1,0]], \"b2\": [0,0]},"
        " \"batch\": {\"ids\": [[2]], \"y\": [0]}}";
    json_t *file = json_loads(net, 0, NULL), *slots = json_loads("{\"2\": [0, 1, 2]}", 0, NULL);
    CHECK(file && slots);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net_step s;
        golden_sets sets;
        hulls h;
        net_step_begin(&s, file);
        sets_of(slots, s.m->n_words, &sets);
        CHECK_OK(hulls_make(&sets.s, &s.x, 19, sets.slot, &s.mem, &h));
        CHECK_EQ(h.n_slots, 3);
        real state[3 * HULL_STATE] = {0};
        double p[3], w[3];
        for (size_t k = 0; k < 3; k++)
            state[k * HULL_STATE + HULL_W] =
                (real)(cases[i].weight[k] > 0 ? log(cases[i].weight[k]) : -1000);
        hull_weights(state + HULL_W, HULL_STATE, 3, p);
        const node *at = hull_points(&s.t, &h, tape_numbers(&s.t, shape2(3, HULL_STATE), state),
                                     pass_rows(&s.p, h.word, h.n_rows));
        CHECK_OK(tape_status(&s.t));
        for (size_t k = 0; k < 3; k++)
            CHECK_NEAR(p[k], cases[i].weight[k], 1e-6);
        const double far[] = {(double)at->value[0] - cases[i].from[0],
                              (double)at->value[1] - cases[i].from[1]};
        CHECK_NEAR(at->value[0], cases[i].point[0], 1e-6);
        CHECK_NEAR(at->value[1], cases[i].point[1], 1e-6);
        CHECK_NEAR(hypot(far[0], far[1]),
                   far_from_hull(cases[i].from, (double[]){0, 0, 1, 0, 0, 1}, 3, 2, w), 1e-6);
        net_step_end(&s);
    }
    json_decref(file);
    json_decref(slots);
}

/* A batch of the golden texts with random numbers in its slots. */
static node *random_state(net_step *s, const hulls *h, double size, uint64_t seed)
{
    real *state = arena_znew(&s->mem, real, h->n_slots * HULL_STATE);
    CHECK(state);
    rng r = rng_stream(seed, STREAM_TEST, 1);
    for (size_t i = 0; i < h->n_slots; i++)
        state[i * HULL_STATE + HULL_W] = (real)(size * rng_normal(&r));
    return tape_numbers(&s->t, shape2(h->n_slots, HULL_STATE), state);
}

TEST(points_lie_in_the_hulls_of_their_words)
{
    json_t *file = golden_defenses();
    for (uint64_t seed = 1; seed < 5; seed++) {
        net_step s;
        golden_sets sets;
        hulls h;
        net_step_begin(&s, file);
        sets_of(at_key(at_key(file, "ascc"), "slots"), s.m->n_words, &sets);
        CHECK_OK(hulls_make(&sets.s, &s.x, 19, sets.slot, &s.mem, &h));
        const node *rows = pass_rows(&s.p, h.word, h.n_rows),
                   *points = hull_points(&s.t, &h, random_state(&s, &h, seed == 4 ? 30 : 1, seed),
                                         (node *)rows);
        CHECK_OK(tape_status(&s.t));
        for (size_t i = 0; i < s.x.seq.n_tokens; i++) {
            const size_t n = h.start[i + 1] - h.start[i], D = s.m->dim;
            double vertex[8 * 3], point[3], w[8];
            for (size_t j = 0; j < n; j++)
                for (size_t d = 0; d < D; d++)
                    vertex[j * D + d] =
                        (double)rows->value[h.row[h.first[s.x.seq.row[i]] + j] * D + d];
            for (size_t d = 0; d < D; d++)
                point[d] = (double)points->value[i * D + d];
            CHECK_LE(far_from_hull(point, vertex, n, D, w), 1e-5);
        }
        net_step_end(&s);
    }
    json_decref(file);
}

/* The sum of points times fixed numbers, as a function of the rows. */
static double weighted_points(net_step *s, const hulls *h, node *state, real *rows, real *grad)
{
    const size_t D = s->m->dim, T = s->x.seq.n_tokens;
    const arena_mark mark = arena_save(&s->mem);
    tape t;
    tape_init(&t, &s->mem, NULL, true);
    real *by = arena_new(&s->mem, real, T * D);
    CHECK(by);
    for (size_t i = 0; i < T * D; i++)
        by[i] = (real)(((double)(i * 7 % 11) - 5) / 5);
    node *x = tape_input(&t, shape2(h->n_rows, D), rows, grad),
         *y = op_sum(&t,
                     op_mul(&t, hull_points(&t, h, state, x), tape_constant(&t, shape2(T, D), by)));
    CHECK_OK(tape_backward(&t, y));
    const double out = (double)y->value[0];
    arena_restore(&s->mem, mark);
    return out;
}

TEST(the_gradient_of_points_equals_finite_differences)
{
    json_t *file = golden_defenses();
    net_step s;
    golden_sets sets;
    hulls h;
    net_step_begin(&s, file);
    sets_of(at_key(at_key(file, "ascc"), "slots"), s.m->n_words, &sets);
    CHECK_OK(hulls_make(&sets.s, &s.x, 19, sets.slot, &s.mem, &h));
    node *state = random_state(&s, &h, 1, 9);
    const size_t n = h.n_rows * s.m->dim;
    real rows[128], grad[128] = {0}, unused[128];
    CHECK(n <= 128);
    for (size_t i = 0; i < n; i++)
        rows[i] = s.m->table[h.word[i / s.m->dim] * s.m->dim + i % s.m->dim];
    weighted_points(&s, &h, state, rows, grad);
    const double step = sizeof(real) == 4 ? 0.25 : 1e-3; /* it is linear in the rows */
    for (size_t i = 0; i < n; i++) {
        const real was = rows[i];
        rows[i] = was + (real)step;
        const double up = weighted_points(&s, &h, state, rows, unused);
        rows[i] = was - (real)step;
        const double down = weighted_points(&s, &h, state, rows, unused);
        rows[i] = was;
        CHECK_NEAR(grad[i], (up - down) / (2 * step), sizeof(real) == 4 ? 1e-4 : 1e-9);
    }
    net_step_end(&s);
    json_decref(file);
}

/* ---- what a model makes of rows first ------------------------------------------------------ */

TEST(rows_that_were_made_before_give_the_same_answers_and_gradients)
{
    for (int kind = CNN; kind <= BILSTM; kind++) {
        run x;
        arena mem = {0};
        batch shared, own;
        tape t;
        pass q;
        CHECK_OK(run_start(&x, kind, 3, "standard", NULL, true));
        const stet_corpus c = small_corpus(2, 3);
        CHECK_OK(batch_make(&x.batches, x.m, &c, all_texts, TEXTS, &mem, &shared));
        CHECK_OK(batch_spread(&shared, &mem, &own));
        tape_init(&t, &mem, NULL, false);
        CHECK_OK(pass_init(&q, x.m, &t, NULL, NULL, &own));
        step_view v = view_of(&x, &x.batches, &mem);
        v.p = &q;
        /* the second reads zeros beside what was made: they must not count */
        probe plain = {.x = &own},
              made = {.x = &own,
                      .rows = tape_zeros(&t, q.rows->shape),
                      .made = x.m->desc->make(x.m, &q, q.rows)};
        CHECK(made.made && made.made->shape.dim[0] == own.seq.n_rows);
        CHECK_OK(probe_run(&v, &plain));
        CHECK_OK(probe_run(&v, &made));
        CHECK_EQ(memcmp(plain.logits->value, made.logits->value, TEXTS * 3 * sizeof(real)), 0);
        CHECK_EQ(memcmp(plain.drows->value, made.drows->value,
                        shape_count(plain.drows->shape) * sizeof(real)),
                 0);
        arena_deinit(&mem);
        run_end(&x);
    }
}

/* ---- steps -------------------------------------------------------------------------------- */

TEST(without_its_terms_it_is_plain_training)
{
    for (int kind = 0; kind < 3; kind++) {
        run plain, x;
        CHECK_OK(run_start(&plain, kind, 3, "standard", NULL, true));
        CHECK_OK(run_start(&x, kind, 3, "ascc", SETTINGS("ascc-kl=0", "ascc-steps=1"), true));
        CHECK_NEAR(run_step(&plain, 0), run_step(&x, 0), 1e-5);
        for (size_t i = 0; i < x.m->n_values; i++)
            CHECK_NEAR(plain.grad[i], x.grad[i], 1e-5);
        run_end(&plain);
        run_end(&x);
        /* words alone: nothing to mix, the answers are the same */
        CHECK_OK(run_start(&x, kind, 3, "ascc", SETTINGS("ascc-most=0"), true));
        run_step(&x, 0);
        CHECK_NEAR(metric(&x, "ascc_kl"), 0, 1e-6);
        run_end(&x);
    }
}

TEST(the_search_finds_worse_mixtures_and_training_answers)
{
    for (int kind = 0; kind < 3; kind++) {
        run x;
        double kl[2];
        for (int i = 0; i < 2; i++) {
            CHECK_OK(run_start(
                &x, kind, 2, "ascc",
                SETTINGS(i ? "ascc-steps=20" : "ascc-steps=0", "ascc-alpha=0", "ascc-rate=1"),
                true));
            run_step(&x, 0);
            kl[i] = metric(&x, "ascc_kl");
            run_end(&x);
        }
        CHECK(kl[1] > 1.5 * kl[0] && kl[0] > 0);
        CHECK_OK(run_start(&x, kind, 2, "ascc", NULL, true));
        const double loss = run_step(&x, 0.05);
        for (int i = 0; i < 60; i++)
            run_step(&x, 0.05);
        CHECK(run_step(&x, 0.05) < loss);
        run_end(&x);
    }
}

TEST(it_combines_with_others_and_refuses_scores)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "certified,ascc,gbm", SETTINGS("ramp=0", "ascc-steps=2"), true));
    CHECK(isfinite(run_step(&x, 0.01)) && metric(&x, "worst") > 0);
    run_end(&x);
    CHECK_OK(run_start(&x, CNN, 2, "pgd,ascc", SETTINGS("ascc-steps=2"), true));
    CHECK(isfinite(run_step(&x, 0.01)));
    run_end(&x);
    CHECK_FAILS(run_start(&x, 4, 2, "ascc", NULL, true), STET_EUSAGE, "word scores");
    run_end(&x);
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "ascc", NULL, true));
    CHECK_LE(5, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "ascc", NULL})));
    run_end(&x);
}
