/* tensor/cuda/matmul.cu - products, and the bias that follows them. */
#include "tensor/cuda/gemm.cuh"

/* A matrix as cuda_gemm wants it. */
struct matrix {
    const float *v;
    size_t ld;
    bool trans;
};

static matrix value_of(const node *x, bool trans)
{
    return matrix{x->value, shape_cols(x->shape), trans};
}

static matrix grad_of(const node *x, bool trans)
{
    return matrix{x->grad, shape_cols(x->shape), trans};
}

static stet_status product_to(float *c, shape s, matrix a, matrix b, size_t k, float beta)
{
    return cuda_gemm(cuda_now(), a.trans, b.trans, shape_rows(s), shape_cols(s), k, a.v, a.ld, b.v,
                     b.ld, beta, c);
}

static stet_status product_to_grad(node *x, matrix a, matrix b, size_t k)
{
    return product_to(x->grad, x->shape, a, b, k, grad_is_fresh(x) ? 0.0f : 1.0f);
}

extern "C" stet_status cuda_matmul_fwd(tape *, node *n)
{
    const matmul_args *args = (const matmul_args *)n->args;
    const shape a = n->in[0]->shape;
    return product_to(n->value, n->shape, value_of(n->in[0], args->ta),
                      value_of(n->in[1], args->tb), args->ta ? shape_rows(a) : shape_cols(a), 0);
}

/* With y = op(a) op(b): da = dy op(b)^T, db = op(a)^T dy, each transposed as its operand is. */
static stet_status product_bwd(const node *n, node *a, bool ta, node *b, bool tb)
{
    const size_t rows = n->shape.dim[0], cols = n->shape.dim[1];
    if (a->needs_grad && !ta)
        TRY(product_to_grad(a, grad_of(n, false), value_of(b, !tb), cols));
    else if (a->needs_grad)
        TRY(product_to_grad(a, value_of(b, tb), grad_of(n, true), cols));
    if (b->needs_grad && !tb)
        TRY(product_to_grad(b, value_of(a, !ta), grad_of(n, false), rows));
    else if (b->needs_grad)
        TRY(product_to_grad(b, grad_of(n, true), value_of(a, ta), rows));
    return STET_OK;
}

extern "C" stet_status cuda_matmul_bwd(tape *, node *n)
{
    const matmul_args *args = (const matmul_args *)n->args;
    return product_bwd(n, n->in[0], args->ta, n->in[1], args->tb);
}

/* bias --------------------------------------------------------------------------------------- */

struct add_bias {
    const float *x; /* (n, c), or NULL for zero */
    const float *bias;
    size_t c;
    float *y;
    __device__ void operator()(size_t i) const
    {
        y[i] = (x ? x[i] : 0) + bias[i % c];
    }
};

static stet_status run_bias(const float *x, const node *bias, node *y)
{
    const add_bias f = {x, bias->value, shape_cols(y->shape), y->value};
    return each(cuda_now(), "adding a bias", shape_count(y->shape), f);
}

static stet_status bias_bwd(node *bias, const node *n)
{
    const matrix_entry g = {n->grad, shape_cols(n->shape)};
    return bias->needs_grad ? grad_add_columns(cuda_now(), bias, shape_rows(n->shape), g) : STET_OK;
}

/* The same, with a rounded copy on the way. */
struct rounding_entry {
    matrix_entry g;
    __nv_bfloat16 *to;
    __device__ float operator()(size_t i, size_t j) const
    {
        const float x = g(i, j);
        to[i * g.c + j] = __float2bfloat16_rn(x);
        return x;
    }
};

extern "C" stet_status cuda_add_bias_fwd(tape *, node *n)
{
    return run_bias(n->in[0]->value, n->in[1], n);
}

extern "C" stet_status cuda_add_bias_bwd(tape *, node *n)
{
    TRY(bias_bwd(n->in[1], n));
    return n->in[0]->needs_grad ? grad_hand_over(cuda_now(), n->in[0], n) : STET_OK;
}

/* linear ------------------------------------------------------------------------------------- */

/* The last layer of a classifier has few outputs and a row per text: too little for a library's
 * product, which cuts it into several launches. */
enum { FEW_OUTPUTS = 8, FEW_ROWS = 256, FEW_INPUTS = 1 << 14 };

static bool is_small(const node *n)
{
    return shape_cols(n->shape) <= FEW_OUTPUTS && shape_rows(n->shape) <= FEW_ROWS &&
           shape_cols(n->in[0]->shape) <= FEW_INPUTS;
}

struct small_linear {
    const float *x, *w, *b; /* (rows, c), (K, c), (K) */
    size_t rows, c, K;
};

