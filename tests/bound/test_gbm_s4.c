/* The growth bound matrix of an S4 channel: golden values, gradients, against the dense recurrence.
 */
#include <complex.h>

#include "base/rng.h"
#include "bound/gbm_s4.h"
#include "golden.h"

enum { MAX_H = 64, MAX_N = 32, MODES = MAX_H * MAX_N };

typedef struct problem {
    real a[MODES], w[MODES], p[2 * MODES], b[2 * MODES], c[2 * MODES], log_dt[MAX_H], d[MAX_H];
    s4_weights view;
} problem;

static void tie(problem *x, size_t H, size_t n)
{
    x->view = (s4_weights){H, n, x->a, x->w, x->p, x->b, x->c, x->log_dt, x->d};
}

static void random_problem(problem *x, size_t H, size_t n, rng *r)
{
    for (size_t i = 0; i < H * n; i++) {
        x->a[i] = (real)rng_range(r, -1.5, 0.5);
        x->w[i] = (real)rng_range(r, -9, 9);
    }
    for (size_t i = 0; i < 2 * H * n; i++) {
        x->p[i] = (real)rng_normal(r);
        x->b[i] = (real)rng_normal(r);
        x->c[i] = (real)rng_normal(r);
    }
    for (size_t h = 0; h < H; h++) {
        x->log_dt[h] = (real)rng_range(r, log(1e-3), log(1e-1));
        x->d[h] = (real)rng_normal(r);
    }
    tie(x, H, n);
}

TEST(golden_channels)
{
    static problem x;
    json_t *file = golden("s4.json"), *cases = json_object_get(file, "cases");
    CHECK(json_array_size(cases) >= 2);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *p = json_object_get(c, "params"),
                     *in = json_object_get(c, "intermediates");
        const size_t n = numbers(json_object_get(p, "a"), x.a);
        CHECK_EQ(numbers(json_object_get(p, "om"), x.w), n);
        CHECK_EQ(numbers(json_object_get(p, "P"), x.p), 2 * n);
        CHECK_EQ(numbers(json_object_get(p, "B"), x.b), 2 * n);
        CHECK_EQ(numbers(json_object_get(p, "C"), x.c), 2 * n);
        numbers(json_object_get(p, "logdt"), x.log_dt);
        numbers(json_object_get(p, "D"), x.d);
        tie(&x, 1, n);
        real input, state[8], q[16], row[2];
        const real ones[2] = {1, 1};
        arena mem = {0};
        CHECK_OK(gbm_s4(&x.view, &mem, &input, state));
        CHECK_NEAR(input, fabs(json_number_value(json_object_get(in, "g"))), value_tolerance);
        numbers(json_object_get(in, "q"), q);
        for (size_t m = 0; m < n; m++)
            CHECK_NEAR(state[m], 2 * hypot((double)q[2 * m], (double)q[2 * m + 1]),
                       4 * value_tolerance);
        CHECK_OK(gbm_s4_rows(&x.view, &mem, row));
        CHECK_NEAR(row[0] + row[1], json_number_value(json_object_get(in, "L")),
                   10 * value_tolerance);

        real ga[8] = {0}, gw[8] = {0}, gp[16] = {0}, gb[16] = {0}, gc[16] = {0}, gdt = 0, gd = 0;
        CHECK_OK(gbm_s4_rows_back(&x.view, ones, &mem, &(s4_grads){ga, gw, gp, gb, gc, &gdt, &gd}));
        const json_t *g = json_object_get(c, "grad");
        check_numbers("a", json_object_get(g, "a"), ga, gradient_tolerance);
        check_numbers("w", json_object_get(g, "om"), gw, gradient_tolerance);
        check_numbers("P", json_object_get(g, "P"), gp, gradient_tolerance);
        check_numbers("B", json_object_get(g, "B"), gb, gradient_tolerance);
        check_numbers("C", json_object_get(g, "C"), gc, gradient_tolerance);
        check_numbers("log dt", json_object_get(g, "logdt"), &gdt, gradient_tolerance);
        check_numbers("d", json_object_get(g, "D"), &gd, gradient_tolerance);
        arena_deinit(&mem);
    }
    json_decref(file);
}

#ifdef STET_DOUBLE
/* ---- finite differences ------------------------------------------------------------------- */

static double value_of(const problem *x, const real *weight, arena *mem)
{
    static real row[2 * MAX_H];
    CHECK_OK(gbm_s4_rows(&x->view, mem, row));
    double sum = 0;
    for (size_t i = 0; i < 2 * x->view.H; i++)
        sum += row[i] * weight[i];
    return sum;
}

