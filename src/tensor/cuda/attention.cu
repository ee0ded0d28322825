/* tensor/cuda/attention.cu - softmax(q k^T / sqrt(d)) v for every text and head, over true lengths, in
 * float.
 *
 * A block has a tile of rows of one text and head; a row belongs to G neighbouring threads, each with
 * PART of its columns in registers. The other side of the product passes through shared memory, 32 rows
 * at a time. Forward the softmax is computed on the way: a maximum so far, a sum so far, both mended when
 * a larger score comes. Backward one kernel has a query a row and gathers its gradient over the keys,
 * another has a key a row and gathers over the queries, so that nobody adds to what is another's; both
 * compute the weights again. */
#include "tensor/cuda/device.cuh"

#include "tensor/attention_mask.h"

enum { ROW_THREADS = 128, PART = 32, QUADS = PART / 4, OTHERS = 32, AT_ONCE = 4, WIDEST = 4 };

struct attention {
    const uint32_t *start; /* of the sequence, on the device */
    const uint32_t *asks;  /* of the queries; NULL: one query a text */
    size_t most_asks;      /* queries of one text */
    size_t heads, H, d;
    float scale, kept;
    uint64_t key;
    uint32_t limit; /* of dropout; 0: none */
    const float *q, *kv;
    float *o, *lse; /* lse (queries, heads), or NULL */
    const float *dout;
    float *D; /* (queries, heads): dout . o */
    float *dq, *dkv;
};

static attention attention_of(const node *n)
{
    const attention_args *args = (const attention_args *)n->args;
    attention a = {};
    a.start = args->at->start;
    a.heads = args->heads;
    a.H = shape_cols(n->shape);
    a.d = a.H / a.heads;
    if (args->asks) {
        a.asks = args->asks_at->start;
        a.most_asks = args->asks->max_len;
    } else if (shape_rows(n->shape) == args->seq->n_tokens) {
        a.asks = a.start;
        a.most_asks = args->seq->max_len;
    } else {
        a.most_asks = 1;
    }
    a.scale = (float)(1 / sqrt((double)a.d));
    a.kept = (float)(1 / (1 - args->p));
    a.key = args->key;
    a.limit = mask_limit(args->p);
    a.q = n->in[0]->value;
    a.kv = n->in[1]->value;
    a.o = n->value;
    a.lse = (float *)n->saved;
    return a;
}

/* The text and head of a block. */
struct place {
    size_t start, keys, queries, first_query, head;
};

static __device__ place place_of(const attention &a)
{
    place p;
    p.start = a.start[blockIdx.y];
    p.keys = a.start[blockIdx.y + 1] - p.start;
    p.queries = a.asks ? a.asks[blockIdx.y + 1] - a.asks[blockIdx.y] : 1;
    p.first_query = a.asks ? a.asks[blockIdx.y] : blockIdx.y;
    p.head = blockIdx.z;
    return p;
}

/* Rows begin .. begin + OTHERS of a matrix (n, ld), d columns, into shared memory; zeros beyond. */
template <int G>
static __device__ void load_rows(const float *from, size_t ld, size_t begin, size_t n, size_t d,
                                 float (*to)[PART * G])
{
    for (int i = threadIdx.x; i < OTHERS * PART * G; i += ROW_THREADS) {
        const int row = i / (PART * G), col = i % (PART * G);
        to[row][col] = begin + row < n && (size_t)col < d ? from[(begin + row) * ld + col] : 0;
    }
}

/* A thread's columns: every G-th four, so that neighbours read neighbouring banks. */
template <int G> static __device__ int column(int i)
{
    return 4 * ((int)(threadIdx.x % G) + G * (i / 4)) + i % 4;
}

template <int G> static __device__ void take(const float *from, bool there, size_t d, float x[PART])
{
#pragma unroll
    for (int i = 0; i < PART; i++)
        x[i] = there && (size_t)column<G>(i) < d ? from[column<G>(i)] : 0;
}

