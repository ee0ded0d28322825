/* tensor/cuda/lstm.cu - both directions of one LSTM layer over texts of different lengths.
 *
 * Every distinct row of the input is projected on the gates of both directions once, by one product.
 * A block then walks one direction of one text: its state is in shared memory, and the recurrent
 * weights stay in registers for the whole text where the hidden size is one of the usual ones. A
 * block needs no other, and a short text ends early: nothing is computed on padding.
 *
 * Backward the blocks leave the gates' gradients of each token; the rest is products over all
 * tokens, and sums over the tokens of each row in their order. */
#include "tensor/cuda/device.cuh"

struct lstm {
    const uint32_t *start, *row; /* of the sequence, on the device */
    size_t B, T, V, D, H, G;     /* G = 4 H */
    const float *w_hh[2], *b_ih[2], *b_hh[2];
    /* for backward, by token; NULL: not wanted */
    float *gates; /* (T, 2, G): i f g o */
    float *h[2];  /* (T, H): state before the token */
    float *c[2];  /* (T, H) */
};

static lstm lstm_of(const node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    lstm s = {};
    s.start = seq->start;
    s.row = seq->row;
    s.B = seq->n_texts;
    s.T = seq->n_tokens;
    s.V = seq->n_rows;
    s.D = shape_cols(n->in[0]->shape);
    s.H = shape_cols(n->in[2]->shape);
    s.G = 4 * s.H;
    for (int d = 0; d < 2; d++) {
        s.w_hh[d] = n->in[4 * d + 2]->value;
        s.b_ih[d] = n->in[4 * d + 3]->value;
        s.b_hh[d] = n->in[4 * d + 4]->value;
    }
    s.gates = (float *)n->saved;
    for (int d = 0; s.gates && d < 2; d++) {
        s.h[d] = s.gates + 2 * s.T * s.G + 2 * d * s.T * s.H;
        s.c[d] = s.h[d] + s.T * s.H;
    }
    return s;
}

static size_t kept_size(const lstm *s)
{
    return 2 * s->T * s->G + 4 * s->T * s->H;
}

/* A thread has a gate of a unit, and several where there are more than a block's threads. */
static unsigned lstm_threads(const lstm *s)
{
    const size_t threads = (s->G + WARP - 1) / WARP * WARP;
    return (unsigned)(threads < 2 * WARP ? 2 * WARP : threads < 1024 ? threads : 1024);
}

/* Arrays in shared memory begin at multiples of 16 bytes. */
static __host__ __device__ size_t padded(size_t n)
{
    return (n + 3) / 4 * 4;
}

/* Room for so many numbers a unit. */
static stet_status shared_size(const lstm *s, size_t numbers, size_t *bytes)
{
    *bytes = numbers * padded(s->H) * sizeof(float);
    return *bytes <= 48 << 10 && s->H <= 1024
               ? STET_OK
               : error_set(STET_ENOTSUP, "op bilstm: hidden size %zu is too large for the GPU",
                           s->H);
}

/* UNITS is H with the weights in registers, or 0 with weights that come from memory. */
#define FOR_UNITS(kernel, s, threads, bytes, ...)                                                  \
    do {                                                                                           \
        const dim3 grid_((unsigned)(s).B, 2);                                                      \
        cudaStream_t stream_ = cuda_now()->stream;                                                 \
        if ((s).H == 64)                                                                           \
            kernel<64><<<grid_, threads, bytes, stream_>>>(__VA_ARGS__);                           \
        else if ((s).H == 32)                                                                      \
            kernel<32><<<grid_, threads, bytes, stream_>>>(__VA_ARGS__);                           \
        else                                                                                       \
            kernel<0><<<grid_, threads, bytes, stream_>>>(__VA_ARGS__);                            \
    } while (0)

static __device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* The sum of w[k] x[k]; x is in shared memory at a multiple of 16 bytes, and read four at a time. */
template <int N> static __device__ float dot(const float *w, const float *x)
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

/* The same with weights `step` apart in memory. */
static __device__ float dot_far(const float *w, size_t step, const float *x, size_t n)
{
    float sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += w[k * step] * x[k];
    return sum;
}

/* forward ------------------------------------------------------------------------------------ */

/* This thread's entry of the projection of a token's row, where there is a thread for each gate. */
static __device__ size_t projected_at(const lstm &s, size_t d, size_t token)
{
    return ((size_t)s.row[token] * 2 + d) * s.G + threadIdx.x;
}

