/* tensor/cuda/conv_pools.cu - all kernel sizes of a text CNN at once: what conv_pool.cu does for
 * one, with one product, one walk over the windows, and one kernel for all gradients of filters.
 *
 * The taps of all sizes are the rows of one matrix, size by size, tap by tap, filter by filter. */
#include "tensor/cuda/conv_taps.cuh"

extern "C" {
#include "tensor/joined.h"
}

struct conv_size {
    size_t F, k;
    size_t col;     /* its first column of the result */
    size_t tap;     /* its first row of the matrix of taps */
    unsigned chunk; /* its first chunk of WARP filters */
    const float *w, *b;
    float *dw, *db; /* NULL: not wanted */
};

struct conv_sizes {
    size_t n, B, V, D, cols, taps;
    unsigned chunks;
    const uint32_t *start, *row; /* of the sequence, on the device */
    conv_size s[CONV_POOLS_MAX];
};

/* What forward keeps. */
struct conv_kept {
    uint32_t *won; /* (B, cols): first position of the winning window */
    float *packed; /* (taps, D); NULL: the rows want no gradient */
};

static conv_sizes sizes_of(const node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    conv_sizes c = {};
    c.n = (size_t)(n->n_in - 1) / 2;
    c.B = seq->n_texts;
    c.V = seq->n_rows;
    c.D = shape_cols(n->in[0]->shape);
    c.start = seq->start;
    c.row = seq->row;
    for (size_t i = 0; i < c.n; i++) {
        const node *w = n->in[1 + 2 * i], *b = n->in[2 + 2 * i];
        const size_t F = w->shape.dim[0], k = w->shape.dim[2];
        c.s[i] = conv_size{F,        k,        c.cols,
                           c.taps,   c.chunks, w->value,
                           b->value, w->needs_grad ? w->grad : NULL,
                           b->needs_grad ? b->grad : NULL};
        c.cols += F;
        c.taps += F * k;
        c.chunks += (unsigned)((F + WARP - 1) / WARP);
    }
    return c;
}

static __device__ const conv_size &size_of_tap(const conv_sizes &c, size_t tap)
{
    size_t i = 0;
    while (i + 1 < c.n && tap >= c.s[i + 1].tap)
        i++;
    return c.s[i];
}

/* forward ------------------------------------------------------------------------------------ */

enum { PACK_THREADS = 128, POOL_GROUPS = 16 }; /* threads that share a text's windows */

/* A block has one tap of one filter. */
static __global__ void pack_kernel(const __grid_constant__ conv_sizes c, float *packed)
{
    const conv_size &s = size_of_tap(c, blockIdx.x);
    const size_t in_size = blockIdx.x - s.tap, l = in_size / s.F, f = in_size % s.F;
    const float *w = s.w + f * c.D * s.k + l;
    for (size_t d = threadIdx.x; d < c.D; d += PACK_THREADS)
        packed[blockIdx.x * c.D + d] = w[d * s.k];
}

struct best_window {
    float s;
    uint32_t at;
};

/* The best of every POOL_GROUPS-th window. TAPS is k in the usual cases, 0 otherwise. */
template <int TAPS>
static __device__ best_window walk(const uint32_t *row, uint32_t len, size_t k, size_t F, size_t ld,
                                   const float *projected)
{
    const uint32_t taps = len < k ? len : (uint32_t)k; /* a shorter text is continued with zeros */
    const uint32_t windows = len >= k ? len - taps + 1 : 1;
    best_window best = {-INFINITY, UINT32_MAX};
#pragma unroll 2
    for (uint32_t t = threadIdx.y; t < windows; t += POOL_GROUPS) {
        float s = projected[row[t] * ld];
        for (uint32_t l = 1; l < (TAPS ? TAPS : taps); l++)
            if (!TAPS || l < taps)
                s += projected[row[t + l] * ld + l * F];
        if (window_wins(s, t, best.s, best.at))
            best = best_window{s, t};
    }
    return best;
}

