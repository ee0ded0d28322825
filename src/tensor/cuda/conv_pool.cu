/* tensor/cuda/conv_pool.cu - one kernel size of a text CNN: convolution, ReLU and max over time.
 *
 * Every distinct row is projected on all taps once, by one product; a window is a sum of k gathered
 * stretches of it, and the maximum and its place stay in registers while the windows pass. Bias and
 * ReLU come after the maximum. The gradient reaches the rows under the winning windows alone. */
#include "tensor/cuda/device.cuh"

struct conv {
    const uint32_t *start, *row; /* of the sequence, on the device */
    size_t B, V, F, D, k;
    const float *x, *w, *b;
    uint32_t *won; /* (B, F): first position of the winning window; NULL: not wanted */
};

static conv conv_of(const node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    const node *w = n->in[1];
    return conv{seq->start,      seq->row,        seq->n_texts,        seq->n_rows,
                w->shape.dim[0], w->shape.dim[1], w->shape.dim[2],     n->in[0]->value,
                w->value,        n->in[2]->value, (uint32_t *)n->saved};
}

/* Row l F + f is w[f, :, l]. */
struct pack_tap {
    const float *w;
    size_t F, D, k;
    float *taps; /* (k, F, D) */
    __device__ void operator()(size_t i) const
    {
        const size_t d = i % D, f = i / D % F, l = i / D / F;
        taps[i] = w[(f * D + d) * k + l];
    }
};

static stet_status pack(cuda_device *d, const conv *c, float *taps)
{
    return each(d, "conv_pool", c->k * c->F * c->D, pack_tap{c->w, c->F, c->D, c->k, taps});
}

/* forward ------------------------------------------------------------------------------------ */

enum { GROUPS = 8 }; /* threads that share the windows of a text and filter */

/* The larger response wins, the earlier of equal ones; a NaN beats all. */
static __device__ bool wins(float s, uint32_t at, float best, uint32_t best_at)
{
    if (best != best || s != s)
        return s != s && (best == best || at < best_at);
    return s > best || (s == best && at < best_at);
}

/* TAPS is k in the usual cases, 0 otherwise. */
template <int TAPS> static __global__ void pool_kernel(conv c, const float *projected, float *y)
{
    __shared__ float part[GROUPS][WARP];
    __shared__ uint32_t part_at[GROUPS][WARP];
    const size_t k = TAPS ? TAPS : c.k, ld = c.k * c.F;
    const size_t text = blockIdx.x, f = (size_t)blockIdx.y * WARP + threadIdx.x;
    const uint32_t *row = c.row + c.start[text];
    const uint32_t len = c.start[text + 1] - c.start[text];
    const uint32_t windows = len >= k ? len - (uint32_t)k + 1 : 1;
    const size_t taps = len < k ? len : k; /* a shorter text is continued with zeros */
    float best = -INFINITY;
    uint32_t at = UINT32_MAX;
    if (f < c.F)
        for (uint32_t t = threadIdx.y; t < windows; t += GROUPS) {
            float s = projected[row[t] * ld + f];
            for (size_t l = 1; l < (TAPS ? TAPS : taps); l++)
                if (!TAPS || l < taps)
                    s += projected[row[t + l] * ld + l * c.F + f];
            if (wins(s, t, best, at)) {
                best = s;
                at = t;
            }
        }
    part[threadIdx.y][threadIdx.x] = best;
    part_at[threadIdx.y][threadIdx.x] = at;
    __syncthreads();
    if (threadIdx.y > 0 || f >= c.F)
        return;
    for (int g = 1; g < GROUPS; g++)
        if (wins(part[g][threadIdx.x], part_at[g][threadIdx.x], best, at)) {
            best = part[g][threadIdx.x];
            at = part_at[g][threadIdx.x];
        }
    const float s = best + c.b[f];
    y[text * c.F + f] = s < 0 ? 0 : s; /* a NaN stays */
    if (c.won)
        c.won[text * c.F + f] = at;
}

extern "C" stet_status cuda_conv_pool_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    conv c = conv_of(n);
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, c.B * c.F, sizeof *c.won);
        if (!n->saved)
            return STET_ENOMEM;
        c.won = (uint32_t *)n->saved;
    }
    if (c.F == 0)
        return STET_OK;
    scratch mem(d);
    const size_t cols = c.k * c.F;
    float *taps = mem.take<float>(cols * c.D), *projected = mem.take<float>(c.V * cols);
    if (!taps || !projected)
        return STET_ENOMEM;
    TRY(pack(d, &c, taps));
    TRY(cuda_gemm(d, false, true, c.V, cols, c.D, c.x, c.D, taps, c.D, 0, projected));
    const dim3 grid((unsigned)c.B, (unsigned)((c.F + WARP - 1) / WARP)), block(WARP, GROUPS);
    switch (c.k) {
    case 3:
        pool_kernel<3><<<grid, block, 0, d->stream>>>(c, projected, n->value);
        break;
    case 4:
        pool_kernel<4><<<grid, block, 0, d->stream>>>(c, projected, n->value);
        break;
    case 5:
        pool_kernel<5><<<grid, block, 0, d->stream>>>(c, projected, n->value);
        break;
    default:
        pool_kernel<0><<<grid, block, 0, d->stream>>>(c, projected, n->value);
        break;
    }
    return cuda_launched(d, "conv_pool");
}

