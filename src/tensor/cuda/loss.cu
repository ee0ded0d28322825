/* tensor/cuda/loss.cu - losses and the log-softmax under them, in double as on the CPU. There are
 * few classes: a thread has a row. */
#include "tensor/cuda/device.cuh"

static __device__ double log_sum_exp(const float *x, size_t n)
{
    float top = x[0];
    for (size_t j = 1; j < n; j++)
        top = x[j] > top ? x[j] : top;
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += exp((double)x[j] - (double)top);
    return (double)top + log(sum);
}

/* dx += d, or = d in a block that holds nothing. */
static __device__ void give(float *dx, double d, bool fresh)
{
    *dx = (fresh ? 0 : *dx) + (float)d;
}

struct give_mean {
    float *to;
    double rows;
    __device__ void operator()(double sum) const
    {
        *to = (float)(sum / rows);
    }
};

struct log_softmax_row {
    const float *x;
    size_t c;
    float *y;
    __device__ void operator()(size_t i) const
    {
        const double lse = log_sum_exp(x + i * c, c);
        for (size_t j = 0; j < c; j++)
            y[i * c + j] = (float)((double)x[i * c + j] - lse);
    }
};

extern "C" stet_status cuda_log_softmax_fwd(tape *, node *n)
{
    const log_softmax_row f = {n->in[0]->value, shape_cols(n->shape), n->value};
    return each(cuda_now(), "log_softmax", f.c ? shape_rows(n->shape) : 0, f);
}

struct log_softmax_slope {
    const float *y, *dy;
    size_t c;
    float *dx;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        double sum = 0;
        for (size_t j = i * c; j < (i + 1) * c; j++)
            sum += (double)dy[j];
        for (size_t j = i * c; j < (i + 1) * c; j++)
            give(dx + j, (double)dy[j] - exp((double)y[j]) * sum, fresh);
    }
};

extern "C" stet_status cuda_log_softmax_bwd(tape *, node *n)
{
    node *x = n->in[0];
    const log_softmax_slope f = {n->value, n->grad, shape_cols(n->shape), x->grad,
                                 grad_is_fresh(x)};
    return each(cuda_now(), "log_softmax", shape_rows(n->shape), f);
}

/* cross entropy ------------------------------------------------------------------------------ */

struct cross_entropy_row {
    const float *x;
    const int32_t *label;
    size_t c;
    __device__ double operator()(size_t i) const
    {
        const float *z = x + i * c;
        return log_sum_exp(z, c) - (double)z[label[i]];
    }
};

struct cross_entropy_slope {
    const float *x, *g;
    const int32_t *label;
    size_t rows, c;
    float *dx;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        const float *z = x + i * c;
        const double lse = log_sum_exp(z, c), share = (double)*g / (double)rows;
        for (size_t j = 0; j < c; j++) {
            const double hit = (size_t)label[i] == j;
            give(dx + i * c + j, share * (exp((double)z[j] - lse) - hit), fresh);
        }
    }
};

extern "C" stet_status cuda_cross_entropy_fwd(tape *, node *n)
{
    const node *x = n->in[0];
    const size_t rows = shape_rows(x->shape);
    const cross_entropy_row f = {x->value, ((const label_args *)n->args)->at, shape_cols(x->shape)};
    return sum_over(cuda_now(), "cross_entropy", rows, f, give_mean{n->value, (double)rows});
}

extern "C" stet_status cuda_cross_entropy_bwd(tape *, node *n)
{
    node *x = n->in[0];
    const size_t rows = shape_rows(x->shape);
    const cross_entropy_slope f = {
        x->value, n->grad,         ((const label_args *)n->args)->at, rows, shape_cols(x->shape),
        x->grad,  grad_is_fresh(x)};
    return each(cuda_now(), "cross_entropy", rows, f);
}

/* two classes, one logit --------------------------------------------------------------------- */

/* log(1 + e^z) - y z, with the exponential of a negative number only. */
struct bce_row {
    const float *x;
    const int32_t *label;
    __device__ double operator()(size_t i) const
    {
        const double z = (double)x[i];
        return (z > 0 ? z : 0) + log1p(exp(-fabs(z))) - label[i] * z;
    }
};

struct bce_slope {
    const float *x, *g;
    const int32_t *label;
    size_t rows;
    float *dx;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        const double share = (double)*g / (double)rows;
        give(dx + i, share * (1 / (1 + exp(-(double)x[i])) - label[i]), fresh);
    }
};

extern "C" stet_status cuda_bce_logits_fwd(tape *, node *n)
{
    const node *x = n->in[0];
    const size_t rows = shape_rows(x->shape);
    const bce_row f = {x->value, ((const label_args *)n->args)->at};
    return sum_over(cuda_now(), "bce_logits", rows, f, give_mean{n->value, (double)rows});
}

extern "C" stet_status cuda_bce_logits_bwd(tape *, node *n)
{
    node *x = n->in[0];
    const size_t rows = shape_rows(x->shape);
    const bce_slope f = {x->value, n->grad, ((const label_args *)n->args)->at,
                         rows,     x->grad, grad_is_fresh(x)};
    return each(cuda_now(), "bce_logits", rows, f);
}

/* divergence --------------------------------------------------------------------------------- */

struct kl_entry {
    const float *log_p, *log_q;
    __device__ double operator()(size_t i) const
    {
        return exp((double)log_p[i]) * ((double)log_p[i] - (double)log_q[i]);
    }
};

struct kl_slope {
    const float *log_p, *log_q, *g;
    double rows;
    float *dp, *dq; /* NULL: not wanted */
    bool p_fresh, q_fresh;
    __device__ void operator()(size_t i) const
    {
        const double lp = (double)log_p[i], lq = (double)log_q[i];
        const double share = (double)*g / rows * exp(lp);
        if (dp)
            give(dp + i, share * (lp - lq + 1), p_fresh);
        if (dq)
            give(dq + i, -share, q_fresh);
    }
};

extern "C" stet_status cuda_kl_fwd(tape *, node *n)
{
    const node *p = n->in[0];
    const kl_entry f = {p->value, n->in[1]->value};
    return sum_over(cuda_now(), "kl", shape_count(p->shape), f,
                    give_mean{n->value, (double)shape_rows(p->shape)});
}

extern "C" stet_status cuda_kl_bwd(tape *, node *n)
{
    node *p = n->in[0], *q = n->in[1];
    kl_slope f = {p->value, q->value, n->grad, (double)shape_rows(p->shape),
                  NULL,     NULL,     false,   false};
    if (p->needs_grad) {
        f.dp = p->grad;
        f.p_fresh = grad_is_fresh(p);
    }
    if (q->needs_grad) {
        f.dq = q->grad;
        f.q_fresh = grad_is_fresh(q);
    }
    return each(cuda_now(), "kl", shape_count(p->shape), f);
}
