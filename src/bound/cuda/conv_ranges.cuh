/* bound/cuda/conv_ranges.cuh - gradients of windows whose words stand at part of their way: what
 * conv_ranges and conv_joint share. */
#ifndef BOUND_CUDA_CONV_RANGES_CUH
#define BOUND_CUDA_CONV_RANGES_CUH

#include "bound/cuda/sets.cuh"
#include "tensor/cuda/conv_taps.cuh"

/* Where a kernel puts the terms of its windows: entry i = (l windows + window) F + f. A word at `eps`
 * of its way from v gives two terms, a whole one in the second half of the entries' list. */
struct window_terms {
    size_t F, windows, n_rows, cols;
    const float *table;
    float eps;
    tap_terms t;
    /* Entries of a list: the windows' own, then, where eps < 1, the words that they come from. */
    __device__ size_t own(size_t i) const
    {
        const size_t l = i / F / windows, rest = i - l * windows * F;
        return l * t.cap * F + rest;
    }
    __device__ void set(size_t at, float g, uint32_t row) const
    {
        t.g[at] = g;
        t.row[at] = row;
    }
    __device__ void none(size_t i) const
    {
        set(own(i), 0, (uint32_t)n_rows);
        if (eps < 1)
            set(own(i) + windows * F, 0, (uint32_t)n_rows);
    }
    /* Gradient g of a tap's projection of `word`, which stands at eps of its way from v. */
    __device__ void put(size_t i, float g, uint32_t v, uint32_t word) const
    {
        const bool whole = word == v || eps == 1;
        set(own(i), whole ? g : eps * g, word);
        if (eps < 1)
            set(own(i) + windows * F, whole ? 0 : (1 - eps) * g, whole ? (uint32_t)n_rows : v);
    }
};

static inline stet_status window_terms_take(scratch *mem, const conv_taps *c,
                                            const conv_windows *keep, const set_view *s,
                                            size_t windows, double eps, tap_terms *terms,
                                            window_terms *out)
{
    TRY(tap_terms_take(mem, c, windows * ((float)eps < 1 ? 2 : 1), terms));
    *out = window_terms{c->F, windows, s->n_rows, keep->cols, keep->table, (float)eps, *terms};
    return STET_OK;
}

#endif
