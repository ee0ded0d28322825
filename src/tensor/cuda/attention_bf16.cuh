/* tensor/cuda/attention_bf16.cuh - attention on tensor cores: factors rounded to bf16, everything else in
 * float. attention.cu's kernels have the same plan; here a warp has 16 rows, a block four warps, and the
 * other side passes 64 rows at a time. Heads of D columns at most, a multiple of four. */
#ifndef TENSOR_CUDA_ATTENTION_BF16_CUH
#define TENSOR_CUDA_ATTENTION_BF16_CUH

#include "tensor/cuda/mma.cuh"

namespace bf16
{

enum { BLOCK = 128, WARP_ROWS = 16, ROWS = BLOCK / 32 * WARP_ROWS, TILE = 64, STEP = 16 };

/* Rows of shared memory are eight columns longer, so that eight of them have banks of their own. */
template <int D> struct tile {
    __nv_bfloat16 at[TILE][D + 8];
};

/* This thread's places in its warp's tiles. */
struct lane {
    int l, g, t;
    __device__ lane() : l(threadIdx.x % 32), g(l / 4), t(l % 4)
    {
    }
};

/* Rows begin .. begin + TILE of a matrix (n, ld), d columns, rounded; zeros beyond. */
template <int D>
static __device__ void fill(tile<D> *to, const float *from, size_t ld, size_t begin, size_t n,
                            int d)
{
    for (int i = threadIdx.x; i < TILE * D / 4; i += BLOCK) {
        const int row = i / (D / 4), col = i % (D / 4) * 4;
        float4 x = make_float4(0, 0, 0, 0);
        if (begin + row < n && col < d)
            x = *reinterpret_cast<const float4 *>(from + (begin + row) * ld + col);
        uint2 both;
        both.x = bf16_pair(x.x, x.y);
        both.y = bf16_pair(x.z, x.w);
        *reinterpret_cast<uint2 *>(&to->at[row][col]) = both;
    }
}

/* Rows i and i + 8 of a matrix (n, ld) as factors A, 16 columns each; zeros beyond. */
template <int D>
static __device__ void take_rows(uint32_t a[D / 16][4], const float *from, size_t ld, size_t i,
                                 size_t n, int d, const lane &me)
{
#pragma unroll
    for (int c = 0; c < D / 16; c++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const size_t row = i + (k % 2) * 8;
            const int col = c * 16 + k / 2 * 8 + 2 * me.t;
            float2 x = make_float2(0, 0);
            if (row < n && col < d)
                x = *reinterpret_cast<const float2 *>(from + row * ld + col);
            a[c][k] = bf16_pair(x.x, x.y);
        }
}

/* s (16, 16) = a times rows first .. first + 16 of the tile, transposed. */
template <int D>
static __device__ void times_rows(float s[2][4], const uint32_t a[D / 16][4], const tile<D> &other,
                                  int first, const lane &me)
{
    const int row = first + me.l % 8 + me.l / 16 * 8, col = me.l / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < 8; i++)
        s[i / 4][i % 4] = 0;
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        uint32_t b[4];
        load_tiles(&other.at[row][c * 16 + col], b);
        mma_add(s[0], a[c], b[0], b[1]);
        mma_add(s[1], a[c], b[2], b[3]);
    }
}

/* y (16, D) += s (16, 16) times rows first .. first + 16 of the tile. */
template <int D>
static __device__ void add_times(float y[D / 8][4], const float s[2][4], const tile<D> &other,
                                 int first, const lane &me)
{
    const uint32_t a[4] = {bf16_pair(s[0][0], s[0][1]), bf16_pair(s[0][2], s[0][3]),
                           bf16_pair(s[1][0], s[1][1]), bf16_pair(s[1][2], s[1][3])};
    const int row = first + me.l % 16, col = me.l / 16 * 8;
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        uint32_t b[4];
        load_tiles_turned(&other.at[row][c * 16 + col], b);
        mma_add(y[2 * c], a, b[0], b[1]);
        mma_add(y[2 * c + 1], a, b[2], b[3]);
    }
}

/* to = or += by y, rows i and i + 8 of a matrix (n, ld). */
template <int D>
static __device__ void give_rows(float *to, size_t ld, size_t i, size_t n, int d,
                                 const float y[D / 8][4], const float by[2], bool add,
                                 const lane &me)
{
#pragma unroll
    for (int c = 0; c < D / 8; c++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const size_t row = i + k * 8;
            const int col = c * 8 + 2 * me.t;
            if (row >= n || col >= d)
                continue;
            float2 *at = reinterpret_cast<float2 *>(to + row * ld + col);
            float2 x = add ? *at : make_float2(0, 0);
            x.x += y[c][2 * k] * by[k];
            x.y += y[c][2 * k + 1] * by[k];
            *at = x;
        }
}

