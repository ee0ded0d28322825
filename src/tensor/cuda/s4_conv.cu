/* tensor/cuda/s4_conv.cu - causal convolution of every text with its channel's kernel, term by term
 * for texts of any length. With time reversed inside the text, du is the same convolution:
 *
 *     y = K * u + d u,   rev(du) = K * rev(dy) + d rev(dy)
 *
 * A thread has TILE results in a row of one channel, and slides a window of one operand over them,
 * TILE steps at a time: their numbers are on their way while those before them are multiplied. */
#include "tensor/cuda/device.cuh"

enum { IN_U, IN_K, IN_D };
enum { TILE = 8 };

struct texts {
    const uint32_t *start;
    size_t B, H, len, max_len; /* len: columns of the kernel */
};

static texts texts_of(const node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    return texts{seq->start, seq->n_texts, shape_cols(n->shape), shape_cols(n->in[IN_K]->shape),
                 seq->max_len};
}

/* Blocks of WARP channels and COLUMN_ROWS tiles of one text. */
static dim3 tile_grid(texts s)
{
    const size_t tiles = (s.max_len + TILE - 1) / TILE;
    return dim3((unsigned)s.B, (unsigned)((tiles + COLUMN_ROWS - 1) / COLUMN_ROWS),
                (unsigned)((s.H + WARP - 1) / WARP));
}

/* The tile's first step, the channel, and whether there is anything to do. */
static __device__ bool tile_of(const texts &s, size_t *first, uint32_t *len, size_t *t, size_t *h)
{
    *first = s.start[blockIdx.x];
    *len = s.start[blockIdx.x + 1] - (uint32_t)*first;
    *t = ((size_t)blockIdx.y * COLUMN_ROWS + threadIdx.y) * TILE;
    *h = (size_t)blockIdx.z * WARP + threadIdx.x;
    return *t < *len && *h < s.H;
}

struct turn_kernel {
    const float *k;
    size_t H, len;
    float *to; /* (max_len, H) */
    __device__ void operator()(size_t i) const
    {
        to[i] = k[i % H * len + i / H];
    }
};

/* Results of one thread: sum[i] of x[s] w[s - i + TILE - 1] over the steps s, in their order. */
struct slide {
    float sum[TILE], w[2 * TILE - 1];
};

/* TILE more steps: x[s], and w's entries from TILE - 1 on. */
static __device__ void slide_on(slide &a, const float (&x)[TILE], const float (&fresh)[TILE])
{
#pragma unroll
    for (int s = 0; s < TILE; s++)
        a.w[TILE - 1 + s] = fresh[s];
#pragma unroll
    for (int s = 0; s < TILE; s++)
#pragma unroll
        for (int i = 0; i < TILE; i++)
            a.sum[i] += a.w[s - i + TILE - 1] * x[s];
#pragma unroll
    for (int j = 0; j < TILE - 1; j++)
        a.w[j] = a.w[j + TILE];
}

/* All steps below n; x_at(s) and fresh_at(s) are asked for steps below n only, others count as 0. */
template <class X, class F>
static __device__ void slide_over(slide &a, uint32_t n, X x_at, F fresh_at)
{
    float x[TILE], fresh[TILE];
#pragma unroll
    for (int s = 0; s < TILE; s++) {
        x[s] = s < n ? x_at(s) : 0;
        fresh[s] = s < n ? fresh_at(s) : 0;
    }
    for (uint32_t base = TILE; base < n; base += TILE) {
        float next_x[TILE], next_fresh[TILE];
#pragma unroll
        for (int s = 0; s < TILE; s++) {
            next_x[s] = base + s < n ? x_at(base + s) : 0;
            next_fresh[s] = base + s < n ? fresh_at(base + s) : 0;
        }
        slide_on(a, x, fresh);
#pragma unroll
        for (int s = 0; s < TILE; s++) {
            x[s] = next_x[s];
            fresh[s] = next_fresh[s];
        }
    }
    slide_on(a, x, fresh);
}

/* out[t] (+)= sum of k[t - s] in[s] over s <= t, and d in[t]; step t of a text that runs backwards
 * is its word len - 1 - t. */
