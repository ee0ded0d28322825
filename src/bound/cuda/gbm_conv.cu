/* bound/cuda/gbm_conv.cu - growth bounds of a convolution (../gbm_cnn.h) and of the last layer
 * (../gbm_ops.h). */
#include "tensor/cuda/device.cuh"

extern "C" {
#include "bound/bound_ops.h"
#include "bound/bound_args.h"
#include "tensor/joined.h"
}

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

/* all convolutions and what follows them ------------------------------------------------------ */

struct gbm_size {
    size_t F, k, col; /* its first feature */
    const float *w;
    float *dw; /* NULL: not wanted */
};

struct gbm_sizes {
    size_t n, D, cols;
    const float *omega; /* (cols); NULL: all 1 */
    gbm_size s[CONV_POOLS_MAX];
};

static gbm_sizes sizes_of(const node *n)
{
    gbm_sizes c = {};
    c.n = ((const gbm_convs_args *)n->args)->n;
    c.D = n->in[0]->shape.dim[1];
    c.omega = (size_t)n->n_in > c.n ? n->in[c.n]->value : NULL;
    for (size_t i = 0; i < c.n; i++) {
        const node *w = n->in[i];
        c.s[i] = gbm_size{w->shape.dim[0], w->shape.dim[2], c.cols, w->value,
                          w->needs_grad ? w->grad : NULL};
        c.cols += w->shape.dim[0];
    }
    return c;
}

/* What the op keeps: the sum of all entries, and for backward that of each feature's row. */
struct gbm_sums {
    float *all;
    double *row; /* (cols) */
};

static gbm_sums sums_of(const node *n)
{
    return gbm_sums{(float *)n->saved, (double *)n->saved + 1};
}

static __device__ const gbm_size &size_of_feature(const gbm_sizes &c, size_t col)
{
    size_t i = 0;
    while (i + 1 < c.n && col >= c.s[i + 1].col)
        i++;
    return c.s[i];
}

static __device__ float greatest_of(const float *w, size_t k)
{
    float best = 0, fault = 0;
    for (size_t l = 0; l < k; l++) {
        const float a = fabsf(w[l]);
        best = a > best ? a : best;
        fault += a - a;
    }
    return fault == 0 ? best : INFINITY;
}

/* A block has one filter. */
static __global__ void rows_kernel(const __grid_constant__ gbm_sizes c, double *row)
{
    const gbm_size &s = size_of_feature(c, blockIdx.x);
    const float *w = s.w + (blockIdx.x - s.col) * c.D * s.k;
    double sum = 0;
    for (size_t d = threadIdx.x; d < c.D; d += THREADS)
        sum += (double)greatest_of(w + d * s.k, s.k);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        row[blockIdx.x] = sum;
}

/* One block. */
static __global__ void rows_end_kernel(const float *omega, size_t cols, double by, gbm_sums to,
                                       float *y)
{
    double plain = 0, read = 0;
    for (size_t i = threadIdx.x; i < cols; i += THREADS) {
        plain += to.row[i];
        read += to.row[i] * (omega ? (double)omega[i] : 1);
    }
    plain = block_sum(plain);
    __syncthreads();
    read = block_sum(read);
    if (threadIdx.x == 0) {
        *to.all = (float)plain;
        *y = (float)(by * read);
    }
}

extern "C" stet_status cuda_gbm_convs_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const gbm_sizes c = sizes_of(n);
    n->saved = store_arena_alloc(t->values, c.cols + 1, sizeof(double));
    if (!n->saved)
        return STET_ENOMEM;
    if (c.cols)
        rows_kernel<<<(unsigned)c.cols, THREADS, 0, d->stream>>>(c, sums_of(n).row);
    rows_end_kernel<<<1, THREADS, 0, d->stream>>>(
        c.omega, c.cols, ((const gbm_convs_args *)n->args)->by, sums_of(n), n->value);
    return cuda_launched(d, "gbm_convs");
}

/* The first tap that is as great as M's entry gets all of its gradient. */
static __global__ void rows_back_kernel(const __grid_constant__ gbm_sizes c, const float *dy,
                                        double by, const double *row, float *domega, bool fresh)
{
    const size_t col = blockIdx.x;
    const gbm_size &s = size_of_feature(c, col);
    const size_t first = (col - s.col) * c.D;
    const float g = (float)by * *dy * (c.omega ? c.omega[col] : 1);
    for (size_t d = threadIdx.x; s.dw && d < c.D; d += THREADS) {
        const float *w = s.w + (first + d) * s.k;
        const float m = greatest_of(w, s.k);
        for (size_t l = 0; l < s.k && m > 0; l++)
            if (fabsf(w[l]) == m) {
                s.dw[(first + d) * s.k + l] += w[l] < 0 ? -g : g;
                break;
            }
    }
    if (domega && threadIdx.x == 0)
        domega[col] = (fresh ? 0 : domega[col]) + (float)(by * (double)*dy * row[col]);
}

extern "C" stet_status cuda_gbm_convs_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const size_t n_filters = ((const gbm_convs_args *)n->args)->n;
    for (size_t i = 0; i < n_filters; i++)
        TRY(clear_if_fresh(d, n->in[i]));
    const gbm_sizes c = sizes_of(n);
    float *domega = NULL;
    bool fresh = false;
    if (c.omega && n->in[n_filters]->needs_grad) {
        domega = n->in[n_filters]->grad;
        fresh = grad_is_fresh(n->in[n_filters]);
    }
    if (c.cols)
        rows_back_kernel<<<(unsigned)c.cols, THREADS, 0, d->stream>>>(
            c, n->grad, ((const gbm_convs_args *)n->args)->by, sums_of(n).row, domega, fresh);
    return cuda_launched(d, "gbm_convs");
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
