/* bound/cuda/worst_case.cu - the worst logits of the last layer, and the share of texts that hold
 * (../worst_case.h). */
#include "bound/cuda/sets.cuh"

enum { LO, HI, WEIGHT, BIAS };

struct head_view {
    const float *lo, *hi; /* (B, F) */
    const float *w;       /* (K, F) */
    const float *b;       /* (K) */
    const int32_t *label; /* (B) */
    size_t B, K, F;
    /* What rival k reads of feature i beside the true class y. */
    __device__ float gap(size_t k, size_t y, size_t i) const
    {
        return w[k * F + i] - w[y * F + i];
    }
    __device__ float operator()(size_t text, size_t k, size_t y, size_t i) const
    {
        return (gap(k, y, i) >= 0 ? hi : lo)[text * F + i];
    }
};

static head_view head_of(const node *n)
{
    return head_view{n->in[LO]->value,
                     n->in[HI]->value,
                     n->in[WEIGHT]->value,
                     n->in[BIAS]->value,
                     ((const worst_label_args *)n->args)->at,
                     shape_rows(n->shape),
                     shape_cols(n->shape),
                     shape_cols(n->in[LO]->shape)};
}

/* A warp has one text and class. */
static __global__ void worst_kernel(head_view h, float *z)
{
    const size_t step = (size_t)gridDim.x * COLUMN_ROWS;
    for (size_t at = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; at < h.B * h.K; at += step) {
        const size_t text = at / h.K, k = at % h.K, y = (size_t)h.label[text];
        double sum = 0;
        for (size_t i = threadIdx.x; k != y && i < h.F; i += WARP)
            sum += (double)(h.gap(k, y, i) * h(text, k, y, i));
        sum = warp_sum(sum);
        if (threadIdx.x == 0)
            z[at] = k == y ? 0 : h.b[k] - h.b[y] + (float)sum;
    }
}

extern "C" stet_status cuda_worst_logits_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const head_view h = head_of(n);
    if (h.B * h.K == 0)
        return STET_OK;
    worst_kernel<<<blocks_for(h.B * h.K, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(
        h, n->value);
    return cuda_launched(d, "worst_logits");
}

/* Entry (text, i) of the ends' gradients. */
struct ends_slope {
    head_view h;
    const float *dz;
    float *dlo, *dhi; /* NULL: not wanted */
    __device__ void operator()(size_t at) const
    {
        const size_t text = at / h.F, i = at % h.F, y = (size_t)h.label[text];
        float lo = 0, hi = 0;
        for (size_t k = 0; k < h.K; k++)
            if (k != y) {
                const float d = h.gap(k, y, i);
                (d >= 0 ? hi : lo) += dz[text * h.K + k] * d;
            }
        if (dlo)
            dlo[at] += lo;
        if (dhi)
            dhi[at] += hi;
    }
};

extern "C" stet_status cuda_worst_logits_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const head_view h = head_of(n);
    const node *lo = n->in[LO], *hi = n->in[HI], *w = n->in[WEIGHT], *b = n->in[BIAS];
    const char *what = "worst_logits";
    if (lo->needs_grad || hi->needs_grad)
        TRY(each(d, what, h.B * h.F, ends_slope{h, n->grad, lo->grad, hi->grad}));
    if (w->needs_grad)
        TRY(rival_weights(d, what, h.label, n->grad, h.B, h.K, h.F, h, w->grad));
    return b->needs_grad ? rival_bias(d, what, h.label, n->grad, h.B, h.K, b->grad) : STET_OK;
}

/* the share of texts that hold --------------------------------------------------------------- */

struct text_holds {
    const float *worst; /* (B, K) */
    const int32_t *label;
    size_t K;
    __device__ double operator()(size_t text) const
    {
        bool holds = true;
        for (size_t k = 0; k < K; k++)
            holds &= k == (size_t)label[text] || worst[text * K + k] < 0;
        return holds ? 1 : 0;
    }
};

struct give_share {
    float *to;
    double texts;
    __device__ void operator()(double sum) const
    {
        *to = (float)(sum / texts);
    }
};

extern "C" stet_status cuda_worst_share_fwd(tape *, node *n)
{
    const node *worst = n->in[0];
    const size_t B = shape_rows(worst->shape);
    const text_holds f = {worst->value, ((const worst_label_args *)n->args)->at,
                          shape_cols(worst->shape)};
    return sum_over(cuda_now(), "worst_share", B, f, give_share{n->value, (double)B});
}
