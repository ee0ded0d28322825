/* bound/cuda/set_ranges.cuh - extremes of projected rows over substitution sets, and the way back, for
 * every op whose tokens read them (../batch_sets.h). Here all words of a batch have rows of extremes,
 * those that stay as well, so that a token finds them by its row. */
#ifndef BOUND_CUDA_SET_RANGES_CUH
#define BOUND_CUDA_SET_RANGES_CUH

#include "tensor/cuda/device.cuh"

extern "C" {
#include "bound/bound_args.h"
}

struct set_extremes {
    size_t V, cols;
    float *lo, *hi;              /* (V, cols) */
    uint32_t *lo_from, *hi_from; /* (V, cols): the rows that are the extremes */
};

/* `table` (n_rows, cols): the rows' projections. `at` has the memory to fill. */
stet_status cuda_set_extremes(cuda_device *d, const batch_sets *s, double eps, const float *table,
                              set_extremes at);

/* dtable (n_rows, cols) is written: what `dends` (V, 2, cols), the gradients of the words' lower and
 * upper ends, gives to the rows. */
stet_status cuda_set_back(cuda_device *d, const batch_sets *s, double eps, set_extremes at,
                          const float *dends, float *dtable);

/* dends (V, 2, cols): gradients of the ends of all tokens, summed over each word's tokens in their
 * order. centre_radius(token, j) gives those of centre and radius in column j. */
template <class F> struct token_ends {
    F centre_radius;
    size_t cols;
    __device__ float operator()(size_t token, size_t j) const
    {
        const float2 g = centre_radius(token, j < cols ? j : j - cols);
        return (j < cols ? g.x - g.y : g.x + g.y) / 2;
    }
};

template <class F>
stet_status cuda_token_ends(cuda_device *d, const char *what, const batch_sets *s, size_t cols,
                            F centre_radius, float *dends)
{
    const size_t T = s->at->n_tokens, V = s->at->n_rows;
    scratch mem(d);
    sorted_keys sorted;
    store_clear(d->scratch.store, dends, V * 2 * cols * sizeof *dends);
    TRY(cuda_sort(&mem, s->at->row, T, V, &sorted));
    return scatter_add(&mem, what, sorted, T, V, 2 * cols, token_ends<F>{centre_radius, cols}, true,
                       dends);
}

/* Entry j of the sum of both ends' gradients, for biases. */
struct ends_entry {
    const float *dends;
    size_t cols, first;
    __device__ float operator()(size_t v, size_t j) const
    {
        const float *at = dends + v * 2 * cols + first + j;
        return at[0] + at[cols];
    }
};

#endif
