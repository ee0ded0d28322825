/* tensor/cpu/channels.h - the S4 kernels take one cache line of channels at a time: the same entry
 * of 16 (float) or 8 (double) channels is one vector, and every loop over states or tokens is plain
 * arithmetic on such vectors. Machines with narrower registers use several for one.
 *
 * Vectors are passed by value, but only to functions that are always inlined: no call depends on
 * the calling convention that -Wpsabi is about, so the files that include this switch its note off.
 */
#ifndef TENSOR_CPU_CHANNELS_H
#define TENSOR_CPU_CHANNELS_H

#include <string.h>

#include "base/simd.h"
#include "tensor/tensor.h"

typedef real vreal __attribute__((vector_size(64)));
typedef double vdouble __attribute__((vector_size(64)));
enum { LINE = sizeof(vreal) / sizeof(real), LINE_DOUBLE = sizeof(vdouble) / sizeof(double) };

/* The first `n` channels of a line from or to a row that need not be aligned; the others read as 0.
 */
static ALWAYS_INLINE void line_load(vreal *v, const real *row, size_t n)
{
    if (n == LINE) {
        memcpy(v, row, sizeof *v);
    } else {
        *v = (vreal){0};
        memcpy(v, row, n * sizeof *row);
    }
}

static ALWAYS_INLINE void line_store(const vreal *v, real *row, size_t n)
{
    if (n == LINE)
        memcpy(row, v, sizeof *v);
    else
        memcpy(row, v, n * sizeof *row);
}

#endif
