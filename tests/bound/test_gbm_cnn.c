/* The growth bound matrix of a convolution with max-pooling: golden values, gradients, exactness.
 */
#include "base/rng.h"
#include "bound/gbm_cnn.h"
#include "golden.h"

enum { MAX = 4096 };

TEST(golden_matrices_and_gradient)
{
    json_t *file = golden("cnn.json");
    const json_t *kernels = json_object_get(file, "kernels"),
                 *params = json_object_get(file, "params");
    const size_t D = (size_t)json_integer_value(json_object_get(file, "d0")),
                 F = (size_t)json_integer_value(json_object_get(file, "d"));
    const size_t N = (size_t)json_integer_value(json_object_get(file, "N"));
    double sum = 0;
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const size_t k = (size_t)json_integer_value(json_array_get(kernels, i));
        char size[8], name[8];
        snprintf(size, sizeof size, "%zu", k);
        snprintf(name, sizeof name, "W%zu", k);
        real w[MAX], m[MAX], ones[MAX], dw[MAX] = {0};
        CHECK_EQ(numbers(json_object_get(params, name), w), F * D * k);
        const conv_weights cw = {F, D, k, w};
        gbm_conv(&cw, m);
        check_numbers("compact", json_object_get(json_object_get(file, "compact"), size), m,
                      value_tolerance);
        CHECK_OK(gbm_conv_full(&cw, N, m));
        check_numbers("full", json_object_get(json_object_get(file, "full"), size), m,
                      value_tolerance);
        gbm_conv(&cw, m);
        for (size_t e = 0; e < F * D; e++) {
            sum += (double)m[e];
            ones[e] = 1;
        }
        gbm_conv_back(&cw, m, ones, dw);
        check_numbers("gradient", json_object_get(json_object_get(file, "grad"), name), dw,
                      gradient_tolerance);
    }
    CHECK_NEAR(sum, json_number_value(json_object_get(file, "loss")), 10 * value_tolerance);
    json_decref(file);
}

/* ---- exactness ---------------------------------------------------------------------------- */

enum { TINY_F = 2, TINY_D = 2 };

/* dy_f / dv of every input entry: the taps of the winning window, or nothing below zero. */
static void derivative(const conv_weights *w, const double *bias, size_t N, const double *v,
                       double *out)
{
    memset(out, 0, w->F * N * w->D * sizeof *out);
    for (size_t f = 0; f < w->F; f++) {
        double best = 0;
        size_t at = N;
        for (size_t t = 0; t + w->k <= N; t++) {
            double a = bias[f];
            for (size_t c = 0; c < w->D; c++)
                for (size_t l = 0; l < w->k; l++)
                    a += (double)w->w[(f * w->D + c) * w->k + l] * v[(t + l) * w->D + c];
            if (a > best) {
                best = a;
                at = t;
            }
        }
        for (size_t c = 0; at < N && c < w->D; c++)
            for (size_t l = 0; l < w->k; l++)
                out[(f * N + at + l) * w->D + c] = fabs((double)w->w[(f * w->D + c) * w->k + l]);
    }
}

/* Random inputs of tiny nets: no derivative is above its bound, and every bound is met. */
TEST(the_full_form_is_the_largest_derivative_there_is)
{
    static const size_t size[][2] = {{1, 3}, {2, 2}, {2, 5}, {3, 4}, {3, 7}, {4, 4}};
    size_t samples = 0;
    for (size_t n = 0; n < sizeof size / sizeof *size; n++) {
        const size_t k = size[n][0], N = size[n][1], entries = TINY_F * N * TINY_D;
        rng r = rng_stream(3, STREAM_TEST, n);
        real weights[TINY_F * TINY_D * 4], m[64], compact[TINY_F * TINY_D];
        double bias[TINY_F], v[16], d[64], best[64] = {0};
        for (size_t i = 0; i < TINY_F * TINY_D * k; i++)
            weights[i] = (real)rng_normal(&r);
        for (size_t f = 0; f < TINY_F; f++)
            bias[f] = 0.3 * rng_normal(&r);
        const conv_weights w = {TINY_F, TINY_D, k, weights};
        CHECK_OK(gbm_conv_full(&w, N, m));
        gbm_conv(&w, compact);
        for (int trial = 0; trial < 20000; trial++) {
            for (size_t i = 0; i < N * TINY_D; i++)
                v[i] = 2 * rng_normal(&r);
            derivative(&w, bias, N, v, d);
            for (size_t i = 0; i < entries; i++) {
                CHECK_LE(d[i], (double)m[i]);
                best[i] = fmax(best[i], d[i]);
                samples++;
            }
        }
        for (size_t f = 0; f < TINY_F; f++)
            for (size_t p = 0; p < N; p++)
                for (size_t c = 0; c < TINY_D; c++) {
                    const size_t i = (f * N + p) * TINY_D + c;
                    CHECK_NEAR(best[i], m[i], 0); /* attained */
                    CHECK_LE(m[i], compact[f * TINY_D + c]);
                    if (p + 1 >= k && p + k <= N)
                        CHECK_NEAR(m[i], compact[f * TINY_D + c], 0);
                }
    }
    CHECK_LE(1e6, samples);
    fprintf(stderr, "  %zu derivatives, sampled maximum / bound 1\n", samples);
}

