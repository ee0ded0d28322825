/* tests/tensor/vec_math_ref.h - the vector functions beside libm's double ones, and the distance
 * between them in units of the last place. Shared by the quick test and the one of every float. */
#ifndef VEC_MATH_REF_H
#define VEC_MATH_REF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tensor/kernels.h"

static double ref_sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static double ref_gelu(double x)
{
    return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double ref_gelu_grad(double x)
{
    const double bell = exp(-0.5 * x * x) / sqrt(2 * M_PI);
    return 0.5 * erfc(-x * M_SQRT1_2) + (isinf(x) ? 0 : x * bell);
}

typedef struct vec_case {
    const char *name;
    void (*fn)(const real *x, real *y, size_t n);
    double (*ref)(double x);
} vec_case;

static const vec_case vec_cases[] = {
    {"exp", vec_exp, exp},        {"log", vec_log, log},
    {"tanh", vec_tanh, tanh},     {"sigmoid", vec_sigmoid, ref_sigmoid},
    {"gelu", vec_gelu, ref_gelu}, {"gelu_grad", vec_gelu_grad, ref_gelu_grad},
};
enum { N_VEC_CASES = sizeof vec_cases / sizeof *vec_cases };

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* |y - want| in units of the last place of a float as large as `want`; inf where one is
 * NaN or infinite and the other is not. */
static inline double ulp_error(float y, double want)
{
    const float rounded = (float)want;
    if (isnan(want) || isnan(y))
        return isnan(want) && isnan(y) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(y)) /* the largest float is one step from infinity */
        return rounded == y ? 0 : fabsf(isinf(y) ? rounded : y) == 0x1.fffffep127f ? 1 : INFINITY;
    int e;
    frexp(want, &e); /* want = m 2^e, 1/2 <= m < 1: the last place is 2^(e - 24) */
    return fabs(y - want) / ldexp(1, want != 0 && e > -125 ? e - 24 : -149);
}

#endif
