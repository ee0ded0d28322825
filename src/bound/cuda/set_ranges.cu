/* bound/cuda/set_ranges.cu - see set_ranges.cuh. */
#include "bound/cuda/set_ranges.cuh"

/* Both extremes of word v in one column: the first row that has them, the word itself before all. */
struct find_extremes {
    const uint32_t *start, *alt;
    const float *table;
    size_t cols;
    float eps;
    set_extremes at;
    __device__ void operator()(size_t i) const
    {
        const size_t v = i / cols, j = i % cols;
        const float x = table[i];
        float lo = x, hi = x;
        uint32_t from_lo = (uint32_t)v, from_hi = (uint32_t)v;
        for (uint32_t k = start[v]; k < start[v + 1]; k++) {
            const uint32_t row = alt[k];
            const float y = table[row * cols + j];
            if (y < lo) {
                lo = y;
                from_lo = row;
            }
            if (y > hi) {
                hi = y;
                from_hi = row;
            }
        }
        at.lo[i] = eps < 1 ? x + eps * (lo - x) : lo;
        at.hi[i] = eps < 1 ? x + eps * (hi - x) : hi;
        if (at.lo_from) {
            at.lo_from[i] = from_lo;
            at.hi_from[i] = from_hi;
        }
    }
};

stet_status cuda_set_extremes(cuda_device *d, const batch_sets *s, double eps, const float *table,
                              set_extremes at)
{
    const find_extremes f = {s->start, s->alt, table, at.cols, (float)eps, at};
    return each(d, "extremes of sets", at.V * at.cols, f);
}

/* ---- gradients ---------------------------------------------------------------------------- */

/* What the words give to their own rows; all other rows begin with 0. */
struct own_rows {
    const uint32_t *start;
    set_extremes at;
    const float *dends;
    float eps, *dtable;
    __device__ void operator()(size_t i) const
    {
        const size_t v = i / at.cols, j = i % at.cols;
        if (v >= at.V) {
            dtable[i] = 0;
            return;
        }
        const float lo = dends[v * 2 * at.cols + j], hi = dends[(v * 2 + 1) * at.cols + j];
        const bool moves = start[v + 1] > start[v];
        const float by = moves ? eps : 1;
        dtable[i] = (1 - by) * (lo + hi) + (at.lo_from[i] == v ? by * lo : 0) +
                    (at.hi_from[i] == v ? by * hi : 0);
    }
};

/* owner[k]: the word whose substitute is entry k. */
struct number_owners {
    const uint32_t *start;
    uint32_t *owner;
    __device__ void operator()(size_t v) const
    {
        for (uint32_t k = start[v]; k < start[v + 1]; k++)
            owner[k] = (uint32_t)v;
    }
};

/* What entry k of the sets gives to its row. */
struct alt_entry {
    const uint32_t *owner, *alt;
    set_extremes at;
    const float *dends;
    float eps;
    __device__ float operator()(size_t k, size_t j) const
    {
        const size_t v = owner[k], i = v * at.cols + j;
        const float *ends = dends + v * 2 * at.cols + j;
        return eps * ((at.lo_from[i] == alt[k] ? ends[0] : 0) +
                      (at.hi_from[i] == alt[k] ? ends[at.cols] : 0));
    }
};

stet_status cuda_set_back(cuda_device *d, const batch_sets *s, double eps, set_extremes at,
                          const float *dends, float *dtable)
{
    TRY(each(d, "sets' gradients", s->n_rows * at.cols,
             own_rows{s->start, at, dends, (float)eps, dtable}));
    if (s->n_alt == 0)
        return STET_OK;
    scratch mem(d);
    uint32_t *owner = mem.take<uint32_t>(s->n_alt);
    sorted_keys sorted;
    if (!owner)
        return STET_ENOMEM;
    TRY(each(d, "sets' gradients", at.V, number_owners{s->start, owner}));
    TRY(cuda_sort(&mem, s->alt, s->n_alt, s->n_rows, &sorted));
    return scatter_add(&mem, "sets' gradients", sorted, s->n_alt, s->n_rows, at.cols,
                       alt_entry{owner, s->alt, at, dends, (float)eps}, false, dtable);
}
