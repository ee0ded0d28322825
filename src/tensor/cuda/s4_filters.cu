/* tensor/cuda/s4_filters.cu - filters of a convolution as sums of state spaces, an entry of the result
 * or of a gradient to a thread; the formulas are those of cpu/s4_filters.c. */
#include "tensor/cuda/device.cuh"

extern "C" {
#include "tensor/op_args.h"
}

enum { IN_ENC, IN_K, IN_D };

struct parts {
    size_t dim, len, rank;
    const float *enc, *k, *d;
    __device__ float tap(size_t h, size_t l) const
    {
        return k[h * len + l] + (l == 0 ? d[h] : 0);
    }
};

static parts parts_of(const node *n)
{
    return {shape_cols(n->in[IN_ENC]->shape),
            shape_cols(n->in[IN_K]->shape),
            ((const s4_filters_args *)n->args)->rank,
            n->in[IN_ENC]->value,
            n->in[IN_K]->value,
            n->in[IN_D]->value};
}

struct make_entry { /* (F, D, L) */
    parts p;
    float *w;
    __device__ void operator()(size_t at) const
    {
        const size_t l = p.len - 1 - at % p.len, i = at / p.len % p.dim, f = at / p.len / p.dim;
        float sum = 0;
        for (size_t h = f * p.rank; h < (f + 1) * p.rank; h++)
            sum += p.tap(h, l) * p.enc[h * p.dim + i];
        w[at] = sum;
    }
};

struct enc_entry { /* (F rank, D) */
    parts p;
    const float *dw;
    float *grad;
    __device__ void operator()(size_t at) const
    {
        const size_t h = at / p.dim, i = at % p.dim;
        const float *from = dw + (h / p.rank * p.dim + i) * p.len;
        float sum = 0;
        for (size_t l = 0; l < p.len; l++)
            sum += p.tap(h, l) * from[p.len - 1 - l];
        grad[at] += sum;
    }
};

struct tap_entry { /* (F rank, L): of the kernel, and of d where l = 0 */
    parts p;
    const float *dw;
    float *k_grad, *d_grad;
    __device__ void operator()(size_t at) const
    {
        const size_t h = at / p.len, l = at % p.len;
        const float *from = dw + h / p.rank * p.dim * p.len + p.len - 1 - l;
        float sum = 0;
        for (size_t i = 0; i < p.dim; i++)
            sum += from[i * p.len] * p.enc[h * p.dim + i];
        if (k_grad)
            k_grad[at] += sum;
        if (d_grad && l == 0)
            d_grad[h] += sum;
    }
};

static float *grad_of(const node *x)
{
    return x->needs_grad ? x->grad : NULL;
}

extern "C" stet_status cuda_s4_filters_fwd(tape *, node *n)
{
    return each(cuda_now(), "s4_filters", shape_count(n->shape), make_entry{parts_of(n), n->value});
}

extern "C" stet_status cuda_s4_filters_bwd(tape *, node *n)
{
    const node *enc = n->in[IN_ENC], *k = n->in[IN_K], *d = n->in[IN_D];
    const parts p = parts_of(n);
    if (enc->needs_grad)
        TRY(each(cuda_now(), "s4_filters", shape_count(enc->shape),
                 enc_entry{p, n->grad, enc->grad}));
    if (!k->needs_grad && !d->needs_grad)
        return STET_OK;
    return each(cuda_now(), "s4_filters", shape_count(k->shape),
                tap_entry{p, n->grad, grad_of(k), grad_of(d)});
}