/* A row's sum over its threads, the same for all of them. */
template <int G> static __device__ float joined(float x)
{
#pragma unroll
    for (int lane = 1; lane < G; lane *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

template <int G> static __device__ float4 quad(const float *row, int i)
{
    return *reinterpret_cast<const float4 *>(row + 4 * ((int)(threadIdx.x % G) + G * i));
}

/* This thread's part of x . row. */
template <int G> static __device__ float dot(const float x[PART], const float *row)
{
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        const float4 v = quad<G>(row, i);
        sum[0] += x[4 * i] * v.x;
        sum[1] += x[4 * i + 1] * v.y;
        sum[2] += x[4 * i + 2] * v.z;
        sum[3] += x[4 * i + 3] * v.w;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* y += by row */
template <int G> static __device__ void add(float y[PART], float by, const float *row)
{
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        const float4 v = quad<G>(row, i);
        y[4 * i] += by * v.x;
        y[4 * i + 1] += by * v.y;
        y[4 * i + 2] += by * v.z;
        y[4 * i + 3] += by * v.w;
    }
}

template <int G> static __device__ void add_to(float *to, bool there, size_t d, const float x[PART])
{
#pragma unroll
    for (int i = 0; i < PART; i++)
        if (there && (size_t)column<G>(i) < d)
            to[column<G>(i)] += x[i];
}

/* What dropout makes of a weight, or of its slope. */
static __device__ float dropped(const attention &a, uint64_t row, size_t j, float x)
{
    return !a.limit ? x : mask_drops(row, (uint32_t)j, a.limit) ? 0 : a.kept * x;
}

/* forward ------------------------------------------------------------------------------------ */

template <int G> static __global__ void __launch_bounds__(ROW_THREADS) forward_kernel(attention a)
{
    __shared__ __align__(16) float ks[OTHERS][PART * G], vs[OTHERS][PART * G];
    const place p = place_of(a);
    const size_t i = (size_t)blockIdx.x * (ROW_THREADS / G) + threadIdx.x / G;
    if ((size_t)blockIdx.x * (ROW_THREADS / G) >= p.queries) /* the same for the whole block */
        return;
    const bool there = i < p.queries;
    const size_t row = p.first_query + i, at = row * a.H + p.head * a.d;
    const float *k = a.kv + p.start * 2 * a.H + p.head * a.d;
    const uint64_t mask = a.limit ? mask_row(a.key, row * a.heads + p.head) : 0;
    float q[PART], o[PART] = {0}, top = -INFINITY, sum = 0;
    take<G>(a.q + at, there, a.d, q);
    for (size_t base = 0; base < p.keys; base += OTHERS) {
        __syncthreads();
        load_rows<G>(k, 2 * a.H, base, p.keys, a.d, ks);
        load_rows<G>(k + a.H, 2 * a.H, base, p.keys, a.d, vs);
        __syncthreads();
        for (int j = 0; j < OTHERS && base + j < p.keys; j += AT_ONCE) {
            float s[AT_ONCE], now = top;
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                s[u] = joined<G>(dot<G>(q, ks[j + u])) * a.scale;
                s[u] = base + j + u < p.keys ? s[u] : -INFINITY;
                now = fmaxf(now, s[u]);
            }
            const float shrink = expf(top - now);
            sum *= shrink;
#pragma unroll
            for (int c = 0; c < PART; c++)
                o[c] *= shrink;
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const float w = expf(s[u] - now);
                sum += w;
                add<G>(o, dropped(a, mask, base + j + u, w), vs[j + u]);
            }
            top = now;
        }
    }
    const float share = 1 / sum;
#pragma unroll
    for (int c = 0; c < PART; c++)
        if (there && (size_t)column<G>(c) < a.d)
            a.o[at + column<G>(c)] = o[c] * share;
    if (a.lse && there && threadIdx.x % G == 0)
        a.lse[row * a.heads + p.head] = top + logf(sum);
}

/* backward ----------------------------------------------------------------------------------- */

struct output_slope {
    attention a;
    __device__ void operator()(size_t i) const
    {
        const float *x = a.dout + i / a.heads * a.H + i % a.heads * a.d,
                    *y = a.o + i / a.heads * a.H + i % a.heads * a.d;
        float sum = 0;
        for (size_t c = 0; c < a.d; c++)
            sum += x[c] * y[c];
        a.D[i] = sum;
    }
};

