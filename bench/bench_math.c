/* bench/bench_math.c - elements per second of the vector functions beside libm's, one call an
 * element. */
#include "bench.h"

#include <math.h>
#include <stdio.h>

#include "tensor/kernels.h"

enum { N = 4096 }; /* in the first cache */
static real x[N], y[N];

/* libm's, out of reach of the compiler's own vector library */
static float (*volatile libm_exp)(float) = expf;
static float (*volatile libm_log)(float) = logf;
static float (*volatile libm_tanh)(float) = tanhf;
static float (*volatile libm_erfc)(float) = erfcf;

static float plain_exp(float v)
{
    return libm_exp(v);
}
static float plain_log(float v)
{
    return libm_log(v);
}
static float plain_tanh(float v)
{
    return libm_tanh(v);
}
static float plain_sigmoid(float v)
{
    return 1 / (1 + libm_exp(-v));
}
static float plain_gelu(float v)
{
    return 0.5f * v * libm_erfc(-v * (float)M_SQRT1_2);
}
static float plain_gelu_grad(float v)
{
    return 0.5f * libm_erfc(-v * (float)M_SQRT1_2) + v * libm_exp(-0.5f * v * v) * 0.398942280f;
}

typedef struct subject {
    const char *name;
    void (*vec)(const real *, real *, size_t);
    float (*plain)(float);
    bool positive;
} subject;

static void run_vec(void *ctx)
{
    ((const subject *)ctx)->vec(x, y, N);
}

static void run_plain(void *ctx)
{
    const subject *s = ctx;
    for (int i = 0; i < N; i++)
        y[i] = s->plain(x[i]);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "math", "vector functions beside libm, one thread");
    subject subjects[] = {
        {"exp", vec_exp, plain_exp, false},    {"log", vec_log, plain_log, true},
        {"tanh", vec_tanh, plain_tanh, false}, {"sigmoid", vec_sigmoid, plain_sigmoid, false},
        {"gelu", vec_gelu, plain_gelu, false}, {"gelu_grad", vec_gelu_grad, plain_gelu_grad, false},
    };
    for (size_t k = 0; k < sizeof subjects / sizeof *subjects; k++) {
        subject *s = &subjects[k];
        double worst = 0;
        for (int i = 0; i < N; i++)
            x[i] = (real)((s->positive ? 8.0 : 16.0) * (i + 0.5) / N - (s->positive ? 0.0 : 8.0));
        run_vec(s);
        for (int i = 0; i < N; i++)
            worst =
                fmax(worst, fabs((double)(y[i] - s->plain(x[i]))) / fmax(1, fabs((double)y[i])));
        bench_check(s->name, worst, 5e-7);
        bench_fn *const fns[] = {run_vec, run_plain};
        void *const ctxs[] = {s, s};
        bench_time t[2];
        bench_measure_each(fns, ctxs, 2, t);
        bench_rate(s->name, "stet", t[0], 1e-9 * N, "G/s");
        bench_rate(s->name, "libm", t[1], 1e-9 * N, "G/s");
    }
    return bench_finish();
}
