/* tensor/cuda/conv_taps.cuh - what convolutions over words share, as host/conv_taps.h: every row is
 * projected on all taps once; after max-pooling a gradient reaches few windows, and is a list of rows
 * with their factors for each filter and tap. */
#ifndef TENSOR_CUDA_CONV_TAPS_CUH
#define TENSOR_CUDA_CONV_TAPS_CUH

#include "tensor/cuda/device.cuh"

struct conv_taps {
    size_t F, D, k;
    const float *w; /* (F, D, k) as nn.Conv1d */
};

static inline conv_taps conv_taps_of(const node *w)
{
    return conv_taps{w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->value};
}

/* p (n, k F): column l F + f is w[f, :, l] x. */
stet_status conv_project(cuda_device *d, const conv_taps *c, const float *rows, size_t n, float *p);

/* The larger response wins, the earlier of equal ones; a NaN beats all. */
static __device__ inline bool window_wins(float s, uint32_t at, float best, uint32_t best_at)
{
    if (best != best || s != s)
        return s != s && (best == best || at < best_at);
    return s > best || (s == best && at < best_at);
}

/* What the gradient of w[f, :, l] is the sum of: g times row, entry (l cap + i) F + f for i < cap. An
 * entry that is not there has g = 0 and a row that does not exist, n_rows. */
struct tap_terms {
    size_t cap;
    float *g;      /* (k, cap, F) */
    uint32_t *row; /* (k, cap, F) */
};
stet_status tap_terms_take(scratch *mem, const conv_taps *c, size_t cap, tap_terms *out);

/* dw (F, D, k) += the terms, in the order of i; rows are (n_rows, D). */
stet_status conv_weight_gradient(cuda_device *d, const conv_taps *c, const tap_terms *t,
                                 const float *rows, float *dw);
/* The same for the rows (n_rows, D) that they name. */
stet_status conv_rows_gradient(cuda_device *d, const conv_taps *c, const tap_terms *t,
                               size_t n_rows, float *drows);

#endif