/* 200 random layers, a random direction in the space of all parameters each. */
TEST(gradients_equal_finite_differences)
{
    static problem x, grad, step;
    static real weight[2 * MAX_H];
    arena mem = {0};
    double worst = 0;
    for (size_t n = 0; n < 200; n++) {
        rng r = rng_stream(6, STREAM_TEST, n);
        const size_t H = n % 20 ? 1 + rng_below(&r, 8) : MAX_H,
                     modes = n % 20 ? 1 + rng_below(&r, 12) : MAX_N;
        random_problem(&x, H, modes, &r);
        for (size_t i = 0; i < 2 * H; i++)
            weight[i] = rng_range(&r, 0, 1);
        memset(&grad, 0, sizeof grad);
        CHECK_OK(gbm_s4_rows_back(
            &x.view, weight, &mem,
            &(s4_grads){grad.a, grad.w, grad.p, grad.b, grad.c, grad.log_dt, grad.d}));
        struct {
            real *x, *g, *step;
            size_t n;
        } part[] = {{x.a, grad.a, step.a, H * modes},
                    {x.w, grad.w, step.w, H * modes},
                    {x.p, grad.p, step.p, 2 * H * modes},
                    {x.b, grad.b, step.b, 2 * H * modes},
                    {x.c, grad.c, step.c, 2 * H * modes},
                    {x.log_dt, grad.log_dt, step.log_dt, H},
                    {x.d, grad.d, step.d, H}};
        double slope = 0, side[2];
        for (size_t k = 0; k < sizeof part / sizeof *part; k++)
            for (size_t i = 0; i < part[k].n; i++)
                slope += part[k].g[i] * (part[k].step[i] = rng_normal(&r));
        CHECK(slope != 0);
        const double h = 1e-6;
        for (int s = 0; s < 2; s++) {
            for (size_t k = 0; k < sizeof part / sizeof *part; k++)
                for (size_t i = 0; i < part[k].n; i++)
                    part[k].x[i] += (s ? 2 * h : -h) * part[k].step[i];
            side[s] = value_of(&x, weight, &mem);
        }
        const double error = fabs((side[1] - side[0]) / (2 * h) - slope) / (1e-2 + fabs(slope));
        worst = fmax(worst, error);
        CHECK_LE(error, 1e-5);
    }
    fprintf(stderr, "  worst relative error %.2g\n", worst);
    arena_deinit(&mem);
}

/* ---- against the recurrence --------------------------------------------------------------- */

/* z <- one bilinear step with input u, by solving (2 / dt - A) z' = (2 / dt + A) z + 2 B u densely
 * in the full state (z, conj z); returns y. */
static double dense_step(const problem *x, size_t h, double complex *z, double u)
{
    enum { FULL = 2 * MAX_N };
    static double complex a[FULL][FULL], m[FULL][FULL + 1];
    const size_t n = x->view.n, full = 2 * n;
    const double delta = 2 / exp(x->log_dt[h]);
    double complex la[FULL], p[FULL], b[FULL];
    for (size_t i = 0; i < n; i++) {
        const size_t at = h * n + i;
        la[i] = -exp(x->a[at]) - I * x->w[at];
        p[i] = x->p[2 * at] + I * x->p[2 * at + 1];
        b[i] = x->b[2 * at] + I * x->b[2 * at + 1];
        la[n + i] = conj(la[i]);
        p[n + i] = conj(p[i]);
        b[n + i] = conj(b[i]);
        z[n + i] = conj(z[i]);
    }
    for (size_t i = 0; i < full; i++) {
        for (size_t j = 0; j < full; j++)
            a[i][j] = (i == j ? la[i] : 0) - p[i] * conj(p[j]);
        m[i][full] = delta * z[i] + 2 * b[i] * u;
        for (size_t j = 0; j < full; j++) {
            m[i][j] = (i == j ? delta : 0) - a[i][j];
            m[i][full] += a[i][j] * z[j];
        }
    }
    for (size_t k = 0; k < full; k++) { /* elimination; diagonally dominant enough for this test */
        for (size_t i = k + 1; i < full; i++) {
            const double complex f = m[i][k] / m[k][k];
            for (size_t j = k; j <= full; j++)
                m[i][j] -= f * m[k][j];
        }
    }
    for (size_t k = full; k-- > 0;) {
        double complex s = m[k][full];
        for (size_t j = k + 1; j < full; j++)
            s -= m[k][j] * z[j];
        z[k] = s / m[k][k];
    }
    double y = x->d[h] * u;
    for (size_t i = 0; i < n; i++)
        y += 2 * creal((x->c[2 * (h * n + i)] + I * x->c[2 * (h * n + i) + 1]) * z[i]);
    return y;
}

