/* model/cuda/cnn_edits.cu - variants of texts through a text CNN (../device_args.h).
 *
 * As in ../cnn_view.c: opening a text keeps every window's sum and, for each filter, the largest sum
 * up to every window and from it on. A variant reads the two ends and looks at the windows in
 * between, of which it computes those anew that hold a changed word. A thread has a filter. */
#include <cfloat>

#include "tensor/cuda/device.cuh"
extern "C" {
#include "model/device_args.h"
}

/* ---- words -------------------------------------------------------------------------------- */

enum { WORD_ROWS = 64, WORD_DEEP = 16, WORD_TILE = 4 };

/* A block has WORD_ROWS words and one panel, a thread WORD_TILE x WORD_TILE of their numbers, each a sum
 * over dim in order. */
template <bool FUSES> static __global__ void words_kernel(cnn_words_on w)
{
    __shared__ float x[WORD_DEEP][WORD_ROWS + 1], y[WORD_DEEP][CNN_ON_PANEL];
    const unsigned t = threadIdx.x, col = t % 16 * WORD_TILE, row = t / 16 * WORD_TILE;
    const float *panel = w.panels + (size_t)blockIdx.x * w.dim * CNN_ON_PANEL;
    for (size_t first = (size_t)blockIdx.y * WORD_ROWS; first < w.n_words;
         first += (size_t)gridDim.y * WORD_ROWS) {
        float sum[WORD_TILE][WORD_TILE] = {};
        for (size_t k = 0; k < w.dim; k += WORD_DEEP) {
            const unsigned deep = (unsigned)(w.dim - k < WORD_DEEP ? w.dim - k : WORD_DEEP);
            for (unsigned i = t; i < WORD_DEEP * WORD_ROWS; i += THREADS) {
                const unsigned r = i / WORD_DEEP, l = i % WORD_DEEP;
                if (l < deep && first + r < w.n_words)
                    x[l][r] = w.table[(first + r) * w.dim + k + l];
            }
            for (unsigned i = t; i < deep * CNN_ON_PANEL; i += THREADS)
                y[i / CNN_ON_PANEL][i % CNN_ON_PANEL] = panel[k * CNN_ON_PANEL + i];
            __syncthreads();
            for (unsigned l = 0; l < deep; l++)
#pragma unroll
                for (int i = 0; i < WORD_TILE; i++)
#pragma unroll
                    for (int j = 0; j < WORD_TILE; j++)
                        sum[i][j] = FUSES ? __fmaf_rn(x[l][row + i], y[l][col + j], sum[i][j])
                                          : __fadd_rn(sum[i][j],
                                                      __fmul_rn(x[l][row + i], y[l][col + j]));
            __syncthreads();
        }
        for (unsigned i = 0; i < WORD_TILE; i++)
            for (unsigned j = 0; j < WORD_TILE; j++) {
                const size_t at = (size_t)blockIdx.x * CNN_ON_PANEL + col + j;
                if (first + row + i < w.n_words && at < w.width)
                    w.word[(first + row + i) * w.width + at] = sum[i][j];
            }
    }
}

extern "C" stet_status cuda_cnn_words(const cnn_words_on *w)
{
    cuda_device *d = cuda_now();
    const size_t rows = (w->n_words + WORD_ROWS - 1) / WORD_ROWS;
    const dim3 grid((unsigned)((w->width + CNN_ON_PANEL - 1) / CNN_ON_PANEL),
                    (unsigned)(rows < 32768 ? rows : 32768));
    if (w->fuses)
        words_kernel<true><<<grid, THREADS, 0, d->stream>>>(*w);
    else
        words_kernel<false><<<grid, THREADS, 0, d->stream>>>(*w);
    return cuda_launched(d, "projecting words");
}

/* ---- texts -------------------------------------------------------------------------------- */

/* Words a text has, and windows of a kernel over it. */
static __device__ inline size_t text_length(const uint32_t *first, size_t text)
{
    return first[text + 1] - first[text];
}

static __device__ inline size_t windows_of(size_t n, size_t k)
{
    return n < k ? 1 : n - k + 1;
}

struct kept {
    float *sum, *upto, *from; /* (n_words, features) each; window t of a text is at its word t */
};

