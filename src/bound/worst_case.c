/* bound/worst_case.c - see worst_case.h. */
#include "bound/worst_case.h"

#include "bound/conv_ranges.h"
#include "bound/lstm_ranges.h"
#include "model/cnn.h"
#include "model/kinds.h"

/* ---- features ----------------------------------------------------------------------------- */

static void cnn_ranges(const model *m, pass *p, const batch_sets *s, double eps,
                       node *out[RANGE_SIDES])
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k), F = (size_t)((const cnn_cfg *)m->cfg)->filters;
    node *all[CNN_MAX_KERNELS], *side[CNN_MAX_KERNELS];
    for (size_t i = 0; i < n; i++)
        all[i] = op_conv_ranges(p->t, s, p->param[2 * i], p->param[2 * i + 1], eps);
    for (size_t r = 0; r < RANGE_SIDES; r++) {
        for (size_t i = 0; i < n; i++)
            side[i] = op_slice(p->t, all[i], r * F, F);
        out[r] = op_concat(p->t, side, (int)n);
    }
}

static void bilstm_ranges(const model *m, pass *p, const batch_sets *s, double eps,
                          node *out[RANGE_SIDES])
{
    const size_t F = m->desc->n_features(m);
    node *ends = op_bilstm_ranges(p->t, s, p->param, eps);
    out[RANGE_VALUE] = m->desc->features(m, p);
    out[RANGE_LOWER] = op_slice(p->t, ends, 0, F);
    out[RANGE_UPPER] = op_slice(p->t, ends, F, F);
}

bool range_supported(const model *m)
{
    if (m->desc == &model_cnn || m->desc == &model_bilstm)
        return true;
    error_set(STET_EUSAGE, "no bounds over substitution sets are known for training a %s",
              m->desc->name);
    return false;
}

void range_features(const model *m, pass *p, const batch_sets *s, double eps,
                    node *out[RANGE_SIDES])
{
    if (m->desc == &model_cnn)
        cnn_ranges(m, p, s, eps, out);
    else
        bilstm_ranges(m, p, s, eps, out);
}

/* ---- the last layer ----------------------------------------------------------------------- */

enum { LO, HI, WEIGHT, BIAS, HEAD_INPUTS };

typedef struct head_data {
    const int32_t *label;
} head_data;

/* One text and one wrong class. */
typedef struct rival {
    const real *w, *true_w; /* (F) rows of the last layer */
    const real *lo, *hi;    /* (F) */
    size_t F;
} rival;

static rival rival_of(const node *n, size_t text, size_t k, size_t label)
{
    const size_t F = shape_cols(n->in[LO]->shape);
    return (rival){n->in[WEIGHT]->value + k * F, n->in[WEIGHT]->value + label * F,
                   n->in[LO]->value + text * F, n->in[HI]->value + text * F, F};
}

static real rival_lead(const rival *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->F; i++) {
        const real d = r->w[i] - r->true_w[i];
        sum += (double)(d * (d >= 0 ? r->hi[i] : r->lo[i]));
    }
    return (real)sum;
}

static stet_status worst_fwd(tape *t, node *n)
{
    (void)t;
    const int32_t *label = ((const head_data *)custom_data(n))->label;
    const size_t B = shape_rows(n->shape), K = shape_cols(n->shape);
    const real *b = n->in[BIAS]->value;
    for (size_t text = 0; text < B; text++) {
        const size_t y = (size_t)label[text];
        for (size_t k = 0; k < K; k++) {
            const rival r = rival_of(n, text, k, y);
            n->value[text * K + k] = k == y ? 0 : b[k] - b[y] + rival_lead(&r);
        }
    }
    return STET_OK;
}

static void rival_back(node *n, size_t text, size_t k, size_t y, real g)
{
    const rival r = rival_of(n, text, k, y);
    real *dlo = n->in[LO]->grad, *dhi = n->in[HI]->grad, *dw = n->in[WEIGHT]->grad,
         *db = n->in[BIAS]->grad;
    for (size_t i = 0; i < r.F; i++) {
        const real d = r.w[i] - r.true_w[i], x = d >= 0 ? r.hi[i] : r.lo[i];
        real *dx = d >= 0 ? dhi : dlo;
        if (dx)
            dx[text * r.F + i] += g * d;
        if (dw) {
            dw[k * r.F + i] += g * x;
            dw[y * r.F + i] -= g * x;
        }
    }
    if (db) {
        db[k] += g;
        db[y] -= g;
    }
}

static stet_status worst_bwd(tape *t, node *n)
{
    (void)t;
    const int32_t *label = ((const head_data *)custom_data(n))->label;
    const size_t B = shape_rows(n->shape), K = shape_cols(n->shape);
    for (size_t text = 0; text < B; text++)
        for (size_t k = 0; k < K; k++)
            if (k != (size_t)label[text])
                rival_back(n, text, k, (size_t)label[text], n->grad[text * K + k]);
    return STET_OK;
}

node *worst_logits(tape *t, node *lo, node *hi, node *w, node *b, const int32_t *label)
{
    if (!lo || !hi)
        return NULL;
    node *in[HEAD_INPUTS] = {lo, hi, w, b};
    const head_data d = {label};
    return op_custom(t, in, HEAD_INPUTS, shape2(shape_rows(lo->shape), shape_rows(w->shape)),
                     worst_fwd, worst_bwd, &d, sizeof d);
}

double worst_share(const node *worst, const int32_t *label)
{
    const size_t B = shape_rows(worst->shape), K = shape_cols(worst->shape);
    size_t stand = 0;
    for (size_t text = 0; text < B; text++) {
        bool stands = true;
        for (size_t k = 0; k < K; k++)
            stands &= k == (size_t)label[text] || worst->value[text * K + k] < 0;
        stand += stands;
    }
    return (double)stand / (double)B;
}
