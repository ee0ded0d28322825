/* Horizon gain and contraction factor: golden values, gradients, soundness over many steps. */
#include "base/rng.h"
#include "bound/gbm_gain.h"
#include "golden.h"

enum { MAX_D = 24, MAX_H = 16 };

typedef struct problem {
    real w_ih[4 * MAX_H * MAX_D], w_hh[4 * MAX_H * MAX_H], b_ih[4 * MAX_H], b_hh[4 * MAX_H];
    real v[2][MAX_D], h[2][MAX_H], c[2][MAX_H];
    lstm_weights w;
    lstm_boxes x;
    lstm_cell_bounds b;
} problem;

static void tie(problem *p, size_t D, size_t H, gbm_cell_mode mode)
{
    p->w = (lstm_weights){D, H, p->w_ih, p->w_hh, p->b_ih, p->b_hh};
    p->x = (lstm_boxes){p->v[0], p->v[1], p->h[0], p->h[1], p->c[0], p->c[1]};
    p->b = (lstm_cell_bounds){&p->w, &p->x, mode};
}

static void random_problem(problem *p, size_t D, size_t H, double scale, double radius, rng *r)
{
    for (size_t i = 0; i < 4 * H * D; i++)
        p->w_ih[i] = (real)(scale * rng_normal(r) / sqrt((double)D));
    for (size_t i = 0; i < 4 * H * H; i++)
        p->w_hh[i] = (real)(scale * rng_normal(r) / sqrt((double)H));
    for (size_t i = 0; i < 4 * H; i++) {
        p->b_ih[i] = (real)(0.3 * rng_normal(r));
        p->b_hh[i] = 0;
    }
    for (size_t i = 0; i < D; i++) {
        const double at = 0.5 * rng_normal(r);
        p->v[0][i] = (real)(at - radius), p->v[1][i] = (real)(at + radius);
    }
    for (size_t i = 0; i < H; i++) {
        p->h[0][i] = p->c[0][i] = (real)-radius;
        p->h[1][i] = p->c[1][i] = (real)radius;
    }
    tie(p, D, H, GBM_CELL_BOTH);
}

static void check_gradient(const char *what, const json_t *want, const lstm_grads *g, size_t D,
                           size_t H)
{
    static const char gates[] = "ifgo";
    for (size_t q = 0; q < 4; q++) {
        const char W[] = {'W', gates[q], 0}, U[] = {'U', gates[q], 0}, b[] = {'b', gates[q], 0};
        check_numbers(what, json_object_get(want, W), g->w_ih + q * H * D, gradient_tolerance);
        check_numbers(what, json_object_get(want, U), g->w_hh + q * H * H, gradient_tolerance);
        check_numbers(what, json_object_get(want, b), g->b_ih + q * H, gradient_tolerance);
    }
}

TEST(golden_gain_and_contraction)
{
    static problem p;
    json_t *file = golden("lstm_reg.json");
    const json_t *params = json_object_get(file, "params"), *boxes = json_object_get(file, "boxes");
    real eta[8], omega[8], g[4][64];
    const size_t D = numbers(json_object_get(file, "eta"), eta),
                 H = numbers(json_object_get(file, "omega"), omega);
    static const char gates[] = "ifgo";
    for (size_t q = 0; q < 4; q++) {
        const char W[] = {'W', gates[q], 0}, U[] = {'U', gates[q], 0}, b[] = {'b', gates[q], 0};
        numbers(json_object_get(params, W), p.w_ih + q * H * D);
        numbers(json_object_get(params, U), p.w_hh + q * H * H);
        numbers(json_object_get(params, b), p.b_ih + q * H);
    }
    static const char *const names[] = {"V", "H", "C"};
    real *box[3][2] = {{p.v[0], p.v[1]}, {p.h[0], p.h[1]}, {p.c[0], p.c[1]}};
    for (int k = 0; k < 3; k++) {
        numbers(json_object_get(json_object_get(boxes, names[k]), "lo"), box[k][0]);
        numbers(json_object_get(json_object_get(boxes, names[k]), "hi"), box[k][1]);
    }
    tie(&p, D, H, GBM_CELL_IA);
    const lstm_grads grad = {g[0], g[1], g[2], g[3]};
    arena mem = {0};
    double rho, gain;
    memset(g, 0, sizeof g);
    CHECK_OK(gbm_lstm_rho(&p.b, 1, &grad, &mem, &rho));
    CHECK_NEAR(rho, json_number_value(json_object_get(file, "rho")), 2 * value_tolerance);
    check_gradient("grad_rho", json_object_get(file, "grad_rho"), &grad, D, H);
    memset(g, 0, sizeof g);
    const size_t T = (size_t)json_integer_value(json_object_get(file, "T"));
    CHECK_OK(gbm_lstm_gain(&p.b, eta, omega, T, false, &grad, &mem, &gain, NULL));
    CHECK_NEAR(gain, json_number_value(json_object_get(file, "gain")), 2 * value_tolerance);
    check_gradient("grad_gain", json_object_get(file, "grad_gain"), &grad, D, H);
    arena_deinit(&mem);
    json_decref(file);
}

