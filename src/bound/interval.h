/* bound/interval.h - intervals of numbers, in round-to-nearest: what regularisers and statements
 * "up to rounding" need. Certificates widen on top of it (certify/). A product takes the sign of
 * both factors into account: lo times lo and hi times hi is wrong as soon as one sign is mixed. */
#ifndef BOUND_INTERVAL_H
#define BOUND_INTERVAL_H

#include <math.h>

#include "tensor/tensor.h"

#ifdef __CUDACC__ /* for kernels of the GPU too */
#define IV_FN static inline __host__ __device__
#else
#define IV_FN static inline
#endif

typedef struct iv {
    real lo, hi; /* lo <= hi */
} iv;

IV_FN real iv_mid(iv x)
{
    return (x.lo + x.hi) / 2;
}

IV_FN real iv_rad(iv x)
{
    return (x.hi - x.lo) / 2;
}

IV_FN iv iv_add(iv a, iv b)
{
    return (iv){a.lo + b.lo, a.hi + b.hi};
}

/* Product of [p] >= 0 and [x]. */
IV_FN iv iv_mul_pos(iv p, iv x)
{
    return (iv){x.lo >= 0 ? p.lo * x.lo : p.hi * x.lo, x.hi >= 0 ? p.hi * x.hi : p.lo * x.hi};
}

/* From the adjoint of that product to those of its factors, which are added to. Selections instead of
 * branches: loops of it become vectors. */
IV_FN __attribute__((always_inline)) void iv_mul_pos_back(iv y_, iv p, iv x, iv *p_, iv *x_)
{
    const real at_hi = y_.hi * x.hi, at_lo = y_.lo * x.lo;
    x_->hi += y_.hi * (x.hi >= 0 ? p.hi : p.lo);
    x_->lo += y_.lo * (x.lo >= 0 ? p.lo : p.hi);
    p_->hi += (x.hi >= 0 ? at_hi : 0) + (x.lo >= 0 ? 0 : at_lo);
    p_->lo += (x.hi >= 0 ? 0 : at_hi) + (x.lo >= 0 ? at_lo : 0);
}

/* What both contain; the caller knows that they meet. */
IV_FN iv iv_cap(iv a, iv b)
{
    return (iv){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

/* The smallest interval with x and 0. */
IV_FN iv iv_with_zero(iv x)
{
    return (iv){x.lo < 0 ? x.lo : 0, x.hi > 0 ? x.hi : 0};
}

IV_FN real sigmoid_of(real x)
{
    return (real)(1 / (1 + exp(-(double)x)));
}

IV_FN real tanh_of(real x)
{
    return (real)tanh((double)x);
}

/* Images under the two activations, which only grow. */
IV_FN iv iv_sigmoid(iv x)
{
    return (iv){sigmoid_of(x.lo), sigmoid_of(x.hi)};
}

IV_FN iv iv_tanh(iv x)
{
    return (iv){tanh_of(x.lo), tanh_of(x.hi)};
}

#endif
