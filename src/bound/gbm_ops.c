/* bound/gbm_ops.c - see gbm_ops.h. Each op here wraps one of the gbm_*.h files; what joins them is
 * ordinary ops, so that the product rule and the rest of the chain are the tape's business. */
#include "bound/gbm_ops.h"

#include <math.h>
#include <string.h>

#include "bound/bound_ops.h"
#include "bound/gbm_cnn.h"
#include "bound/gbm_gain.h"
#include "bound/gbm_s4.h"
#include "model/bilstm.h"
#include "model/cnn.h"
#include "model/kinds.h"
#include "model/s4.h"

static double sum_of(const real *x, size_t n, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i * stride];
    return sum;
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
    .forward = {[DEV_CPU] = head_fwd},
    .backward = {[DEV_CPU] = head_bwd},
};

node *gbm_head(const model *m, tape *t, node *const *params)
{
    node *fc = params[model_param_id(m, "fc.weight")];
    return tape_push(t, &gbm_head_op, &fc, 1, NULL, 0);
}

/* ---- convolution: M (F, D), compact ------------------------------------------------------- */

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
    .forward = {[DEV_CPU] = conv_fwd},
    .backward = {[DEV_CPU] = conv_bwd},
};

static node *cnn_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                      gbm_report *report)
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k), F = (size_t)((const cnn_cfg *)m->cfg)->filters;
    node *omega = a->of == GBM_OF_LOGITS ? gbm_head(m, t, params) : NULL, *sum = NULL;
    for (size_t i = 0; i < n; i++) {
        node *M = tape_push(t, &gbm_conv_op, &params[2 * i], 1, NULL, 0);
        if (!M)
            return NULL;
        report->part[GBM_V] += sum_of(M->value, F * m->dim, 1);
        /* M_out (1, D): how far a unit of each coordinate moves the logits */
        node *part =
            op_sum(t, omega ? op_matmul(t, op_slice(t, omega, i * F, F), false, M, false) : M);
        sum = sum ? op_add(t, sum, part) : part;
    }
    return op_scale(t, sum, a->k[GBM_V]);
}

/* ---- LSTM --------------------------------------------------------------------------------- */

enum { LSTM_INPUTS = LSTM_PER_DIRECTION };

typedef struct lstm_op {
    gbm_term_args a;
    const lstm_boxes *box;
    gbm_report *report;
} lstm_op;

/* The gradient of every unit's value is computed with the value: a unit's rows depend on nothing
 * else, so backward only has to scale them. */
typedef struct lstm_saved {
    lstm_grads grad;
    double *z; /* (H) gain: d gain / d omega, over 1 + gain */
} lstm_saved;

static lstm_weights lstm_of(node *const *in)
{
    return (lstm_weights){shape_cols(in[LSTM_W_IH]->shape),
                          shape_cols(in[LSTM_W_HH]->shape),
                          in[LSTM_W_IH]->value,
                          in[LSTM_W_HH]->value,
                          in[LSTM_B_IH]->value,
                          in[LSTM_B_HH]->value};
}

lstm_weights gbm_lstm_weights(const model *m, int direction)
{
    const int first = direction * LSTM_PER_DIRECTION;
    return (lstm_weights){m->dim,
                          (size_t)((const bilstm_cfg *)m->cfg)->hidden,
                          model_value(m, first + LSTM_W_IH),
                          model_value(m, first + LSTM_W_HH),
                          model_value(m, first + LSTM_B_IH),
                          model_value(m, first + LSTM_B_HH)};
}

static stet_status save_space(tape *t, node *n, const lstm_weights *w, const lstm_grads **out)
{
    *out = NULL;
    if (!n->needs_grad || !t->record)
        return STET_OK;
    lstm_saved *s = arena_znew(t->mem, lstm_saved, 1);
    if (!s)
        return STET_ENOMEM;
    s->grad = (lstm_grads){arena_znew(t->mem, real, 4 * w->H * w->D),
                           arena_znew(t->mem, real, 4 * w->H * w->H),
                           arena_znew(t->mem, real, 4 * w->H), arena_znew(t->mem, real, 4 * w->H)};
    s->z = arena_new(t->mem, double, w->H);
    if (!s->grad.w_ih || !s->grad.w_hh || !s->grad.b_ih || !s->grad.b_hh || !s->z)
        return STET_ENOMEM;
    n->saved = s;
    *out = &s->grad;
    return STET_OK;
}