#ifdef STET_DOUBLE
TEST(gradients_equal_finite_differences)
{
    static problem p;
    static real g[4][4 * MAX_H * MAX_D], d[2][4 * MAX_H * MAX_D];
    arena mem = {0};
    double worst = 0;
    for (size_t n = 0; n < 40; n++) {
        rng r = rng_stream(15, STREAM_TEST, n);
        const size_t D = 2 + rng_below(&r, MAX_D - 1), H = 1 + rng_below(&r, MAX_H);
        random_problem(&p, D, H, rng_range(&r, 0.3, 1.2), rng_range(&r, 0.05, 0.5), &r);
        real eta[MAX_D], omega[MAX_H];
        for (size_t i = 0; i < D; i++)
            eta[i] = rng_double(&r);
        for (size_t i = 0; i < H; i++)
            omega[i] = rng_double(&r);
        for (int which = 0; which < 3; which++) { /* gain, log(1 + gain), contraction */
            const lstm_grads grad = {g[0], g[1], g[2], g[3]};
            memset(g, 0, sizeof g);
            double slope = 0, side[2], v;
            if (which < 2)
                CHECK_OK(gbm_lstm_gain(&p.b, eta, omega, 12, which == 1, &grad, &mem, &v, NULL));
            else
                CHECK_OK(gbm_lstm_rho(&p.b, 1, &grad, &mem, &v));
            for (size_t i = 0; i < 4 * H * D; i++)
                slope += g[0][i] * (d[0][i] = rng_normal(&r));
            for (size_t i = 0; i < 4 * H * H; i++)
                slope += g[1][i] * (d[1][i] = rng_normal(&r));
            CHECK(slope != 0);
            const double e = 1e-7;
            for (int s = 0; s < 2; s++) {
                for (size_t i = 0; i < 4 * H * D; i++)
                    p.w_ih[i] += (s ? 2 * e : -e) * d[0][i];
                for (size_t i = 0; i < 4 * H * H; i++)
                    p.w_hh[i] += (s ? 2 * e : -e) * d[1][i];
                if (which < 2)
                    CHECK_OK(
                        gbm_lstm_gain(&p.b, eta, omega, 12, false, NULL, &mem, &side[s], NULL));
                else
                    CHECK_OK(gbm_lstm_rho(&p.b, 1, NULL, &mem, &side[s]));
                if (which == 1)
                    side[s] = log1p(side[s]);
            }
            for (size_t i = 0; i < 4 * H * D; i++)
                p.w_ih[i] -= e * d[0][i];
            for (size_t i = 0; i < 4 * H * H; i++)
                p.w_hh[i] -= e * d[1][i];
            const double error = fabs((side[1] - side[0]) / (2 * e) - slope) / (1e-3 + fabs(slope));
            worst = fmax(worst, error);
            CHECK_LE(error, 1e-4);
        }
    }
    fprintf(stderr, "  worst relative error %.2g\n", worst);
    arena_deinit(&mem);
}
#endif

/* ---- soundness ---------------------------------------------------------------------------- */

static double sig(double x)
{
    return 1 / (1 + exp(-x));
}

static void step(const problem *p, const double *v, double *h, double *c)
{
    const size_t D = p->w.D, H = p->w.H;
    double next_h[MAX_H], next_c[MAX_H];
    for (size_t i = 0; i < H; i++) {
        double T[4];
        for (size_t q = 0; q < 4; q++) {
            const size_t row = q * H + i;
            T[q] = (double)p->b_ih[row] + (double)p->b_hh[row];
            for (size_t j = 0; j < D; j++)
                T[q] += (double)p->w_ih[row * D + j] * v[j];
            for (size_t j = 0; j < H; j++)
                T[q] += (double)p->w_hh[row * H + j] * h[j];
        }
        next_c[i] = sig(T[1]) * c[i] + sig(T[0]) * tanh(T[2]);
        next_h[i] = sig(T[3]) * tanh(next_c[i]);
    }
    memcpy(h, next_h, H * sizeof *h);
    memcpy(c, next_c, H * sizeof *c);
}

