/* bound/bounds_cnn.c - all bounds of the text CNN. */
#include <stdio.h>

#include "base/mem.h"
#include "bound/bound_ops.h"
#include "bound/bounds_cnn.h"
#include "bound/conv_joint.h"
#include "bound/gbm_cnn.h"
#include "bound/bound_args.h"
#include "model/cnn.h"
#include "tensor/joined.h"

/* ---- growth bounds: M (F, D), compact ----------------------------------------------------- */

static conv_weights conv_of(const node *w)
{
    return (conv_weights){w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->value};
}

static stet_status conv_fwd(tape *t, node *n)
{
    (void)t;
    const conv_weights w = conv_of(n->in[0]);
    gbm_conv(&w, n->value);
    return STET_OK;
}

static stet_status conv_bwd(tape *t, node *n)
{
    (void)t;
    const conv_weights w = conv_of(n->in[0]);
    gbm_conv_back(&w, n->value, n->grad, n->in[0]->grad);
    return STET_OK;
}

static stet_status conv_infer(const node *n, shape *out)
{
    *out = shape2(n->in[0]->shape.dim[0], n->in[0]->shape.dim[1]);
    return STET_OK;
}

const op_desc gbm_conv_op = {
    .name = "gbm_conv",
    .n_in = 1,
    .infer = conv_infer,
    .forward = {[DEV_CPU] = conv_fwd, CUDA_KERNEL(cuda_gbm_conv_fwd)},
    .backward = {[DEV_CPU] = conv_bwd, CUDA_KERNEL(cuda_gbm_conv_bwd)},
};

static stet_status convs_infer(const node *n, shape *out)
{
    (void)n;
    *out = (shape){.rank = 0};
    return STET_OK;
}

const op_desc gbm_convs_op = {
    .name = "gbm_convs",
    .n_in = -1,
    .fills = true,
    .infer = convs_infer,
    .forward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_gbm_convs_fwd)},
    .backward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_gbm_convs_bwd)},
};

/* The same as cnn_bound_term, as one op. */
static node *term_at_once(tape *t, node *const *params, size_t n, node *omega, double by,
                          gbm_report *report)
{
    node *in[CNN_MAX_KERNELS + 1];
    for (size_t i = 0; i < n; i++)
        in[i] = params[2 * i];
    in[n] = omega;
    const gbm_convs_args args = {n, by};
    node *sum = tape_push(t, &gbm_convs_op, in, (int)n + (omega != NULL), &args, sizeof args);
    if (sum)
        report->part[GBM_V] = tape_constant(t, sum->shape, sum->saved);
    return sum;
}

node *cnn_bound_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                     gbm_report *report)
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k), F = (size_t)((const cnn_cfg *)m->cfg)->filters;
    node *omega = a->of == GBM_OF_LOGITS ? gbm_head(m, t, params) : NULL, *sum = NULL;
    if (omega && cnn_dense(m) >= 0) /* ReLU grows nothing */
        omega = op_matmul(t, omega, false, op_abs(t, params[cnn_dense(m)]), false);
    if (tape_runs(t, &gbm_convs_op))
        return term_at_once(t, params, n, omega, a->k[GBM_V], report);
    for (size_t i = 0; i < n; i++) {
        node *M = tape_push(t, &gbm_conv_op, &params[2 * i], 1, NULL, 0);
        gbm_report_add(t, report, GBM_V, op_sum(t, M));
        /* M_out (1, D): how far a unit of each coordinate moves the logits */
        node *part =
            op_sum(t, omega ? op_matmul(t, op_slice(t, omega, i * F, F), false, M, false) : M);
        sum = sum ? op_add(t, sum, part) : part;
    }
    return op_scale(t, sum, a->k[GBM_V]);
}

double cnn_bound_entries(const model *m, bool logits)
{
    const double D = (double)m->dim;
    return logits ? D : (double)cnn_pooled(m) * D;
}

/* ---- ranges over substitution sets -------------------------------------------------------- */

/* The ranges of all kernel sizes; how many. */
static size_t cnn_windows(const model *m, pass *p, const worst_args *a, node *out[CNN_MAX_KERNELS])
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k);
    for (size_t i = 0; i < n; i++)
        out[i] = op_conv_ranges(p->t, a->s, p->param[2 * i], p->param[2 * i + 1], a->eps, a->joint);
    return n;
}

