/* tensor/vmath.h - exp, log, tanh, sigmoid and the GELU without branches or calls, so that a loop
 * over them vectorises when it is inlined into a SIMD_CLONES function: the fused sequence kernels
 * use them in place, host/vec_math.c makes the vec_ functions of kernels.h from them.
 *
 * Each is within 2 ulp of the true value over the whole range of float, with fused multiply-add and
 * without (tests/tensor/test_vec_math.c looks at every float). NaN gives NaN; overflow, infinities,
 * signed zeros and denormals come out as libm's. All of it rests on exp(x) = 2^n exp(r) with n
 * the nearest integer to x / ln 2, so |r| <= ln(2) / 2, and on short polynomials for what is left
 * (interpolated at the Chebyshev points of that range; their errors are given with them).
 *
 * With real = double (the tests' second build) these are libm's functions. */
#ifndef TENSOR_VMATH_H
#define TENSOR_VMATH_H

#include <math.h>
#include <stdint.h>

#include "base/simd.h"
#include "tensor/tensor.h"

/* Before a loop whose result may lie on its argument, element on element: the compiler would test for
 * overlap and run such calls one element at a time. (Doubles are libm's, which nothing vectorises,
 * and clang would complain.) */
#if defined(STET_DOUBLE)
#define INDEPENDENT
#elif defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#ifdef STET_DOUBLE

static ALWAYS_INLINE real v_exp(real x)
{
    return exp(x);
}
static ALWAYS_INLINE real v_exp_mid(real x)
{
    return exp(x > 28 ? 28 : x < -28 ? -28 : x);
}
static ALWAYS_INLINE real v_log(real x)
{
    return log(x);
}
static ALWAYS_INLINE real v_tanh(real x)
{
    return tanh(x);
}
static ALWAYS_INLINE real v_sigmoid(real x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}
static ALWAYS_INLINE real v_gelu(real x)
{
    return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * M_SQRT1_2);
}
static ALWAYS_INLINE real v_gelu_grad(real x)
{
    const double bump = x * exp(-0.5 * x * x) * (0.5 * M_SQRT1_2 * M_2_SQRTPI);
    return 0.5 * erfc(-x * M_SQRT1_2) + (fabs(x) < INFINITY ? bump : 0.0);
}

#else

static ALWAYS_INLINE uint32_t v_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } pun = {.f = x};
    return pun.u;
}

static ALWAYS_INLINE float v_float(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } pun = {.u = u};
    return pun.f;
}

/* 2^n for -127 < n < 128. The integers are unsigned because those of a NaN may wrap. */
static ALWAYS_INLINE float v_pow2(uint32_t n)
{
    return v_float((n + 127u) << 23);
}

/* exp(x) = 2^n (1 + m) for |x| < 2^21: returns m. Adding 1.5 * 2^23 leaves the rounded integer in
 * the low bits of the sum. ln 2 comes in two parts, the first short enough for n times it to be
 * exact. The polynomial is (exp(r) - 1 - r) / r^2; with it exp is right to 1e-8. */
static ALWAYS_INLINE float v_exp_reduced(float x, uint32_t *n)
{
    const float big = 0x1.8p23f;
    const float t = x * 0x1.715476p0f + big;
    const float fn = t - big;
    *n = v_bits(t) - v_bits(big);
    const float r = (x - fn * 0x1.62e4p-1f) - fn * 0x1.7f7d1cp-20f;
    float p = 1.392660314e-3f;
    p = p * r + 8.363239125e-3f;
    p = p * r + 4.166655106e-2f;
    p = p * r + 1.666657663e-1f;
    p = p * r + 0.5f;
    return r + (r * r) * p;
}

/* Beyond these ends the result is inf or 0; a NaN passes both comparisons. 2^n goes on in two
 * factors, so that a denormal result is rounded once. */
static ALWAYS_INLINE float v_exp(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    uint32_t n;
    const float m = v_exp_reduced(x, &n);
    const uint32_t half = (uint32_t)((int32_t)n >> 1);
    return (1.0f + m) * v_pow2(half) * v_pow2(n - half);
}

/* exp(x) between exp(-28) and exp(28), where it ends: for quotients in which 1 + exp(x) counts. */
static ALWAYS_INLINE float v_exp_mid(float x)
{
    x = 28.0f < x ? 28.0f : x;
    x = -28.0f > x ? -28.0f : x;
    uint32_t n;
    const float m = v_exp_reduced(x, &n), scale = v_pow2(n);
    return scale * m + scale;
}

/* log(x) = k ln 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) = f - f^2/2 + f^3
 * p(f), p right to 3e-9. Denormals are scaled up first. */
static ALWAYS_INLINE float v_log(float x)
{
    const uint32_t low = v_bits(0x1.6a09e6p-1f); /* sqrt(1/2) */
    const bool denormal = x < 0x1p-126f;
    const uint32_t bits = v_bits(denormal ? x * 0x1p23f : x);
    const int32_t k = (int32_t)(bits - low) >> 23;
    const float f = v_float(bits - ((uint32_t)k << 23)) - 1.0f;
    const float fk = (float)(denormal ? k - 23 : k);
    float p = 6.971611471e-2f;
    p = p * f - 1.147973385e-1f;
    p = p * f + 1.168541992e-1f;
    p = p * f - 1.242568733e-1f;
    p = p * f + 1.424905765e-1f;
    p = p * f - 1.666780232e-1f;
    p = p * f + 2.000071575e-1f;
    p = p * f - 2.499999696e-1f;
    p = p * f + 3.333333118e-1f;
    const float tail = f * f * (f * p - 0.5f) + fk * 0x1.7f7d1cp-20f;
    float y = (f + tail) + fk * 0x1.62e4p-1f;
    y = x < INFINITY ? y : x;
    return x > 0.0f ? y : x == 0.0f ? -INFINITY : NAN;
}

