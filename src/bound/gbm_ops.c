/* bound/gbm_ops.c - see gbm_ops.h. An op of a model wraps one of the gbm_*.h files; what joins them is
 * ordinary ops, so that the product rule and the rest of the chain are the tape's business. */
#include "bound/gbm_ops.h"

#include <string.h>

#include "base/buf.h"
#include "bound/bound_ops.h"
#include "bound/bounds.h"

void gbm_report_add(tape *t, gbm_report *r, int part, node *sum)
{
    r->part[part] = r->part[part] ? op_add(t, r->part[part], sum) : sum;
}

/* ---- the last layer ----------------------------------------------------------------------- */

static double pairs(size_t classes)
{
    return (double)classes * (double)(classes - 1) / 2;
}

static stet_status head_fwd(tape *t, node *n)
{
    (void)t;
    const size_t K = shape_rows(n->in[0]->shape), F = shape_cols(n->in[0]->shape);
    const real *w = n->in[0]->value, each = (real)(1 / pairs(K));
    memset(n->value, 0, F * sizeof *n->value);
    for (size_t a = 0; a < K; a++)
        for (size_t b = a + 1; b < K; b++)
            for (size_t i = 0; i < F; i++) {
                const real d = w[a * F + i] - w[b * F + i];
                n->value[i] += each * (d < 0 ? -d : d);
            }
    return STET_OK;
}

static stet_status head_bwd(tape *t, node *n)
{
    (void)t;
    const size_t K = shape_rows(n->in[0]->shape), F = shape_cols(n->in[0]->shape);
    const real *w = n->in[0]->value, each = (real)(1 / pairs(K));
    real *dw = n->in[0]->grad;
    for (size_t a = 0; a < K; a++)
        for (size_t b = a + 1; b < K; b++)
            for (size_t i = 0; i < F; i++) {
                const real d = w[a * F + i] - w[b * F + i];
                const real g = d > 0 ? each * n->grad[i] : d < 0 ? -each * n->grad[i] : 0;
                dw[a * F + i] += g;
                dw[b * F + i] -= g;
            }
    return STET_OK;
}

static stet_status head_infer(const node *n, shape *out)
{
    *out = shape1(shape_cols(n->in[0]->shape));
    return STET_OK;
}

const op_desc gbm_head_op = {
    .name = "gbm_head",
    .n_in = 1,
    .infer = head_infer,
    .forward = {[DEV_CPU] = head_fwd, CUDA_KERNEL(cuda_gbm_head_fwd)},
    .backward = {[DEV_CPU] = head_bwd, CUDA_KERNEL(cuda_gbm_head_bwd)},
};

node *gbm_head(const model *m, tape *t, node *const *params)
{
    node *fc = params[model_param_id(m, "fc.weight")];
    return tape_push(t, &gbm_head_op, &fc, 1, NULL, 0);
}

/* ---- any model ---------------------------------------------------------------------------- */

/* "bilstm or gru": the kinds whose bounds add up over steps. */
static void name_recurrent(buf *b)
{
    for (const model_desc *const *d = model_descs; *d; d++)
        if (bounds_named((*d)->name)->states)
            buf_printf(b, "%s%s", b->n ? " or " : "", (*d)->name);
}

stet_status gbm_supported(const model *m, gbm_of of)
{
    const model_bounds *b = bounds_of(m);
    if (!b->term)
        return error_set(STET_ENOTSUP, "no growth bounds are known for a %s", m->desc->name);
    if (b->states || of == GBM_OF_LAYER || of == GBM_OF_LOGITS)
        return STET_OK;
    buf kinds = {0};
    name_recurrent(&kinds);
    const stet_status st =
        error_set(STET_EUSAGE, "--gbm-of gain and rho are for --model %s, not for a %s",
                  kinds.data ? kinds.data : "?", m->desc->name);
    buf_deinit(&kinds);
    return st;
}

node *gbm_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
               gbm_report *report)
{
    *report = (gbm_report){0};
    const stet_status st = gbm_supported(m, a->of);
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    return bounds_of(m)->term(m, t, params, a, report);
}

double gbm_entries(const model *m, gbm_of of)
{
    const bool over_steps = of == GBM_OF_GAIN || of == GBM_OF_RHO;
    return over_steps ? 1 : bounds_of(m)->entries(m, of == GBM_OF_LOGITS);
}
