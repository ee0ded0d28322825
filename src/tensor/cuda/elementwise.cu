/* tensor/cuda/elementwise.cu - entry by entry: an op is two expressions, as in cpu/elementwise.c.
 * a and b are the operands, y the result, p and q the parameters. */
#include "tensor/cuda/device.cuh"

extern "C" {
#include "tensor/joined.h"
}

#define VALUE(op, expression)                                                                      \
    struct op##_value {                                                                            \
        static __device__ float at(float a, float b, float p, float q)                             \
        {                                                                                          \
            (void)b, (void)p, (void)q;                                                             \
            return (expression);                                                                   \
        }                                                                                          \
    };
#define SLOPE(op, suffix, expression)                                                              \
    struct op##_slope##suffix {                                                                    \
        static __device__ float at(float a, float b, float y, float p, float q)                    \
        {                                                                                          \
            (void)a, (void)b, (void)y, (void)p, (void)q;                                           \
            return (expression);                                                                   \
        }                                                                                          \
    };

template <class F> struct map_value {
    const float *a, *b; /* b NULL: one operand */
    float *out, p, q;
    __device__ void operator()(size_t i) const
    {
        out[i] = F::at(a[i], b ? b[i] : 0, p, q);
    }
};

template <class F> struct map_slope {
    const float *a, *b, *y, *dy;
    float *out, p, q;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        const float d = dy[i] * F::at(a[i], b ? b[i] : 0, y[i], p, q);
        out[i] = fresh ? d : out[i] + d;
    }
};

static const float *second(const node *n)
{
    return n->n_in > 1 ? n->in[1]->value : NULL;
}

template <class F> static stet_status run_value(node *n, double p, double q)
{
    const map_value<F> f = {n->in[0]->value, second(n), n->value, (float)p, (float)q};
    return each(cuda_now(), n->op->name, shape_count(n->shape), f);
}

template <class F> static stet_status run_slope(node *n, int i, double p, double q)
{
    node *x = n->in[i];
    if (!x->needs_grad)
        return STET_OK;
    const map_slope<F> f = {n->in[0]->value, second(n), n->value, n->grad,
                            x->grad,         (float)p,  (float)q, grad_is_fresh(x)};
    return each(cuda_now(), n->op->name, shape_count(n->shape), f);
}

#define FORWARD(op, p, q)                                                                          \
    extern "C" stet_status cuda_##op##_fwd(tape *, node *n)                                        \
    {                                                                                              \
        return run_value<op##_value>(n, (p), (q));                                                 \
    }
#define BACKWARD(op, p, q)                                                                         \
    extern "C" stet_status cuda_##op##_bwd(tape *, node *n)                                        \
    {                                                                                              \
        return run_slope<op##_slope>(n, 0, (p), (q));                                              \
    }
#define BACKWARD2(op)                                                                              \
    extern "C" stet_status cuda_##op##_bwd(tape *, node *n)                                        \
    {                                                                                              \
        TRY(run_slope<op##_slope_a>(n, 0, 0, 0));                                                  \
        return run_slope<op##_slope_b>(n, 1, 0, 0);                                                \
    }

/* gradients ---------------------------------------------------------------------------------- */

struct add_gradient {
    const float *from;
    float *to;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        to[i] = fresh ? from[i] : to[i] + from[i];
    }
};

stet_status grad_add(cuda_device *d, node *x, const node *n)
{
    const add_gradient f = {n->grad, x->grad, grad_is_fresh(x)};
    return each(d, "adding a gradient", shape_count(x->shape), f);
}

stet_status grad_hand_over(cuda_device *d, node *x, node *n)
{
    if (!grad_is_fresh(x))
        return grad_add(d, x, n);
    x->grad = n->grad;
    return STET_OK;
}

/* arithmetic --------------------------------------------------------------------------------- */

VALUE(add, a + b)
FORWARD(add, 0, 0)
VALUE(sub, a - b)
SLOPE(sub, _b, -1)
FORWARD(sub, 0, 0)
VALUE(mul, a *b)
SLOPE(mul, _a, b)
SLOPE(mul, _b, a)
FORWARD(mul, 0, 0)
BACKWARD2(mul)

/* The first operand is served last: it may take the block of n itself. */
extern "C" stet_status cuda_add_bwd(tape *, node *n)
{
    if (n->in[1]->needs_grad)
        TRY(grad_add(cuda_now(), n->in[1], n));
    return n->in[0]->needs_grad ? grad_hand_over(cuda_now(), n->in[0], n) : STET_OK;
}

