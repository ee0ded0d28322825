/* Optimisers against their formulas in double; schedules; early stopping. */
#include "base/mem.h"
#include "tensor/optim.h"
#include "test.h"

enum { N = 300, STEPS = 25 };

/* The textbook, one number at a time. */
static void reference(const optim_options *how, double rate, double decay, double *w, double *m,
                      double *v, double g, int t)
{
    if (how->kind == OPTIM_ADAM)
        g += decay * *w;
    else
        *w -= rate * decay * *w;
    *m = how->beta1 * *m + (1 - how->beta1) * g;
    *v = how->beta2 * *v + (1 - how->beta2) * g * g;
    const double mh = *m / (1 - pow(how->beta1, t)), vh = *v / (1 - pow(how->beta2, t));
    *w -= rate * mh / (sqrt(vh) + how->eps);
}

static void compare(optim_kind kind)
{
    optim_options how = OPTIM_DEFAULTS;
    how.kind = kind;
    optim o;
    CHECK_OK(optim_init(&o, &how, &host_store, N));
    static float w[N], g[N];
    static double rw[N], rm[N], rv[N];
    for (int i = 0; i < N; i++)
        rw[i] = w[i] = (float)sin(i);
    const param_group groups[2] = {{0, 100, 1e-2, 1e-1}, {100, 200, 1e-3, 0}};
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++)
            g[i] = (float)cos(i * t);
        CHECK_OK(optim_step(&o, groups, 2, w, g));
        for (int i = 0; i < N; i++)
            reference(&how, groups[i >= 100].rate, groups[i >= 100].decay, &rw[i], &rm[i], &rv[i],
                      g[i], t);
    }
    for (int i = 0; i < N; i++)
        CHECK_NEAR(w[i], rw[i], 2e-6);
    optim_deinit(&o);
}

TEST(adam_follows_its_formula)
{
    compare(OPTIM_ADAM);
}

TEST(adamw_follows_its_formula)
{
    compare(OPTIM_ADAMW);
}

/* As long as interval training of a whole corpus takes: filters that are never the maximum. */
TEST(what_no_gradient_reaches_ends_at_zero)
{
    enum { DEAD = 64, LONG = 60000 };
    for (int kind = OPTIM_ADAM; kind <= OPTIM_ADAMW; kind++) {
        optim_options how = OPTIM_DEFAULTS;
        how.kind = kind;
        optim o;
        CHECK_OK(optim_init(&o, &how, &host_store, DEAD));
        real w[DEAD], g[DEAD];
        int denormal = 0;
        for (int i = 0; i < DEAD; i++)
            w[i] = (real)(0.1 * sin(i + 1));
        for (int t = 0; t < LONG; t++) {
            for (int i = 0; i < DEAD; i++)
                g[i] = (real)(t == 0 ? cos(i) : 0);
            CHECK_OK(optim_step(&o, &(param_group){0, DEAD, 1e-3, 1e-4}, 1, w, g));
            for (int i = 0; t % 100 == 0 && i < DEAD; i++)
                denormal += (w[i] != 0 && fabs((double)w[i]) < 1e-30) ||
                            (o.m[i] != 0 && fabs((double)o.m[i]) < 1e-30) ||
                            (o.v[i] != 0 && o.v[i] < 1e-30);
        }
        CHECK_EQ(denormal, 0);
        for (int i = 0; i < DEAD; i++)
            CHECK(o.m[i] == 0 || kind == OPTIM_ADAM); /* decay is a gradient there */
        optim_deinit(&o);
    }
}

TEST(clipping_scales_the_whole_gradient)
{
    optim_options how = OPTIM_DEFAULTS;
    how.clip = 1;
    optim o;
    CHECK_OK(optim_init(&o, &how, &host_store, 2));
    float w[2] = {0, 0}, g[2] = {3, 4};
    const param_group all = {0, 2, 0.1, 0};
    double norm;
    CHECK_OK(optim_step(&o, &all, 1, w, g));
    CHECK_OK(optim_norm(&o, &norm));
    CHECK_NEAR(norm, 5, 1e-12);
    CHECK_NEAR(o.m[0], 0.1 * 3 / 5, 1e-7);
    CHECK_NEAR(o.m[1], 0.1 * 4 / 5, 1e-7);
    optim_deinit(&o);
}