/* Over the four lanes that share a row. */
static __device__ inline float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

static __device__ inline float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* forward ------------------------------------------------------------------------------------ */

template <int D> static __global__ void __launch_bounds__(BLOCK) forward_kernel(attention a)
{
    __shared__ __align__(16) tile<D> ks, vs;
    const place p = place_of(a);
    const lane me;
    const size_t i = (size_t)blockIdx.x * ROWS + threadIdx.x / 32 * WARP_ROWS + me.g;
    if ((size_t)blockIdx.x * ROWS >= p.queries) /* the same for the whole block */
        return;
    const size_t at = p.first_query * a.H + p.head * a.d;
    const float *k = a.kv + p.start * 2 * a.H + p.head * a.d;
    uint32_t q[D / 16][4];
    uint64_t mask[2] = {0, 0};
    float o[D / 8][4] = {{0}}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    take_rows<D>(q, a.q + at, a.H, i, p.queries, (int)a.d, me);
    for (int r = 0; r < 2 && a.limit; r++)
        mask[r] = mask_row(a.key, (p.first_query + i + r * 8) * a.heads + p.head);
    for (size_t base = 0; base < p.keys; base += TILE) {
        float s[TILE / STEP][2][4], now[2] = {top[0], top[1]}, shrink[2];
        __syncthreads();
        fill<D>(&ks, k, 2 * a.H, base, p.keys, (int)a.d);
        fill<D>(&vs, k + a.H, 2 * a.H, base, p.keys, (int)a.d);
        __syncthreads();
#pragma unroll
        for (int step = 0; step < TILE / STEP; step++) {
            times_rows<D>(s[step], q, ks, step * STEP, me);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const size_t j = base + step * STEP + e / 4 * 8 + 2 * me.t + e % 2;
                float *x = &s[step][e / 4][e % 4];
                *x = j < p.keys ? *x * a.scale : -INFINITY;
                now[e / 2 % 2] = fmaxf(now[e / 2 % 2], *x);
            }
        }
        for (int r = 0; r < 2; r++) {
            now[r] = row_max(now[r]);
            shrink[r] = __expf(top[r] - now[r]);
            top[r] = now[r];
            sum[r] *= shrink[r];
        }
#pragma unroll
        for (int c = 0; c < D / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[c][e] *= shrink[e / 2];
#pragma unroll
        for (int step = 0; step < TILE / STEP; step++) {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const size_t j = base + step * STEP + e / 4 * 8 + 2 * me.t + e % 2;
                float *x = &s[step][e / 4][e % 4];
                const float w = __expf(*x - top[e / 2 % 2]);
                sum[e / 2 % 2] += w;
                *x = dropped(a, mask[e / 2 % 2], j, w);
            }
            add_times<D>(o, s[step], vs, step * STEP, me);
        }
    }
    float share[2];
    for (int r = 0; r < 2; r++) {
        sum[r] = row_sum(sum[r]);
        share[r] = 1 / sum[r];
        if (a.lse && me.t == 0 && i + r * 8 < p.queries)
            a.lse[(p.first_query + i + r * 8) * a.heads + p.head] = top[r] + logf(sum[r]);
    }
    give_rows<D>(a.o + at, a.H, i, p.queries, (int)a.d, o, share, false, me);
}

/* backward ----------------------------------------------------------------------------------- */