/* x (V, 2, G): the projected rows; u (2, H, G): w_hh turned over. */
template <int UNITS>
static __global__ void lstm_kernel(lstm s, const float *x, const float *u, float *y)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = UNITS ? UNITS : s.H, G = 4 * H, text = blockIdx.x, d = blockIdx.y;
    float *h = shared, *c = h + padded(H), *gate = c + padded(H);
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    enum { HELD = UNITS ? UNITS : 1 };
    float w[HELD];
    if (UNITS)
        for (int k = 0; k < UNITS; k++)
            w[k] = threadIdx.x < G ? u[(d * H + k) * G + threadIdx.x] : 0;
    for (size_t k = threadIdx.x; k < H; k += blockDim.x)
        h[k] = c[k] = 0;
    __syncthreads();
    /* the next token's projection is on its way while a step is computed */
    const float bias =
        UNITS && threadIdx.x < G ? s.b_ih[d][threadIdx.x] + s.b_hh[d][threadIdx.x] : 0;
    float ahead = UNITS ? x[projected_at(s, d, d ? first + len - 1 : first)] : 0;
    for (uint32_t t = 0; t < len; t++) {
        const size_t token = d ? first + len - 1 - t : first + t;
        const float now = ahead;
        if (UNITS && t + 1 < len)
            ahead = x[projected_at(s, d, d ? token - 1 : token + 1)];
        for (size_t j = threadIdx.x; j < G; j += blockDim.x) {
            float z =
                UNITS ? now + bias
                      : x[((size_t)s.row[token] * 2 + d) * G + j] + (s.b_ih[d][j] + s.b_hh[d][j]);
            z += UNITS ? dot<HELD>(w, h) : dot_far(u + d * H * G + j, G, h, H);
            gate[j] = j / H == 2 ? tanhf(z) : sigmoid(z);
            if (s.gates)
                s.gates[(token * 2 + d) * G + j] = gate[j];
        }
        __syncthreads();
        for (size_t k = threadIdx.x; k < H; k += blockDim.x) {
            if (s.gates) {
                s.h[d][token * H + k] = h[k];
                s.c[d][token * H + k] = c[k];
            }
            c[k] = gate[H + k] * c[k] + gate[k] * gate[2 * H + k];
            h[k] = gate[3 * H + k] * tanhf(c[k]);
        }
        __syncthreads();
    }
    for (size_t k = threadIdx.x; k < H; k += blockDim.x)
        y[(text * 2 + d) * H + k] = h[k];
}

struct turn_over {
    const float *w[2];
    size_t H;
    float *u; /* (2, H, 4 H) */
    __device__ void operator()(size_t i) const
    {
        const size_t G = 4 * H, j = i % G, k = i / G % H, d = i / G / H;
        u[i] = w[d][j * H + k];
    }
};

/* The rows on the gates of both directions: x (V, 2, G). */
static stet_status project(cuda_device *d, const lstm *s, const node *n, float *w_in, float *x)
{
    store *at = d->scratch.store;
    for (int k = 0; k < 2; k++)
        store_copy(at, w_in + k * s->G * s->D, n->in[4 * k + 1]->value, s->G * s->D * sizeof *w_in);
    return cuda_gemm(d, false, true, s->V, 2 * s->G, s->D, n->in[0]->value, s->D, w_in, s->D, 0, x);
}

extern "C" stet_status cuda_bilstm_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    lstm s = lstm_of(n);
    size_t bytes;
    TRY(shared_size(&s, 6, &bytes));
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, kept_size(&s), sizeof(float));
        if (!n->saved)
            return STET_ENOMEM;
        s = lstm_of(n);
    }
    if (s.H == 0)
        return STET_OK;
    scratch mem(d);
    float *w_in = mem.take<float>(2 * s.G * s.D), *x = mem.take<float>(s.V * 2 * s.G);
    float *u = mem.take<float>(2 * s.H * s.G);
    if (!w_in || !x || !u)
        return STET_ENOMEM;
    TRY(project(d, &s, n, w_in, x));
    TRY(each(d, "bilstm", 2 * s.H * s.G, turn_over{{s.w_hh[0], s.w_hh[1]}, s.H, u}));
    FOR_UNITS(lstm_kernel, s, lstm_threads(&s), bytes, s, x, u, n->value);
    return cuda_launched(d, "bilstm");
}

/* backward ----------------------------------------------------------------------------------- */

/* What forward kept of a token and a unit. */
struct step_kept {
    float i, f, g, o, c;
};

static __device__ step_kept kept_at(const lstm &s, size_t d, size_t token, size_t k)
{
    const float *gate = s.gates + (token * 2 + d) * s.G + k;
    return step_kept{gate[0], gate[s.H], gate[2 * s.H], gate[3 * s.H], s.c[d][token * s.H + k]};
}

/* dz (T, 2, G): the gradients of what went into the gates. Thread (q, k) holds the weights of gate q
 * that reach unit k. */