#ifdef STET_DOUBLE
TEST(gradients_equal_finite_differences)
{
    enum { F = 40, D = 30 };
    static real w[F * D * 7], dw[F * D * 7], m[F * D], weight[F * D];
    double worst = 0;
    for (size_t n = 0; n < 200; n++) {
        rng r = rng_stream(4, STREAM_TEST, n);
        const size_t k = 1 + n % 7;
        for (size_t i = 0; i < F * D * k; i++)
            w[i] = rng_normal(&r);
        for (size_t i = 0; i < F * D; i++)
            weight[i] = rng_range(&r, -1, 1);
        const conv_weights cw = {F, D, k, w};
        memset(dw, 0, sizeof dw);
        gbm_conv(&cw, m);
        gbm_conv_back(&cw, m, weight, dw);
        double size = 0;
        for (size_t i = 0; i < F * D * k; i++)
            size += fabs(dw[i]);
        CHECK(size > 1); /* the term of the published code has gradient 0 */
        for (int probe = 0; probe < 5; probe++) {
            const size_t i = rng_below(&r, F * D * k);
            double side[2] = {0, 0};
            const double at = w[i], h = 1e-6;
            for (int s = 0; s < 2; s++) {
                w[i] = at + (s ? h : -h);
                gbm_conv(&cw, m);
                for (size_t e = 0; e < F * D; e++)
                    side[s] += m[e] * weight[e];
            }
            w[i] = at;
            const double error = fabs((side[1] - side[0]) / (2 * h) - dw[i]);
            worst = fmax(worst, error);
            CHECK_LE(error, 1e-6);
        }
    }
    fprintf(stderr, "  worst error %.2g\n", worst);
}
#endif

TEST(of_equal_taps_the_first_gets_the_gradient)
{
    const real w[6] = {1, -1, 1, 0.5f, -2, 2}, m_[2] = {3, 5};
    const conv_weights cw = {1, 2, 3, w};
    real m[2], dw[6] = {0};
    gbm_conv(&cw, m);
    gbm_conv_back(&cw, m, m_, dw);
    const real want[6] = {3, 0, 0, 0, -5, 0};
    for (int i = 0; i < 6; i++)
        CHECK(dw[i] == want[i]);
}

TEST(odd_input_is_defined)
{
    real w[2 * 3 * 3] = {0}, m[6], dw[18] = {0};
    const real ones[6] = {1, 1, 1, 1, 1, 1};
    const conv_weights cw = {2, 3, 3, w};
    gbm_conv(&cw, m); /* zero weights: nothing depends on the words, and no direction is better */
    gbm_conv_back(&cw, m, ones, dw);
    for (int i = 0; i < 6; i++)
        CHECK(m[i] == 0);
    for (int i = 0; i < 18; i++)
        CHECK(dw[i] == 0);
    w[4] = (real)-INFINITY;
    w[9] = (real)NAN;
    gbm_conv(&cw, m);
    CHECK(isinf(m[1]) && isinf(m[3]) && m[0] == 0);
    CHECK_FAILS(gbm_conv_full(&cw, 2, m), STET_EUSAGE, "shorter than the kernel");
}

TEST(threads_do_not_change_a_bit)
{
    enum { F = 50, D = 33, k = 5 };
    static real w[F * D * k], m[2][F * D], dw[2][F * D * k];
    rng r = rng_stream(5, STREAM_TEST, 0);
    for (size_t i = 0; i < F * D * k; i++)
        w[i] = (real)rng_normal(&r);
    for (int threads = 1; threads <= 2; threads++) {
        stet_set_threads(threads);
        gbm_conv(&(conv_weights){F, D, k, w}, m[threads - 1]);
        gbm_conv_back(&(conv_weights){F, D, k, w}, m[0], m[0], dw[threads - 1]);
    }
    CHECK(memcmp(m[0], m[1], sizeof m[0]) == 0 && memcmp(dw[0], dw[1], sizeof dw[0]) == 0);
}
