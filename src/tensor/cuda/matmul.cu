/* tensor/cuda/matmul.cu - products by cuBLAS in exact float, and the bias that follows them. */
#include "tensor/cuda/device.cuh"

/* Row-major matrices are cuBLAS's transposed ones: c^T = op(b)^T op(a)^T. */
stet_status cuda_gemm(cuda_device *d, bool ta, bool tb, size_t m, size_t n, size_t k,
                      const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c)
{
    if (m == 0 || n == 0)
        return STET_OK;
    const float one = 1;
    const cublasStatus_t e =
        cublasSgemm_64(d->blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                       (int64_t)n, (int64_t)m, (int64_t)k, &one, b, (int64_t)(ldb ? ldb : 1), a,
                       (int64_t)(lda ? lda : 1), &beta, c, (int64_t)n);
    return e == CUBLAS_STATUS_SUCCESS ? STET_OK
                                      : cuda_failed(d, "a product", cublasGetStatusString(e));
}

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

extern "C" stet_status cuda_add_bias_fwd(tape *, node *n)
{
    return run_bias(n->in[0]->value, n->in[1], n);
}

extern "C" stet_status cuda_add_bias_bwd(tape *, node *n)
{
    TRY(bias_bwd(n->in[1], n));
    return n->in[0]->needs_grad ? grad_hand_over(cuda_now(), n->in[0], n) : STET_OK;
}

/* x w^T + b: the product is added to rows that hold the bias already. */
extern "C" stet_status cuda_linear_fwd(tape *, node *n)
{
    TRY(run_bias(NULL, n->in[2], n));
    return product_to(n->value, n->shape, value_of(n->in[0], false), value_of(n->in[1], true),
                      shape_cols(n->in[0]->shape), 1);
}

extern "C" stet_status cuda_linear_bwd(tape *, node *n)
{
    TRY(product_bwd(n, n->in[0], false, n->in[1], true));
    return bias_bwd(n->in[2], n);
}
