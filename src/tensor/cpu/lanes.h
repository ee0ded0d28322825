/* tensor/cpu/lanes.h - sums along a row in a fixed order. The compiler may not reorder additions,
 * so the order that vectors want is written down: entry i goes to lane i mod LANES, the lanes are
 * added pairwise at the end. For use inside SIMD_CLONES functions. */
#ifndef TENSOR_CPU_LANES_H
#define TENSOR_CPU_LANES_H

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

#endif