TEST(schedules_have_their_shapes)
{
    optim_options how = OPTIM_DEFAULTS;
    CHECK_NEAR(schedule_factor(&how, 12345), 1, 0);
    how.schedule = SCHEDULE_COSINE;
    how.total_steps = 100;
    CHECK_NEAR(schedule_factor(&how, 0), 1, 1e-15);
    CHECK_NEAR(schedule_factor(&how, 50), 0.5, 1e-15);
    CHECK_NEAR(schedule_factor(&how, 100), 0, 0);
    how.hold = 20;
    CHECK_NEAR(schedule_factor(&how, 0), 1, 0);
    CHECK_NEAR(schedule_factor(&how, 20), 1, 1e-15);
    CHECK_NEAR(schedule_factor(&how, 60), 0.5, 1e-15);
    CHECK_NEAR(schedule_factor(&how, 99), 0, 1e-3);
    CHECK_NEAR(schedule_factor(&how, 100), 0, 0);
    how.schedule = SCHEDULE_STEP;
    how.step_every = 10;
    how.step_factor = 0.1;
    CHECK_NEAR(schedule_factor(&how, 9), 1, 0);
    CHECK_NEAR(schedule_factor(&how, 25), 0.01, 1e-15);
}

TEST(state_restored_means_the_same_steps)
{
    optim_options how = OPTIM_DEFAULTS;
    optim a, b;
    CHECK_OK(optim_init(&a, &how, &host_store, 3));
    CHECK_OK(optim_init(&b, &how, &host_store, 3));
    float w[3] = {1, 2, 3}, g[3] = {0.1f, -0.2f, 0.3f}, copy[3];
    const param_group all = {0, 3, 0.1, 0.01};
    for (int i = 0; i < 5; i++)
        CHECK_OK(optim_step(&a, &all, 1, w, g));
    memcpy(copy, w, sizeof w);
    memcpy(b.m, a.m, sizeof w);
    memcpy(b.v, a.v, sizeof w);
    b.step = a.step;
    CHECK_OK(optim_step(&a, &all, 1, w, g));
    CHECK_OK(optim_step(&b, &all, 1, copy, g));
    CHECK(memcmp(w, copy, sizeof w) == 0);
    optim_deinit(&a);
    optim_deinit(&b);
}

/* Rows in several parts, some twice: as a dense table whose other rows have no gradient yet. */
TEST(rows_move_as_in_a_dense_table_and_others_stay)
{
    enum { ROWS = 7, D = 3 };
    optim_options how = OPTIM_DEFAULTS;
    optim none, dense;
    row_optim rows;
    CHECK_OK(optim_init(&none, &how, &host_store, 1));
    CHECK_OK(optim_init(&dense, &how, &host_store, ROWS * D));
    CHECK_OK(row_optim_init(&rows, &host_store, ROWS, D, 0.05));
    const param_group one = {0, 1, 0.1, 0}, all = {0, ROWS * D, 0.05, 0};
    real a[ROWS * D], b[ROWS * D], w = 1, g = 1;
    for (int i = 0; i < ROWS * D; i++)
        a[i] = b[i] = (real)i / 10;
    arena mem = {0};
    store_arena values = {.store = &host_store};
    for (int step = 0; step < 4; step++) {
        const uint32_t first[] = {4, 1}, second[] = {1, 6, 4};
        real x[2 * D], y[3 * D], sum[ROWS * D] = {0};
        for (int i = 0; i < 3 * D; i++)
            y[i] = (real)(i + step) / 7 - 1;
        for (int i = 0; i < 2 * D; i++)
            x[i] = (real)(2 * i - step) / 5;
        for (int i = 0; i < 2 * D; i++)
            sum[first[i / D] * D + (uint32_t)(i % D)] += x[i];
        for (int i = 0; i < 3 * D; i++)
            sum[second[i / D] * D + (uint32_t)(i % D)] += y[i];
        const row_part part[] = {{second, 3, y, NULL}, {first, 2, x, NULL}};
        const size_t n = step == 3 ? 1 : 2; /* the last: no row twice, and nothing to add up */
        for (int i = 0; n == 1 && i < ROWS * D; i++)
            sum[i] = 0;
        for (int i = 0; n == 1 && i < 3 * D; i++)
            sum[second[i / D] * D + (uint32_t)(i % D)] = y[i];
        CHECK_OK(optim_step(&none, &one, 1, &w, &g));
        CHECK_OK(row_optim_step(&rows, &none, part, n, a, &mem, &values));
        CHECK_OK(optim_step(&dense, &all, 1, b, sum));
    }
    for (int i = 0; i < ROWS * D; i++) {
        const bool touched = i / D == 1 || i / D == 4 || i / D == 6;
        CHECK_NEAR(a[i], touched ? b[i] : (real)i / 10, 1e-6);
        CHECK(touched == (a[i] != (real)i / 10));
    }
    arena_deinit(&mem);
    store_arena_deinit(&values);
    row_optim_deinit(&rows);
    optim_deinit(&none);
    optim_deinit(&dense);
}

