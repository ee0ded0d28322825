/* The growth bound matrix of an LSTM cell: golden values, gradients, soundness. */
#include "base/mem.h"
#include "base/rng.h"
#include "bound/gbm_lstm.h"
#include "golden.h"

enum { MAX_D = 300, MAX_H = 64 };

/* One cell with its boxes, in static memory. */
typedef struct problem {
    real w_ih[4 * MAX_H * MAX_D], w_hh[4 * MAX_H * MAX_H], b_ih[4 * MAX_H], b_hh[4 * MAX_H];
    real v[2][MAX_D], h[2][MAX_H], c[2][MAX_H];
    lstm_weights w;
    lstm_boxes x;
} problem;

static void tie(problem *p, size_t D, size_t H)
{
    p->w = (lstm_weights){D, H, p->w_ih, p->w_hh, p->b_ih, p->b_hh};
    p->x = (lstm_boxes){p->v[0], p->v[1], p->h[0], p->h[1], p->c[0], p->c[1]};
}

static void random_problem(problem *p, size_t D, size_t H, double scale, double radius, rng *r)
{
    for (size_t i = 0; i < 4 * H * D; i++)
        p->w_ih[i] = (real)(scale * rng_normal(r) / sqrt((double)D));
    for (size_t i = 0; i < 4 * H * H; i++)
        p->w_hh[i] = (real)(scale * rng_normal(r) / sqrt((double)H));
    for (size_t i = 0; i < 4 * H; i++) {
        p->b_ih[i] = (real)(0.3 * rng_normal(r));
        p->b_hh[i] = (real)(0.3 * rng_normal(r));
    }
    struct {
        real *lo, *hi;
        size_t n;
    } box[3] = {{p->v[0], p->v[1], D}, {p->h[0], p->h[1], H}, {p->c[0], p->c[1], H}};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < box[k].n; i++) {
            const double at = 0.5 * rng_normal(r), half = radius * rng_double(r);
            box[k].lo[i] = (real)(at - half);
            box[k].hi[i] = (real)(at + half);
        }
    tie(p, D, H);
}

/* ---- golden ------------------------------------------------------------------------------- */

static gbm_cell_mode mode_of(const char *name)
{
    return strcmp(name, "ia") == 0   ? GBM_CELL_IA
           : strcmp(name, "mv") == 0 ? GBM_CELL_MV
                                     : GBM_CELL_BOTH;
}

