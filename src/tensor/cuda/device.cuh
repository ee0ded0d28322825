/* tensor/cuda/device.cuh - what the files of this folder share: the device behind a store, launches
 * and their errors, scratch memory, sums. Everything runs in one stream, in order; nothing here
 * waits for the device.
 *
 * Sums never use atomics: cuts depend on sizes alone, and pieces are combined in their order, so
 * that the same numbers give the same bits. */
#ifndef TENSOR_CUDA_DEVICE_CUH
#define TENSOR_CUDA_DEVICE_CUH

#include <cuda_runtime.h>

extern "C" {
#include "tensor/op_args.h"
#include "tensor/optim.h"
#include "tensor/tape.h"
}

enum { UPLOAD_PARTS = 4 };

/* What store.own points to. */
struct cuda_device {
    int id;
    cudaStream_t stream;
    struct cuda_blas *blas; /* made for the first product */
    char *pinned;     /* PINNED bytes of host memory that small downloads pass through */
    char *ring;       /* UPLOAD_PARTS parts of host memory that uploads pass through */
    cudaEvent_t part_read[UPLOAD_PARTS]; /* the GPU has read what a part held */
    int part;                            /* the one in use */
    size_t part_used;                    /* bytes of it */
    uint32_t *numbers;                   /* (n_numbers) 0, 1, 2, ...: scatter.cu */
    size_t n_numbers;
    size_t taken, limit; /* bytes that were ever allocated; most of them, 0: what there is */
    store_arena scratch; /* of kernels; reuse is safe, since the stream keeps the order */
    stet_status status;  /* the first failure, until a call that returns a status reports it */
    char message[256];
};

/* The device between store_enter and store_leave. */
cuda_device *cuda_now(void);

/* Are factors rounded to bf16? */
static inline bool cuda_rounds(const cuda_device *d)
{
    return d->scratch.store->precision == PRECISION_BF16;
}

/* Keep a failure of `what`; the status of the device from then on. */
stet_status cuda_failed(cuda_device *d, const char *what, const char *why);
/* After a launch: did it start? */
stet_status cuda_launched(cuda_device *d, const char *what);

/* Scratch of one kernel, given back at the end of the scope. */
struct scratch {
    cuda_device *d;
    store_mark mark;
    explicit scratch(cuda_device *of) : d(of), mark(store_arena_save(&of->scratch))
    {
    }
    ~scratch()
    {
        store_arena_restore(&d->scratch, mark);
    }
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;
    template <class T> T *take(size_t n)
    {
        return static_cast<T *>(store_arena_alloc(&d->scratch, n, sizeof(T)));
    }
};

/* ---- launches ----------------------------------------------------------------------------- */

enum { THREADS = 256, WARP = 32, MAX_BLOCKS = 1 << 16 };

static inline unsigned blocks_for(size_t n, size_t per_block)
{
    const size_t blocks = (n + per_block - 1) / per_block;
    return (unsigned)(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
}

template <class F> __global__ void each_kernel(size_t n, F f)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        f(i);
}

/* f(i) for every i < n, in no order. */
template <class F> stet_status each(cuda_device *d, const char *what, size_t n, F f)
{
    if (n == 0)
        return STET_OK;
    each_kernel<<<blocks_for(n, THREADS), THREADS, 0, d->stream>>>(n, f);
    return cuda_launched(d, what);
}

/* ---- sums in double ----------------------------------------------------------------------- */

enum { SUM_BLOCKS = 512 };