/* A query a row: dq = sum over keys of ds k. */
template <int G> static __global__ void __launch_bounds__(ROW_THREADS) query_kernel(attention a)
{
    __shared__ __align__(16) float ks[OTHERS][PART * G], vs[OTHERS][PART * G];
    const place p = place_of(a);
    const size_t i = (size_t)blockIdx.x * (ROW_THREADS / G) + threadIdx.x / G;
    if ((size_t)blockIdx.x * (ROW_THREADS / G) >= p.queries)
        return;
    const bool there = i < p.queries;
    const size_t row = p.first_query + i, at = row * a.H + p.head * a.d;
    const float *k = a.kv + p.start * 2 * a.H + p.head * a.d;
    const uint64_t mask = a.limit ? mask_row(a.key, row * a.heads + p.head) : 0;
    const float lse = there ? a.lse[row * a.heads + p.head] : 0,
                D = there ? a.D[row * a.heads + p.head] : 0;
    float q[PART], dout[PART], dq[PART] = {0};
    take<G>(a.q + at, there, a.d, q);
    take<G>(a.dout + at, there, a.d, dout);
    for (size_t base = 0; base < p.keys; base += OTHERS) {
        __syncthreads();
        load_rows<G>(k, 2 * a.H, base, p.keys, a.d, ks);
        load_rows<G>(k + a.H, 2 * a.H, base, p.keys, a.d, vs);
        __syncthreads();
        for (int j = 0; j < OTHERS && base + j < p.keys; j++) {
            const float w = expf(joined<G>(dot<G>(q, ks[j])) * a.scale - lse);
            const float dw = dropped(a, mask, base + j, joined<G>(dot<G>(dout, vs[j])));
            add<G>(dq, w * (dw - D) * a.scale, ks[j]);
        }
    }
    add_to<G>(a.dq + at, there, a.d, dq);
}

/* A key a row: dk = sum over queries of ds q, dv of the weights' dout. */
template <int G> static __global__ void __launch_bounds__(ROW_THREADS) key_kernel(attention a)
{
    __shared__ __align__(16) float qs[OTHERS][PART * G], ds[OTHERS][PART * G];
    __shared__ float lse[OTHERS], D[OTHERS];
    __shared__ uint64_t mask[OTHERS];
    const place p = place_of(a);
    const size_t j = (size_t)blockIdx.x * (ROW_THREADS / G) + threadIdx.x / G;
    if ((size_t)blockIdx.x * (ROW_THREADS / G) >= p.keys)
        return;
    const bool there = j < p.keys;
    const size_t at = (p.start + j) * 2 * a.H + p.head * a.d,
                 query = p.first_query * a.H + p.head * a.d;
    float k[PART], v[PART], dk[PART] = {0}, dv[PART] = {0};
    take<G>(a.kv + at, there, a.d, k);
    take<G>(a.kv + at + a.H, there, a.d, v);
    for (size_t base = 0; base < p.queries; base += OTHERS) {
        __syncthreads();
        load_rows<G>(a.q + query, a.H, base, p.queries, a.d, qs);
        load_rows<G>(a.dout + query, a.H, base, p.queries, a.d, ds);
        if (threadIdx.x < OTHERS && base + threadIdx.x < p.queries) {
            const size_t row = (p.first_query + base + threadIdx.x) * a.heads + p.head;
            lse[threadIdx.x] = a.lse[row];
            D[threadIdx.x] = a.D[row];
            mask[threadIdx.x] = a.limit ? mask_row(a.key, row) : 0;
        }
        __syncthreads();
        for (int i = 0; i < OTHERS && base + i < p.queries; i++) {
            const float w = expf(joined<G>(dot<G>(k, qs[i])) * a.scale - lse[i]);
            const float dw = dropped(a, mask[i], j, joined<G>(dot<G>(v, ds[i])));
            add<G>(dv, dropped(a, mask[i], j, w), ds[i]);
            add<G>(dk, w * (dw - D[i]) * a.scale, qs[i]);
        }
    }
    add_to<G>(a.dkv + at, there, a.d, dk);
    add_to<G>(a.dkv + at + a.H, there, a.d, dv);
}