/* A table after some steps of parts that are beginnings of one list. */
static void move_by_list(bool known, real *table, size_t rows, size_t D)
{
    const optim_options how = OPTIM_DEFAULTS;
    const uint32_t list[] = {4, 1, 6}, other[] = {4, 1, 6};
    const param_group one = {0, 1, 0.1, 0};
    optim none;
    row_optim o;
    arena mem = {0};
    store_arena values = {.store = &host_store};
    real w = 1, g = 1, x[9], y[6];
    CHECK_OK(optim_init(&none, &how, &host_store, 1));
    CHECK_OK(row_optim_init(&o, &host_store, rows, D, 0.05));
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < 9; i++)
            x[i] = (real)(i + step) / 7 - 1;
        for (int i = 0; i < 6; i++)
            y[i] = (real)(2 * i - step) / 5;
        const row_part here[] = {{list, 2, y, NULL}, {list, 3, x, NULL}},
                       there[] = {{NULL, 2, y, list}, {NULL, 3, x, list}},
                       apart[] = {{NULL, 2, y, list}, {NULL, 3, x, other}};
        const size_t n = step == 3 ? 1 : 2; /* the last: nothing to add up */
        CHECK_OK(optim_step(&none, &one, 1, &w, &g));
        CHECK_OK(row_optim_step(&o, &none, known ? here : there, n, table, &mem, &values));
        CHECK_FAILS(row_optim_step(&o, &none, apart, 2, table, &mem, &values), STET_EINTERNAL,
                    "two lists");
    }
    arena_deinit(&mem);
    store_arena_deinit(&values);
    row_optim_deinit(&o);
    optim_deinit(&none);
}

TEST(rows_of_a_list_that_the_host_does_not_know_move_as_others_do)
{
    enum { ROWS = 7, D = 3 };
    real a[ROWS * D], b[ROWS * D];
    for (int i = 0; i < ROWS * D; i++)
        a[i] = b[i] = (real)i / 10;
    move_by_list(true, a, ROWS, D);
    move_by_list(false, b, ROWS, D);
    CHECK(a[4 * D] != (real)(4 * D) / 10);
    CHECK(memcmp(a, b, sizeof a) == 0);
}

TEST(early_stopping_keeps_the_first_best)
{
    early_stop e = {.patience = 2};
    CHECK(early_stop_update(&e, 0.5));
    CHECK(early_stop_update(&e, 0.7));
    CHECK(!early_stop_update(&e, 0.7));
    CHECK(!early_stop_done(&e));
    CHECK(!early_stop_update(&e, 0.6));
    CHECK(early_stop_done(&e));
    CHECK_EQ(e.best_epoch, 2);
    early_stop never = {.patience = 0};
    for (int i = 0; i < 10; i++)
        early_stop_update(&never, -i);
    CHECK(!early_stop_done(&never));
}
