/* tensor/cuda/lstm.cuh - what kernels that walk an LSTM share. A block reads one direction of one text.
 *
 * Where the hidden size is one of the usual ones a thread holds the recurrent weights of one gate of one
 * unit in registers for the whole text, at 128 units some of them in shared memory. A unit's four gates are with four threads in a row, a quad,
 * which exchange numbers by shuffles, so that a step has one barrier. For other sizes there are
 * kernels called far, whose weights come from memory in every step. */
#ifndef TENSOR_CUDA_LSTM_CUH
#define TENSOR_CUDA_LSTM_CUH

#include "tensor/cuda/device.cuh"

/* A thread has a gate of a unit, and several where there are more than a block's threads. */
static inline unsigned lstm_threads(size_t gates)
{
    const size_t threads = (gates + WARP - 1) / WARP * WARP;
    return (unsigned)(threads < 2 * WARP ? 2 * WARP : threads < 1024 ? threads : 1024);
}

/* Arrays in shared memory begin at multiples of 16 bytes. */
static inline __host__ __device__ size_t padded(size_t n)
{
    return (n + 3) / 4 * 4;
}

/* Room for so many numbers per unit. */
static inline stet_status lstm_shared(const node *n, size_t H, size_t numbers, size_t *bytes)
{
    *bytes = numbers * padded(H) * sizeof(float);
    return *bytes <= 48 << 10 && H <= 1024
               ? STET_OK
               : error_set(STET_ENOTSUP, "op %s: hidden size %zu is too large for the GPU",
                           n->op->name, H);
}

/* Are there kernels that hold the weights? */
static inline bool lstm_held(size_t H)
{
    return H == 64 || H == 32;
}

/* kernel<H>, or far for a size that no kernel is compiled for. */
#define FOR_UNITS(kernel, far, H, grid, bytes, ...)                                                \
    do {                                                                                           \
        const dim3 grid_ = (grid);                                                                 \
        cudaStream_t stream_ = cuda_now()->stream;                                                 \
        if ((H) == 64)                                                                             \
            kernel<64><<<grid_, 4 * 64, 0, stream_>>>(__VA_ARGS__);                                \
        else if ((H) == 32)                                                                        \
            kernel<32><<<grid_, 4 * 32, 0, stream_>>>(__VA_ARGS__);                                \
        else                                                                                       \
            far<<<grid_, lstm_threads(4 * (H)), bytes, stream_>>>(__VA_ARGS__);                    \
    } while (0)

/* ---- activations -------------------------------------------------------------------------- */

/* Within 2e-7 of the true value; a NaN stays one. */
static __device__ inline float sigmoid(float x)
{
    return __fdividef(1, 1 + __expf(-x));
}

/* Within 2e-7 of the true value, and within 1e-6 of itself where it is small. */
static __device__ inline float fast_tanh(float x)
{
    const float far = 1 - __fdividef(2, 1 + __expf(2 * x)), y = x * x;
    const float near = x + x * y * (-1.0f / 3 + y * (2.0f / 15 + y * (-17.0f / 315)));
    return y < 0.0625f ? near : far;
}

/* Gate q of i f g o. */
static __device__ inline float activate(unsigned q, float x)
{
    return q == 2 ? fast_tanh(x) : sigmoid(x);
}

/* ---- quads -------------------------------------------------------------------------------- */

static __device__ inline unsigned quad_unit(void)
{
    return threadIdx.x / 4;
}

static __device__ inline unsigned quad_gate(void)
{
    return threadIdx.x % 4;
}

/* What the thread of gate q has. */
static __device__ inline float quad_get(float x, int q)
{
    return __shfl_sync(0xffffffffu, x, q, 4);
}

/* The sum over the quad, the same for its threads. */
static __device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Gates in shared memory, read by the four threads of every quad at once: rows of this many numbers lie
 * in different banks. */
#define QUAD_ROW(units) ((units) + 8)

/* ---- dots --------------------------------------------------------------------------------- */