/* The text that word `at` of the batch belongs to. */
static __device__ inline size_t text_of(const edit_batch &b, size_t at)
{
    size_t from = 0, to = b.n_texts; /* first[from] <= at < first[to] */
    while (to - from > 1) {
        const size_t half = (from + to) / 2;
        *(b.first[half] <= at ? &from : &to) = half;
    }
    return from;
}

/* A block has the windows that begin at one word. */
static __global__ void sums_kernel(cnn_on m, edit_batch b, float *sum)
{
    for (size_t at = blockIdx.x; at < b.n_words; at += gridDim.x) {
        const size_t text = text_of(b, at), n = text_length(b.first, text), t = at - b.first[text];
        for (size_t f = threadIdx.x; f < m.features; f += THREADS) {
            const size_t kernel = f / m.filters, k = m.k[kernel];
            if (t >= windows_of(n, k))
                continue;
            const float *taps = m.word + m.first[kernel] + f % m.filters;
            float x = 0;
            for (size_t l = 0; l < k && t + l < n; l++)
                x += taps[b.word[at + l] * m.width + l * m.filters];
            sum[at * m.features + f] = x;
        }
    }
}

enum { AHEAD = 8 };

/* Running maxima of one filter over one text, AHEAD windows loaded together. */
static __global__ void scan_kernel(cnn_on m, edit_batch b, kept to)
{
    const size_t text = blockIdx.x, f = (size_t)blockIdx.y * THREADS + threadIdx.x;
    if (f >= m.features)
        return;
    const size_t windows = windows_of(text_length(b.first, text), m.k[f / m.filters]);
    const size_t base = b.first[text] * m.features + f;
    for (int back = 0; back < 2; back++) {
        float *out = (back ? to.from : to.upto) + base, top = -FLT_MAX;
        const float *in = to.sum + base;
        for (size_t t = 0; t < windows; t += AHEAD) {
            float x[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (t + i < windows)
                    x[i] = in[(back ? windows - 1 - t - i : t + i) * m.features];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (t + i < windows) {
                    top = x[i] > top ? x[i] : top;
                    out[(back ? windows - 1 - t - i : t + i) * m.features] = top;
                }
        }
    }
}

/* The word at `pos` of a variant whose edits e[0..n) reach from there on. */
static __device__ inline uint32_t word_at(const uint32_t *ids, const stet_edit *e, size_t n,
                                          size_t pos)
{
    for (size_t i = 0; i < n && e[i].pos <= pos; i++)
        if (e[i].pos == pos)
            return e[i].word;
    return ids[pos];
}

/* The largest window of one filter, with edits e[0..n_e), n_e > 0. */
static __device__ float edited_top(const cnn_on &m, size_t kernel, const uint32_t *ids, size_t n,
                                   const stet_edit *e, size_t n_e, const float *taps,
                                   const float *sum, const float *upto, const float *from)
{
    const size_t k = m.k[kernel], windows = windows_of(n, k), last_pos = e[n_e - 1].pos;
    const size_t begin = e[0].pos + 1 < k ? 0 : e[0].pos + 1 - k;
    const size_t last = last_pos < windows - 1 ? last_pos : windows - 1;
    float top = begin ? upto[(begin - 1) * m.features] : -FLT_MAX;
    size_t i = 0; /* the first edit that window t or a later one holds */
    for (size_t t = begin; t <= last; t++) {
        while (i < n_e && e[i].pos < t)
            i++;
        size_t held = 0;
        while (i + held < n_e && e[i + held].pos < t + k)
            held++;
        float x = sum[t * m.features];
        if (held == 1) {
            const size_t l = e[i].pos - t;
            x += taps[e[i].word * m.width + l * m.filters] -
                 taps[ids[e[i].pos] * m.width + l * m.filters];
        } else if (held > 1) {
            x = 0;
            for (size_t l = 0; l < k && t + l < n; l++)
                x += taps[word_at(ids, e + i, held, t + l) * m.width + l * m.filters];
        }
        top = x > top ? x : top;
    }
    if (last + 1 < windows) {
        const float x = from[(last + 1) * m.features];
        top = x > top ? x : top;
    }
    return top;
}

/* What filter `feature` says of a variant. */
static __device__ float feature_of(const cnn_on &m, const edit_batch &b, const kept &at,
                                   size_t variant, size_t feature)
{
    const size_t kernel = feature / m.filters, f = feature % m.filters;
    const size_t text = b.of[variant], n = text_length(b.first, text);
    const uint32_t *ids = b.word + b.first[text];
    const stet_edit *e = b.edit + b.edit_at[variant];
    const size_t n_e = b.edit_at[variant + 1] - b.edit_at[variant];
    const size_t base = b.first[text] * m.features + feature;
    const float top =
        n_e ? edited_top(m, kernel, ids, n, e, n_e, m.word + m.first[kernel] + f, at.sum + base,
                         at.upto + base, at.from + base)
            : at.from[base];
    const float y = top + m.bias[feature];
    return y > 0 ? y : 0;
}

/* The layer before the last: u (dense) from y (features), which other threads wrote. */
static __device__ void dense_units(const cnn_on &m, const float *y, float *u)
{
    __syncthreads();
    for (size_t j = threadIdx.x; j < m.dense; j += THREADS) {
        float x = 0;
        for (size_t f = 0; f < m.features; f++)
            x += y[f] * m.dense_weight[f * m.dense + j];
        x += m.dense_bias[j];
        u[j] = x > 0 ? x : 0;
    }
}

/* The logits (n_classes) of one answer, whose features y (features), then (dense) of shared memory,
 * each thread has written from its own number on in steps of THREADS. */
static __device__ void classify(const cnn_on &m, float *y, size_t n_classes, float *logits)
{
    const size_t n = m.dense ? m.dense : m.features;
    const float *last = m.dense ? y + m.features : y;
    if (m.dense)
        dense_units(m, y, y + m.features);
    for (size_t c = 0; c < n_classes; c++) { /* each thread reads what it wrote */
        double sum = 0;
        for (size_t f = threadIdx.x; f < n; f += THREADS)
            sum += (double)last[f] * (double)m.fc[c * n + f];
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            logits[c] = (float)(sum + (double)m.fc_bias[c]);
        __syncthreads(); /* block_sum's memory is used again */
    }
}

/* A block has one variant at a time. */
static __global__ void edits_kernel(cnn_on m, edit_batch b, kept at)
{
    extern __shared__ float y[];
    for (size_t v = blockIdx.x; v < b.n_variants; v += gridDim.x) {
        for (size_t f = threadIdx.x; f < m.features; f += THREADS)
            y[f] = feature_of(m, b, at, v, f);
        classify(m, y, b.n_classes, b.logits + v * b.n_classes);
    }
}

/* Bytes of shared memory for it. */
static stet_status classify_room(const cnn_on *m, size_t *bytes)
{
    *bytes = (m->features + m->dense) * sizeof(float);
    return *bytes <= 48 << 10
               ? STET_OK
               : error_set(
                     STET_ENOTSUP,
                     "a CNN of %zu filters and units in all: on the GPU there is room for 12288",
                     m->features + m->dense);
}

extern "C" stet_status cuda_cnn_edits(const cnn_on *m, const edit_batch *b, float *room)
{
    cuda_device *d = cuda_now();
    const size_t each = b->n_words * m->features;
    const kept to = {room, room + each, room + 2 * each};
    size_t bytes;
    TRY(classify_room(m, &bytes));
    sums_kernel<<<blocks_for(b->n_words, 1), THREADS, 0, d->stream>>>(*m, *b, to.sum);
    scan_kernel<<<dim3((unsigned)b->n_texts, (unsigned)((m->features + THREADS - 1) / THREADS)),
                  THREADS, 0, d->stream>>>(*m, *b, to);
    edits_kernel<<<blocks_for(b->n_variants, 1), THREADS, bytes, d->stream>>>(*m, *b, to);
    return cuda_launched(d, "variants of texts");
}

/* ---- whole texts -------------------------------------------------------------------------- */

enum { TEXT_THREADS = 128, TOGETHER = 4 };

/* A block has a text and some of the filters, a thread one of them and TOGETHER windows at a time: what it
 * reads of different words does not wait for each other. */
static __global__ void __launch_bounds__(TEXT_THREADS)
    texts_kernel(cnn_on m, edit_batch b, float *feature)
{
    const size_t f = (size_t)blockIdx.y * TEXT_THREADS + threadIdx.x;
    if (f >= m.features)
        return;
    const size_t kernel = f / m.filters, k = m.k[kernel];
    const float *taps = m.word + m.first[kernel] + f % m.filters, bias = m.bias[f];
    for (size_t text = blockIdx.x; text < b.n_texts; text += gridDim.x) {
        const size_t n = text_length(b.first, text), windows = windows_of(n, k);
        const uint32_t *ids = b.word + b.first[text];
        float top = -FLT_MAX;
        for (size_t t = 0; t < windows; t += TOGETHER) {
            float x[TOGETHER] = {};
            for (size_t l = 0; l < k; l++)
#pragma unroll
                for (int i = 0; i < TOGETHER; i++)
                    if (t + i + l < n)
                        x[i] += taps[ids[t + i + l] * m.width + l * m.filters];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                if (t + i < windows)
                    top = x[i] > top ? x[i] : top;
        }
        const float y = top + bias;
        feature[text * m.features + f] = y > 0 ? y : 0;
    }
}

/* A block has one answer at a time. */
static __global__ void logits_kernel(cnn_on m, size_t answers, size_t n_classes, const float *feature,
                                     float *logits)
{
    extern __shared__ float y[];
    for (size_t v = blockIdx.x; v < answers; v += gridDim.x) {
        for (size_t f = threadIdx.x; f < m.features; f += THREADS)
            y[f] = feature[v * m.features + f];
        classify(m, y, n_classes, logits + v * n_classes);
    }
}

/* `feature` is there, or on its way. */
static stet_status classify_all(cuda_device *d, const cnn_on *m, size_t answers, size_t n_classes,
                                const float *feature, float *logits)
{
    size_t bytes;
    TRY(classify_room(m, &bytes));
    logits_kernel<<<blocks_for(answers, 1), THREADS, bytes, d->stream>>>(*m, answers, n_classes,
                                                                         feature, logits);
    return cuda_launched(d, "logits of texts");
}

static dim3 text_grid(const cnn_on *m, size_t texts)
{
    return dim3(blocks_for(texts, 1), (unsigned)((m->features + TEXT_THREADS - 1) / TEXT_THREADS));
}

extern "C" stet_status cuda_cnn_texts(const cnn_on *m, const edit_batch *b, float *room)
{
    cuda_device *d = cuda_now();
    texts_kernel<<<text_grid(m, b->n_texts), TEXT_THREADS, 0, d->stream>>>(*m, *b, room);
    return classify_all(d, m, b->n_texts, b->n_classes, room, b->logits);
}

/* ---- mixtures ----------------------------------------------------------------------------- */

/* A block has MIXTURE_LANES copies of a text and some of the filters, a thread one of them: what it reads
 * of a word serves all copies. */
static __global__ void __launch_bounds__(TEXT_THREADS)
    mixtures_kernel(cnn_on m, mixed_batch b, float *feature)
{
    const size_t groups = b.stride / MIXTURE_LANES, f = (size_t)blockIdx.y * TEXT_THREADS + threadIdx.x;
    if (f >= m.features)
        return;
    const size_t kernel = f / m.filters, k = m.k[kernel];
    const float *taps = m.word + m.first[kernel] + f % m.filters;
    for (size_t part = blockIdx.x; part < b.n_texts * groups; part += gridDim.x) {
        const size_t text = part / groups, copy = part % groups * MIXTURE_LANES;
        const size_t n = text_length(b.first, text), windows = windows_of(n, k);
        float top[MIXTURE_LANES];
#pragma unroll
        for (int i = 0; i < MIXTURE_LANES; i++)
            top[i] = -FLT_MAX;
        for (size_t t = 0; t < windows; t++) {
            float x[MIXTURE_LANES] = {};
            for (size_t l = 0; l < k && t + l < n; l++) {
                const size_t word = b.first[text] + t + l;
                const uint32_t end = b.slot_at[word + 1];
                for (uint32_t s = b.slot_at[word]; s < end; s++) {
                    const float p = taps[b.slot[s] * m.width + l * m.filters];
                    const float4 *by =
                        reinterpret_cast<const float4 *>(b.weight + s * b.stride + copy);
#pragma unroll
                    for (int q = 0; q < MIXTURE_LANES / 4; q++) {
                        const float4 w = by[q];
                        x[4 * q] = fmaf(w.x, p, x[4 * q]);
                        x[4 * q + 1] = fmaf(w.y, p, x[4 * q + 1]);
                        x[4 * q + 2] = fmaf(w.z, p, x[4 * q + 2]);
                        x[4 * q + 3] = fmaf(w.w, p, x[4 * q + 3]);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < MIXTURE_LANES; i++)
                top[i] = x[i] > top[i] ? x[i] : top[i];
        }
#pragma unroll
        for (int i = 0; i < MIXTURE_LANES; i++)
            if (copy + i < b.copies) {
                const float y = top[i] + m.bias[f];
                feature[(text * b.copies + copy + i) * m.features + f] = y > 0 ? y : 0;
            }
    }
}

extern "C" stet_status cuda_cnn_mixtures(const cnn_on *m, const mixed_batch *b, float *room)
{
    cuda_device *d = cuda_now();
    mixtures_kernel<<<text_grid(m, b->n_texts * (b->stride / MIXTURE_LANES)), TEXT_THREADS, 0,
                      d->stream>>>(*m, *b, room);
    return classify_all(d, m, b->n_texts * b->copies, b->n_classes, room, b->logits);
}

/* ---- ranges ------------------------------------------------------------------------------- */

enum { RANGE_ROWS = 8 };

/* A filter's window over all choices of words, from below and from above: the numbers, the order and
 * the roundings of certify/cert_cnn_windows.c, so that the certificates are the same. */
static __device__ inline void window_range(const cnn_on &m, const range_batch &b, const float *taps,
                                           const uint32_t *at, size_t k, float bias, float pad,
                                           float *lo, float *hi)
{
    *lo = *hi = bias;
    for (size_t l = 0; l < k; l++) {
        const float *tap = taps + l * m.filters;
        const uint32_t begin = at[l], end = at[l + 1];
        float least = tap[b.word[begin] * m.width], most = least;
        for (uint32_t s = begin + 1; s < end; s++) {
            const float x = tap[b.word[s] * m.width];
            least = x < least ? x : least;
            most = x > most ? x : most;
        }
        *lo = __fadd_rn(*lo, least);
        *hi = __fadd_rn(*hi, most);
    }
    *lo = __fsub_rn(*lo, pad);
    *hi = __fadd_rn(*hi, pad);
}

/* A block has WARP filters of one kernel of one text; its rows share the windows. */
static __global__ void ranges_kernel(cnn_on m, range_batch b)
{
    __shared__ float part[RANGE_ROWS][2][WARP];
    const size_t text = blockIdx.x, kernel = blockIdx.y, lane = threadIdx.x % WARP;
    const size_t row = threadIdx.x / WARP, f = (size_t)blockIdx.z * WARP + lane;
    const size_t n = text_length(b.first, text), k = m.k[kernel], windows = windows_of(n, k);
    const size_t feature = kernel * m.filters + f;
    float top_lo = 0, top_hi = 0; /* from 0: the ReLU */
    if (f < m.filters) {
        const float *taps = m.word + m.first[kernel] + f;
        const float bias = m.bias[feature], pad = b.pad[text * m.features + feature];
        for (size_t t = row; t < windows; t += RANGE_ROWS) {
            float lo, hi;
            window_range(m, b, taps, b.at + b.first[text] + t, n - t < k ? n - t : k, bias, pad, &lo,
                         &hi);
            top_lo = lo > top_lo ? lo : top_lo;
            top_hi = hi > top_hi ? hi : top_hi;
        }
    }
    part[row][0][lane] = top_lo;
    part[row][1][lane] = top_hi;
    __syncthreads();
    if (row > 1 || f >= m.filters) /* row 0 ends below, row 1 above */
        return;
    float top = 0;
    for (int r = 0; r < RANGE_ROWS; r++)
        top = part[r][row][lane] > top ? part[r][row][lane] : top;
    b.top[(2 * text + row) * m.features + feature] = top;
}

extern "C" stet_status cuda_cnn_ranges(const cnn_on *m, const range_batch *b)
{
    cuda_device *d = cuda_now();
    ranges_kernel<<<dim3((unsigned)b->n_texts, (unsigned)m->n_kernels,
                         (unsigned)((m->filters + WARP - 1) / WARP)),
                    RANGE_ROWS * WARP, 0, d->stream>>>(*m, *b);
    return cuda_launched(d, "ranges of windows");
}