/* Input k's gradient += by[unit] (or by[0] where there is one for all) times the saved one. */
static void scale_back(const node *n, const real *by, bool each_unit)
{
    const lstm_saved *s = n->saved;
    const real *from[LSTM_INPUTS] = {s->grad.w_ih, s->grad.w_hh, s->grad.b_ih, s->grad.b_hh};
    const size_t H = shape_cols(n->in[LSTM_W_HH]->shape);
    for (int k = 0; k < LSTM_INPUTS; k++) {
        node *x = n->in[k];
        const size_t cols = shape_count(x->shape) / (4 * H);
        for (size_t row = 0; x->needs_grad && row < 4 * H; row++) {
            const real scale = by[each_unit ? row % H : 0];
            for (size_t j = row * cols; j < (row + 1) * cols; j++)
                x->grad[j] += scale * from[k][j];
        }
    }
}

static stet_status lstm_rows_fwd(tape *t, node *n)
{
    const lstm_op *op = n->args;
    const lstm_weights w = lstm_of(n->in);
    const lstm_grads *grad;
    TRY(save_space(t, n, &w, &grad));
    const lstm_gbm_loss loss = {
        .kv = (real)op->a.k[GBM_V], .kh = (real)op->a.k[GBM_H], .kc = (real)op->a.k[GBM_C]};
    double part[3];
    real sum;
    TRY(gbm_lstm_sum(&w, op->box, op->a.mode, &loss, 1, grad, t->mem, &sum, n->value, part));
    for (int p = 0; p < GBM_PARTS; p++)
        op->report->part[p] += part[p];
    return STET_OK;
}

static stet_status lstm_rows_bwd(tape *t, node *n)
{
    (void)t;
    scale_back(n, n->grad, true);
    return STET_OK;
}

/* log(1 + gain); the fifth input is omega. */
static stet_status lstm_gain_fwd(tape *t, node *n)
{
    const lstm_op *op = n->args;
    const lstm_weights w = lstm_of(n->in);
    const lstm_grads *grad;
    TRY(save_space(t, n, &w, &grad));
    lstm_saved *s = n->saved;
    double gain;
    TRY(gbm_lstm_gain(&(lstm_cell_bounds){&w, op->box, op->a.mode}, op->a.eta,
                      n->in[LSTM_INPUTS]->value, op->a.steps, true, grad, t->mem, &gain,
                      s ? s->z : NULL));
    for (size_t i = 0; s && i < w.H; i++)
        s->z[i] /= 1 + gain;
    n->value[0] = (real)log1p(gain);
    return STET_OK;
}

static stet_status lstm_gain_bwd(tape *t, node *n)
{
    (void)t;
    const lstm_saved *s = n->saved;
    node *omega = n->in[LSTM_INPUTS];
    scale_back(n, n->grad, false);
    for (size_t i = 0; omega->needs_grad && i < shape_count(omega->shape); i++)
        omega->grad[i] += n->grad[0] * (real)s->z[i];
    return STET_OK;
}

/* max(0, rho - rho0)^2 */
static stet_status lstm_rho_fwd(tape *t, node *n)
{
    const lstm_op *op = n->args;
    const lstm_weights w = lstm_of(n->in);
    const lstm_cell_bounds bounds = {&w, op->box, op->a.mode};
    const lstm_grads *grad;
    double rho;
    TRY(save_space(t, n, &w, &grad));
    TRY(gbm_lstm_rho(&bounds, 1, grad, t->mem, &rho));
    const double over = rho > op->a.rho0 ? rho - op->a.rho0 : 0;
    n->value[0] = (real)(over * over);
    if (n->saved)
        ((lstm_saved *)n->saved)->z[0] = 2 * over;
    return STET_OK;
}

static stet_status lstm_rho_bwd(tape *t, node *n)
{
    (void)t;
    const real by = n->grad[0] * (real)((const lstm_saved *)n->saved)->z[0];
    scale_back(n, &by, false);
    return STET_OK;
}

static stet_status lstm_rows_infer(const node *n, shape *out)
{
    *out = shape1(shape_cols(n->in[LSTM_W_HH]->shape));
    return STET_OK;
}

static stet_status scalar_infer(const node *n, shape *out)
{
    (void)n;
    *out = (shape){.rank = 0};
    return STET_OK;
}