/* The sum of x over the threads of a block, in a fixed order, for thread 0. */
static __device__ inline double block_sum(double x)
{
    __shared__ double part[THREADS];
    part[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

template <class F> __global__ void sum_kernel(size_t n, F f, double *part)
{
    const size_t step = (size_t)gridDim.x * THREADS;
    double sum = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step)
        sum += f(i);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

/* All of a short sum by one block. */
template <class F, class G> __global__ void sum_short_kernel(size_t n, F f, G give)
{
    double sum = 0;
    for (size_t i = threadIdx.x; i < n; i += THREADS)
        sum += f(i);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        give(sum);
}

template <class G> __global__ void sum_end_kernel(const double *part, unsigned n, G give)
{
    double sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += THREADS)
        sum += part[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        give(sum);
}

/* give(sum of f(i) over i < n), on the device. */
template <class F, class G>
stet_status sum_over(cuda_device *d, const char *what, size_t n, F f, G give)
{
    scratch mem(d);
    size_t blocks = (n + 4 * THREADS - 1) / (4 * THREADS);
    blocks = blocks > SUM_BLOCKS ? SUM_BLOCKS : blocks;
    if (blocks <= 1) {
        sum_short_kernel<<<1, THREADS, 0, d->stream>>>(n, f, give);
        return cuda_launched(d, what);
    }
    double *part = mem.take<double>(blocks);
    if (!part)
        return STET_ENOMEM;
    sum_kernel<<<(unsigned)blocks, THREADS, 0, d->stream>>>(n, f, part);
    sum_end_kernel<<<1, THREADS, 0, d->stream>>>(part, (unsigned)blocks, give);
    return cuda_launched(d, what);
}

/* The sum of x over a warp, the same for all its threads. */
template <class T> __device__ inline T warp_sum(T x)
{
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

/* ---- columns ------------------------------------------------------------------------------ */

enum { COLUMN_ROWS = 8, PIECE_ROWS = 64 }; /* rows at a time, rows of a piece */

/* part (pieces, c): sums of f(i, j) over the rows i of each piece; added to it where `add` says. */
template <class F> __global__ void column_kernel(size_t rows, size_t c, F f, float *part, bool add)
{
    __shared__ float sum[COLUMN_ROWS][WARP];
    const size_t j = (size_t)blockIdx.x * WARP + threadIdx.x;
    for (size_t piece = blockIdx.y; piece * PIECE_ROWS < rows; piece += gridDim.y) {
        const size_t begin = piece * PIECE_ROWS;
        const size_t end = begin + PIECE_ROWS < rows ? begin + PIECE_ROWS : rows;
        float s = 0;
        if (j < c)
#pragma unroll 8
            for (size_t i = begin + threadIdx.y; i < end; i += COLUMN_ROWS)
                s += f(i, j);
        sum[threadIdx.y][threadIdx.x] = s;
        __syncthreads();
        if (threadIdx.y == 0 && j < c) {
            for (int k = 1; k < COLUMN_ROWS; k++)
                s += sum[k][threadIdx.x];
            part[piece * c + j] = (add ? part[piece * c + j] : 0) + s;
        }
        __syncthreads();
    }
}

enum { COLUMN_AHEAD = 16 };

static __global__ void column_end_kernel(const float *part, size_t pieces, size_t c, float *grad,
                                         bool fresh)
{
    const size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= c)
        return;
    double sum = 0;
    for (size_t p = 0; p < pieces; p += COLUMN_AHEAD) {
        float parts[COLUMN_AHEAD]; /* loaded together, then added in order */
#pragma unroll
        for (int i = 0; i < COLUMN_AHEAD; i++)
            parts[i] = p + i < pieces ? part[(p + i) * c + j] : 0;
#pragma unroll
        for (int i = 0; i < COLUMN_AHEAD; i++)
            sum += (double)parts[i];
    }
    grad[j] = (fresh ? 0 : grad[j]) + (float)sum;
}

/* to (c) += sums of f(i, j) over rows i, or = them where it is fresh: pieces in float, combined in
 * order in double. */
template <class F>
stet_status column_sums(cuda_device *d, size_t rows, size_t c, F f, float *to, bool fresh)
{
    const size_t pieces = (rows + PIECE_ROWS - 1) / PIECE_ROWS;
    if (c == 0)
        return STET_OK;
    const dim3 grid((unsigned)((c + WARP - 1) / WARP), (unsigned)(pieces < 1024 ? pieces : 1024));
    const dim3 block(WARP, COLUMN_ROWS);
    if (pieces == 1) {
        column_kernel<<<grid, block, 0, d->stream>>>(rows, c, f, to, !fresh);
        return cuda_launched(d, "column sums");
    }
    scratch mem(d);
    float *part = mem.take<float>(pieces * c);
    if (!part)
        return STET_ENOMEM;
    if (pieces)
        column_kernel<<<grid, block, 0, d->stream>>>(rows, c, f, part, false);
    column_end_kernel<<<(unsigned)((c + THREADS - 1) / THREADS), THREADS, 0, d->stream>>>(
        part, pieces, c, to, fresh);
    return cuda_launched(d, "column sums");
}

/* x->grad (c) += sums of f(i, j) over rows i. */
template <class F> stet_status grad_add_columns(cuda_device *d, node *x, size_t rows, F f)
{
    return column_sums(d, rows, shape_count(x->shape), f, x->grad, grad_is_fresh(x));
}

struct matrix_entry {
    const float *g;
    size_t c;
    __device__ float operator()(size_t i, size_t j) const
    {
        return g[i * c + j];
    }
};

/* ---- shared by several ops ---------------------------------------------------------------- */

stet_status grad_add(cuda_device *d, node *x, const node *n); /* elementwise.cu */
stet_status grad_hand_over(cuda_device *d, node *x, node *n); /* elementwise.cu */
stet_status clear_if_fresh(cuda_device *d, node *x);          /* store.cu */

/* c (m, n) = op(a) op(b) + beta c, row-major, with inner size k; factors rounded as the store says. */
stet_status cuda_gemm(cuda_device *d, bool ta, bool tb, size_t m, size_t n, size_t k,
                      const float *a, size_t lda, const float *b, size_t ldb, float beta,
                      float *c); /* gemm.cu */

void cuda_blas_close(cuda_blas *blas); /* NULL is fine; gemm.cu */

/* Where terms meet: `key` (n) in rising order and `from` (n), the places they had, equal keys in
 * the order they had; no key is above `most`. Both in `mem`. */
struct sorted_keys {
    const uint32_t *key, *from;
};
stet_status cuda_sort(scratch *mem, const uint32_t *key, size_t n, size_t most,
                      sorted_keys *out); /* scatter.cu */

/* into[key[i]] += term(from[i], j) for columns j < c. The sorted terms are cut into pieces of
 * SCATTER_PIECE; what a piece has of a key is summed in order. Where a key goes on from one piece to
 * the next, the later parts wait in `rest` (pieces, c) and are added in order afterwards. Keys from
 * `rows` on are left out. A warp has a piece, and its threads hold the keys; a thread has COLS
 * columns, WARP apart. Where `into` holds zeros (`clear`) it is not read. */
enum { SCATTER_PIECE = WARP, SCATTER_AHEAD = 8, SCATTER_COLS = 4 };

template <int COLS, class F>
__global__ void scatter_kernel(sorted_keys s, size_t n, size_t rows, size_t c, F term, bool clear,
                               float *into, float *rest)
{
    const size_t first_col = (size_t)blockIdx.y * WARP * COLS + threadIdx.x;
    for (size_t piece = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; piece * SCATTER_PIECE < n;
         piece += (size_t)gridDim.x * COLUMN_ROWS) {
        const size_t begin = piece * SCATTER_PIECE, mine = begin + threadIdx.x;
        const uint32_t my_key = mine < n ? s.key[mine] : UINT32_MAX,
                       my_from = my_key < rows ? s.from[mine] : 0;
        uint32_t key = __shfl_sync(0xffffffffu, my_key, 0);
        bool first = begin > 0 && s.key[begin - 1] == key; /* began before */
        float sum[COLS] = {0};
        const auto give = [&]() {
            float *to = first ? rest + piece * c : into + (size_t)key * c;
#pragma unroll
            for (int k = 0; k < COLS; k++) {
                const size_t j = first_col + (size_t)k * WARP;
                if (j < c && key < rows)
                    to[j] = (first || clear ? 0 : to[j]) + sum[k];
                sum[k] = 0;
            }
        };
        for (int at = 0; at < SCATTER_PIECE; at += SCATTER_AHEAD) {
            uint32_t keys[SCATTER_AHEAD];
            float terms[SCATTER_AHEAD][COLS]; /* loaded together, then added in order */
#pragma unroll
            for (int i = 0; i < SCATTER_AHEAD; i++) {
                keys[i] = __shfl_sync(0xffffffffu, my_key, at + i);
                const uint32_t from = __shfl_sync(0xffffffffu, my_from, at + i);
#pragma unroll
                for (int k = 0; k < COLS; k++) {
                    const size_t j = first_col + (size_t)k * WARP;
                    terms[i][k] = keys[i] < rows && j < c ? term(from, j) : 0;
                }
            }
#pragma unroll
            for (int i = 0; i < SCATTER_AHEAD; i++) {
                if (keys[i] != key) { /* the same for the whole warp */
                    give();
                    first = false;
                    key = keys[i];
                }
#pragma unroll
                for (int k = 0; k < COLS; k++)
                    sum[k] += terms[i][k];
            }
        }
        give();
    }
}

static __global__ void scatter_rest_kernel(sorted_keys s, size_t n, size_t rows, size_t c,
                                           const float *rest, float *into)
{
    const size_t j = (size_t)blockIdx.y * WARP + threadIdx.x;
    for (size_t piece = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y + 1;
         piece * SCATTER_PIECE < n && j < c; piece += (size_t)gridDim.x * COLUMN_ROWS) {
        const size_t begin = piece * SCATTER_PIECE;
        const uint32_t key = s.key[begin];
        if (key >= rows || s.key[begin - 1] != key)
            continue; /* nothing waits */
        if (piece > 1 && s.key[begin - SCATTER_PIECE] == key &&
            s.key[begin - SCATTER_PIECE - 1] == key)
            continue; /* an earlier piece of the same key takes it */
        float sum = 0;
        for (size_t p = piece; p * SCATTER_PIECE < n && s.key[p * SCATTER_PIECE] == key;
             p += SCATTER_AHEAD) {
            float parts[SCATTER_AHEAD]; /* loaded together, then added in order */
#pragma unroll
            for (int i = 0; i < SCATTER_AHEAD; i++) {
                const size_t q = p + i;
                parts[i] =
                    q * SCATTER_PIECE < n && s.key[q * SCATTER_PIECE] == key ? rest[q * c + j] : 0;
            }
#pragma unroll
            for (int i = 0; i < SCATTER_AHEAD; i++)
                sum += parts[i];
        }
        into[(size_t)key * c + j] += sum;
    }
}

template <class F>
stet_status scatter_add(scratch *mem, const char *what, sorted_keys s, size_t n, size_t rows,
                        size_t c, F term, bool clear, float *into)
{
    cuda_device *d = mem->d;
    const size_t pieces = (n + SCATTER_PIECE - 1) / SCATTER_PIECE;
    if (n == 0 || c == 0)
        return STET_OK;
    float *rest = mem->take<float>(pieces * c);
    if (!rest)
        return STET_ENOMEM;
    const unsigned blocks = blocks_for(pieces, COLUMN_ROWS);
    const size_t wide = WARP * SCATTER_COLS;
    const dim3 block(WARP, COLUMN_ROWS);
    if (c > 2 * WARP)
        scatter_kernel<SCATTER_COLS>
            <<<dim3(blocks, (unsigned)((c + wide - 1) / wide)), block, 0, d->stream>>>(
                s, n, rows, c, term, clear, into, rest);
    else
        scatter_kernel<1><<<dim3(blocks, (unsigned)((c + WARP - 1) / WARP)), block, 0, d->stream>>>(
            s, n, rows, c, term, clear, into, rest);
    scatter_rest_kernel<<<dim3(blocks, (unsigned)((c + WARP - 1) / WARP)), block, 0, d->stream>>>(
        s, n, rows, c, rest, into);
    return cuda_launched(d, what);
}

#endif