/* backward ----------------------------------------------------------------------------------- */

static __device__ size_t length(const conv &c, size_t text)
{
    return c.start[text + 1] - c.start[text];
}

/* dw[f, :, l] += dy times the row under tap l of the winning window, over the texts in order. A
 * block has one filter and tap; its threads first look up the rows of some texts, then have the
 * columns. */
enum { WEIGHT_THREADS = 128 };

static __global__ void weight_kernel(conv c, const float *y, const float *dy, float *dw)
{
    __shared__ uint32_t row[WEIGHT_THREADS];
    __shared__ float g[WEIGHT_THREADS];
    const size_t f = blockIdx.x / c.k, l = blockIdx.x % c.k;
    for (size_t first = 0; first < c.B; first += WEIGHT_THREADS) {
        const size_t text = first + threadIdx.x, i = text * c.F + f;
        const bool counts = text < c.B && y[i] > 0 && l < length(c, text);
        row[threadIdx.x] = counts ? c.row[c.start[text] + c.won[i] + l] : 0;
        g[threadIdx.x] = counts ? dy[i] : 0;
        __syncthreads();
        const int n = (int)(c.B - first < WEIGHT_THREADS ? c.B - first : WEIGHT_THREADS);
        for (size_t d = threadIdx.x; d < c.D; d += WEIGHT_THREADS) {
            float sum = 0;
#pragma unroll 8
            for (int k = 0; k < n; k++)
                if (g[k] != 0) /* the same for the whole block */
                    sum += g[k] * c.x[(size_t)row[k] * c.D + d];
            dw[(f * c.D + d) * c.k + l] += sum;
        }
        __syncthreads();
    }
}

struct bias_entry {
    const float *y, *dy;
    size_t F;
    __device__ float operator()(size_t i, size_t f) const
    {
        return y[i * F + f] > 0 ? dy[i * F + f] : 0;
    }
};

/* Term (f, l, text): the row that it reaches, or none. */
struct term_key {
    conv c;
    const float *y;
    uint32_t *key;
    __device__ void operator()(size_t i) const
    {
        const size_t text = i % c.B, l = i / c.B % c.k, f = i / c.B / c.k, at = text * c.F + f;
        const bool counts = y[at] > 0 && l < length(c, text);
        key[i] = counts ? c.row[c.start[text] + c.won[at] + l] : UINT32_MAX;
    }
};

struct term_value {
    const float *dy, *taps;
    size_t B, F, D, k;
    __device__ float operator()(size_t i, size_t d) const
    {
        const size_t text = i % B, l = i / B % k, f = i / B / k;
        return dy[text * F + f] * taps[(l * F + f) * D + d];
    }
};

static stet_status rows_gradient(cuda_device *d, const conv *c, const node *n, float *dx)
{
    scratch mem(d);
    const size_t terms = c->B * c->F * c->k;
    uint32_t *key = mem.take<uint32_t>(terms);
    float *taps = mem.take<float>(c->k * c->F * c->D);
    sorted_keys sorted;
    if (!key || !taps)
        return STET_ENOMEM;
    TRY(pack(d, c, taps));
    TRY(each(d, "conv_pool", terms, term_key{*c, n->value, key}));
    TRY(cuda_sort(&mem, key, terms, &sorted));
    return scatter_add(&mem, "conv_pool", sorted, terms, c->V, c->D,
                       term_value{n->grad, taps, c->B, c->F, c->D, c->k}, dx);
}

extern "C" stet_status cuda_conv_pool_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const conv c = conv_of(n);
    node *x = n->in[0], *w = n->in[1], *b = n->in[2];
    if (c.F == 0 || c.D == 0)
        return STET_OK;
    if (b->needs_grad)
        TRY(grad_add_columns(d, b, c.B, bias_entry{n->value, n->grad, c.F}));
    if (w->needs_grad) {
        weight_kernel<<<(unsigned)(c.F * c.k), WEIGHT_THREADS, 0, d->stream>>>(c, n->value, n->grad,
                                                                               w->grad);
        TRY(cuda_launched(d, "conv_pool"));
    }
    return x->needs_grad ? rows_gradient(d, &c, n, x->grad) : STET_OK;
}
