/* bound/gbm_lstm_ops.c - see gbm_lstm_ops.h. */
#include "bound/gbm_lstm_ops.h"

#include <math.h>
#include <string.h>

#include "bound/bound_args.h"
#include "bound/bound_ops.h"
#include "bound/gbm_gain.h"
#include "model/bilstm.h"
#include "tensor/joined.h"

/* Inputs: the weights of one direction, boxes of words (2, D) and states (4, H); for the gain also
 * omega and eta. */
enum { LSTM_WEIGHTS = LSTM_PER_DIRECTION, WORDS = LSTM_WEIGHTS, STATE, OMEGA, ETA };

/* The gradient of every unit's value is computed with the value: a unit's rows depend on nothing
 * else, so backward only has to scale them. */
typedef struct lstm_saved {
    lstm_grads grad;
    double *z; /* (H) gain: d gain / d omega, over 1 + gain */
} lstm_saved;

lstm_weights gbm_lstm_of(node *const *in)
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

static lstm_boxes boxes_of(node *const *in)
{
    const size_t D = shape_cols(in[WORDS]->shape), H = shape_cols(in[STATE]->shape);
    const real *v = in[WORDS]->value, *s = in[STATE]->value;
    return (lstm_boxes){v, v + D, s, s + H, s + 2 * H, s + 3 * H};
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
    const real *from[LSTM_WEIGHTS] = {s->grad.w_ih, s->grad.w_hh, s->grad.b_ih, s->grad.b_hh};
    const size_t H = shape_cols(n->in[LSTM_W_HH]->shape);
    for (int k = 0; k < LSTM_WEIGHTS; k++) {
        node *x = n->in[k];
        const size_t cols = shape_count(x->shape) / (4 * H);
        for (size_t row = 0; x->needs_grad && row < 4 * H; row++) {
            const real scale = by[each_unit ? row % H : 0];
            for (size_t j = row * cols; j < (row + 1) * cols; j++)
                x->grad[j] += scale * from[k][j];
        }
    }
}

/* (H + 3): what each unit contributes, then the sums of Mv, Mh, Mc, which have no gradient. */
static stet_status lstm_rows_fwd(tape *t, node *n)
{
    const gbm_lstm_args *op = n->args;
    const lstm_weights w = gbm_lstm_of(n->in);
    const lstm_grads *grad;
    TRY(save_space(t, n, &w, &grad));
    const lstm_gbm_loss loss = {.kv = (real)op->k_v, .kh = (real)op->k_h, .kc = (real)op->k_c};
    const lstm_boxes box = boxes_of(n->in);
    double part[GBM_PARTS];
    real sum;
    TRY(gbm_lstm_sum(&w, &box, (gbm_cell_mode)op->mode, &loss, 1, grad, t->mem, &sum, n->value,
                     part));
    for (size_t p = 0; p < GBM_PARTS; p++)
        n->value[w.H + p] = (real)part[p];
    return STET_OK;
}

static stet_status lstm_rows_bwd(tape *t, node *n)
{
    (void)t;
    scale_back(n, n->grad, true);
    return STET_OK;
}

/* log(1 + gain) */
static stet_status lstm_gain_fwd(tape *t, node *n)
{
    const gbm_lstm_args *op = n->args;
    const lstm_weights w = gbm_lstm_of(n->in);
    const lstm_grads *grad;
    TRY(save_space(t, n, &w, &grad));
    lstm_saved *s = n->saved;
    double gain;
    const lstm_boxes box = boxes_of(n->in);
    TRY(gbm_lstm_gain(&(lstm_cell_bounds){&w, &box, (gbm_cell_mode)op->mode}, n->in[ETA]->value,
                      n->in[OMEGA]->value, op->steps, true, grad, t->mem, &gain, s ? s->z : NULL));
    for (size_t i = 0; s && i < w.H; i++)
        s->z[i] /= 1 + gain;
    n->value[0] = (real)log1p(gain);
    return STET_OK;
}

static stet_status lstm_gain_bwd(tape *t, node *n)
{
    (void)t;
    const lstm_saved *s = n->saved;
    node *omega = n->in[OMEGA];
    scale_back(n, n->grad, false);
    for (size_t i = 0; omega->needs_grad && i < shape_count(omega->shape); i++)
        omega->grad[i] += n->grad[0] * (real)s->z[i];
    return STET_OK;
}

