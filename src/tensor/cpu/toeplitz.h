/* tensor/cpu/toeplitz.h - causal convolution of channels in lanes, term by term. */
#ifndef TENSOR_CPU_TOEPLITZ_H
#define TENSOR_CPU_TOEPLITZ_H

#include "tensor/cpu/channels.h"

enum { TOEPLITZ_TILE = 8 };

/* Room for n steps in the arrays of toeplitz_mul. */
static inline size_t toeplitz_room(size_t n)
{
    return (n + TOEPLITZ_TILE - 1) / TOEPLITZ_TILE * TOEPLITZ_TILE;
}

/* y[t] = sum over s <= t of x[s] k[t - s] for t < toeplitz_room(n), all arrays of that size. A tile
 * of results stays in registers, so each product costs one load. */
static ALWAYS_INLINE void toeplitz_mul(const vreal *RESTRICT x, const vreal *RESTRICT k, size_t n,
                                       vreal *RESTRICT y)
{
    for (size_t t = 0; t < n; t += TOEPLITZ_TILE) {
        vreal sum[TOEPLITZ_TILE] = {{0}};
        for (size_t s = 0; s < t; s++)
            for (size_t i = 0; i < TOEPLITZ_TILE; i++)
                sum[i] += x[s] * k[t - s + i];
        for (size_t j = 0; j < TOEPLITZ_TILE; j++)
            for (size_t i = j; i < TOEPLITZ_TILE; i++)
                sum[i] += x[t + j] * k[i - j];
        for (size_t i = 0; i < TOEPLITZ_TILE; i++)
            y[t + i] = sum[i];
    }
}

#endif
