/* tensor/cpu/loss.c - losses and the log-softmax under them. There are few classes, so that plain
 * loops in double are fast enough, and safe: the largest logit is taken out before any exp. */
#include <math.h>

#include "tensor/op_args.h"
#include "tensor/tape.h"

static double log_sum_exp(const real *x, size_t n)
{
    real top = x[0];
    for (size_t j = 1; j < n; j++)
        top = x[j] > top ? x[j] : top;
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += exp((double)x[j] - (double)top);
    return (double)top + log(sum);
}

/* dx[j] += d, or = d in a block that holds nothing. */
static void give(real *dx, double d, bool fresh)
{
    *dx = (fresh ? 0 : *dx) + (real)d;
}

stet_status cpu_log_softmax_fwd(tape *t, node *n)
{
    (void)t;
    const size_t rows = shape_rows(n->shape), c = shape_cols(n->shape);
    for (size_t i = 0; i < rows; i++) {
        const real *x = n->in[0]->value + i * c;
        const double lse = log_sum_exp(x, c);
        for (size_t j = 0; j < c; j++)
            n->value[i * c + j] = (real)((double)x[j] - lse);
    }
    return STET_OK;
}

stet_status cpu_log_softmax_bwd(tape *t, node *n)
{
    (void)t;
    node *x = n->in[0];
    const size_t rows = shape_rows(n->shape), c = shape_cols(n->shape);
    const bool fresh = grad_is_fresh(x);
    for (size_t i = 0; i < rows; i++) {
        const real *y = n->value + i * c, *dy = n->grad + i * c;
        double sum = 0;
        for (size_t j = 0; j < c; j++)
            sum += (double)dy[j];
        for (size_t j = 0; j < c; j++)
            give(&x->grad[i * c + j], (double)dy[j] - exp((double)y[j]) * sum, fresh);
    }
    return STET_OK;
}

stet_status cpu_cross_entropy_fwd(tape *t, node *n)
{
    (void)t;
    const node *x = n->in[0];
    const int32_t *label = ((const label_args *)n->args)->at;
    const size_t rows = shape_rows(x->shape), c = shape_cols(x->shape);
    double loss = 0;
    for (size_t i = 0; i < rows; i++) {
        const real *z = x->value + i * c;
        loss += log_sum_exp(z, c) - (double)z[label[i]];
    }
    n->value[0] = (real)(loss / (double)rows);
    return STET_OK;
}

stet_status cpu_cross_entropy_bwd(tape *t, node *n)
{
    (void)t;
    node *x = n->in[0];
    const int32_t *label = ((const label_args *)n->args)->at;
    const size_t rows = shape_rows(x->shape), c = shape_cols(x->shape);
    const bool fresh = grad_is_fresh(x);
    const double g = (double)n->grad[0] / (double)rows;
    for (size_t i = 0; i < rows; i++) {
        const real *z = x->value + i * c;
        const double lse = log_sum_exp(z, c);
        for (size_t j = 0; j < c; j++) {
            const double hit = (size_t)label[i] == j;
            give(&x->grad[i * c + j], g * (exp((double)z[j] - lse) - hit), fresh);
        }
    }
    return STET_OK;
}

/* log(1 + e^z) - y z, with the exponential of a negative number only. */
stet_status cpu_bce_logits_fwd(tape *t, node *n)
{
    (void)t;
    const node *x = n->in[0];
    const int32_t *label = ((const label_args *)n->args)->at;
    const size_t rows = shape_rows(x->shape);
    double loss = 0;
    for (size_t i = 0; i < rows; i++) {
        const double z = (double)x->value[i];
        loss += (z > 0 ? z : 0) + log1p(exp(-fabs(z))) - label[i] * z;
    }
    n->value[0] = (real)(loss / (double)rows);
    return STET_OK;
}

stet_status cpu_bce_logits_bwd(tape *t, node *n)
{
    (void)t;
    node *x = n->in[0];
    const int32_t *label = ((const label_args *)n->args)->at;
    const size_t rows = shape_rows(x->shape);
    const bool fresh = grad_is_fresh(x);
    const double g = (double)n->grad[0] / (double)rows;
    for (size_t i = 0; i < rows; i++)
        give(&x->grad[i], g * (1 / (1 + exp(-(double)x->value[i])) - label[i]), fresh);
    return STET_OK;
}

stet_status cpu_kl_fwd(tape *t, node *n)
{
    (void)t;
    const real *log_p = n->in[0]->value, *log_q = n->in[1]->value;
    const size_t count = shape_count(n->in[0]->shape);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += exp((double)log_p[i]) * ((double)log_p[i] - (double)log_q[i]);
    n->value[0] = (real)(sum / (double)shape_rows(n->in[0]->shape));
    return STET_OK;
}

stet_status cpu_kl_bwd(tape *t, node *n)
{
    (void)t;
    node *p = n->in[0], *q = n->in[1];
    const size_t count = shape_count(p->shape);
    const double g = (double)n->grad[0] / (double)shape_rows(p->shape);
    if (p->needs_grad) {
        const bool fresh = grad_is_fresh(p);
        for (size_t i = 0; i < count; i++) {
            const double lp = (double)p->value[i], lq = (double)q->value[i];
            give(&p->grad[i], g * exp(lp) * (lp - lq + 1), fresh);
        }
    }
    if (q->needs_grad) {
        const bool fresh = grad_is_fresh(q);
        for (size_t i = 0; i < count; i++)
            give(&q->grad[i], -g * exp((double)p->value[i]), fresh);
    }
    return STET_OK;
}
