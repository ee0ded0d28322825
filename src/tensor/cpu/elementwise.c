/* tensor/cpu/elementwise.c - ops whose result i depends on operand entries i alone.
 *
 * An op is one expression for its value and one for each slope; the macros below make loops of them
 * that the compiler vectorises for each instruction set. In the expressions a and b are the
 * operands' entries, y the result's, and p and q the op's parameters. */
#include "base/simd.h"
#include "tensor/cpu/grads.h"
#include "tensor/host/ranges.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"

typedef struct map_job {
    const real *a, *b, *y, *dy; /* b is a where there is one operand */
    real *out;                  /* the result, or the gradient that `slope * dy` goes to */
    real p, q;
    bool fresh; /* the gradient holds nothing yet */
} map_job;

#define VALUE(op, expression)                                                                      \
    static SIMD_CLONES void op##_value(void *ctx, size_t piece, size_t begin, size_t end)          \
    {                                                                                              \
        const map_job *job = ctx;                                                                  \
        const real *RESTRICT va = job->a, *RESTRICT vb = job->b;                                   \
        real *RESTRICT out = job->out;                                                             \
        const real p = job->p, q = job->q;                                                         \
        for (size_t i = begin; i < end; i++) {                                                     \
            const real a = va[i], b = vb[i];                                                       \
            out[i] = (expression);                                                                 \
            (void)a, (void)b;                                                                      \
        }                                                                                          \
        (void)piece, (void)p, (void)q;                                                             \
    }

#define SLOPE(op, suffix, expression)                                                              \
    static SIMD_CLONES void op##_slope##suffix(void *ctx, size_t piece, size_t begin, size_t end)  \
    {                                                                                              \
        const map_job *job = ctx;                                                                  \
        const real *RESTRICT va = job->a, *RESTRICT vb = job->b, *RESTRICT vy = job->y;            \
        const real *RESTRICT dy = job->dy;                                                         \
        real *RESTRICT out = job->out;                                                             \
        const real p = job->p, q = job->q;                                                         \
        const bool fresh = job->fresh;                                                             \
        for (size_t i = begin; i < end; i++) {                                                     \
            const real a = va[i], b = vb[i], y = vy[i];                                            \
            out[i] = (fresh ? 0 : out[i]) + dy[i] * (expression);                                  \
            (void)a, (void)b, (void)y;                                                             \
        }                                                                                          \
        (void)piece, (void)p, (void)q;                                                             \
    }

static void run_value(node *n, range_fn *value, double p, double q)
{
    const real *a = n->in[0]->value, *b = n->in[n->n_in - 1]->value;
    map_job job = {.a = a, .b = b, .out = n->value, .p = (real)p, .q = (real)q};
    ranges_run(shape_count(n->shape), RANGE_ELEMENTS, value, &job);
}

static void run_slope(node *n, int i, range_fn *slope, double p, double q)
{
    node *x = n->in[i];
    if (!x->needs_grad)
        return;
    const real *a = n->in[0]->value, *b = n->in[n->n_in - 1]->value;
    map_job job = {a, b, n->value, n->grad, x->grad, (real)p, (real)q, grad_is_fresh(x)};
    ranges_run(shape_count(n->shape), RANGE_ELEMENTS, slope, &job);
}