/* A block has WARP filters of one size and one text. */
static __global__ void pools_kernel(const __grid_constant__ conv_sizes c, const float *projected,
                                    float *y, uint32_t *won)
{
    __shared__ float part[POOL_GROUPS][WARP];
    __shared__ uint32_t part_at[POOL_GROUPS][WARP];
    size_t i = 0;
    while (i + 1 < c.n && blockIdx.y >= c.s[i + 1].chunk)
        i++;
    const conv_size &s = c.s[i];
    const size_t text = blockIdx.x, f = (size_t)(blockIdx.y - s.chunk) * WARP + threadIdx.x;
    const uint32_t *row = c.row + c.start[text];
    const uint32_t len = c.start[text + 1] - c.start[text];
    const float *p = projected + s.tap + f;
    best_window best = {-INFINITY, UINT32_MAX};
    if (f < s.F)
        best = s.k == 3   ? walk<3>(row, len, 3, s.F, c.taps, p)
               : s.k == 4 ? walk<4>(row, len, 4, s.F, c.taps, p)
               : s.k == 5 ? walk<5>(row, len, 5, s.F, c.taps, p)
                          : walk<0>(row, len, s.k, s.F, c.taps, p);
    part[threadIdx.y][threadIdx.x] = best.s;
    part_at[threadIdx.y][threadIdx.x] = best.at;
    __syncthreads();
    if (threadIdx.y > 0 || f >= s.F)
        return;
    for (int g = 1; g < POOL_GROUPS; g++)
        if (window_wins(part[g][threadIdx.x], part_at[g][threadIdx.x], best.s, best.at))
            best = best_window{part[g][threadIdx.x], part_at[g][threadIdx.x]};
    const size_t at = text * c.cols + s.col + f;
    const float sum = best.s + s.b[f];
    y[at] = sum < 0 ? 0 : sum; /* a NaN stays */
    if (won)
        won[at] = best.at;
}

static stet_status keep(tape *t, node *n, const conv_sizes *c, conv_kept *out)
{
    conv_kept *kept = static_cast<conv_kept *>(arena_alloc(t->mem, 1, sizeof *kept));
    if (!kept)
        return STET_ENOMEM;
    kept->won = static_cast<uint32_t *>(
        store_arena_alloc(t->values, c->B * c->cols, sizeof *kept->won));
    kept->packed = NULL;
    if (n->in[0]->needs_grad)
        kept->packed = static_cast<float *>(
            store_arena_alloc(t->values, c->taps * c->D, sizeof *kept->packed));
    n->saved = kept;
    *out = *kept;
    return kept->won && (kept->packed || !n->in[0]->needs_grad) ? STET_OK : STET_ENOMEM;
}

extern "C" stet_status cuda_conv_pools_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const conv_sizes c = sizes_of(n);
    conv_kept kept = {NULL, NULL};
    if (n->needs_grad)
        TRY(keep(t, n, &c, &kept));
    if (c.taps == 0)
        return STET_OK;
    scratch mem(d);
    float *projected = mem.take<float>(c.V * c.taps);
    float *packed = kept.packed ? kept.packed : mem.take<float>(c.taps * c.D);
    if (!projected || !packed)
        return STET_ENOMEM;
    pack_kernel<<<(unsigned)c.taps, PACK_THREADS, 0, d->stream>>>(c, packed);
    TRY(cuda_launched(d, "packing taps"));
    TRY(cuda_gemm(d, false, true, c.V, c.taps, c.D, n->in[0]->value, c.D, packed, c.D, 0,
                  projected));
    pools_kernel<<<dim3((unsigned)c.B, c.chunks), dim3(WARP, POOL_GROUPS), 0, d->stream>>>(
        c, projected, n->value, kept.won);
    return cuda_launched(d, "conv_pools");
}

/* backward ----------------------------------------------------------------------------------- */

/* The result, its gradient, and the windows that won. */
struct conv_result {
    const float *y, *dy;
    const uint32_t *won;
    /* What tap l of the filter of column `col` gets from a text: factor and row; 0: nothing. */
    __device__ float term(const conv_sizes &c, size_t text, size_t col, size_t l,
                          uint32_t *row) const
    {
        const size_t at = text * c.cols + col;
        const uint32_t first = c.start[text];
        if (!(y[at] > 0) || l >= c.start[text + 1] - first)
            return 0;
        *row = c.row[first + won[at] + l];
        return dy[at];
    }
};

/* A block has one filter and tap. Its threads bring the texts' terms together, then have the
 * columns, several each. The first tap's block has the bias too: its terms are the bias's. */
enum { TERM_THREADS = 128, TERM_WARPS = TERM_THREADS / WARP, TERM_COLS = 4 };

