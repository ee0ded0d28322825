/* tensor/cuda/conv_taps.cu - see conv_taps.cuh. */
#include "tensor/cuda/conv_taps.cuh"

/* Row l F + f is w[f, :, l]. */
struct pack_tap {
    conv_taps c;
    float *taps; /* (k, F, D) */
    __device__ void operator()(size_t i) const
    {
        const size_t d = i % c.D, f = i / c.D % c.F, l = i / c.D / c.F;
        taps[i] = c.w[(f * c.D + d) * c.k + l];
    }
};

static stet_status pack(cuda_device *d, const conv_taps *c, float *taps)
{
    return each(d, "packing taps", c->k * c->F * c->D, pack_tap{*c, taps});
}

stet_status conv_project(cuda_device *d, const conv_taps *c, const float *rows, size_t n, float *p)
{
    scratch mem(d);
    const size_t cols = c->k * c->F;
    float *taps = mem.take<float>(cols * c->D);
    if (!taps)
        return STET_ENOMEM;
    TRY(pack(d, c, taps));
    return cuda_gemm(d, false, true, n, cols, c->D, rows, c->D, taps, c->D, 0, p);
}

stet_status tap_terms_take(scratch *mem, const conv_taps *c, size_t cap, tap_terms *out)
{
    const size_t n = c->k * cap * c->F;
    *out = tap_terms{cap, mem->take<float>(n), mem->take<uint32_t>(n)};
    return out->g && out->row ? STET_OK : STET_ENOMEM;
}

/* A block has one filter and tap. Its threads bring the terms that are there together, then have the
 * columns, several each. */
enum { TERM_THREADS = 128, TERM_WARPS = TERM_THREADS / WARP, TERM_COLS = 4 };

static __global__ void weight_kernel(conv_taps c, tap_terms t, const float *rows, float *dw)
{
    __shared__ uint32_t row[TERM_THREADS];
    __shared__ float g[TERM_THREADS];
    __shared__ unsigned found[TERM_WARPS];
    const size_t f = blockIdx.x / c.k, l = blockIdx.x % c.k;
    const size_t col = (size_t)blockIdx.y * TERM_THREADS * TERM_COLS + threadIdx.x;
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float sum[TERM_COLS] = {0};
    for (size_t first = 0; first < t.cap; first += TERM_THREADS) {
        const size_t i = first + threadIdx.x, at = (l * t.cap + i) * c.F + f;
        const float mine = i < t.cap ? t.g[at] : 0;
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
            row[place] = t.row[at];
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned k = 0; k < n; k++) {
            const float *x = rows + (size_t)row[k] * c.D + col;
#pragma unroll
            for (int j = 0; j < TERM_COLS; j++)
                if (col + (size_t)j * TERM_THREADS < c.D)
                    sum[j] += g[k] * x[j * TERM_THREADS];
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < TERM_COLS; j++)
        if (col + (size_t)j * TERM_THREADS < c.D)
            dw[(f * c.D + col + (size_t)j * TERM_THREADS) * c.k + l] += sum[j];
}

stet_status conv_weight_gradient(cuda_device *d, const conv_taps *c, const tap_terms *t,
                                 const float *rows, float *dw)
{
    const size_t per_block = TERM_THREADS * TERM_COLS;
    const dim3 grid((unsigned)(c->F * c->k), (unsigned)((c->D + per_block - 1) / per_block));
    if (c->F == 0 || c->D == 0)
        return STET_OK;
    weight_kernel<<<grid, TERM_THREADS, 0, d->stream>>>(*c, *t, rows, dw);
    return cuda_launched(d, "the gradient of filters");
}

/* Entry i = (l cap + window) F + f; cuda_sort has seen to it that i fits. */
struct term_value {
    const float *g, *taps;
    uint32_t cap, F;
    size_t D;
    __device__ float operator()(uint32_t i, size_t d) const
    {
        const uint32_t at = i / F, f = i - at * F;
        return g[i] * taps[(size_t)(at / cap * F + f) * D + d];
    }
};

stet_status conv_rows_gradient(cuda_device *d, const conv_taps *c, const tap_terms *t,
                               size_t n_rows, float *drows)
{
    scratch mem(d);
    const size_t n = c->k * t->cap * c->F;
    float *taps = mem.take<float>(c->k * c->F * c->D);
    sorted_keys sorted;
    if (!taps)
        return STET_ENOMEM;
    TRY(pack(d, c, taps));
    TRY(cuda_sort(&mem, t->row, n, n_rows, &sorted));
    return scatter_add(&mem, "the gradient of rows", sorted, n, n_rows, c->D,
                       term_value{t->g, taps, (uint32_t)t->cap, (uint32_t)c->F, c->D}, false,
                       drows);
}