enum { D = 6, H = 5, T = 8, PAIRS = 20 };

/* Pairs of texts whose words differ by at most eta; the words of pair k come from its own stream.
 */
static void words(const problem *p, const real *eta, rng *r, double v[2][D])
{
    for (size_t i = 0; i < D; i++) {
        const double lo = (double)p->v[0][i], hi = (double)p->v[1][i];
        v[0][i] = lo + (hi - lo) * rng_double(r);
        v[1][i] = fmin(hi, fmax(lo, v[0][i] + (double)eta[i] * (rng_below(r, 2) ? 1 : -1)));
    }
}

static void include(real *lo, real *hi, const double *x)
{
    for (size_t i = 0; i < H; i++) {
        lo[i] = (real)fmin((double)lo[i], x[i] - 1e-6);
        hi[i] = (real)fmax((double)hi[i], x[i] + 1e-6);
    }
}

/* Both texts of pair k, read to the end; the boxes of p grow to hold their states where `grow` is
 * set. */
static void read_pair(problem *p, const real *eta, size_t k, bool grow, double h[2][H])
{
    rng r = rng_stream(17, STREAM_TEST, k);
    double c[2][H] = {{0}}, v[2][D];
    memset(h, 0, 2 * sizeof h[0]);
    for (int t = 0; t < T; t++) {
        words(p, eta, &r, v);
        for (int s = 0; s < 2; s++) {
            if (grow) {
                include(p->h[0], p->h[1], h[s]);
                include(p->c[0], p->c[1], c[s]);
            }
            step(p, v[s], h[s], c[s]);
        }
    }
}

/* The last states differ by no more than z_T, in boxes that hold both texts' states and so what is
 * between. */
TEST(texts_drift_apart_by_no_more_than_the_gain)
{
    static problem p;
    arena mem = {0};
    double tightest = 0;
    for (size_t n = 0; n < 200; n++) {
        rng r = rng_stream(16, STREAM_TEST, n);
        random_problem(&p, D, H, rng_range(&r, 0.3, 1.5), rng_range(&r, 0.02, 1), &r);
        real eta[D], omega[H];
        double h[2][H], z[H], gain;
        for (size_t i = 0; i < D; i++)
            eta[i] = (p.v[1][i] - p.v[0][i]) * (real)rng_range(&r, 0.1, 0.5);
        for (size_t i = 0; i < H; i++) {
            omega[i] = (real)rng_double(&r);
            p.h[0][i] = p.h[1][i] = p.c[0][i] = p.c[1][i] = 0;
        }
        for (size_t k = 0; k < PAIRS; k++)
            read_pair(&p, eta, PAIRS * n + k, true, h);
        CHECK_OK(gbm_lstm_gain(&p.b, eta, omega, T, false, NULL, &mem, &gain, z));
        for (size_t k = 0; k < PAIRS; k++) {
            double change = 0;
            read_pair(&p, eta, PAIRS * n + k, false, h);
            for (size_t i = 0; i < H; i++) {
                CHECK_LE(fabs(h[0][i] - h[1][i]), z[i] * (1 + 1e-5));
                change += (double)omega[i] * (h[0][i] - h[1][i]);
            }
            CHECK_LE(fabs(change), gain * (1 + 1e-5));
            tightest = fmax(tightest, fabs(change) / gain);
        }
    }
    CHECK_LE(0.05, tightest); /* boxes as wide as this do not hide a mistake */
    fprintf(stderr, "  largest sampled change / gain %.2g\n", tightest);
    arena_deinit(&mem);
}

TEST(zero_weights_contract)
{
    static problem p;
    rng r = rng_stream(1, STREAM_TEST, 0);
    random_problem(&p, 3, 2, 0, 0.5, &r);
    memset(p.b_ih, 0, sizeof p.b_ih);
    tie(&p, 3, 2, GBM_CELL_BOTH);
    arena mem = {0};
    const real eta[3] = {1, 1, 1}, omega[2] = {1, 1};
    double rho, gain;
    CHECK_OK(gbm_lstm_rho(&p.b, 1, NULL, &mem, &rho));
    CHECK_NEAR(rho, 0.5, 1e-6); /* all gates at one half: the cell halves at every step */
    CHECK_OK(gbm_lstm_gain(&p.b, eta, omega, 10, true, NULL, &mem, &gain, NULL));
    CHECK_NEAR(gain, 0, 0);
    p.h[0][1] = 2; /* upside down */
    CHECK_FAILS(gbm_lstm_rho(&p.b, 1, NULL, &mem, &rho), STET_EUSAGE, "box h, coordinate 1");
    arena_deinit(&mem);
}