TEST(golden_cells)
{
    static problem p;
    json_t *file = golden("lstm_cell.json"), *cases = json_object_get(file, "cases");
    CHECK(json_array_size(cases) >= 4);
    for (size_t n = 0; n < json_array_size(cases); n++) {
        const json_t *c = json_array_get(cases, n), *params = json_object_get(c, "params"),
                     *boxes = json_object_get(c, "boxes");
        const size_t D = (size_t)json_integer_value(json_object_get(c, "d0")),
                     H = (size_t)json_integer_value(json_object_get(c, "d"));
        memset(&p, 0, sizeof p);
        static const char gates[] = "ifgo";
        for (size_t q = 0; q < 4; q++) {
            const char W[] = {'W', gates[q], 0}, U[] = {'U', gates[q], 0}, b[] = {'b', gates[q], 0};
            CHECK_EQ(numbers(json_object_get(params, W), p.w_ih + q * H * D), H * D);
            CHECK_EQ(numbers(json_object_get(params, U), p.w_hh + q * H * H), H * H);
            CHECK_EQ(numbers(json_object_get(params, b), p.b_ih + q * H), H);
        }
        static const char *const names[] = {"V", "H", "C"};
        real *lo[] = {p.v[0], p.h[0], p.c[0]}, *hi[] = {p.v[1], p.h[1], p.c[1]};
        for (int k = 0; k < 3; k++) {
            numbers(json_object_get(json_object_get(boxes, names[k]), "lo"), lo[k]);
            numbers(json_object_get(json_object_get(boxes, names[k]), "hi"), hi[k]);
        }
        tie(&p, D, H);
        const gbm_cell_mode mode = mode_of(json_string_value(json_object_get(c, "c_mode")));

        real mv[64], mh[64], mc[8], ahat[64], bhat[64], hl[8], hh[8], cl[8], ch[8], tight[64];
        const lstm_gbm out = {.mv = mv,
                              .mh = mh,
                              .mc = mc,
                              .ahat = ahat,
                              .bhat = bhat,
                              .h_lo = hl,
                              .h_hi = hh,
                              .c_lo = cl,
                              .c_hi = ch,
                              .mv_tight = tight};
        CHECK_OK(gbm_lstm(&p.w, &p.x, mode, &out));
        const json_t *in = json_object_get(c, "intermediates");
        check_numbers("Mv", json_object_get(in, "Mv"), mv, value_tolerance);
        check_numbers("Mv_tight", json_object_get(c, "Mv_tight"), tight, value_tolerance);
        check_numbers("Mh", json_object_get(in, "Mh"), mh, value_tolerance);
        check_numbers("Mc", json_object_get(in, "Mc"), mc, value_tolerance);
        check_numbers("Ahat", json_object_get(in, "Ahat"), ahat, value_tolerance);
        check_numbers("Bhat", json_object_get(in, "Bhat"), bhat, value_tolerance);
        check_numbers("c.lo", json_object_get(json_object_get(in, "c"), "lo"), cl, value_tolerance);
        check_numbers("c.hi", json_object_get(json_object_get(in, "c"), "hi"), ch, value_tolerance);
        check_numbers("h.lo", json_object_get(json_object_get(in, "h"), "lo"), hl, value_tolerance);
        check_numbers("h.hi", json_object_get(json_object_get(in, "h"), "hi"), hh, value_tolerance);

        real k[3], value, dw_ih[64] = {0}, dw_hh[64] = {0}, db_ih[16] = {0}, db_hh[16] = {0};
        numbers(json_object_get(c, "k"), k);
        const lstm_gbm_loss loss = {.kv = k[0], .kh = k[1], .kc = k[2]};
        const lstm_grads grad = {dw_ih, dw_hh, db_ih, db_hh};
        arena a = {0};
        CHECK_OK(gbm_lstm_sum(&p.w, &p.x, mode, &loss, 1, &grad, &a, &value, NULL, NULL));
        arena_deinit(&a);
        CHECK_NEAR(value, json_number_value(json_object_get(c, "loss")), 10 * value_tolerance);
        for (size_t q = 0; q < 4; q++) {
            const char W[] = {'W', gates[q], 0}, U[] = {'U', gates[q], 0}, b[] = {'b', gates[q], 0};
            const json_t *g = json_object_get(c, "grad");
            check_numbers(W, json_object_get(g, W), dw_ih + q * H * D, gradient_tolerance);
            check_numbers(U, json_object_get(g, U), dw_hh + q * H * H, gradient_tolerance);
            check_numbers(b, json_object_get(g, b), db_ih + q * H, gradient_tolerance);
        }
    }
    json_decref(file);
}

#ifdef STET_DOUBLE
/* ---- finite differences ------------------------------------------------------------------- */

static real value_of(const problem *p, gbm_cell_mode mode, const lstm_gbm_loss *loss, arena *a)
{
    real v;
    CHECK_OK(gbm_lstm_sum(&p->w, &p->x, mode, loss, 1, NULL, a, &v, NULL, NULL));
    return v;
}

static void move(problem *p, const real *d_ih, const real *d_hh, const real *d_b, double by)
{
    const size_t D = p->w.D, H = p->w.H;
    for (size_t i = 0; i < 4 * H * D; i++)
        p->w_ih[i] += by * d_ih[i];
    for (size_t i = 0; i < 4 * H * H; i++)
        p->w_hh[i] += by * d_hh[i];
    for (size_t i = 0; i < 4 * H; i++)
        p->b_ih[i] += by * d_b[i];
}

