/* tensor/cpu/matmul.c - products on the tape and the bias that follows them. */
#include <string.h>

#include "base/simd.h"
#include "tensor/cpu/few_rows.h"
#include "tensor/cpu/grads.h"
#include "tensor/host/ranges.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

/* A matrix as gemm wants it. */
typedef struct matrix {
    const real *v;
    size_t ld;
    bool trans;
} matrix;

static matrix value_of(const node *x, bool trans)
{
    return (matrix){x->value, shape_cols(x->shape), trans};
}

static matrix grad_of(const node *x, bool trans)
{
    return (matrix){x->grad, shape_cols(x->shape), trans};
}

/* c = op(a) op(b) + beta c with inner size k. BLAS refuses a leading dimension of 0, which empty
 * matrices have. */
static stet_status product_to(tape *t, real *c, shape s, matrix a, matrix b, size_t k, real beta)
{
    const size_t m = shape_rows(s), n = shape_cols(s);
    if (m == 0 || n == 0)
        return STET_OK;
    return gemm_long(t->mem, a.trans, b.trans, m, n, k, 1, a.v, a.ld ? a.ld : 1, b.v,
                     b.ld ? b.ld : 1, beta, c, n);
}

static stet_status product_to_grad(tape *t, node *x, matrix a, matrix b, size_t k)
{
    return product_to(t, x->grad, x->shape, a, b, k, grad_is_fresh(x) ? 0 : 1);
}

stet_status cpu_matmul_fwd(tape *t, node *n)
{
    const matmul_args *args = n->args;
    const shape a = n->in[0]->shape;
    return product_to(t, n->value, n->shape, value_of(n->in[0], args->ta),
                      value_of(n->in[1], args->tb), args->ta ? shape_rows(a) : shape_cols(a), 0);
}

/* With y = op(a) op(b): da = dy op(b)^T, db = op(a)^T dy, each transposed as its operand is. */
static stet_status all_rows_bwd(tape *t, const node *n, node *a, bool ta, node *b, bool tb)
{
    const size_t rows = n->shape.dim[0], cols = n->shape.dim[1];
    if (a->needs_grad && !ta)
        TRY(product_to_grad(t, a, grad_of(n, false), value_of(b, !tb), cols));
    else if (a->needs_grad)
        TRY(product_to_grad(t, a, value_of(b, tb), grad_of(n, true), cols));
    if (b->needs_grad && !tb)
        TRY(product_to_grad(t, b, value_of(a, !ta), grad_of(n, false), rows));
    else if (b->needs_grad)
        TRY(product_to_grad(t, b, grad_of(n, true), value_of(a, ta), rows));
    return STET_OK;
}

/* The same from rows `f` of dy and of a, which is not transposed: the others are zero. */
static stet_status few_rows_bwd(tape *t, const node *n, const few_rows *f, node *a, node *b,
                                bool tb)
{
    const size_t cols = n->shape.dim[1], inner = shape_cols(a->shape);
    const matrix dy = {few_rows_take(t->mem, f, n->grad, cols), cols, false};
    if (!dy.v)
        return STET_ENOMEM;
    if (a->needs_grad) {
        real *da = arena_new(t->mem, real, f->n * inner);
        if (!da)
            return STET_ENOMEM;
        TRY(product_to(t, da, shape2(f->n, inner), dy, value_of(b, !tb), cols, 0));
        few_rows_put(f, da, shape_rows(a->shape), inner, grad_is_fresh(a), a->grad);
    }
    if (!b->needs_grad)
        return STET_OK;
    const matrix x = {few_rows_take(t->mem, f, a->value, inner), inner, false};
    if (!x.v)
        return STET_ENOMEM;
    const matrix xt = {x.v, inner, true}, dyt = {dy.v, cols, true};
    return tb ? product_to_grad(t, b, dyt, x, f->n) : product_to_grad(t, b, xt, dy, f->n);
}

static stet_status product_bwd(tape *t, const node *n, node *a, bool ta, node *b, bool tb)
{
    const arena_mark mark = arena_save(t->mem);
    few_rows f = {.few = false};
    if (!ta)
        TRY(few_rows_find(t->mem, n->grad, n->shape.dim[0], n->shape.dim[1], &f));
    const stet_status st =
        f.few ? few_rows_bwd(t, n, &f, a, b, tb) : all_rows_bwd(t, n, a, ta, b, tb);
    arena_restore(t->mem, mark);
    return st;
}

stet_status cpu_matmul_bwd(tape *t, node *n)
{
    const matmul_args *args = n->args;
    return product_bwd(t, n, n->in[0], args->ta, n->in[1], args->tb);
}

/* bias --------------------------------------------------------------------------------------- */

typedef struct bias_job {
    const real *x; /* (n, c), or NULL for zero */
    const real *bias;
    size_t c;
    real *y;
} bias_job;

static SIMD_CLONES void bias_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const bias_job *job = ctx;
    const size_t c = job->c;
    const real *RESTRICT bias = job->bias;
    for (size_t i = begin; i < end; i++) {
        real *RESTRICT y = job->y + i * c;
        const real *RESTRICT x = job->x ? job->x + i * c : NULL;
        if (x)
            for (size_t j = 0; j < c; j++)
                y[j] = x[j] + bias[j];
        else
            memcpy(y, bias, c * sizeof *y);
    }
}

static void add_bias(const real *x, const node *bias, node *y)
{
    const size_t c = shape_cols(y->shape);
    bias_job job = {x, bias->value, c, y->value};
    ranges_run(shape_rows(y->shape), ranges_rows(c), bias_rows, &job);
}

stet_status cpu_add_bias_fwd(tape *t, node *n)
{
    (void)t;
    add_bias(n->in[0]->value, n->in[1], n);
    return STET_OK;
}

stet_status cpu_add_bias_bwd(tape *t, node *n)
{
    node *x = n->in[0], *bias = n->in[1];
    if (bias->needs_grad)
        TRY(grad_add_columns(t, bias, n->grad, shape_rows(n->shape)));
    if (x->needs_grad)
        grad_hand_over(x, n);
    return STET_OK;
}

/* x w^T + b: the product is added to rows that hold the bias already, which saves a pass. */
stet_status cpu_linear_fwd(tape *t, node *n)
{
    add_bias(NULL, n->in[2], n);
    return product_to(t, n->value, n->shape, value_of(n->in[0], false), value_of(n->in[1], true),
                      shape_cols(n->in[0]->shape), 1);
}

stet_status cpu_linear_bwd(tape *t, node *n)
{
    node *bias = n->in[2];
    TRY(product_bwd(t, n, n->in[0], false, n->in[1], true));
    return bias->needs_grad ? grad_add_columns(t, bias, n->grad, shape_rows(n->shape)) : STET_OK;
}
