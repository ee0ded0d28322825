/* bound/cuda/sets.cuh - batch_sets.h for kernels of the GPU: the sets as a struct that can be passed to
 * a kernel, extremes over them, and what all ops with rival classes share. */
#ifndef BOUND_CUDA_SETS_CUH
#define BOUND_CUDA_SETS_CUH

#include "tensor/cuda/device.cuh"

extern "C" {
#include "bound/bound_args.h"
}

/* Texts, their words and what may stand in their place. */
struct set_view {
    size_t B, T, n_rows, n_moving;
    const uint32_t *first; /* (B + 1) of each text's tokens */
    const uint32_t *row;   /* (T) */
    const uint32_t *start, *alt, *moving, *lo_row;
    /* The row of a token's largest values: lo_row's twin. */
    __device__ uint32_t hi_row(size_t t) const
    {
        return lo_row[t] == row[t] ? row[t] : lo_row[t] + (uint32_t)n_moving;
    }
};

static inline set_view set_view_of(const batch_sets *s)
{
    return set_view{s->at->n_texts, s->at->n_tokens, s->n_rows, s->n_moving, s->at->start,
                    s->at->row,     s->start,        s->alt,    s->moving,   s->lo_row};
}

/* Fill the rows of extremes of a table of projections (n_rows + 2 n_moving, cols; the first n_rows
 * are given) for substitutes moved to `eps` of their distance from the word. */
stet_status sets_extremes(cuda_device *d, const set_view *s, double eps, float *table, size_t cols);

/* The row of v's set with the smallest (UPPER: largest) value in column `col`; the first of equals. */
static __device__ inline uint32_t extreme_row(const set_view &s, const float *table, size_t cols,
                                              uint32_t v, size_t col, bool upper)
{
    uint32_t best = v;
    float most = table[v * cols + col];
    for (uint32_t k = s.start[v]; k < s.start[v + 1]; k++) {
        const float x = table[s.alt[k] * cols + col];
        if (upper ? x > most : x < most) {
            most = x;
            best = s.alt[k];
        }
    }
    return best;
}

/* ---- rival classes ------------------------------------------------------------------------- */

/* A pair is a text and one of its K - 1 rivals: text = pair / (K - 1). */
static __host__ __device__ inline size_t rival_class(size_t pair, size_t K, const int32_t *label)
{
    const size_t i = pair % (K - 1), y = (size_t)label[pair / (K - 1)];
    return i < y ? i : i + 1;
}

/* dw (K, F): += g x to the rival's row and -= g x to the true class's, over all pairs; g = dz (B, K)
 * and x = f(text, rival, true class, i). Texts in COLUMN_ROWS groups, each in order. */
template <class X>
__global__ void rival_weight_kernel(const int32_t *label, const float *dz, size_t B, size_t K,
                                    size_t F, X x, float *dw)
{
    __shared__ float part[COLUMN_ROWS][WARP];
    const size_t i = (size_t)blockIdx.x * WARP + threadIdx.x, c = blockIdx.y;
    float sum = 0;
    for (size_t text = threadIdx.y; i < F && text < B; text += COLUMN_ROWS) {
        const size_t y = (size_t)label[text];
        if (c != y)
            sum += dz[text * K + c] * x(text, c, y, i);
        for (size_t k = 0; c == y && k < K; k++)
            if (k != y)
                sum -= dz[text * K + k] * x(text, k, y, i);
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || i >= F)
        return;
    for (int k = 1; k < COLUMN_ROWS; k++)
        sum += part[k][threadIdx.x];
    dw[c * F + i] += sum;
}

template <class X>
stet_status rival_weights(cuda_device *d, const char *what, const int32_t *label, const float *dz,
                          size_t B, size_t K, size_t F, X x, float *dw)
{
    const dim3 grid((unsigned)((F + WARP - 1) / WARP), (unsigned)K);
    if (F == 0 || K == 0)
        return STET_OK;
    rival_weight_kernel<<<grid, dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(label, dz, B, K, F, x, dw);
    return cuda_launched(d, what);
}

struct rival_one {
    __device__ float operator()(size_t, size_t, size_t, size_t) const
    {
        return 1;
    }
};

/* The same for a bias (K). */
static inline stet_status rival_bias(cuda_device *d, const char *what, const int32_t *label,
                                     const float *dz, size_t B, size_t K, float *db)
{
    return rival_weights(d, what, label, dz, B, K, 1, rival_one{}, db);
}

#endif