const op_desc gbm_lstm_rows_op = {
    .name = "gbm_lstm_rows",
    .n_in = LSTM_INPUTS,
    .infer = lstm_rows_infer,
    .forward = {[DEV_CPU] = lstm_rows_fwd},
    .backward = {[DEV_CPU] = lstm_rows_bwd},
};
const op_desc gbm_lstm_gain_op = {
    .name = "gbm_lstm_gain",
    .n_in = LSTM_INPUTS + 1,
    .infer = scalar_infer,
    .forward = {[DEV_CPU] = lstm_gain_fwd},
    .backward = {[DEV_CPU] = lstm_gain_bwd},
};
const op_desc gbm_lstm_rho_op = {
    .name = "gbm_lstm_rho",
    .n_in = LSTM_INPUTS,
    .infer = scalar_infer,
    .forward = {[DEV_CPU] = lstm_rho_fwd},
    .backward = {[DEV_CPU] = lstm_rho_bwd},
};

/* One direction. */
static node *lstm_direction(tape *t, node *const *w, node *omega, const lstm_op *op)
{
    if (op->a.of == GBM_OF_RHO)
        return tape_push(t, &gbm_lstm_rho_op, w, LSTM_INPUTS, op, sizeof *op);
    if (op->a.of == GBM_OF_GAIN) {
        node *in[LSTM_INPUTS + 1] = {w[0], w[1], w[2], w[3], omega};
        return tape_push(t, &gbm_lstm_gain_op, in, LSTM_INPUTS + 1, op, sizeof *op);
    }
    node *rows = tape_push(t, &gbm_lstm_rows_op, w, LSTM_INPUTS, op, sizeof *op);
    return op_sum(t, omega ? op_mul(t, omega, rows) : rows);
}

static node *bilstm_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                         gbm_report *report)
{
    const size_t H = (size_t)((const bilstm_cfg *)m->cfg)->hidden;
    node *omega = a->of == GBM_OF_LOGITS || a->of == GBM_OF_GAIN ? gbm_head(m, t, params) : NULL,
         *sum = NULL;
    for (int d = 0; d < 2; d++) {
        const lstm_op op = {*a, &a->boxes[d], report};
        node *mine = omega ? op_slice(t, omega, (size_t)d * H, H) : NULL;
        node *part = lstm_direction(t, params + d * LSTM_PER_DIRECTION, mine, &op);
        sum = sum ? op_add(t, sum, part) : part;
    }
    return sum;
}

/* ---- S4 ----------------------------------------------------------------------------------- */

static s4_weights s4_of(node *const *in)
{
    return (s4_weights){shape_rows(in[S4_A]->shape),
                        shape_cols(in[S4_A]->shape),
                        in[S4_A]->value,
                        in[S4_W]->value,
                        in[S4_P]->value,
                        in[S4_B]->value,
                        in[S4_C]->value,
                        in[S4_LOG_DT]->value,
                        in[S4_D]->value};
}

/* (H, 2): |g| and the sum of 2 |q| of each channel. */
static stet_status s4_fwd(tape *t, node *n)
{
    const s4_weights w = s4_of(n->in);
    return gbm_s4_rows(&w, t->mem, n->value);
}

static real *grad_of(const node *x)
{
    return x->needs_grad ? x->grad : NULL;
}

static stet_status s4_bwd(tape *t, node *n)
{
    const s4_weights w = s4_of(n->in);
    node *const *in = n->in;
    const s4_grads g = {grad_of(in[S4_A]), grad_of(in[S4_W]), grad_of(in[S4_P]),
                        grad_of(in[S4_B]), grad_of(in[S4_C]), grad_of(in[S4_LOG_DT]),
                        grad_of(in[S4_D])};
    return gbm_s4_rows_back(&w, n->grad, t->mem, &g);
}

static stet_status s4_infer(const node *n, shape *out)
{
    *out = shape2(shape_rows(n->in[S4_A]->shape), 2);
    return STET_OK;
}

enum { STATE_SPACE = S4_D + 1 };
const op_desc gbm_s4_op = {
    .name = "gbm_s4",
    .n_in = STATE_SPACE,
    .infer = s4_infer,
    .forward = {[DEV_CPU] = s4_fwd},
    .backward = {[DEV_CPU] = s4_bwd},
};

/* A vector as a matrix of one row. */
static node *as_row(tape *t, node *x)
{
    static const real one = 1;
    return op_matmul(t, tape_constant(t, shape2(1, 1), &one), false, x, false);
}

/* A column of the rows (H, 2) as (1, H). */
static node *column(tape *t, node *rows, const real *pick)
{
    return op_matmul(t, tape_constant(t, shape2(1, 2), pick), false, rows, true);
}