/* tanh|x| = 1 - 2 / (exp(2|x|) + 1); below 0.55, where that cancels, x + x^3 p(x^2) with p right to
 * 4e-9. From 10 on the first form is 1. */
static ALWAYS_INLINE float v_tanh(float x)
{
    const float a = fabsf(x);
    uint32_t n;
    const float m = v_exp_reduced(2.0f * (a > 10.0f ? 10.0f : a), &n);
    const float scale = v_pow2(n);
    const float large = 1.0f - 2.0f / ((scale * m + scale) + 1.0f);
    const float u = a * a;
    float p = -6.610227831e-3f;
    p = p * u + 2.130938866e-2f;
    p = p * u - 5.390942883e-2f;
    p = p * u + 1.333311373e-1f;
    p = p * u - 3.333333201e-1f;
    const float small = a + (a * u) * p;
    return copysignf(a < 0.55f ? small : large, x);
}

/* exp(-|x|) never overflows, and below 0 the quotient keeps the relative accuracy of exp. What the
 * rounding of 1 + e lost is put back, or the errors would add up to 2.4 ulp. */
static ALWAYS_INLINE float v_sigmoid(float x)
{
    const float e = v_exp(-fabsf(x));
    const float d = 1.0f + e;
    const float lost = e - (d - 1.0f);
    const float y = (x < 0.0f ? e : 1.0f) / d;
    return y - (y * lost) * (1.0f - y);
}

/* The normal distribution in double: the product x Phi(x) wants Phi in relative accuracy at both
 * tails, and Phi + x phi wants it next to its own zero at -0.75, where it cancels. Returns
 * exp(-x^2/2) and Phi(-|x|) = exp(-x^2/2) q(t), t = (|x| - 5.5) / (|x| + 5.5); q is right to 2e-15
 * for |x| <= 15, where everything in float is already constant. */
static ALWAYS_INLINE double v_normal_tail(double x, double *bell)
{
    const double y = -0.5 * x * x;
    const double big = 0x1.8p52;
    const double s = y * 0x1.71547652b82fep0 + big;
    const double fn = s - big;
    const double r = (y - fn * 0x1.62e42fee00000p-1) - fn * 0x1.a39ef35793c76p-33;
    double p = 2.51012071592701227e-8;
    p = p * r + 2.76202144933889663e-7;
    p = p * r + 2.75572665111692746e-6;
    p = p * r + 2.48015210306886244e-5;
    p = p * r + 1.9841269864563422e-4;
    p = p * r + 1.38888889173846076e-3;
    p = p * r + 8.33333333332964043e-3;
    p = p * r + 4.16666666666237854e-2;
    p = p * r + 1.66666666666666678e-1;
    p = p * r + 0.5;
    union {
        double d;
        uint64_t u;
    } pow2 = {.d = s};
    pow2.u = (pow2.u + 1023) << 52; /* the low bits of s are n */
    *bell = (1.0 + (r + (r * r) * p)) * pow2.d;

    const double a = fabs(x);
    const double t = (a - 5.5) / (a + 5.5);
    double q = -2.56902117331258172e-10;
    q = q * t - 4.83192275583076385e-8;
    q = q * t - 2.06798173497596378e-7;
    q = q * t + 1.02969533463979272e-7;
    q = q * t + 1.17994769364120942e-6;
    q = q * t - 2.5707199695940319e-6;
    q = q * t - 5.01746871919156798e-6;
    q = q * t + 3.59873224136830857e-5;
    q = q * t - 5.40110679112543482e-5;
    q = q * t - 1.97578537285912451e-4;
    q = q * t + 1.48786314024875059e-3;
    q = q * t - 5.36555389256503875e-3;
    q = q * t + 1.40727882331589308e-2;
    q = q * t - 2.97795929767772483e-2;
    q = q * t + 5.31746816511294785e-2;
    q = q * t - 8.20586867597983626e-2;
    q = q * t + 1.10979991785149649e-1;
    q = q * t - 1.32632095895521165e-1;
    q = q * t + 7.03426940251279321e-2;
    return *bell * q;
}

static ALWAYS_INLINE float v_clamp_normal(float x, float hi)
{
    x = x < -15.0f ? -15.0f : x;
    return x > hi ? hi : x;
}

static ALWAYS_INLINE float v_gelu(float x)
{
    double bell;
    const double tail = v_normal_tail((double)v_clamp_normal(x, 15.0f), &bell);
    return (float)((double)v_clamp_normal(x, INFINITY) * (x < 0.0f ? tail : 1.0 - tail));
}

static ALWAYS_INLINE float v_gelu_grad(float x)
{
    const double c = (double)v_clamp_normal(x, 15.0f);
    double bell;
    const double tail = v_normal_tail(c, &bell);
    return (float)((x < 0.0f ? tail : 1.0 - tail) + c * bell * 0.39894228040143267794);
}

#endif

/* A gradient on its way back through hundreds of steps: once it is next to nothing it is 0, because
 * denormal numbers take some processors many times as long as others (as OPTIM_TINY of weights). */
static ALWAYS_INLINE real v_settle(real x)
{
    return x > (real)-1e-30 && x < (real)1e-30 ? 0 : x;
}

#endif