static small_linear small_of(const node *n)
{
    return small_linear{n->in[0]->value,
                        n->in[1]->value,
                        n->in[2]->value,
                        shape_rows(n->shape),
                        shape_cols(n->in[0]->shape),
                        shape_cols(n->shape)};
}

/* A warp an entry of the result. */
static __global__ void small_kernel(small_linear s, float *y)
{
    const size_t i = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y;
    if (i >= s.rows * s.K)
        return;
    const float *x = s.x + i / s.K * s.c, *w = s.w + i % s.K * s.c;
    float sum = 0;
#pragma unroll 4
    for (size_t j = threadIdx.x; j < s.c; j += WARP)
        sum += x[j] * w[j];
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        y[i] = sum + s.b[i % s.K];
}

/* All gradients. */
struct small_slopes {
    small_linear s;
    const float *dy;
    float *dx, *dw, *db; /* NULL: not wanted */
    bool x_fresh, w_fresh, b_fresh;
};

/* A thread has an entry of dx. */
static __device__ void slope_of_x(const small_slopes &f, size_t i)
{
    const small_linear &s = f.s;
    const size_t row = i / s.c, j = i - row * s.c;
    float sum = 0;
    if (row >= s.rows)
        return;
    for (size_t k = 0; k < s.K; k++)
        sum += f.dy[row * s.K + k] * s.w[k * s.c + j];
    f.dx[i] = (f.x_fresh ? 0 : f.dx[i]) + sum;
}

/* A warp has an entry of dw, or of db behind them; its threads share the rows. */
static __device__ void slope_of_weight(const small_slopes &f, size_t i)
{
    const small_linear &s = f.s;
    const bool of_bias = i >= s.K * s.c;
    const size_t k = of_bias ? i - s.K * s.c : i / s.c, j = i - k * s.c;
    float *to = of_bias ? f.db : f.dw, sum = 0;
    if (k >= s.K || !to)
        return;
    for (size_t row = threadIdx.x; row < s.rows; row += WARP)
        sum += f.dy[row * s.K + k] * (of_bias ? 1 : s.x[row * s.c + j]);
    sum = warp_sum(sum);
    to += of_bias ? k : i;
    if (threadIdx.x == 0)
        *to = ((of_bias ? f.b_fresh : f.w_fresh) ? 0 : *to) + sum;
}

static __global__ void small_slopes_kernel(small_slopes f, unsigned blocks_of_x)
{
    const size_t block = blockIdx.x;
    if (block < blocks_of_x)
        slope_of_x(f, block * THREADS + threadIdx.y * WARP + threadIdx.x);
    else
        slope_of_weight(f, (block - blocks_of_x) * COLUMN_ROWS + threadIdx.y);
}

/* Where the block of x's gradient goes, if it is wanted. */
static float *wanted(node *x, bool *fresh)
{
    *fresh = x->needs_grad && grad_is_fresh(x);
    return x->needs_grad ? x->grad : NULL;
}

static stet_status small_bwd(const node *n)
{
    small_slopes f = {};
    f.s = small_of(n);
    f.dy = n->grad;
    f.dx = wanted(n->in[0], &f.x_fresh);
    f.dw = wanted(n->in[1], &f.w_fresh);
    f.db = wanted(n->in[2], &f.b_fresh);
    const unsigned of_x = f.dx ? blocks_for(f.s.rows * f.s.c, THREADS) : 0,
                   of_weights = f.dw || f.db ? blocks_for(f.s.K * (f.s.c + 1), COLUMN_ROWS) : 0;
    if (of_x + of_weights == 0)
        return STET_OK;
    small_slopes_kernel<<<of_x + of_weights, dim3(WARP, COLUMN_ROWS), 0, cuda_now()->stream>>>(
        f, of_x);
    return cuda_launched(cuda_now(), "linear");
}