/* A query a row: dq = sum over keys of ds k. */
template <int D> static __global__ void __launch_bounds__(BLOCK) query_kernel(attention a)
{
    __shared__ __align__(16) tile<D> ks, vs;
    const place p = place_of(a);
    const lane me;
    const size_t i = (size_t)blockIdx.x * ROWS + threadIdx.x / 32 * WARP_ROWS + me.g;
    if ((size_t)blockIdx.x * ROWS >= p.queries)
        return;
    const size_t at = p.first_query * a.H + p.head * a.d;
    const float *k = a.kv + p.start * 2 * a.H + p.head * a.d;
    uint32_t q[D / 16][4], dout[D / 16][4];
    uint64_t mask[2];
    float dq[D / 8][4] = {{0}}, lse[2], slope[2];
    take_rows<D>(q, a.q + at, a.H, i, p.queries, (int)a.d, me);
    take_rows<D>(dout, a.dout + at, a.H, i, p.queries, (int)a.d, me);
    for (int r = 0; r < 2; r++) {
        const size_t row = (p.first_query + i + r * 8) * a.heads + p.head;
        const bool there = i + r * 8 < p.queries;
        mask[r] = a.limit ? mask_row(a.key, row) : 0;
        lse[r] = there ? a.lse[row] : 0;
        slope[r] = there ? a.D[row] : 0;
    }
    for (size_t base = 0; base < p.keys; base += TILE) {
        __syncthreads();
        fill<D>(&ks, k, 2 * a.H, base, p.keys, (int)a.d);
        fill<D>(&vs, k + a.H, 2 * a.H, base, p.keys, (int)a.d);
        __syncthreads();
        for (int step = 0; step < TILE && base + step < p.keys; step += STEP) {
            float s[2][4], dw[2][4];
            times_rows<D>(s, q, ks, step, me);
            times_rows<D>(dw, dout, vs, step, me);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const size_t j = base + step + e / 4 * 8 + 2 * me.t + e % 2;
                const int r = e / 2 % 2;
                float *x = &s[e / 4][e % 4];
                const float w = j < p.keys ? __expf(*x * a.scale - lse[r]) : 0;
                *x = w * (dropped(a, mask[r], j, dw[e / 4][e % 4]) - slope[r]) * a.scale;
            }
            add_times<D>(dq, s, ks, step, me);
        }
    }
    const float plain[2] = {1, 1};
    give_rows<D>(a.dq + at, a.H, i, p.queries, (int)a.d, dq, plain, true, me);
}

/* A key a row: dk = sum over queries of ds q, dv of the weights' dout. */
template <int D> static __global__ void __launch_bounds__(BLOCK) key_kernel(attention a)
{
    __shared__ __align__(16) tile<D> qs, ds;
    __shared__ float lse[TILE], slope[TILE];
    __shared__ uint64_t mask[TILE];
    const place p = place_of(a);
    const lane me;
    const size_t j = (size_t)blockIdx.x * ROWS + threadIdx.x / 32 * WARP_ROWS + me.g;
    if ((size_t)blockIdx.x * ROWS >= p.keys)
        return;
    const size_t at = p.start * 2 * a.H + p.head * a.d, query = p.first_query * a.H + p.head * a.d;
    uint32_t k[D / 16][4], v[D / 16][4];
    float dk[D / 8][4] = {{0}}, dv[D / 8][4] = {{0}};
    take_rows<D>(k, a.kv + at, 2 * a.H, j, p.keys, (int)a.d, me);
    take_rows<D>(v, a.kv + at + a.H, 2 * a.H, j, p.keys, (int)a.d, me);
    for (size_t base = 0; base < p.queries; base += TILE) {
        __syncthreads();
        fill<D>(&qs, a.q + query, a.H, base, p.queries, (int)a.d);
        fill<D>(&ds, a.dout + query, a.H, base, p.queries, (int)a.d);
        if (threadIdx.x < TILE) {
            const size_t row = (p.first_query + base + threadIdx.x) * a.heads + p.head;
            const bool there = base + threadIdx.x < p.queries;
            lse[threadIdx.x] = there ? a.lse[row] : 0;
            slope[threadIdx.x] = there ? a.D[row] : 0;
            mask[threadIdx.x] = a.limit ? mask_row(a.key, row) : 0;
        }
        __syncthreads();
        for (int step = 0; step < TILE && base + step < p.queries; step += STEP) {
            float s[2][4], dw[2][4];
            times_rows<D>(s, k, qs, step, me);
            times_rows<D>(dw, v, ds, step, me);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int i = step + e / 4 * 8 + 2 * me.t + e % 2;
                const size_t key = j + e / 2 % 2 * 8;
                float *x = &s[e / 4][e % 4], *y = &dw[e / 4][e % 4];
                const float w = base + i < p.queries ? __expf(*x * a.scale - lse[i]) : 0;
                *x = w * (dropped(a, mask[i], key, *y) - slope[i]) * a.scale;
                *y = dropped(a, mask[i], key, w);
            }
            add_times<D>(dk, s, qs, step, me);
            add_times<D>(dv, dw, ds, step, me);
        }
    }
    const float plain[2] = {1, 1};
    give_rows<D>(a.dkv + at, 2 * a.H, j, p.keys, (int)a.d, dk, plain, true, me);
    give_rows<D>(a.dkv + at + a.H, 2 * a.H, j, p.keys, (int)a.d, dv, plain, true, me);
}

} // namespace bf16

#endif