template <int UNITS> static __global__ void lstm_bwd_kernel(lstm s, const float *dy, float *dz_out)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = UNITS ? UNITS : s.H, G = 4 * H, text = blockIdx.x, d = blockIdx.y;
    float *dh = shared, *dc = dh + padded(H), *dz = dc + padded(H), *part = dz + G;
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    enum { HELD = UNITS ? UNITS : 1 };
    float w[HELD];
    if (UNITS && threadIdx.x < G)
        for (int j = 0; j < UNITS; j++)
            w[j] = s.w_hh[d][(threadIdx.x / H * H + j) * H + threadIdx.x % H];
    for (size_t j = threadIdx.x; j < H; j += blockDim.x) {
        dh[j] = dy[(text * 2 + d) * H + j];
        dc[j] = 0;
    }
    __syncthreads();
    /* the token before is on its way while a step is computed */
    const size_t k = threadIdx.x;
    step_kept ahead = {};
    if (k < H)
        ahead = kept_at(s, d, d ? first : first + len - 1, k);
    for (uint32_t t = len; t-- > 0;) {
        const size_t token = d ? first + len - 1 - t : first + t;
        if (k < H) {
            const float i = ahead.i, f = ahead.f, g = ahead.g, o = ahead.o, c = ahead.c;
            const float tc = tanhf(f * c + i * g);
            if (t > 0)
                ahead = kept_at(s, d, d ? token + 1 : token - 1, k);
            const float e = dc[k] + dh[k] * o * (1 - tc * tc);
            dz[k] = e * g * i * (1 - i);
            dz[H + k] = e * c * f * (1 - f);
            dz[2 * H + k] = e * i * (1 - g * g);
            dz[3 * H + k] = dh[k] * tc * o * (1 - o);
            dc[k] = e * f;
        }
        __syncthreads();
        for (size_t j = threadIdx.x; j < G; j += blockDim.x) {
            const size_t gate = j / H * H;
            dz_out[(token * 2 + d) * G + j] = dz[j];
            part[j] = UNITS ? dot<HELD>(w, dz + gate)
                            : dot_far(s.w_hh[d] + gate * H + j % H, H, dz + gate, H);
        }
        __syncthreads();
        if (k < H)
            dh[k] = (part[k] + part[H + k]) + (part[2 * H + k] + part[3 * H + k]);
        /* the next turn reads and writes dh[k] and dc[k] in the same thread */
    }
}

/* w_ih, b_ih, b_hh and the input, from the gradients of each row's projection. */
static stet_status input_gradients(cuda_device *d, const lstm *s, node *n, const float *dx)
{
    for (int k = 0; k < 2; k++) {
        node **w = n->in + 4 * k + 1, *rows = n->in[0];
        const float *part = dx + k * s->G;
        if (w[0]->needs_grad)
            TRY(cuda_gemm(d, true, false, s->G, s->D, s->V, part, 2 * s->G, rows->value, s->D, 1,
                          w[0]->grad));
        for (int b = 2; b < 4; b++)
            if (w[b]->needs_grad)
                TRY(grad_add_columns(d, w[b], s->V, matrix_entry{part, 2 * s->G}));
        if (rows->needs_grad)
            TRY(cuda_gemm(d, false, false, s->V, s->D, s->G, part, 2 * s->G, w[0]->value, s->D, 1,
                          rows->grad));
    }
    return STET_OK;
}

extern "C" stet_status cuda_bilstm_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const lstm s = lstm_of(n);
    size_t bytes;
    TRY(shared_size(&s, 10, &bytes));
    if (s.H == 0)
        return STET_OK;
    scratch mem(d);
    float *dz = mem.take<float>(s.T * 2 * s.G), *dx = mem.take<float>(s.V * 2 * s.G);
    sorted_keys sorted;
    if (!dz || !dx)
        return STET_ENOMEM;
    FOR_UNITS(lstm_bwd_kernel, s, lstm_threads(&s), bytes, s, n->grad, dz);
    TRY(cuda_launched(d, "bilstm"));
    for (int k = 0; k < 2; k++)
        if (n->in[4 * k + 2]->needs_grad)
            TRY(cuda_gemm(d, true, false, s.G, s.H, s.T, dz + k * s.G, 2 * s.G, s.h[k], s.H, 1,
                          n->in[4 * k + 2]->grad));
    store_clear(d->scratch.store, dx, s.V * 2 * s.G * sizeof *dx);
    TRY(cuda_sort(&mem, s.row, s.T, s.V, &sorted));
    TRY(scatter_add(&mem, "bilstm", sorted, s.T, s.V, 2 * s.G, matrix_entry{dz, 2 * s.G}, dx));
    return input_gradients(d, &s, n, dx);
}