/* launches ----------------------------------------------------------------------------------- */

#include "tensor/cuda/attention_bf16.cuh"

/* As many threads a row as its columns need. */
#define FOR_WIDTH(kernel, a, rows, texts, stream)                                                  \
    do {                                                                                           \
        const int G_ = (a).d <= PART ? 1 : (a).d <= 2 * PART ? 2 : 4, per_ = ROW_THREADS / G_;     \
        const dim3 grid_((unsigned)(((rows) + per_ - 1) / per_), (unsigned)(texts),                \
                         (unsigned)(a).heads);                                                     \
        if (G_ == 1)                                                                               \
            kernel<1><<<grid_, ROW_THREADS, 0, stream>>>(a);                                       \
        else if (G_ == 2)                                                                          \
            kernel<2><<<grid_, ROW_THREADS, 0, stream>>>(a);                                       \
        else                                                                                       \
            kernel<4><<<grid_, ROW_THREADS, 0, stream>>>(a);                                       \
    } while (0)

/* The same on tensor cores. */
#define FOR_WIDTH_BF16(kernel, a, rows, texts, stream)                                             \
    do {                                                                                           \
        const dim3 grid_((unsigned)(((rows) + bf16::ROWS - 1) / bf16::ROWS), (unsigned)(texts),    \
                         (unsigned)(a).heads);                                                     \
        if ((a).d <= 32)                                                                           \
            bf16::kernel<32><<<grid_, bf16::BLOCK, 0, stream>>>(a);                                \
        else if ((a).d <= 64)                                                                      \
            bf16::kernel<64><<<grid_, bf16::BLOCK, 0, stream>>>(a);                                \
        else                                                                                       \
            bf16::kernel<128><<<grid_, bf16::BLOCK, 0, stream>>>(a);                               \
    } while (0)

#define LAUNCH(kernel, a, rows, texts, d)                                                          \
    do {                                                                                           \
        if (cuda_rounds(d) && (a).d % 4 == 0)                                                      \
            FOR_WIDTH_BF16(kernel, a, rows, texts, (d)->stream);                                   \
        else                                                                                       \
            FOR_WIDTH(kernel, a, rows, texts, (d)->stream);                                        \
    } while (0)

enum { MOST_TEXTS = 65535 }; /* of a launch */

static stet_status check(const attention *a, const seq_index *seq)
{
    if (a->d > WIDEST * PART)
        return error_set(STET_ENOTSUP,
                         "op attention: heads of %zu columns are too wide for the GPU", a->d);
    if (seq->n_texts > MOST_TEXTS || a->heads > MOST_TEXTS)
        return error_set(STET_ENOTSUP, "op attention: %zu texts are too many for the GPU at once",
                         seq->n_texts);
    return STET_OK;
}

extern "C" stet_status cuda_attention_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const seq_index *seq = ((const attention_args *)n->args)->seq;
    attention a = attention_of(n);
    TRY(check(&a, seq));
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, shape_rows(n->shape) * a.heads, sizeof(float));
        if (!n->saved)
            return STET_ENOMEM;
        a.lse = (float *)n->saved;
    }
    LAUNCH(forward_kernel, a, a.most_asks, seq->n_texts, d);
    return cuda_launched(d, "attention");
}

extern "C" stet_status cuda_attention_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const seq_index *seq = ((const attention_args *)n->args)->seq;
    attention a = attention_of(n);
    const size_t queries = shape_rows(n->shape) * a.heads;
    scratch mem(d);
    a.dout = n->grad;
    a.dq = n->in[0]->grad;
    a.dkv = n->in[1]->grad;
    a.D = mem.take<float>(queries);
    if (!a.D)
        return STET_ENOMEM;
    TRY(each(d, "attention", queries, output_slope{a}));
    if (a.dq)
        LAUNCH(query_kernel, a, a.most_asks, seq->n_texts, d);
    if (a.dkv)
        LAUNCH(key_kernel, a, seq->max_len, seq->n_texts, d);
    return cuda_launched(d, "attention");
}