static __global__ void conv_kernel(texts s, const float *k, const float *d, const float *in,
                                   float *out, bool reversed, bool add)
{
    size_t first, t, h;
    uint32_t len;
    if (!tile_of(s, &first, &len, &t, &h))
        return;
    const size_t H = s.H;
    const uint32_t ends = t + TILE < len ? (uint32_t)t + TILE : len;
    /* the word of step 0, and from one step's to the next */
    const float *word = in + (first + (reversed ? len - 1 : 0)) * H + h;
    const ptrdiff_t by = reversed ? -(ptrdiff_t)H : (ptrdiff_t)H;
    slide a = {}; /* w[s - i + TILE - 1] = k[t + i - s], 0 before the start */
#pragma unroll
    for (int j = 0; j < TILE - 1; j++)
        a.w[j] = t + TILE - 1 - j < len ? k[(t + TILE - 1 - j) * H + h] : 0;
    slide_over(
        a, ends, [=](uint32_t step) { return word[step * by]; },
        [=](uint32_t step) { return step <= t ? k[(t - step) * H + h] : 0; });
#pragma unroll
    for (int i = 0; i < TILE; i++)
        if (t + i < len) {
            const size_t at = (first + (reversed ? len - 1 - (t + i) : t + i)) * H + h;
            out[at] = (add ? out[at] : 0) + (a.sum[i] + d[h] * in[at]);
        }
}

/* part (B, max_len, H): the sum of dy[t] u[t - l] over each text, for l below its length. */
static __global__ void lag_kernel(texts s, const float *u, const float *dy, float *part)
{
    size_t first, l, h;
    uint32_t len;
    if (!tile_of(s, &first, &len, &l, &h))
        return;
    const size_t H = s.H;
    const float *from = u + first * H + h, *to = dy + (first + l) * H + h;
    slide a = {}; /* w[s - i + TILE - 1] = u[s - i], 0 before the start */
    slide_over(
        a, len - (uint32_t)l, [=](uint32_t step) { return to[step * H]; },
        [=](uint32_t step) { return from[step * H]; });
#pragma unroll
    for (int i = 0; i < TILE; i++)
        if (l + i < len)
            part[(blockIdx.x * s.max_len + l + i) * H + h] = a.sum[i];
}

/* How many texts are longer than l: they come first. */
static __device__ size_t longer_than(const texts &s, size_t l)
{
    size_t lo = 0, hi = s.B;
    while (lo < hi) {
        const size_t b = (lo + hi) / 2;
        if (l < s.start[b + 1] - s.start[b])
            lo = b + 1;
        else
            hi = b;
    }
    return lo;
}

/* Entry (l, h) over the texts that are long enough, in their order. */
struct add_texts {
    texts s;
    const float *part;
    float *dk, *dd; /* NULL: not wanted */
    __device__ void operator()(size_t i) const
    {
        const size_t l = i / s.H, h = i % s.H, n = longer_than(s, l);
        double sum = 0;
        for (size_t b = 0; b < n; b += TILE) {
            float x[TILE]; /* loaded together, then added in order */
#pragma unroll
            for (int k = 0; k < TILE; k++)
                x[k] = b + k < n ? part[(b + k) * s.max_len * s.H + i] : 0;
#pragma unroll
            for (int k = 0; k < TILE; k++)
                sum += (double)x[k];
        }
        if (dk)
            dk[h * s.len + l] += (float)sum;
        if (dd && l == 0)
            dd[h] += (float)sum;
    }
};

/* out (+)= the convolution of `in`. */
static stet_status convolve(cuda_device *d, const node *n, const float *in, float *out,
                            bool reversed, bool add)
{
    const texts s = texts_of(n);
    scratch mem(d);
    float *k = mem.take<float>(s.max_len * s.H);
    if (!k)
        return STET_ENOMEM;
    if (s.H == 0)
        return STET_OK;
    TRY(each(d, "s4_conv", s.max_len * s.H, turn_kernel{n->in[IN_K]->value, s.H, s.len, k}));
    conv_kernel<<<tile_grid(s), dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(s, k, n->in[IN_D]->value,
                                                                         in, out, reversed, add);
    return cuda_launched(d, "s4_conv");
}

extern "C" stet_status cuda_s4_conv_fwd(tape *, node *n)
{
    return convolve(cuda_now(), n, n->in[IN_U]->value, n->value, false, false);
}

extern "C" stet_status cuda_s4_conv_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const texts s = texts_of(n);
    node *u = n->in[IN_U], *k = n->in[IN_K], *skip = n->in[IN_D];
    if (u->needs_grad)
        TRY(convolve(d, n, n->grad, u->grad, true, true));
    if ((!k->needs_grad && !skip->needs_grad) || s.H == 0)
        return STET_OK;
    scratch mem(d);
    float *part = mem.take<float>(s.B * s.max_len * s.H);
    if (!part)
        return STET_ENOMEM;
    lag_kernel<<<tile_grid(s), dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(s, u->value, n->grad, part);
    TRY(cuda_launched(d, "s4_conv"));
    const add_texts f = {s, part, k->needs_grad ? k->grad : NULL,
                         skip->needs_grad ? skip->grad : NULL};
    return each(d, "s4_conv", s.max_len * s.H, f);
}
