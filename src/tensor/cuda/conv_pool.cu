/* tensor/cuda/conv_pool.cu - one kernel size of a text CNN: convolution, ReLU and max over time.
 *
 * Every distinct row is projected on all taps once, by one product; a window is a sum of k gathered
 * stretches of it, and the maximum and its place stay in registers while the windows pass. Bias and
 * ReLU come after the maximum. The gradient reaches the rows under the winning windows alone. */
#include "tensor/cuda/conv_taps.cuh"

struct conv {
    const uint32_t *start, *row; /* of the sequence, on the device */
    size_t B, V, F, k;
    const float *b;
    uint32_t *won; /* (B, F): first position of the winning window; NULL: not wanted */
};

static conv conv_of(const node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    const node *w = n->in[1];
    return conv{seq->start,      seq->row,        seq->n_texts,     seq->n_rows,
                w->shape.dim[0], w->shape.dim[2], n->in[2]->value, (uint32_t *)n->saved};
}

/* forward ------------------------------------------------------------------------------------ */

enum { GROUPS = 8 }; /* threads that share the windows of a text and filter */

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
            if (window_wins(s, t, best, at)) {
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
        if (window_wins(part[g][threadIdx.x], part_at[g][threadIdx.x], best, at)) {
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
    const conv_taps taps = conv_taps_of(n->in[1]);
    float *projected = mem.take<float>(c.V * c.k * c.F);
    if (!projected)
        return STET_ENOMEM;
    TRY(conv_project(d, &taps, n->in[0]->value, c.V, projected));
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

/* Term (l, text, f): the row under tap l of the winning window. */
struct winning_term {
    conv c;
    const float *y, *dy;
    tap_terms t;
    __device__ void operator()(size_t i) const
    {
        const size_t f = i % c.F, text = i / c.F % c.B, l = i / c.F / c.B, at = text * c.F + f;
        const bool counts = y[at] > 0 && l < c.start[text + 1] - c.start[text];
        t.g[i] = counts ? dy[at] : 0;
        t.row[i] = counts ? c.row[c.start[text] + c.won[at] + l] : (uint32_t)c.V;
    }
};

struct bias_entry {
    const float *y, *dy;
    size_t F;
    __device__ float operator()(size_t i, size_t f) const
    {
        return y[i * F + f] > 0 ? dy[i * F + f] : 0;
    }
};

extern "C" stet_status cuda_conv_pool_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const conv c = conv_of(n);
    const conv_taps taps = conv_taps_of(n->in[1]);
    node *x = n->in[0], *w = n->in[1], *b = n->in[2];
    if (c.F == 0 || taps.D == 0)
        return STET_OK;
    scratch mem(d);
    tap_terms terms;
    TRY(tap_terms_take(&mem, &taps, c.B, &terms));
    TRY(each(d, "conv_pool", c.k * c.B * c.F, winning_term{c, n->value, n->grad, terms}));
    if (b->needs_grad)
        TRY(grad_add_columns(d, b, c.B, bias_entry{n->value, n->grad, c.F}));
    if (w->needs_grad)
        TRY(conv_weight_gradient(d, &taps, &terms, x->value, w->grad));
    return x->needs_grad ? conv_rows_gradient(d, &taps, &terms, c.V, x->grad) : STET_OK;
}