static double stepped(const problem *x, size_t h, const double complex *z, double u)
{
    double complex copy[2 * MAX_N];
    memcpy(copy, z, x->view.n * sizeof *z);
    return dense_step(x, h, copy, u);
}

/* Changes of input and state move the output by no more than the bounds, and by all of them in the
 * worst direction. */
TEST(the_recurrence_stays_within_its_bounds)
{
    static problem x;
    enum { H = 4, N = 6, ANGLES = 40 };
    real input[H], state[H * N];
    arena mem = {0};
    size_t samples = 0;
    for (size_t trial = 0; trial < 20; trial++) {
        rng r = rng_stream(7, STREAM_TEST, trial);
        random_problem(&x, H, N, &r);
        CHECK_OK(gbm_s4(&x.view, &mem, input, state));
        for (size_t hm = 0; hm < H * N; hm++) {
            const size_t h = hm / N, m = hm % N;
            double complex z[2 * N];
            double best = 0;
            for (size_t i = 0; i < N; i++)
                z[i] = rng_normal(&r) + I * rng_normal(&r);
            const double u = rng_normal(&r), du = rng_normal(&r);
            const double y = stepped(&x, h, z, u);
            for (int k = 0; k < ANGLES; k++) {
                double complex moved[2 * N];
                memcpy(moved, z, sizeof z);
                moved[m] += cexp(I * 6.283185307 * k / ANGLES);
                best = fmax(best, fabs(stepped(&x, h, moved, u) - y));
            }
            CHECK_LE(best, (double)state[hm] * (1 + 1e-9) + 1e-10);
            CHECK_LE(0.99 * (double)state[hm], best); /* some direction comes near */
            CHECK_NEAR(fabs(stepped(&x, h, z, u + du) - y), (double)input[h] * fabs(du), 1e-9);
            samples += ANGLES + 1;
        }
    }
    fprintf(stderr, "  %zu changes\n", samples);
    arena_deinit(&mem);
}
#endif

TEST(odd_input_is_defined)
{
    static problem x;
    rng r = rng_stream(8, STREAM_TEST, 0);
    random_problem(&x, 3, 5, &r);
    memset(x.c, 0, sizeof x.c); /* no way out of the state: only d is left */
    real input[3], state[15], row[6];
    real gc[30] = {0};
    const real ones[6] = {1, 1, 1, 1, 1, 1};
    arena mem = {0};
    CHECK_OK(gbm_s4(&x.view, &mem, input, state));
    for (int h = 0; h < 3; h++)
        CHECK_NEAR(input[h], fabs((double)x.d[h]), 1e-6);
    for (int i = 0; i < 15; i++)
        CHECK(state[i] == 0);
    CHECK_OK(gbm_s4_rows_back(&x.view, ones, &mem,
                              &(s4_grads){.c = gc})); /* |q| at 0: slope 0, not NaN */
    for (int i = 0; i < 30; i++)
        CHECK(isfinite(gc[i]));
    x.c[3] = (real)NAN;
    x.b[12] = (real)INFINITY;
    CHECK_OK(gbm_s4(&x.view, &mem, input, state));
    CHECK(isinf(input[0]) && isinf(state[1]) && isinf(input[1]) && isfinite(state[6]) &&
          isfinite(input[2]));
    CHECK_OK(gbm_s4_rows(&x.view, &mem, row));
    CHECK(!isfinite(row[0]) && isfinite(row[5]));
    arena_deinit(&mem);
}

TEST(threads_do_not_change_a_bit)
{
    static problem x, grad[2];
    rng r = rng_stream(9, STREAM_TEST, 0);
    random_problem(&x, MAX_H, MAX_N, &r);
    static real row[2][2 * MAX_H];
    arena mem = {0};
    for (int i = 0; i < 2; i++) {
        stet_set_threads(i + 1);
        problem *g = &grad[i];
        CHECK_OK(gbm_s4_rows(&x.view, &mem, row[i]));
        CHECK_OK(gbm_s4_rows_back(&x.view, row[0], &mem,
                                  &(s4_grads){g->a, g->w, g->p, g->b, g->c, g->log_dt, g->d}));
    }
    CHECK(memcmp(row[0], row[1], sizeof row[0]) == 0 &&
          memcmp(&grad[0], &grad[1], sizeof grad[0]) == 0);
    arena_deinit(&mem);
}