static __global__ void filters_kernel(const __grid_constant__ conv_sizes c, conv_result r,
                                      const float *rows)
{
    __shared__ uint32_t row[TERM_THREADS];
    __shared__ float g[TERM_THREADS];
    __shared__ unsigned found[TERM_WARPS];
    const conv_size &s = size_of_tap(c, blockIdx.x);
    const size_t in_size = blockIdx.x - s.tap, l = in_size / s.F, f = in_size % s.F;
    const size_t col = (size_t)blockIdx.y * TERM_THREADS * TERM_COLS + threadIdx.x;
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float sum[TERM_COLS] = {0}, bias = 0;
    for (size_t first = 0; first < c.B; first += TERM_THREADS) {
        const size_t text = first + threadIdx.x;
        uint32_t at = 0;
        const float mine = text < c.B ? r.term(c, text, s.col + f, l, &at) : 0;
        const unsigned there = __ballot_sync(0xffffffffu, mine != 0);
        if (lane == 0)
            found[warp] = (unsigned)__popc(there);
        __syncthreads();
        unsigned place = (unsigned)__popc(there & ((1u << lane) - 1)), n = 0;
        for (unsigned k = 0; k < TERM_WARPS; k++) {
            place += k < warp ? found[k] : 0;
            n += found[k];
        }
        if (mine != 0) {
            g[place] = mine;
            row[place] = at;
        }
        __syncthreads();
#pragma unroll 8
        for (unsigned k = 0; k < n; k++) {
            const float *x = rows + (size_t)row[k] * c.D + col;
            bias += g[k];
#pragma unroll
            for (int j = 0; j < TERM_COLS; j++)
                if (col + (size_t)j * TERM_THREADS < c.D)
                    sum[j] += g[k] * x[j * TERM_THREADS];
        }
        __syncthreads();
    }
    if (s.dw)
#pragma unroll
        for (int j = 0; j < TERM_COLS; j++)
            if (col + (size_t)j * TERM_THREADS < c.D)
                s.dw[(f * c.D + col + (size_t)j * TERM_THREADS) * s.k + l] += sum[j];
    if (s.db && l == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        s.db[f] += bias;
}

/* Entry i is (text, tap): what the rows' gradient is the sum of. */
struct row_term {
    conv_sizes c;
    conv_result r;
    float *g;
    uint32_t *row;
    __device__ void operator()(size_t i) const
    {
        const size_t text = i / c.taps, tap = i % c.taps;
        const conv_size &s = size_of_tap(c, tap);
        const size_t in_size = tap - s.tap;
        uint32_t at = (uint32_t)c.V; /* a row that does not exist */
        g[i] = r.term(c, text, s.col + in_size % s.F, in_size / s.F, &at);
        row[i] = at;
    }
};

struct row_term_value {
    const float *g, *packed;
    uint32_t taps; /* cuda_sort has seen to it that i fits */
    size_t D;
    __device__ float operator()(uint32_t i, size_t d) const
    {
        return g[i] * packed[(size_t)(i % taps) * D + d];
    }
};

static stet_status rows_gradient(cuda_device *d, const conv_sizes *c, conv_result r,
                                 const float *packed, float *drows)
{
    scratch mem(d);
    const size_t n = c->B * c->taps;
    float *g = mem.take<float>(n);
    uint32_t *row = mem.take<uint32_t>(n);
    sorted_keys sorted;
    if (!g || !row)
        return STET_ENOMEM;
    TRY(each(d, "conv_pools", n, row_term{*c, r, g, row}));
    TRY(cuda_sort(&mem, row, n, c->V, &sorted));
    return scatter_add(&mem, "the gradient of rows", sorted, n, c->V, c->D,
                       row_term_value{g, packed, (uint32_t)c->taps, c->D}, false, drows);
}

extern "C" stet_status cuda_conv_pools_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    bool filters = false;
    for (int i = 0; i < n->n_in; i++) {
        TRY(clear_if_fresh(d, n->in[i]));
        filters |= i > 0 && n->in[i]->needs_grad;
    }
    const conv_sizes c = sizes_of(n);
    const conv_kept *kept = (const conv_kept *)n->saved;
    const conv_result r = {n->value, n->grad, kept->won};
    const size_t per_block = TERM_THREADS * TERM_COLS;
    const dim3 grid((unsigned)c.taps, (unsigned)(c.D ? (c.D + per_block - 1) / per_block : 1));
    if (c.taps == 0)
        return STET_OK;
    if (filters) {
        filters_kernel<<<grid, TERM_THREADS, 0, d->stream>>>(c, r, n->in[0]->value);
        TRY(cuda_launched(d, "the gradients of filters"));
    }
    return n->in[0]->needs_grad ? rows_gradient(d, &c, r, kept->packed, n->in[0]->grad) : STET_OK;
}