#define FORWARD(op, p, q)                                                                          \
    stet_status cpu_##op##_fwd(tape *t, node *n)                                                   \
    {                                                                                              \
        (void)t;                                                                                   \
        run_value(n, op##_value, (p), (q));                                                        \
        return STET_OK;                                                                            \
    }
#define BACKWARD(op, p, q)                                                                         \
    stet_status cpu_##op##_bwd(tape *t, node *n)                                                   \
    {                                                                                              \
        (void)t;                                                                                   \
        run_slope(n, 0, op##_slope, (p), (q));                                                     \
        return STET_OK;                                                                            \
    }
#define BACKWARD2(op)                                                                              \
    stet_status cpu_##op##_bwd(tape *t, node *n)                                                   \
    {                                                                                              \
        (void)t;                                                                                   \
        run_slope(n, 0, op##_slope_a, 0, 0);                                                       \
        run_slope(n, 1, op##_slope_b, 0, 0);                                                       \
        return STET_OK;                                                                            \
    }

/* arithmetic --------------------------------------------------------------------------------- */

VALUE(add, a + b)
FORWARD(add, 0, 0)
VALUE(sub, a - b)
SLOPE(sub, _b, -1)
FORWARD(sub, 0, 0)
VALUE(mul, (a * b))
SLOPE(mul, _a, b)
SLOPE(mul, _b, a)
FORWARD(mul, 0, 0)
BACKWARD2(mul)

/* The first operand is served last: it may take the block of n itself. */
stet_status cpu_add_bwd(tape *t, node *n)
{
    (void)t;
    if (n->in[1]->needs_grad)
        grad_add(n->in[1], n);
    if (n->in[0]->needs_grad)
        grad_hand_over(n->in[0], n);
    return STET_OK;
}

stet_status cpu_sub_bwd(tape *t, node *n)
{
    (void)t;
    run_slope(n, 1, sub_slope_b, 0, 0);
    if (n->in[0]->needs_grad)
        grad_hand_over(n->in[0], n);
    return STET_OK;
}

#define SCALE_BY ((const scale_args *)n->args)->by
VALUE(scale, (p * a))
SLOPE(scale, , p)
FORWARD(scale, SCALE_BY, 0)
BACKWARD(scale, SCALE_BY, 0)

/* kinks; comparisons are written so that a NaN stays one ------------------------------------- */

VALUE(relu, a < 0 ? 0 : a)
SLOPE(relu, , (real)(a > 0))
FORWARD(relu, 0, 0)
BACKWARD(relu, 0, 0)

VALUE(abs, a < 0 ? -a : a)
SLOPE(abs, , (real)(a > 0) - (real)(a < 0))
FORWARD(abs, 0, 0)
BACKWARD(abs, 0, 0)

VALUE(min, a <= b || a != a ? a : b)
SLOPE(min, _a, (real)(a <= b))
SLOPE(min, _b, (real)(a > b))
FORWARD(min, 0, 0)
BACKWARD2(min)

VALUE(max, a >= b || a != a ? a : b)
SLOPE(max, _a, (real)(a >= b))
SLOPE(max, _b, (real)(a < b))
FORWARD(max, 0, 0)
BACKWARD2(max)

#define CLAMP_LO ((const clamp_args *)n->args)->lo
#define CLAMP_HI ((const clamp_args *)n->args)->hi
VALUE(clamp, a<p ? p : a> q ? q : a)
SLOPE(clamp, , (real)(a >= p && a <= q))
FORWARD(clamp, CLAMP_LO, CLAMP_HI)
BACKWARD(clamp, CLAMP_LO, CLAMP_HI)

/* smooth functions --------------------------------------------------------------------------- */

#define VECTOR_VALUE(op)                                                                           \
    static void op##_value(void *ctx, size_t piece, size_t begin, size_t end)                      \
    {                                                                                              \
        (void)piece;                                                                               \
        const map_job *job = ctx;                                                                  \
        vec_##op(job->a + begin, job->out + begin, end - begin);                                   \
    }
VECTOR_VALUE(exp)
SLOPE(exp, , y)
FORWARD(exp, 0, 0)
BACKWARD(exp, 0, 0)

VECTOR_VALUE(log)
SLOPE(log, , 1 / a)
FORWARD(log, 0, 0)
BACKWARD(log, 0, 0)

VECTOR_VALUE(tanh)
SLOPE(tanh, , 1 - y * y)
FORWARD(tanh, 0, 0)
BACKWARD(tanh, 0, 0)

VECTOR_VALUE(sigmoid)
SLOPE(sigmoid, , (1 - y) * y)
FORWARD(sigmoid, 0, 0)
BACKWARD(sigmoid, 0, 0)

VECTOR_VALUE(gelu)
static SIMD_CLONES void gelu_slope(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    enum { STEP = 512 };
    real slope[STEP];
    const map_job *job = ctx;
    for (size_t at = begin; at < end; at += STEP) {
        const size_t n = end - at < STEP ? end - at : STEP;
        const real *RESTRICT dy = job->dy + at;
        real *RESTRICT out = job->out + at;
        vec_gelu_grad(job->a + at, slope, n);
        for (size_t i = 0; i < n; i++)
            out[i] = (job->fresh ? 0 : out[i]) + dy[i] * slope[i];
    }
}
FORWARD(gelu, 0, 0)
BACKWARD(gelu, 0, 0)