/* The sum of w[k] x[k]; x is in shared memory at a multiple of 16 bytes, and read four at a time. */
template <int N> static __device__ float dot(const float (&w)[N], const float *x)
{
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k + 4 <= N; k += 4) {
        const float4 v = *reinterpret_cast<const float4 *>(x + k);
        sum[0] += w[k] * v.x;
        sum[1] += w[k + 1] * v.y;
        sum[2] += w[k + 2] * v.z;
        sum[3] += w[k + 3] * v.w;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The weights of a thread for a whole text, N of them. Of more than 64 the registers of a
 * multiprocessor hold MOST for each thread; the others are in its shared memory, four by four, those of
 * all threads side by side. */
template <int N, int MOST = 80> struct held_weights {
    enum { NEAR = N <= 64 ? N : MOST, FAR = N - NEAR };
    float near[NEAR];
    float4 *far;

    /* of(i): weight i. `room`: FAR numbers for each thread of the block. */
    template <class F> __device__ void take(F of, float4 *room)
    {
        far = room + threadIdx.x;
#pragma unroll
        for (int i = 0; i < NEAR; i++)
            near[i] = of(i);
        for (int i = 0; i < FAR; i += 4)
            far[i / 4 * 4 * N] =
                make_float4(of(NEAR + i), of(NEAR + i + 1), of(NEAR + i + 2), of(NEAR + i + 3));
    }
    /* As dot() above, the same sums, of f(w[k]) x[k]. */
    template <class F> __device__ float dot_of(F f, const float *x) const
    {
        float sum[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            const float4 v = *reinterpret_cast<const float4 *>(x + k);
            const float4 w = k < NEAR ? make_float4(near[k % NEAR], near[(k + 1) % NEAR],
                                                    near[(k + 2) % NEAR], near[(k + 3) % NEAR])
                                      : far[(k - NEAR) / 4 * 4 * N];
            sum[0] += f(w.x) * v.x;
            sum[1] += f(w.y) * v.y;
            sum[2] += f(w.z) * v.z;
            sum[3] += f(w.w) * v.w;
        }
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    __device__ float dot(const float *x) const
    {
        return dot_of([](float w) { return w; }, x);
    }
    __device__ float dot_magnitude(const float *x) const
    {
        return dot_of([](float w) { return fabsf(w); }, x);
    }
    static constexpr size_t room = sizeof(float) * FAR * 4 * N; /* bytes of a block */
};

/* Are there 128 units, and has a block of this GPU the shared memory that W and a step want? */
template <class W> static inline bool lstm_split(size_t H)
{
    int device = 0, most = 0;
    return H == 128 && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
               cudaSuccess &&
           W::room + (12 << 10) <= (size_t)most;
}

/* A kernel of 4 N threads that hold their weights in a W. */
template <int N, class W = held_weights<N>, class K, class... A>
stet_status launch_held(cuda_device *d, const char *what, K kernel, dim3 grid, A... args)
{
    const size_t room = W::room;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)room);
    kernel<<<grid, 4 * N, room, d->stream>>>(args...);
    return cuda_launched(d, what);
}

/* The same with weights `step` apart in memory. */
static __device__ inline float dot_far(const float *w, size_t step, const float *x, size_t n)
{
    float sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += w[k * step] * x[k];
    return sum;
}

/* The same with the weights' magnitudes. */
static __device__ inline float dot_far_magnitude(const float *w, size_t step, const float *x,
                                                 size_t n)
{
    float sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += fabsf(w[k * step]) * x[k];
    return sum;
}

/* ---- texts -------------------------------------------------------------------------------- */

/* The word that a direction reads in step t. */
static __device__ inline size_t token_at(size_t direction, uint32_t first, uint32_t len, uint32_t t)
{
    return direction ? first + len - 1 - t : first + t;
}

/* u (directions, H, 4 H): w_hh (4 H, H) of each turned over. */
struct turn_over {
    const float *w[2];
    size_t H;
    float *u;
    __device__ void operator()(size_t i) const
    {
        const size_t G = 4 * H, j = i % G, k = i / G % H, d = i / G / H;
        u[i] = w[d][j * H + k];
    }
};

/* ---- the input's weights ------------------------------------------------------------------ */

enum { W_IH, W_HH, B_IH, B_HH, PER_DIRECTION };

/* Gradients of one direction's weights and biases; NULL: not wanted. */
struct input_weights {
    float *w, *b_ih, *b_hh; /* (G, D), (G), (G) */
};

static inline input_weights input_weights_of(node *const *w)
{
    return input_weights{w[W_IH]->needs_grad ? w[W_IH]->grad : NULL,
                         w[B_IH]->needs_grad ? w[B_IH]->grad : NULL,
                         w[B_HH]->needs_grad ? w[B_HH]->grad : NULL};
}

/* What both directions get of dw (2, G, D) and db (2, G). One thread has both, so that operands may be
 * the same. */
struct give_input_weights {
    input_weights to[2];
    size_t G, D;
    const float *dw, *db;
    __device__ void operator()(size_t i) const
    {
        for (int k = 0; k < 2; k++) {
            if (i < G * D && to[k].w)
                to[k].w[i] += dw[k * G * D + i];
            if (i < G && to[k].b_ih)
                to[k].b_ih[i] += db[k * G + i];
            if (i < G && to[k].b_hh)
                to[k].b_hh[i] += db[k * G + i];
        }
    }
};

/* w: the weights of both directions; dx (rows of x, 2 G): the gradients of x's projections. The biases
 * get the columns of bias(v, j), v < V. */
template <class F>
stet_status lstm_input_gradients(cuda_device *d, const char *what, node *const *w, node *x,
                                 const float *dx, size_t V, F bias)
{
    const size_t G = shape_rows(w[W_IH]->shape), D = shape_cols(x->shape),
                 rows = shape_rows(x->shape);
    bool wanted = false;
    for (int k = 0; k < 2 * PER_DIRECTION; k++)
        wanted |= k % PER_DIRECTION != W_HH && w[k]->needs_grad;
    if (wanted) {
        scratch mem(d);
        float *dw = mem.take<float>(2 * G * D), *db = mem.take<float>(2 * G);
        if (!dw || !db)
            return STET_ENOMEM;
        TRY(cuda_gemm(d, true, false, 2 * G, D, rows, dx, 2 * G, x->value, D, 0, dw));
        TRY(column_sums(d, V, 2 * G, bias, db, true));
        TRY(each(d, what, G * (D ? D : 1),
                 give_input_weights{
                     {input_weights_of(w), input_weights_of(w + PER_DIRECTION)}, G, D, dw, db}));
    }
    for (int k = 0; k < 2 && x->needs_grad; k++)
        TRY(cuda_gemm(d, false, false, rows, D, G, dx + k * G, 2 * G,
                      w[PER_DIRECTION * k + W_IH]->value, D, 1, x->grad));
    return STET_OK;
}

#endif
