/* model/cuda/lstm_edits.cu - variants of texts through a bidirectional LSTM (../device_args.h).
 *
 * A block walks one direction of a tile of variants of one text. A thread has one unit of LANES of
 * them: all four gates, the cell and what is pooled stay in its registers, weights are read once
 * for all LANES, and states pass through shared memory with one barrier a step. */
#include <cmath>

#include "tensor/cuda/device.cuh"
extern "C" {
#include "model/device_args.h"
}

enum { LANES = 8, PAD = 4, MOST_UNITS = 1024 };
enum { LAST, MAX, MEAN }; /* bilstm_pool */

static size_t padded_units(size_t H)
{
    return (H + WARP - 1) / WARP * WARP;
}

/* Threads that share a unit, each with variants of its own. */
static size_t groups_of(size_t H)
{
    const size_t n = THREADS / padded_units(H);
    return n ? n : 1;
}

extern "C" size_t cuda_lstm_tile(size_t units)
{
    return units <= MOST_UNITS ? LANES * groups_of(units) : 0;
}

/* What a variant reads, one word after the other, in its direction. */
struct reader {
    const uint32_t *ids;
    const stet_edit *e;
    int next, end, step; /* edits still to come, in this direction */
    size_t n;
    bool backward;
    __device__ uint32_t word(size_t t)
    {
        if (t >= n)
            return 0;
        const size_t pos = backward ? n - 1 - t : t;
        if (next != end && e[next].pos == pos) {
            const uint32_t w = e[next].word;
            next += step;
            return w;
        }
        return ids[pos];
    }
};

static __device__ inline reader reader_of(const edit_batch &b, size_t text, size_t variant,
                                          bool backward)
{
    const int n_e = (int)(b.edit_at[variant + 1] - b.edit_at[variant]);
    reader r;
    r.ids = b.word + b.first[text];
    r.n = b.first[text + 1] - b.first[text];
    r.e = b.edit + b.edit_at[variant];
    r.next = backward ? n_e - 1 : 0;
    r.end = backward ? -1 : n_e;
    r.step = backward ? -1 : 1;
    r.backward = backward;
    return r;
}

static __device__ inline float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Does the walk start anew with its t-th word? */
static __device__ inline bool starts(const lstm_on &m, size_t n, size_t t, bool backward)
{
    const size_t pos = backward ? n - 1 - t : t;
    return t == 0 || (m.span && (backward ? pos + 1 : pos) % m.span == 0);
}

/* acc[lane][gate] += what the units before say. */
static __device__ inline void add_states(float acc[LANES][4], const float4 *u, size_t H,
                                         const float *h, size_t stride)
{
#pragma unroll 4
    for (size_t k = 0; k < H; k++) {
        const float4 w = __ldg(u + k * H);
        const float4 *row = reinterpret_cast<const float4 *>(h + k * stride);
#pragma unroll
        for (int q = 0; q < LANES / 4; q++) {
            const float4 x = row[q];
            const float state[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                acc[4 * q + i][0] = fmaf(w.x, state[i], acc[4 * q + i][0]);
                acc[4 * q + i][1] = fmaf(w.y, state[i], acc[4 * q + i][1]);
                acc[4 * q + i][2] = fmaf(w.z, state[i], acc[4 * q + i][2]);
                acc[4 * q + i][3] = fmaf(w.w, state[i], acc[4 * q + i][3]);
            }
        }
    }
}