/* 200 random cells, a random direction in weight space each, every mode, with matrix weights on
 * every part. */
TEST(gradients_equal_finite_differences)
{
    static problem p;
    static real g_ih[4 * MAX_H * MAX_D], g_hh[4 * MAX_H * MAX_H], g_bi[4 * MAX_H], g_bh[4 * MAX_H];
    static real d_ih[4 * MAX_H * MAX_D], d_hh[4 * MAX_H * MAX_H], d_b[4 * MAX_H];
    static real Kv[MAX_H * MAX_D], Kh[MAX_H * MAX_H], Kc[MAX_H], Ka[MAX_H * MAX_D],
        Kb[MAX_H * MAX_H], Kf[MAX_H];
    arena a = {0};
    double worst = 0;
    for (int n = 0; n < 200; n++) {
        rng r = rng_stream(5, STREAM_TEST, (uint64_t)n);
        const size_t D = n % 20 ? 1 + rng_below(&r, 40) : MAX_D,
                     H = n % 20 ? 1 + rng_below(&r, 24) : MAX_H;
        random_problem(&p, D, H, rng_range(&r, 0.3, 2), rng_range(&r, 0.01, 1), &r);
        struct {
            real *v;
            size_t n;
        } weights[] = {{Kv, H * D}, {Kh, H * H}, {Kc, H}, {Ka, H * D}, {Kb, H * H}, {Kf, H}};
        for (size_t k = 0; k < 6; k++)
            for (size_t i = 0; i < weights[k].n; i++)
                weights[k].v[i] = (real)rng_double(&r);
        const bool matrices = n % 2;
        const lstm_gbm_loss loss = {.kv = 1,
                                    .kh = 0.7,
                                    .kc = 0.4,
                                    .Kv = matrices ? Kv : NULL,
                                    .Kh = matrices ? Kh : NULL,
                                    .Kc = matrices ? Kc : NULL,
                                    .Kahat = matrices ? Ka : NULL,
                                    .Kbhat = matrices ? Kb : NULL,
                                    .Kfmax = matrices ? Kf : NULL};
        const gbm_cell_mode mode = (gbm_cell_mode)(n % 3);
        memset(g_ih, 0, sizeof g_ih);
        memset(g_hh, 0, sizeof g_hh);
        memset(g_bi, 0, sizeof g_bi);
        memset(g_bh, 0, sizeof g_bh);
        const lstm_grads grad = {g_ih, g_hh, g_bi, g_bh};
        real v;
        CHECK_OK(gbm_lstm_sum(&p.w, &p.x, mode, &loss, 1, &grad, &a, &v, NULL, NULL));
        double slope = 0;
        for (size_t i = 0; i < 4 * H * D; i++)
            slope += g_ih[i] * (d_ih[i] = rng_normal(&r) / 30);
        for (size_t i = 0; i < 4 * H * H; i++)
            slope += g_hh[i] * (d_hh[i] = rng_normal(&r) / 30);
        for (size_t i = 0; i < 4 * H; i++)
            slope += g_bi[i] * (d_b[i] = rng_normal(&r) / 30);
        CHECK(slope != 0); /* the published code's gradient is zero; ours must not be */
        /* A kink inside the step spoils a difference; with thousands of weights one is sometimes
         * near, so the step shrinks. */
        double error = INFINITY;
        for (double e = 1e-6; error > 1e-5 && e > 5e-9; e /= 10) {
            real side[2];
            for (int k = 0; k < 2; k++) {
                move(&p, d_ih, d_hh, d_b, k ? 2 * e : -e);
                side[k] = value_of(&p, mode, &loss, &a);
            }
            move(&p, d_ih, d_hh, d_b, -e);
            error = fmin(error, fabs((side[1] - side[0]) / (2 * e) - slope) / (1e-3 + fabs(slope)));
        }
        worst = fmax(worst, error);
        CHECK_LE(error, 1e-4);
    }
    fprintf(stderr, "  worst relative error %.2g\n", worst);
    arena_deinit(&a);
}