extern "C" stet_status cuda_sub_bwd(tape *, node *n)
{
    TRY(run_slope<sub_slope_b>(n, 1, 0, 0));
    return n->in[0]->needs_grad ? grad_hand_over(cuda_now(), n->in[0], n) : STET_OK;
}

#define SCALE_BY ((const scale_args *)n->args)->by
VALUE(scale, p *a)
SLOPE(scale, , p)
FORWARD(scale, SCALE_BY, 0)
BACKWARD(scale, SCALE_BY, 0)

/* p a + q b; see joined.h. */
struct mix_slopes {
    const float *dy;
    float *da, *db, p, q; /* da, db NULL: not wanted */
    bool a_fresh, b_fresh;
    __device__ void operator()(size_t i) const
    {
        const float d = dy[i];
        if (da)
            da[i] = (a_fresh ? 0 : da[i]) + p * d;
        if (db)
            db[i] = (b_fresh ? 0 : db[i]) + q * d;
    }
};

VALUE(mix, p *a + q * b)
#define MIX_P ((const mix_args *)n->args)->p
#define MIX_Q ((const mix_args *)n->args)->q
FORWARD(mix, MIX_P, MIX_Q)

extern "C" stet_status cuda_mix_bwd(tape *, node *n)
{
    node *a = n->in[0], *b = n->in[1];
    mix_slopes f = {n->grad, NULL, NULL, (float)MIX_P, (float)MIX_Q, false, false};
    if (a->needs_grad) {
        f.da = a->grad;
        f.a_fresh = grad_is_fresh(a);
    }
    if (b->needs_grad) {
        f.db = b->grad;
        f.b_fresh = grad_is_fresh(b);
    }
    return each(cuda_now(), "mix", shape_count(n->shape), f);
}

/* kinks; comparisons are written so that a NaN stays one ------------------------------------- */

VALUE(relu, a < 0 ? 0 : a)
SLOPE(relu, , (float)(a > 0))
FORWARD(relu, 0, 0)
BACKWARD(relu, 0, 0)

VALUE(abs, a < 0 ? -a : a)
SLOPE(abs, , (float)(a > 0) - (float)(a < 0))
FORWARD(abs, 0, 0)
BACKWARD(abs, 0, 0)

VALUE(min, a <= b || a != a ? a : b)
SLOPE(min, _a, (float)(a <= b))
SLOPE(min, _b, (float)(a > b))
FORWARD(min, 0, 0)
BACKWARD2(min)

VALUE(max, a >= b || a != a ? a : b)
SLOPE(max, _a, (float)(a >= b))
SLOPE(max, _b, (float)(a < b))
FORWARD(max, 0, 0)
BACKWARD2(max)

#define CLAMP_LO ((const clamp_args *)n->args)->lo
#define CLAMP_HI ((const clamp_args *)n->args)->hi
VALUE(clamp, a < p ? p : (a > q ? q : a))
SLOPE(clamp, , (float)(a >= p && a <= q))
FORWARD(clamp, CLAMP_LO, CLAMP_HI)
BACKWARD(clamp, CLAMP_LO, CLAMP_HI)

/* smooth functions --------------------------------------------------------------------------- */

VALUE(exp, expf(a))
SLOPE(exp, , y)
FORWARD(exp, 0, 0)
BACKWARD(exp, 0, 0)

VALUE(log, logf(a))
SLOPE(log, , 1 / a)
FORWARD(log, 0, 0)
BACKWARD(log, 0, 0)

VALUE(tanh, tanhf(a))
SLOPE(tanh, , 1 - y * y)
FORWARD(tanh, 0, 0)
BACKWARD(tanh, 0, 0)

VALUE(sigmoid, 1 / (1 + expf(-a)))
SLOPE(sigmoid, , (1 - y) * y)
FORWARD(sigmoid, 0, 0)
BACKWARD(sigmoid, 0, 0)

/* x Phi(x); its derivative is Phi(x) + x phi(x), phi(0) = 1 / sqrt(2 pi). */
VALUE(gelu, a *normcdff(a))
SLOPE(gelu, , normcdff(a) + a * expf(-0.5f * a * a) * 0.398942280f)
FORWARD(gelu, 0, 0)
BACKWARD(gelu, 0, 0)
