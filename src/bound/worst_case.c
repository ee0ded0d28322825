/* bound/worst_case.c - see worst_case.h. */
#include "bound/worst_case.h"

#include "bound/bound_ops.h"
#include "bound/bounds.h"
#include "bound/score_ranges.h"
#include "model/word_scores.h"

/* ---- features ----------------------------------------------------------------------------- */

void range_features(const model *m, pass *p, const batch_sets *s, double eps,
                    node *out[RANGE_SIDES])
{
    const worst_args a = {.s = s, .eps = eps};
    out[RANGE_VALUE] = NULL;
    bounds_of(m)->ranges(m, p, &a, out);
    if (!out[RANGE_VALUE])
        out[RANGE_VALUE] = m->desc->features(m, p);
}

/* ---- the last layer ----------------------------------------------------------------------- */

enum { LO, HI, WEIGHT, BIAS, HEAD_INPUTS };

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
    const int32_t *label = ((const worst_label_args *)n->args)->at;
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
    const int32_t *label = ((const worst_label_args *)n->args)->at;
    const size_t B = shape_rows(n->shape), K = shape_cols(n->shape);
    for (size_t text = 0; text < B; text++)
        for (size_t k = 0; k < K; k++)
            if (k != (size_t)label[text])
                rival_back(n, text, k, (size_t)label[text], n->grad[text * K + k]);
    return STET_OK;
}

static stet_status worst_infer(const node *n, shape *out)
{
    *out = shape2(shape_rows(n->in[LO]->shape), shape_rows(n->in[WEIGHT]->shape));
    TRY(op_expect_shape(n, HI, n->in[LO]->shape, "the upper ends"));
    return op_expect_count(n, BIAS, out->dim[1], "the bias");
}

const op_desc worst_logits_op = {
    .name = "worst_logits",
    .n_in = HEAD_INPUTS,
    .infer = worst_infer,
    .forward = {[DEV_CPU] = worst_fwd, CUDA_KERNEL(cuda_worst_logits_fwd)},
    .backward = {[DEV_CPU] = worst_bwd, CUDA_KERNEL(cuda_worst_logits_bwd)},
};

node *worst_logits(tape *t, node *lo, node *hi, node *w, node *b, const int32_t *label)
{
    node *in[HEAD_INPUTS] = {lo, hi, w, b};
    const worst_label_args d = {lo ? tape_twin(t, label, shape_rows(lo->shape) * sizeof *label) : NULL};
    return tape_push(t, &worst_logits_op, in, HEAD_INPUTS, &d, sizeof d);
}

static stet_status share_fwd(tape *t, node *n)
{
    (void)t;
    const int32_t *label = ((const worst_label_args *)n->args)->at;
    const node *worst = n->in[0];
    const size_t B = shape_rows(worst->shape), K = shape_cols(worst->shape);
    size_t hold = 0;
    for (size_t text = 0; text < B; text++) {
        bool holds = true;
        for (size_t k = 0; k < K; k++)
            holds &= k == (size_t)label[text] || worst->value[text * K + k] < 0;
        hold += holds;
    }
    n->value[0] = (real)((double)hold / (double)B);
    return STET_OK;
}

static stet_status share_infer(const node *n, shape *out)
{
    (void)n;
    *out = (shape){.rank = 0};
    return STET_OK;
}

const op_desc worst_share_op = {
    .name = "worst_share",
    .n_in = 1,
    .constant = true,
    .infer = share_infer,
    .forward = {[DEV_CPU] = share_fwd, CUDA_KERNEL(cuda_worst_share_fwd)},
};

node *worst_share(tape *t, node *worst, const int32_t *label)
{
    const worst_label_args d = {worst ? tape_twin(t, label, shape_rows(worst->shape) * sizeof *label)
                               : NULL};
    return tape_push(t, &worst_share_op, &worst, 1, &d, sizeof d);
}

/* ---- a pass ------------------------------------------------------------------------------- */

stet_status worst_supported(const model *m, bool joint)
{
    const model_bounds *b = bounds_of(m);
    if (joint ? b->joint && !(b->no_joint && b->no_joint(m)) : b->ranges || !m->desc->features)
        return STET_OK;
    return error_set(STET_EUSAGE, "no %sbounds over substitution sets are known for training a %s%s",
                     joint ? "joint " : "", m->desc->name,
                     joint && b->joint ? " of these settings" : "");
}

node *worst_drop(pass *p, node *x, const rng *from)
{
    if (p->dropout <= 0)
        return x;
    *p->stream = *from;
    return op_dropout(p->t, x, p->dropout, p->stream);
}

/* Dropout's factors (B, features), or NULL. */
static node *drop_mask(const model *m, pass *p, size_t B, const rng *from)
{
    if (p->dropout <= 0)
        return NULL;
    const shape s = shape2(B, m->desc->n_features(m));
    real *ones = arena_new(p->t->mem, real, shape_count(s));
    if (!ones) {
        tape_fail(p->t, STET_ENOMEM);
        return NULL;
    }
    for (size_t i = 0; i < shape_count(s); i++)
        ones[i] = 1;
    return worst_drop(p, tape_numbers(p->t, s, ones), from);
}

static node *scores_of_sets(const model *m, pass *p, const worst_args *a)
{
    return word_scores_rows(m, p, a->s->word, a->s->n_rows, a->s->rows);
}

/* Scores alone. Those of the batch's words are the first ones of its sets'. */
static void sum_forward(const model *m, pass *p, const worst_args *a, node **logits, node **worst)
{
    pass own = *p;
    node *scores = scores_of_sets(m, p, a);
    if (a->s->seq == p->seq)
        own.scores = scores;
    *worst = op_score_worst(p->t, a->s, scores, p->param[m->n_params - 1], a->label, a->eps);
    *logits = model_forward(m, &own);
}

void worst_forward(const model *m, pass *p, const worst_args *a, node **logits, node **worst)
{
    if (!m->desc->features) {
        sum_forward(m, p, a, logits, worst);
        return;
    }
    node *w = p->param[m->n_params - 2], *b = p->param[m->n_params - 1], *side[RANGE_SIDES] = {0};
    const rng none = {0}, begin = p->dropout > 0 ? *p->stream : none;
    rng from = begin;
    if (a->joint) {
        const node *mask = drop_mask(m, p, a->s->seq->n_texts, &from);
        *worst = bounds_of(m)->joint(m, p, a, mask, w, b, &side[RANGE_VALUE]);
    } else {
        bounds_of(m)->ranges(m, p, a, side);
        from = p->dropout > 0 ? *p->stream : none; /* behind what layers in between drew */
        *worst = worst_logits(p->t, worst_drop(p, side[RANGE_LOWER], &from),
                              worst_drop(p, side[RANGE_UPPER], &from), w, b, a->label);
    }
    if (!side[RANGE_VALUE] && p->dropout > 0)
        *p->stream = begin;
    node *value = side[RANGE_VALUE] ? side[RANGE_VALUE] : m->desc->features(m, p);
    *logits = model_add_scores(m, p, op_linear(p->t, worst_drop(p, value, &from), w, b));
    if (!has_word_scores(m))
        return;
    /* exact: words add up, and so do the worst cases of network and scores */
    node *scores = scores_of_sets(m, p, a);
    *worst = op_add(p->t, *worst, op_score_worst(p->t, a->s, scores, NULL, a->label, a->eps));
}