/* feature (n_variants, 2H): what the classifier sees of each variant. */
template <int MOST_THREADS>
static __global__ void __launch_bounds__(MOST_THREADS)
    walk_kernel(lstm_on m, edit_batch b, size_t units, size_t tile, float *feature)
{
    extern __shared__ float shared[]; /* states (2, H, stride), then words (2, tile) */
    const size_t H = m.H, stride = tile + PAD, u = threadIdx.x % units;
    const size_t lane = threadIdx.x / units * LANES; /* of the tile: the first of this thread */
    const int d = (int)blockIdx.y;
    const size_t from = b.tile[2 * blockIdx.x], some = b.tile[2 * blockIdx.x + 1];
    const size_t text = b.of[from], n = b.first[text + 1] - b.first[text];
    float *const state[2] = {shared, shared + H * stride};
    uint32_t *const words = reinterpret_cast<uint32_t *>(shared + 2 * H * stride);
    const bool works = u < H;
    const float4 *weight = reinterpret_cast<const float4 *>(m.u[d]) + (works ? u : 0);

    /* A lane without a variant of its own walks the first one along. */
    reader r = reader_of(b, text, from + (threadIdx.x < some ? threadIdx.x : 0), d == 1);
    if (threadIdx.x < tile)
        words[threadIdx.x] = r.word(0);
    float cell[LANES], pooled[LANES], last[LANES], bias[4];
#pragma unroll
    for (int i = 0; i < LANES; i++)
        cell[i] = last[i] = 0, pooled[i] = m.pool == MAX ? -INFINITY : 0;
#pragma unroll
    for (int g = 0; g < 4; g++)
        bias[g] = works ? m.bias[d][g * H + u] : 0;
    __syncthreads();

    for (size_t t = 0; t < n; t++) {
        const uint32_t *now = words + (t & 1) * tile + lane;
        if (threadIdx.x < tile)
            words[((t + 1) & 1) * tile + threadIdx.x] = r.word(t + 1);
        if (works) {
            float acc[LANES][4];
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                const float *x = m.word[d] + now[i] * m.G + u;
#pragma unroll
                for (int g = 0; g < 4; g++)
                    acc[i][g] = x[g * H] + bias[g];
            }
            const bool fresh = starts(m, n, t, d == 1);
            if (!fresh)
                add_states(acc, weight, H, state[t & 1] + lane, stride);
            float *next = state[(t + 1) & 1] + u * stride + lane;
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                const float kept = fresh ? 0 : sigmoid(acc[i][1]) * cell[i];
                cell[i] = kept + sigmoid(acc[i][0]) * tanhf(acc[i][2]);
                last[i] = sigmoid(acc[i][3]) * tanhf(cell[i]);
                next[i] = last[i];
                if (m.pool == MEAN)
                    pooled[i] += last[i];
                else if (last[i] > pooled[i] || last[i] != last[i]) /* NaN stays NaN */
                    pooled[i] = last[i];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < LANES; i++)
        if (works && lane + i < some)
            feature[(from + lane + i) * 2 * H + d * H + u] = m.pool == LAST   ? last[i]
                                                             : m.pool == MEAN ? pooled[i] / (float)n
                                                                              : pooled[i];
}

/* A warp has one variant; its classes one after the other. */
static __global__ void head_kernel(lstm_on m, edit_batch b, const float *feature)
{
    const size_t n = 2 * m.H, warps = (size_t)gridDim.x * (THREADS / WARP);
    for (size_t v = (size_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP; v < b.n_variants;
         v += warps)
        for (size_t c = 0; c < b.n_classes; c++) {
            double sum = 0;
            for (size_t j = threadIdx.x % WARP; j < n; j += WARP)
                sum += (double)feature[v * n + j] * (double)m.fc[c * n + j];
            sum = warp_sum(sum);
            if (threadIdx.x % WARP == 0)
                b.logits[v * b.n_classes + c] = (float)(sum + (double)m.fc_bias[c]);
        }
}

template <int MOST_THREADS>
static stet_status walk(cuda_device *d, const lstm_on &m, const edit_batch &b, size_t threads,
                        float *feature)
{
    const size_t units = padded_units(m.H), tile = cuda_lstm_tile(m.H);
    const size_t bytes = (2 * m.H * (tile + PAD) + 2 * tile) * sizeof(float);
    if (bytes > 48 << 10) {
        const cudaError_t e =
            cudaFuncSetAttribute(walk_kernel<MOST_THREADS>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (e != cudaSuccess)
            return cuda_failed(d, "room for the states of an LSTM", cudaGetErrorString(e));
    }
    walk_kernel<MOST_THREADS><<<dim3((unsigned)b.n_tiles, 2), (unsigned)threads, bytes, d->stream>>>(
        m, b, units, tile, feature);
    return cuda_launched(d, "variants of texts");
}

extern "C" stet_status cuda_lstm_edits(const lstm_on *m, const edit_batch *b, float *room)
{
    cuda_device *d = cuda_now();
    const size_t threads = padded_units(m->H) * groups_of(m->H);
    const stet_status st = threads <= THREADS ? walk<THREADS>(d, *m, *b, threads, room)
                                              : walk<MOST_UNITS>(d, *m, *b, threads, room);
    if (st != STET_OK)
        return st;
    head_kernel<<<blocks_for(b->n_variants, THREADS / WARP), THREADS, 0, d->stream>>>(*m, *b, room);
    return cuda_launched(d, "logits of variants");
}
