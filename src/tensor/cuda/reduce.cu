/* tensor/cuda/reduce.cu - sums in double. */
#include "tensor/cuda/device.cuh"

struct entry {
    const float *x;
    __device__ double operator()(size_t i) const
    {
        return (double)x[i];
    }
};

struct give_float {
    float *to;
    __device__ void operator()(double sum) const
    {
        *to = (float)sum;
    }
};

extern "C" stet_status cuda_sum_fwd(tape *, node *n)
{
    return sum_over(cuda_now(), "sum", shape_count(n->in[0]->shape), entry{n->in[0]->value},
                    give_float{n->value});
}

/* A warp a row. */
static __global__ void row_sum_kernel(const float *x, size_t rows, size_t c, float *y)
{
    for (size_t i = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; i < rows;
         i += (size_t)gridDim.x * COLUMN_ROWS) {
        double sum = 0;
        for (size_t j = threadIdx.x; j < c; j += WARP)
            sum += (double)x[i * c + j];
        sum = warp_sum(sum);
        if (threadIdx.x == 0)
            y[i] = (float)sum;
    }
}

extern "C" stet_status cuda_row_sum_fwd(tape *, node *n)
{
    const node *x = n->in[0];
    const size_t rows = shape_rows(x->shape);
    if (rows == 0)
        return STET_OK;
    row_sum_kernel<<<blocks_for(rows, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0,
                     cuda_now()->stream>>>(x->value, rows, shape_cols(x->shape), n->value);
    return cuda_launched(cuda_now(), "row_sum");
}

/* Both spread their gradient: entry (i, j) gets g[i * step]. */
struct spread {
    const float *g;
    size_t step, c;
    float *dx;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        dx[i] = (fresh ? 0 : dx[i]) + g[i / c * step];
    }
};

static stet_status run_spread(node *n, size_t step)
{
    node *x = n->in[0];
    const spread f = {n->grad, step, shape_cols(x->shape), x->grad, grad_is_fresh(x)};
    return each(cuda_now(), n->op->name, shape_count(x->shape), f);
}

extern "C" stet_status cuda_sum_bwd(tape *, node *n)
{
    return run_spread(n, 0);
}

extern "C" stet_status cuda_row_sum_bwd(tape *, node *n)
{
    return run_spread(n, 1);
}
