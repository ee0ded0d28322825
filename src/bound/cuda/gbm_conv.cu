/* bound/cuda/gbm_conv.cu - growth bounds of a convolution (../gbm_cnn.h) and of the last layer
 * (../gbm_ops.h). */
#include "tensor/cuda/device.cuh"

/* the convolution ---------------------------------------------------------------------------- */

/* Entry (f, c) of M: the largest |w[f, c, l]|; infinity where one is not finite. */
struct greatest_tap {
    const float *w;
    size_t k;
    float *m;
    __device__ void operator()(size_t i) const
    {
        float best = 0, fault = 0;
        for (size_t l = 0; l < k; l++) {
            const float a = fabsf(w[i * k + l]);
            best = a > best ? a : best;
            fault += a - a;
        }
        m[i] = fault == 0 ? best : INFINITY;
    }
};

extern "C" stet_status cuda_gbm_conv_fwd(tape *, node *n)
{
    const node *w = n->in[0];
    const greatest_tap f = {w->value, w->shape.dim[2], n->value};
    return each(cuda_now(), "gbm_conv", shape_count(n->shape), f);
}

/* The first tap that is as great as m gets all of its gradient. */
struct greatest_tap_back {
    const float *w;
    size_t k;
    const float *m, *dm;
    float *dw;
    __device__ void operator()(size_t i) const
    {
        for (size_t l = 0; l < k && m[i] > 0; l++)
            if (fabsf(w[i * k + l]) == m[i]) {
                dw[i * k + l] += w[i * k + l] < 0 ? -dm[i] : dm[i];
                return;
            }
    }
};

extern "C" stet_status cuda_gbm_conv_bwd(tape *, node *n)
{
    const node *w = n->in[0];
    const greatest_tap_back f = {w->value, w->shape.dim[2], n->value, n->grad, w->grad};
    return each(cuda_now(), "gbm_conv", shape_count(n->shape), f);
}

/* the last layer ----------------------------------------------------------------------------- */

/* Feature i: |w_a - w_b| averaged over pairs of classes. */
struct pair_gap {
    const float *w; /* (K, F) */
    size_t K, F;
    float each, *omega;
    __device__ void operator()(size_t i) const
    {
        float sum = 0;
        for (size_t a = 0; a < K; a++)
            for (size_t b = a + 1; b < K; b++)
                sum += each * fabsf(w[a * F + i] - w[b * F + i]);
        omega[i] = sum;
    }
};

struct pair_gap_back {
    const float *w;
    size_t K, F;
    float each;
    const float *domega;
    float *dw;
    __device__ void operator()(size_t i) const
    {
        for (size_t a = 0; a < K; a++)
            for (size_t b = a + 1; b < K; b++) {
                const float d = w[a * F + i] - w[b * F + i], by = each * domega[i];
                const float g = d > 0 ? by : d < 0 ? -by : 0;
                dw[a * F + i] += g;
                dw[b * F + i] -= g;
            }
    }
};

static float each_pair(size_t K)
{
    return (float)(2 / ((double)K * (double)(K - 1)));
}

extern "C" stet_status cuda_gbm_head_fwd(tape *, node *n)
{
    const node *w = n->in[0];
    const size_t K = shape_rows(w->shape), F = shape_cols(w->shape);
    return each(cuda_now(), "gbm_head", F, pair_gap{w->value, K, F, each_pair(K), n->value});
}

extern "C" stet_status cuda_gbm_head_bwd(tape *, node *n)
{
    const node *w = n->in[0];
    const size_t K = shape_rows(w->shape), F = shape_cols(w->shape);
    return each(cuda_now(), "gbm_head", F,
                pair_gap_back{w->value, K, F, each_pair(K), n->grad, w->grad});
}