/* The first H rows of mix.weight (2H, H): those that the gate multiplies. */
static node *value_half(tape *t, node *mix, size_t H)
{
    uint32_t *index = arena_new(t->mem, uint32_t, H);
    if (!index) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (size_t i = 0; i < H; i++)
        index[i] = (uint32_t)i;
    return op_gather(t, mix, index, H);
}

static const double gelu_slope = 1.1289; /* the largest derivative of x Phi(x) */

/* The layers' rows are sound bounds of their state spaces. Between them and the logits stand a
 * gate, whose factor is at most 1 on the values but which also moves with its input, and a layer
 * norm, which scales by 1 / sigma: no factor is sound for all inputs and of any use. So the term
 * follows the way of a change through the layers with gates open and sigma = 1: it is a path gain,
 * not a bound (docs/gbm.md). From the logits down, w (1, H) is what a unit change of a layer's
 * output does. */
static node *s4_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                     gbm_report *report)
{
    const s4_cfg *cfg = m->cfg;
    const size_t H = (size_t)cfg->channels;
    static const real input[2] = {1, 0}, state[2] = {0, 1};
    node *w = a->of == GBM_OF_LOGITS ? as_row(t, gbm_head(m, t, params)) : NULL, *v_part = NULL,
         *h_part = NULL;
    for (int l = (int)cfg->layers - 1; l >= 0; l--) {
        node *const *layer = params + S4_FIRST_LAYER + l * S4_PER_LAYER;
        node *rows = tape_push(t, &gbm_s4_op, layer, STATE_SPACE, NULL, 0);
        if (!rows)
            return NULL;
        report->part[GBM_V] += sum_of(rows->value, H, 2);
        report->part[GBM_H] += sum_of(rows->value + 1, H, 2);
        node *g = column(t, rows, input), *q = column(t, rows, state);
        if (a->of == GBM_OF_LAYER) {
            v_part = v_part ? op_add(t, v_part, op_sum(t, g)) : op_sum(t, g);
            h_part = h_part ? op_add(t, h_part, op_sum(t, q)) : op_sum(t, q);
            continue;
        }
        node *residual = op_mul(t, w, op_abs(t, as_row(t, layer[S4_NORM_W])));
        node *mix = op_abs(t, value_half(t, layer[S4_MIX_W], H));
        node *y = op_scale(t, op_matmul(t, residual, false, mix, false), gelu_slope); /* (1, H) */
        node *by_state = op_sum(t, op_mul(t, y, q));
        h_part = h_part ? op_add(t, h_part, by_state) : by_state;
        w = op_add(t, residual, op_mul(t, y, g));
    }
    if (a->of == GBM_OF_LOGITS)
        v_part = op_sum(t, op_matmul(t, w, false, op_abs(t, params[S4_ENC_W]), false));
    return op_add(t, op_scale(t, v_part, a->k[GBM_V]), op_scale(t, h_part, a->k[GBM_H]));
}

/* ---- any model ---------------------------------------------------------------------------- */

node *gbm_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
               gbm_report *report)
{
    *report = (gbm_report){.parts_known = a->of == GBM_OF_LAYER || a->of == GBM_OF_LOGITS};
    const bool recurrent = m->desc == &model_bilstm;
    if (!recurrent && !report->parts_known) {
        tape_fail(t, error_set(STET_ENOTSUP,
                               "horizon gain and contraction are those of a bilstm, not of a %s",
                               m->desc->name));
        return NULL;
    }
    if (recurrent)
        return bilstm_term(m, t, params, a, report);
    if (m->desc == &model_cnn)
        return cnn_term(m, t, params, a, report);
    if (m->desc == &model_s4)
        return s4_term(m, t, params, a, report);
    tape_fail(t, error_set(STET_ENOTSUP, "no growth bounds are known for a %s", m->desc->name));
    return NULL;
}

double gbm_entries(const model *m, gbm_of of)
{
    const double D = (double)m->dim, F = (double)m->desc->n_features(m);
    if (of != GBM_OF_LAYER && of != GBM_OF_LOGITS)
        return 1;
    const bool layer = of == GBM_OF_LAYER;
    if (m->desc == &model_bilstm) { /* both directions: v, h, c of F / 2 units each */
        const double H = F / 2;
        return layer ? F * (D + H + 1) : 2 * (D + 2 * H);
    }
    if (m->desc == &model_s4) {
        const s4_cfg *cfg = m->cfg;
        const double states = F * (double)cfg->state / 2 * (double)cfg->layers;
        return layer ? states + F * (double)cfg->layers : states + D;
    }
    return layer ? F * D : D;
}