/* One side of all kernel sizes: (B, features). */
static node *cnn_side(const model *m, pass *p, node *const *windows, size_t n, size_t side)
{
    const size_t F = (size_t)((const cnn_cfg *)m->cfg)->filters;
    node *part[CNN_MAX_KERNELS];
    for (size_t i = 0; i < n; i++)
        part[i] = op_slice(p->t, windows[i], side * F, F);
    return op_concat(p->t, part, (int)n);
}

/* The ends and the values of the layer behind the pooled ones: middle and half width of each range go
 * through it, the width by the sizes of the weights. One mask of dropout for all three. */
static void cnn_dense_ranges(const model *m, pass *p, node *out[RANGE_SIDES])
{
    tape *t = p->t;
    node *w = p->param[cnn_dense(m)], *b = p->param[cnn_dense(m) + 1];
    const rng from = p->dropout > 0 ? *p->stream : (rng){0};
    node *lo = worst_drop(p, out[RANGE_LOWER], &from), *hi = worst_drop(p, out[RANGE_UPPER], &from);
    node *middle = op_linear(t, op_mix(t, lo, 0.5, hi, 0.5), w, b),
         *radius = op_matmul(t, op_mix(t, hi, 0.5, lo, -0.5), false, op_abs(t, w), true);
    if (out[RANGE_VALUE])
        out[RANGE_VALUE] =
            op_relu(t, op_linear(t, worst_drop(p, out[RANGE_VALUE], &from), w, b));
    out[RANGE_LOWER] = op_relu(t, op_sub(t, middle, radius));
    out[RANGE_UPPER] = op_relu(t, op_add(t, middle, radius));
}

/* One product serves the ranges and the features as they are. */
void cnn_bound_ranges(const model *m, pass *p, const worst_args *a, node *out[RANGE_SIDES])
{
    node *windows[CNN_MAX_KERNELS];
    const size_t n = cnn_windows(m, p, a, windows);
    for (size_t side = 0; side < RANGE_SIDES; side++)
        if (side != RANGE_VALUE || a->s->seq == p->seq)
            out[side] = cnn_side(m, p, windows, n, side);
    if (cnn_dense(m) >= 0)
        cnn_dense_ranges(m, p, out);
}

/* It ends in the last layer, which must read what was pooled. */
bool cnn_bound_no_joint(const model *m)
{
    return cnn_dense(m) >= 0;
}

node *cnn_bound_joint(const model *m, pass *p, const worst_args *a, const node *mask, node *w,
                      node *b, node **value)
{
    node *windows[CNN_MAX_KERNELS];
    const size_t n = cnn_windows(m, p, a, windows);
    if (a->s->seq == p->seq)
        *value = cnn_side(m, p, windows, n, RANGE_VALUE);
    if (tape_status(p->t) != STET_OK)
        return NULL;
    joint_args j = {.s = a->s, .eps = a->eps, .n = n, .label = a->label, .mask = mask};
    for (size_t i = 0; i < n; i++)
        j.ranges[i] = windows[i];
    return op_conv_joint(p->t, &j, p->param, w, b);
}

/* ---- the matrix --------------------------------------------------------------------------- */

stet_status cnn_bound_matrix(const model *m, const stet_gbm_options *how, stet_gbm *g)
{
    (void)how;
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k), F = (size_t)((const cnn_cfg *)m->cfg)->filters, D = m->dim;
    TRY(matrix_init(g, m, &(matrix_shape){.rows = n * F, .group = F, .map = n * F, .cols = {D}}));
    snprintf(g->boxes, sizeof g->boxes, "all words");
    real *part = mem_alloc(F * D, sizeof *part);
    if (!part)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        gbm_conv(&(conv_weights){F, D, k[i], model_value(m, (int)(2 * i))}, part);
        g->group_tag[i] = k[i];
        for (size_t e = 0; e < F * D; e++)
            g->m[i * F * D + e] = (float)part[e];
    }
    mem_free(part);
    return matrix_logit_sum(m, NULL, NULL, &g->logit_sum);
}

void cnn_bound_row_name(const stet_gbm *g, size_t row, char *out, size_t size)
{
    snprintf(out, size, "width %zu, filter %zu", g->group_tag[row / g->group], row % g->group);
}

void cnn_bound_col_name(const stet_gbm *g, size_t col, char *out, size_t size)
{
    (void)g;
    snprintf(out, size, "word coordinate %zu", col);
}

const model_bounds bounds_cnn = CNN_BOUNDS;
