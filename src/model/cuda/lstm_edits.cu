/* model/cuda/lstm_edits.cu - texts through a bidirectional LSTM (../device_args.h): variants, and mixtures
 * of words.
 *
 * A block walks one direction of a tile of texts. A thread has one unit of LANES of them: all four
 * gates, the cell and what is pooled stay in its registers, weights are read once for all LANES, and
 * states pass through shared memory with one barrier a step. */
#include <cmath>

#include "tensor/cuda/device.cuh"
extern "C" {
#include "model/device_args.h"
}

enum { LANES = MIXTURE_LANES, PAD = 4, MOST_UNITS = 1024 };
enum { LAST, MAX, MEAN }; /* bilstm_pool */

static size_t padded_units(size_t H)
{
    return (H + WARP - 1) / WARP * WARP;
}

/* Threads that share a unit, each with texts of its own. */
static size_t groups_of(size_t H)
{
    const size_t n = THREADS / padded_units(H);
    return n ? n : 1;
}

extern "C" size_t cuda_lstm_tile(size_t units)
{
    return units <= MOST_UNITS ? LANES * groups_of(units) : 0;
}

/* Where a thread of a walk stands. */
struct place {
    size_t H, u, G; /* units, its own, entries of a word's projection */
    size_t lane;    /* of the tile: the first of this thread */
    bool backward;
};

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

static __device__ inline reader reader_of(const edit_batch &b, size_t variant, bool backward)
{
    const size_t text = b.of[variant];
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

/* ---- what a walk reads -------------------------------------------------------------------- */

/* Variants of texts of one length: a tile of the batch. A lane without one of its own walks the first
 * one along. */
struct edited_texts {
    edit_batch b;
    size_t tile;

    uint32_t *words; /* (2, tile), shared: of this step and the next */
    reader r;
    size_t from, some, n;

    /* Before the first step; every thread of the block calls it. */
    __device__ void open(const place &at, float *room)
    {
        from = b.tile[2 * blockIdx.x];
        some = b.tile[2 * blockIdx.x + 1];
        n = b.first[b.of[from] + 1] - b.first[b.of[from]];
        words = reinterpret_cast<uint32_t *>(room);
        r = reader_of(b, from + (threadIdx.x < some ? threadIdx.x : 0), at.backward);
        ahead(0);
    }
    __device__ size_t steps() const /* of the block */
    {
        return n;
    }
    __device__ size_t length() const /* of this thread's texts */
    {
        return n;
    }
    /* Gets what step t will read, also by every thread. */
    __device__ void ahead(size_t t)
    {
        if (threadIdx.x < tile)
            words[(t & 1) * tile + threadIdx.x] = r.word(t);
    }
    /* acc += the projections of the t-th words */
    __device__ void add(const place &at, const float *table, size_t t, float acc[LANES][4]) const
    {
        const uint32_t *now = words + (t & 1) * tile + at.lane;
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            const float *x = table + now[i] * at.G + at.u;
#pragma unroll
            for (int g = 0; g < 4; g++)
                acc[i][g] += x[g * at.H];
        }
    }
    /* The row of lane i in the answers; false: it has none. */
    __device__ bool row(const place &at, int i, size_t *out) const
    {
        *out = from + at.lane + i;
        return at.lane + i < some;
    }
};

/* Mixtures: the lanes of a thread are copies of one text. Texts of a block may have different lengths. */
struct mixed_words {
    mixed_batch b;
    size_t tile;

    size_t longest, text, n, copy;
    uint32_t next, end; /* slots of the next word: known a step before they are read */
    bool backward;

    __device__ size_t text_of(size_t group) const
    {
        const size_t at = ((size_t)blockIdx.x * (tile / LANES) + group) / (b.stride / LANES);
        return at < b.n_texts ? at : b.n_texts - 1;
    }
    __device__ size_t length_of(size_t of) const
    {
        return b.first[of + 1] - b.first[of];
    }
    __device__ void open(const place &at, float *)
    {
        const size_t group = at.lane / LANES;
        longest = 0;
        for (size_t g = 0; g < tile / LANES; g++)
            longest = max(longest, length_of(text_of(g)));
        text = text_of(group);
        n = length_of(text);
        copy = ((size_t)blockIdx.x * (tile / LANES) + group) % (b.stride / LANES) * LANES;
        backward = at.backward;
        ahead(0);
    }
    __device__ size_t steps() const
    {
        return longest;
    }
    __device__ size_t length() const
    {
        return n;
    }
    __device__ void ahead(size_t t)
    {
        if (t >= n)
            return;
        const size_t word = b.first[text] + (backward ? n - 1 - t : t);
        next = b.slot_at[word];
        end = b.slot_at[word + 1];
    }
    __device__ void add(const place &at, const float *table, size_t, float acc[LANES][4]) const
    {
#pragma unroll 2
        for (uint32_t s = next; s < end; s++) {
            const float *x = table + b.slot[s] * at.G + at.u;
            const float4 *by = reinterpret_cast<const float4 *>(b.weight + s * b.stride + copy);
            const float p[4] = {x[0], x[at.H], x[2 * at.H], x[3 * at.H]};
#pragma unroll
            for (int q = 0; q < LANES / 4; q++) {
                const float4 w = by[q];
                const float weight[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int g = 0; g < 4; g++)
                        acc[4 * q + i][g] = fmaf(weight[i], p[g], acc[4 * q + i][g]);
            }
        }
    }
    __device__ bool row(const place &at, int i, size_t *out) const
    {
        const size_t group = (size_t)blockIdx.x * (tile / LANES) + at.lane / LANES;
        *out = text * b.copies + copy + i;
        return group < b.n_texts * (b.stride / LANES) && copy + i < b.copies;
    }
};