/* max(0, rho - rho0)^2 */
static stet_status lstm_rho_fwd(tape *t, node *n)
{
    const gbm_lstm_args *op = n->args;
    const lstm_weights w = gbm_lstm_of(n->in);
    const lstm_boxes box = boxes_of(n->in);
    const lstm_cell_bounds bounds = {&w, &box, (gbm_cell_mode)op->mode};
    const lstm_grads *grad;
    double rho;
    TRY(save_space(t, n, &w, &grad));
    TRY(gbm_lstm_rho(&bounds, 1, grad, t->mem, &rho));
    const double over = rho > op->rho0 ? rho - op->rho0 : 0;
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

static stet_status boxes_infer(const node *n)
{
    const lstm_weights w = gbm_lstm_of(n->in);
    TRY(op_expect_shape(n, WORDS, shape2(2, w.D), "the box of words"));
    return op_expect_shape(n, STATE, shape2(4, w.H), "the box of states");
}

static stet_status lstm_rows_infer(const node *n, shape *out)
{
    *out = shape1(shape_cols(n->in[LSTM_W_HH]->shape) + GBM_PARTS);
    return boxes_infer(n);
}

static stet_status scalar_infer(const node *n, shape *out)
{
    *out = (shape){.rank = 0};
    return boxes_infer(n);
}

const op_desc gbm_lstm_rows_op = {
    .name = "gbm_lstm_rows",
    .n_in = STATE + 1,
    .infer = lstm_rows_infer,
    .forward = {[DEV_CPU] = lstm_rows_fwd}, /* elsewhere gbm_lstms */
    .backward = {[DEV_CPU] = lstm_rows_bwd},
};
const op_desc gbm_lstm_gain_op = {
    .name = "gbm_lstm_gain",
    .n_in = ETA + 1,
    .infer = scalar_infer,
    .forward = {[DEV_CPU] = lstm_gain_fwd, CUDA_KERNEL(cuda_gbm_lstm_gain_fwd)},
    .backward = {[DEV_CPU] = lstm_gain_bwd, CUDA_KERNEL(cuda_gbm_lstm_gain_bwd)},
};
const op_desc gbm_lstm_rho_op = {
    .name = "gbm_lstm_rho",
    .n_in = STATE + 1,
    .infer = scalar_infer,
    .forward = {[DEV_CPU] = lstm_rho_fwd, CUDA_KERNEL(cuda_gbm_lstm_rho_fwd)},
    .backward = {[DEV_CPU] = lstm_rho_bwd, CUDA_KERNEL(cuda_gbm_lstm_rho_bwd)},
};

/* Inputs: the weights of both directions, then these; perhaps omega (2 H). */
enum { BOTH_WORDS = 2 * LSTM_WEIGHTS, STATES, BOTH_INPUTS = STATES + 2 };

static stet_status lstms_infer(const node *n, shape *out)
{
    *out = (shape){.rank = 0};
    for (int d = 0; d < 2; d++) {
        const lstm_weights w = gbm_lstm_of(n->in + d * LSTM_WEIGHTS);
        TRY(op_expect_shape(n, BOTH_WORDS, shape2(2, w.D), "the box of words"));
        TRY(op_expect_shape(n, STATES + d, shape2(4, w.H), "the box of states"));
    }
    return STET_OK;
}

const op_desc gbm_lstms_op = {
    .name = "gbm_lstms",
    .n_in = -1,
    .infer = lstms_infer,
    .forward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_gbm_lstms_fwd)},
    .backward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_gbm_lstms_bwd)},
};

static gbm_lstm_args lstm_args_of(const gbm_term_args *a)
{
    return (gbm_lstm_args){a->k[GBM_V], a->k[GBM_H], a->k[GBM_C], (int)a->mode, a->steps, a->rho0};
}

/* Both directions as one op. */
static node *terms_at_once(tape *t, node *const *w, node *omega, const gbm_term_args *a,
                           gbm_report *report)
{
    node *in[BOTH_INPUTS + 1];
    memcpy(in, w, BOTH_WORDS * sizeof *in);
    in[BOTH_WORDS] = a->words;
    in[STATES] = a->state[0];
    in[STATES + 1] = a->state[1];
    in[BOTH_INPUTS] = omega;
    const gbm_lstm_args op = lstm_args_of(a);
    node *sum = tape_push(t, &gbm_lstms_op, in, BOTH_INPUTS + (omega != NULL), &op, sizeof op);
    for (int p = 0; sum && p < GBM_PARTS; p++)
        report->part[p] = tape_constant(t, sum->shape, (real *)sum->saved + p);
    return sum;
}

/* w, omega (H) and `state` of one direction. */
static node *term_of(tape *t, node *const *w, node *omega, const gbm_term_args *a, node *state,
                     gbm_report *report)
{
    node *in[] = {w[0], w[1], w[2], w[3], a->words, state, omega, a->eta};
    const gbm_lstm_args op = lstm_args_of(a);
    if (a->of == GBM_OF_RHO)
        return tape_push(t, &gbm_lstm_rho_op, in, STATE + 1, &op, sizeof op);
    if (a->of == GBM_OF_GAIN)
        return tape_push(t, &gbm_lstm_gain_op, in, ETA + 1, &op, sizeof op);
    node *both = tape_push(t, &gbm_lstm_rows_op, in, STATE + 1, &op, sizeof op);
    const size_t H = both ? shape_count(both->shape) - GBM_PARTS : 0;
    for (int p = 0; p < GBM_PARTS; p++)
        gbm_report_add(t, report, p, op_slice(t, both, H + (size_t)p, 1));
    node *rows = op_slice(t, both, 0, H);
    return op_sum(t, omega ? op_mul(t, omega, rows) : rows);
}

node *gbm_lstm_term(tape *t, node *const *w, node *omega, const gbm_term_args *a,
                    gbm_report *report)
{
    const bool by_rows = a->of == GBM_OF_LAYER || a->of == GBM_OF_LOGITS;
    node *sum = NULL;
    if (by_rows && tape_runs(t, &gbm_lstms_op))
        return terms_at_once(t, w, omega, a, report);
    const size_t H = omega ? shape_count(omega->shape) / 2 : 0;
    for (int d = 0; d < 2; d++) {
        node *mine = omega ? op_slice(t, omega, (size_t)d * H, H) : NULL;
        node *part = term_of(t, w + d * LSTM_WEIGHTS, mine, a, a->state[d], report);
        sum = sum ? op_add(t, sum, part) : part;
    }
    return sum;
}
