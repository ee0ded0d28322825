/* tensor/host/lanes.h - sums along a row in a fixed order. The compiler may not reorder additions,
 * so the order that vectors want is written down: entry i goes to lane i mod LANES, the lanes are
 * added pairwise at the end. For use inside SIMD_CLONES functions. */
#ifndef TENSOR_HOST_LANES_H
#define TENSOR_HOST_LANES_H

#include "base/simd.h"
#include "tensor/tensor.h"

/* As wide as the widest registers; narrower machines use several. Loads need no alignment. */
typedef real lanes __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));
enum { LANES = sizeof(lanes) / sizeof(real) };

static ALWAYS_INLINE real lanes_fold(const lanes *v)
{
    real s[LANES];
    for (int i = 0; i < LANES; i++)
        s[i] = (*v)[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            s[i] += s[i + half];
    return s[0];
}

static ALWAYS_INLINE real lanes_sum(const real *x, size_t n)
{
    lanes sum = {0};
    real tail = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += *(const lanes *)(x + i);
    for (; i < n; i++)
        tail += x[i];
    return lanes_fold(&sum) + tail;
}

static ALWAYS_INLINE real lanes_dot(const real *x, const real *y, size_t n)
{
    lanes sum = {0};
    real tail = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += *(const lanes *)(x + i) * *(const lanes *)(y + i);
    for (; i < n; i++)
        tail += x[i] * y[i];
    return lanes_fold(&sum) + tail;
}

/* Sum of (x - mean)^2. */
static ALWAYS_INLINE real lanes_spread(const real *x, real mean, size_t n)
{
    lanes sum = {0};
    real tail = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const lanes d = *(const lanes *)(x + i) - mean;
        sum += d * d;
    }
    for (; i < n; i++)
        tail += (x[i] - mean) * (x[i] - mean);
    return lanes_fold(&sum) + tail;
}

/* Sums in double, whatever `real` is. */
typedef double wide __attribute__((vector_size(64)));
typedef real narrow
    __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
enum { WIDE = sizeof(wide) / sizeof(double) };

static ALWAYS_INLINE double wide_fold(const wide *v)
{
    const wide s = *v;
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

static ALWAYS_INLINE double wide_sum(const real *x, size_t n)
{
    wide sum = {0};
    double tail = 0;
    size_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        sum += __builtin_convertvector(*(const narrow *)(x + i), wide);
    for (; i < n; i++)
        tail += (double)x[i];
    return wide_fold(&sum) + tail;
}

static ALWAYS_INLINE double wide_sumsq(const real *x, size_t n)
{
    wide sum = {0};
    double tail = 0;
    size_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        const wide v = __builtin_convertvector(*(const narrow *)(x + i), wide);
        sum += v * v;
    }
    for (; i < n; i++)
        tail += (double)x[i] * (double)x[i];
    return wide_fold(&sum) + tail;
}

#endif