/* ---- the walk ----------------------------------------------------------------------------- */

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

/* feature (answers, 2H): what the classifier sees of each. */
template <int MOST_THREADS, class INPUT>
static __global__ void __launch_bounds__(MOST_THREADS)
    walk_kernel(lstm_on m, INPUT in, size_t units, float *feature)
{
    extern __shared__ float shared[]; /* states (2, H, stride), then the input's */
    const size_t stride = in.tile + PAD;
    const int d = (int)blockIdx.y;
    const place at = {m.H, threadIdx.x % units, m.G, threadIdx.x / units * LANES, d == 1};
    const bool works = at.u < m.H;
    /* Chosen, not indexed: an array of addresses would lie in local memory. */
    const float *const table = d ? m.word[1] : m.word[0], *const biases = d ? m.bias[1] : m.bias[0];
    const float4 *const weight =
        reinterpret_cast<const float4 *>(d ? m.u[1] : m.u[0]) + (works ? at.u : 0);

    in.open(at, shared + 2 * m.H * stride);
    float cell[LANES], pooled[LANES], last[LANES], bias[4];
#pragma unroll
    for (int i = 0; i < LANES; i++)
        cell[i] = last[i] = 0, pooled[i] = m.pool == MAX ? -INFINITY : 0;
#pragma unroll
    for (int g = 0; g < 4; g++)
        bias[g] = works ? biases[g * m.H + at.u] : 0;
    __syncthreads();

    const size_t steps = in.steps(), n = in.length();
    for (size_t t = 0; t < steps; t++) {
        const bool reads = works && t < n;
        float acc[LANES][4];
#pragma unroll
        for (int i = 0; i < LANES; i++)
#pragma unroll
            for (int g = 0; g < 4; g++)
                acc[i][g] = bias[g];
        if (reads)
            in.add(at, table, t, acc);
        in.ahead(t + 1);
        if (reads) {
            const bool fresh = starts(m, n, t, at.backward);
            if (!fresh)
                add_states(acc, weight, m.H, shared + (t & 1) * m.H * stride + at.lane, stride);
            float *next = shared + (((t + 1) & 1) * m.H + at.u) * stride + at.lane;
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
    for (int i = 0; i < LANES; i++) {
        size_t row;
        if (works && in.row(at, i, &row))
            feature[row * 2 * m.H + d * m.H + at.u] = m.pool == LAST   ? last[i]
                                                      : m.pool == MEAN ? pooled[i] / (float)n
                                                                       : pooled[i];
    }
}

/* A warp has one answer; its classes one after the other. */
static __global__ void head_kernel(lstm_on m, size_t answers, size_t n_classes, const float *feature,
                                   float *logits)
{
    const size_t n = 2 * m.H, warps = (size_t)gridDim.x * (THREADS / WARP);
    for (size_t v = (size_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP; v < answers;
         v += warps)
        for (size_t c = 0; c < n_classes; c++) {
            double sum = 0;
            for (size_t j = threadIdx.x % WARP; j < n; j += WARP)
                sum += (double)feature[v * n + j] * (double)m.fc[c * n + j];
            sum = warp_sum(sum);
            if (threadIdx.x % WARP == 0)
                logits[v * n_classes + c] = (float)(sum + (double)m.fc_bias[c]);
        }
}

template <int MOST_THREADS, class INPUT>
static stet_status walk(cuda_device *d, const lstm_on &m, const INPUT &in, size_t blocks,
                        float *feature)
{
    const size_t units = padded_units(m.H), threads = units * groups_of(m.H);
    const size_t bytes = (2 * m.H * (in.tile + PAD) + 2 * in.tile) * sizeof(float);
    if (bytes > 48 << 10) {
        const cudaError_t e =
            cudaFuncSetAttribute(walk_kernel<MOST_THREADS, INPUT>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (e != cudaSuccess)
            return cuda_failed(d, "room for the states of an LSTM", cudaGetErrorString(e));
    }
    walk_kernel<MOST_THREADS><<<dim3((unsigned)blocks, 2), (unsigned)threads, bytes, d->stream>>>(
        m, in, units, feature);
    return cuda_launched(d, "texts through an LSTM");
}

template <class INPUT>
static stet_status answer(const lstm_on &m, const INPUT &in, size_t blocks, size_t answers,
                          size_t n_classes, float *feature, float *logits)
{
    cuda_device *d = cuda_now();
    const stet_status st = padded_units(m.H) <= THREADS
                               ? walk<THREADS>(d, m, in, blocks, feature)
                               : walk<MOST_UNITS>(d, m, in, blocks, feature);
    if (st != STET_OK)
        return st;
    head_kernel<<<blocks_for(answers, THREADS / WARP), THREADS, 0, d->stream>>>(
        m, answers, n_classes, feature, logits);
    return cuda_launched(d, "logits of texts");
}

extern "C" stet_status cuda_lstm_edits(const lstm_on *m, const edit_batch *b, float *room)
{
    edited_texts in = {*b, cuda_lstm_tile(m->H)};
    return answer(*m, in, b->n_tiles, b->n_variants, b->n_classes, room, b->logits);
}

extern "C" stet_status cuda_lstm_mixtures(const lstm_on *m, const mixed_batch *b, float *room)
{
    mixed_words in = {*b, cuda_lstm_tile(m->H)};
    const size_t groups = b->n_texts * (b->stride / LANES), of_block = in.tile / LANES;
    return answer(*m, in, (groups + of_block - 1) / of_block, b->n_texts * b->copies, b->n_classes,
                  room, b->logits);
}