/* ---- soundness ---------------------------------------------------------------------------- */

static double sig(double x)
{
    return 1 / (1 + exp(-x));
}

/* Exact derivatives of one cell at a point, against the bounds. */
TEST(sampled_derivatives_stay_below_their_bounds)
{
    static problem p;
    enum { D = 12, H = 8, CELLS = 60, POINTS = 80 };
    static real mv[H * D], mh[H * H], mc[H], ahat[H * D], bhat[H * H], fmax_[H], tv[H * D],
        th[H * H], hl[H], hh[H], cl[H], ch[H];
    double tight_v = 0, sum_v = 0, sum_tight = 0;
    size_t samples = 0;
    for (int n = 0; n < CELLS; n++) {
        rng r = rng_stream(9, STREAM_TEST, (uint64_t)n);
        random_problem(&p, D, H, rng_range(&r, 0.5, 3), rng_range(&r, 0, 1.5), &r);
        const lstm_gbm out = {mv, mh, mc, ahat, bhat, fmax_, hl, hh, cl, ch, tv, th};
        CHECK_OK(gbm_lstm(&p.w, &p.x, (gbm_cell_mode)(n % 3), &out));
        double best[H * D] = {0};
        for (int k = 0; k < POINTS; k++) {
            double v[D], h[H], c[H];
            const bool corner = k % 2; /* corners are where bounds break first */
            for (int j = 0; j < D; j++)
                v[j] = p.v[0][j] + (p.v[1][j] - p.v[0][j]) *
                                       (corner ? (double)rng_below(&r, 2) : rng_double(&r));
            for (int j = 0; j < H; j++) {
                h[j] = p.h[0][j] + (p.h[1][j] - p.h[0][j]) *
                                       (corner ? (double)rng_below(&r, 2) : rng_double(&r));
                c[j] = p.c[0][j] + (p.c[1][j] - p.c[0][j]) *
                                       (corner ? (double)rng_below(&r, 2) : rng_double(&r));
            }
            for (int i = 0; i < H; i++) {
                double T[4];
                for (int q = 0; q < 4; q++) {
                    const size_t row = (size_t)(q * H + i);
                    T[q] = p.b_ih[row] + p.b_hh[row];
                    for (int j = 0; j < D; j++)
                        T[q] += p.w_ih[row * D + (size_t)j] * v[j];
                    for (int j = 0; j < H; j++)
                        T[q] += p.w_hh[row * H + (size_t)j] * h[j];
                }
                const double in = sig(T[0]), f = sig(T[1]), g = tanh(T[2]), o = sig(T[3]),
                             cn = f * c[i] + in * g, t = tanh(cn);
                const double dT[4] = {in * (1 - in) * g, f * (1 - f) * c[i], in * (1 - g * g), 0};
                const double slack = 1e-9;
                CHECK_LE(cl[i] - slack, cn);
                CHECK_LE(cn, ch[i] + slack);
                CHECK_LE(hl[i] - slack, o * t);
                CHECK_LE(o * t, hh[i] + slack);
                for (int j = 0; j < D + H; j++) {
                    double dc = 0, w[4];
                    for (int q = 0; q < 4; q++) {
                        const size_t row = (size_t)(q * H + i);
                        w[q] =
                            j < D ? p.w_ih[row * D + (size_t)j] : p.w_hh[row * H + (size_t)(j - D)];
                        dc += dT[q] * w[q];
                    }
                    const double dh = o * (1 - o) * w[3] * t + o * (1 - t * t) * dc;
                    const size_t at = j < D ? (size_t)(i * D + j) : (size_t)(i * H + j - D);
                    CHECK_LE(fabs(dh), (j < D ? mv : mh)[at] + slack);
                    CHECK_LE(fabs(dh), (j < D ? tv : th)[at] + slack);
                    CHECK_LE((j < D ? tv : th)[at], (j < D ? mv : mh)[at] + slack);
                    CHECK_LE(fabs(dc), (j < D ? ahat : bhat)[at] + slack);
                    if (j < D && fabs(dh) > best[at])
                        best[at] = fabs(dh);
                    samples += 2;
                }
                CHECK_LE(o * (1 - t * t) * f, mc[i] + slack);
                CHECK_LE(f, fmax_[i] + slack);
                samples += 2;
            }
        }
        for (int k = 0; k < H * D; k++) {
            tight_v += best[k];
            sum_v += mv[k];
            sum_tight += tv[k];
        }
    }
    CHECK_LE(1e6, 2 * samples);
    fprintf(stderr,
            "  %zu derivatives, sampled maximum / bound of Mv %.2f, of the sharper one %.2f\n",
            samples, tight_v / sum_v, tight_v / sum_tight);
}
#endif

