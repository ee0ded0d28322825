/* tensor/cuda/norm.cu - layer normalisation: y = gamma (x - mean) / sqrt(var + eps) + beta over each
 * row, a warp a row. Forward keeps mean and 1/sqrt(var + eps) of each row. */
#include "tensor/cuda/device.cuh"

static __global__ void norm_kernel(const float *x, const float *gamma, const float *beta,
                                   size_t rows, size_t c, float eps, float *y, float2 *stats)
{
    for (size_t i = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; i < rows;
         i += (size_t)gridDim.x * COLUMN_ROWS) {
        const float *row = x + i * c;
        float sum = 0, spread = 0;
        for (size_t j = threadIdx.x; j < c; j += WARP)
            sum += row[j];
        const float mean = warp_sum(sum) / (float)c;
        for (size_t j = threadIdx.x; j < c; j += WARP)
            spread += (row[j] - mean) * (row[j] - mean);
        const float inv_std = 1 / sqrtf(warp_sum(spread) / (float)c + eps);
        for (size_t j = threadIdx.x; j < c; j += WARP)
            y[i * c + j] = (row[j] - mean) * inv_std * gamma[j] + beta[j];
        if (stats && threadIdx.x == 0)
            stats[i] = make_float2(mean, inv_std);
    }
}

extern "C" stet_status cuda_layer_norm_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const size_t rows = shape_rows(n->shape);
    if (n->needs_grad && !(n->saved = store_arena_alloc(t->values, rows, sizeof(float2))))
        return STET_ENOMEM;
    if (rows == 0)
        return STET_OK;
    norm_kernel<<<blocks_for(rows, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(
        n->in[0]->value, n->in[1]->value, n->in[2]->value, rows, shape_cols(n->shape),
        (float)((const layer_norm_args *)n->args)->eps, n->value, (float2 *)n->saved);
    return cuda_launched(d, "layer_norm");
}

/* With h = (x - mean) / std and g = gamma dy: dx = (g - mean(g) - h mean(g h)) / std. */
static __global__ void norm_bwd_kernel(const float *x, const float *dy, const float *gamma,
                                       const float2 *stats, size_t rows, size_t c, float *dx,
                                       bool fresh)
{
    for (size_t i = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; i < rows;
         i += (size_t)gridDim.x * COLUMN_ROWS) {
        const float mean = stats[i].x, inv_std = stats[i].y;
        float sum_g = 0, sum_gh = 0;
        for (size_t j = threadIdx.x; j < c; j += WARP) {
            const float g = gamma[j] * dy[i * c + j];
            sum_g += g;
            sum_gh += g * ((x[i * c + j] - mean) * inv_std);
        }
        const float mean_g = warp_sum(sum_g) / (float)c, mean_gh = warp_sum(sum_gh) / (float)c;
        for (size_t j = threadIdx.x; j < c; j += WARP) {
            const float h = (x[i * c + j] - mean) * inv_std;
            const float s = (gamma[j] * dy[i * c + j] - mean_g - h * mean_gh) * inv_std;
            dx[i * c + j] = (fresh ? 0 : dx[i * c + j]) + s;
        }
    }
}

struct gamma_entry {
    const float *x, *dy;
    const float2 *stats;
    size_t c;
    __device__ float operator()(size_t i, size_t j) const
    {
        return dy[i * c + j] * ((x[i * c + j] - stats[i].x) * stats[i].y);
    }
};

extern "C" stet_status cuda_layer_norm_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    node *x = n->in[0], *gamma = n->in[1], *beta = n->in[2];
    const size_t rows = shape_rows(n->shape), c = shape_cols(n->shape);
    const float2 *stats = (const float2 *)n->saved;
    if (x->needs_grad) {
        const bool fresh = grad_is_fresh(x);
        if (rows)
            norm_bwd_kernel<<<blocks_for(rows, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0,
                              d->stream>>>(x->value, n->grad, gamma->value, stats, rows, c, x->grad,
                                           fresh);
        TRY(cuda_launched(d, "layer_norm"));
    }
    if (gamma->needs_grad)
        TRY(grad_add_columns(d, gamma, rows, gamma_entry{x->value, n->grad, stats, c}));
    return beta->needs_grad ? grad_add_columns(d, beta, rows, matrix_entry{n->grad, c}) : STET_OK;
}