/* x w^T + b: the product is added to rows that hold the bias already. */
static stet_status linear_fwd(node *n)
{
    if (is_small(n)) {
        const small_linear s = small_of(n);
        if (s.rows * s.K == 0)
            return STET_OK;
        small_kernel<<<blocks_for(s.rows * s.K, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0,
                       cuda_now()->stream>>>(s, n->value);
        return cuda_launched(cuda_now(), "linear");
    }
    TRY(run_bias(NULL, n->in[2], n));
    return product_to(n->value, n->shape, value_of(n->in[0], false), value_of(n->in[1], true),
                      shape_cols(n->in[0]->shape), 1);
}

static stet_status linear_bwd(node *n)
{
    if (is_small(n))
        return small_bwd(n);
    TRY(product_bwd(n, n->in[0], false, n->in[1], true));
    return bias_bwd(n->in[2], n);
}

/* The same with rounded factors: one launch rounds both and writes the bias, and the copies serve the
 * gradients, too. */
struct rounded_pair {
    __nv_bfloat16 *x, *w;
};

static __device__ void round_four(const float *from, __nv_bfloat16 *to, size_t i)
{
    const float4 x = reinterpret_cast<const float4 *>(from)[i];
    __nv_bfloat162 *at = reinterpret_cast<__nv_bfloat162 *>(to) + 2 * i;
    at[0] = __floats2bfloat162_rn(x.x, x.y);
    at[1] = __floats2bfloat162_rn(x.z, x.w);
}

struct round_fours {
    const float *from;
    __nv_bfloat16 *to;
    __device__ void operator()(size_t i) const
    {
        round_four(from, to, i);
    }
};

struct linear_start {
    const float *x, *w, *bias;
    rounded_pair to;
    float *y;
    size_t x_end, w_end; /* fours of x, then of w, then of y */
    uint32_t bias_fours;
    __device__ void operator()(size_t i) const
    {
        if (i < x_end)
            round_four(x, to.x, i);
        else if (i < w_end)
            round_four(w, to.w, i - x_end);
        else
            reinterpret_cast<float4 *>(y)[i - w_end] =
                reinterpret_cast<const float4 *>(bias)[(uint32_t)(i - w_end) % bias_fours];
    }
};

/* Sizes that the copies can have as they are. */
static bool linear_rounds(const node *n)
{
    return cuda_rounds(cuda_now()) && shape_cols(n->in[0]->shape) % 8 == 0 &&
           shape_cols(n->shape) % 8 == 0 && shape_count(n->shape) <= UINT32_MAX &&
           shape_count(n->shape) > 0 && shape_count(n->in[0]->shape) > 0 &&
           (size_t)n->in[0]->value % 16 == 0 && (size_t)n->in[1]->value % 16 == 0 &&
           (size_t)n->in[2]->value % 16 == 0;
}

extern "C" stet_status cuda_linear_fwd(tape *t, node *n)
{
    if (!linear_rounds(n))
        return linear_fwd(n);
    cuda_device *d = cuda_now();
    const node *x = n->in[0], *w = n->in[1];
    const size_t k = shape_cols(x->shape), of_x = shape_count(x->shape),
                 of_w = shape_count(w->shape);
    scratch mem(d);
    rounded_pair to;
    to.x = n->needs_grad ? (__nv_bfloat16 *)store_arena_alloc(t->values, of_x + of_w, sizeof *to.x)
                         : mem.take<__nv_bfloat16>(of_x + of_w);
    if (!to.x)
        return STET_ENOMEM;
    to.w = to.x + of_x;
    n->saved = n->needs_grad ? to.x : NULL;
    const linear_start f = {
        x->value, w->value, n->in[2]->value,   to,
        n->value, of_x / 4, (of_x + of_w) / 4, (uint32_t)(shape_cols(n->shape) / 4)};
    TRY(each(d, "linear", (of_x + of_w + shape_count(n->shape)) / 4, f));
    return cuda_gemm_bf16(d, false, true, shape_rows(n->shape), shape_cols(n->shape), k, to.x, k,
                          to.w, k, 1, n->value);
}

extern "C" stet_status cuda_linear_bwd(tape *, node *n)
{
    if (!n->saved)
        return linear_bwd(n);
    cuda_device *d = cuda_now();
    node *x = n->in[0], *w = n->in[1];
    const size_t rows = shape_rows(n->shape), out = shape_cols(n->shape), in = shape_cols(x->shape);
    const __nv_bfloat16 *rx = (const __nv_bfloat16 *)n->saved, *rw = rx + shape_count(x->shape);
    scratch mem(d);
    __nv_bfloat16 *dy = mem.take<__nv_bfloat16>(rows * out);
    if (!dy)
        return STET_ENOMEM;
    const rounding_entry g = {{n->grad, out}, dy};
    TRY(n->in[2]->needs_grad ? grad_add_columns(d, n->in[2], rows, g)
                             : each(d, "linear", rows * out / 4, round_fours{n->grad, dy}));
    if (x->needs_grad)
        TRY(cuda_gemm_bf16(d, false, false, rows, in, out, dy, out, rw, in,
                           grad_is_fresh(x) ? 0.0f : 1.0f, x->grad));
    if (w->needs_grad)
        TRY(cuda_gemm_bf16(d, true, false, out, in, rows, dy, out, rx, in,
                           grad_is_fresh(w) ? 0.0f : 1.0f, w->grad));
    return STET_OK;
}