/* ---- odd input ---------------------------------------------------------------------------- */

TEST(odd_input_is_defined)
{
    static problem p;
    rng r = rng_stream(1, STREAM_TEST, 0);
    random_problem(&p, 5, 4, 1, 0.5, &r);
    real mv[20], mh[16], mc[4];
    const lstm_gbm out = {.mv = mv, .mh = mh, .mc = mc};
    memset(p.w_ih, 0, sizeof p.w_ih);
    memset(p.w_hh, 0, sizeof p.w_hh);
    CHECK_OK(
        gbm_lstm(&p.w, &p.x, GBM_CELL_BOTH, &out)); /* zero weights: nothing depends on v and h */
    for (int i = 0; i < 20; i++)
        CHECK(mv[i] == 0);
    for (int i = 0; i < 4; i++)
        CHECK(mc[i] > 0);

    random_problem(&p, 5, 4, 1, 0, &r); /* boxes of width zero: the derivative itself */
    CHECK_OK(gbm_lstm(&p.w, &p.x, GBM_CELL_BOTH, &out));
    for (int i = 0; i < 20; i++)
        CHECK(isfinite(mv[i]));

    p.w_ih[3] = (real)NAN; /* no bound can be given: infinity */
    CHECK_OK(gbm_lstm(&p.w, &p.x, GBM_CELL_BOTH, &out));
    CHECK(isinf(mv[0]));
    p.w_ih[3] = (real)INFINITY;
    CHECK_OK(gbm_lstm(&p.w, &p.x, GBM_CELL_BOTH, &out));
    CHECK(isinf(mv[0]) || isfinite(mv[0]));

    p.v[0][2] = 1, p.v[1][2] = -1;
    CHECK_FAILS(gbm_lstm(&p.w, &p.x, GBM_CELL_BOTH, &out), STET_EUSAGE, "box v, coordinate 2");
    p.v[0][2] = (real)NAN;
    CHECK_FAILS(gbm_lstm(&p.w, &p.x, GBM_CELL_BOTH, &out), STET_EUSAGE, "box v, coordinate 2");
}

TEST(threads_do_not_change_a_bit)
{
    static problem p;
    static real a1[4 * MAX_H * MAX_D], a2[4 * MAX_H * MAX_D], u[4 * MAX_H * MAX_H], b[4 * MAX_H],
        b2[4 * MAX_H];
    rng r = rng_stream(2, STREAM_TEST, 0);
    random_problem(&p, 100, 32, 1, 0.3, &r);
    const lstm_gbm_loss loss = {.kv = 1, .kh = 1, .kc = 1};
    arena mem = {0};
    real v1, v2;
    stet_set_threads(1);
    CHECK_OK(gbm_lstm_sum(&p.w, &p.x, GBM_CELL_BOTH, &loss, 1, &(lstm_grads){a1, u, b, b2}, &mem,
                          &v1, NULL, NULL));
    stet_set_threads(2);
    CHECK_OK(gbm_lstm_sum(&p.w, &p.x, GBM_CELL_BOTH, &loss, 1, &(lstm_grads){a2, u, b, b2}, &mem,
                          &v2, NULL, NULL));
    CHECK(v1 == v2 && memcmp(a1, a2, sizeof a1) == 0);
    arena_deinit(&mem);
}
