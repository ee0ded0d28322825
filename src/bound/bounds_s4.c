/* bound/bounds_s4.c - all bounds of the S4 classifier. */
#include <stdio.h>

#include "bound/bound_ops.h"
#include "bound/bounds.h"
#include "bound/gbm_s4.h"
#include "bound/s4_ranges.h"
#include "model/s4.h"

/* ---- growth bounds ------------------------------------------------------------------------ */

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
    .forward = {[DEV_CPU] = s4_fwd, CUDA_KERNEL(cuda_gbm_s4_fwd)},
    .backward = {[DEV_CPU] = s4_bwd, CUDA_KERNEL(cuda_gbm_s4_bwd)},
};

/* A vector as a matrix of one row. */
static node *as_row(tape *t, node *x)
{
    static const real one = 1;
    return op_matmul(t, tape_numbers(t, shape2(1, 1), &one), false, x, false);
}

/* A column of the rows (H, 2) as (1, H). */
static node *column(tape *t, node *rows, const real *pick)
{
    return op_matmul(t, tape_numbers(t, shape2(1, 2), pick), false, rows, true);
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
 * norm, which scales by 1 / sigma: no factor is sound for all inputs and of any use (BLOCK_RELU and
 * BLOCK_BARE have neither, and there it is a bound). So the term
 * follows the way of a change through the layers with gates open and sigma = 1: it is a path gain,
 * not a bound (docs/gbm.md). From the logits down, w (1, H) is what a unit change of a layer's
 * output does. */
static node *term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                  gbm_report *report)
{
    const s4_cfg *cfg = m->cfg;
    const size_t H = (size_t)cfg->channels;
    static const real input[2] = {1, 0}, state[2] = {0, 1};
    node *w = a->of == GBM_OF_LOGITS ? as_row(t, gbm_head(m, t, params)) : NULL, *v_part = NULL,
         *h_part = NULL;
    for (int l = (int)cfg->layers - 1; l >= 0; l--) {
        node *const *layer = params + s4_layer_at(cfg, l);
        node *rows = tape_push(t, &gbm_s4_op, layer, STATE_SPACE, NULL, 0);
        node *g = column(t, rows, input), *q = column(t, rows, state);
        node *g_sum = op_sum(t, g), *q_sum = op_sum(t, q);
        gbm_report_add(t, report, GBM_V, g_sum);
        gbm_report_add(t, report, GBM_H, q_sum);
        if (a->of == GBM_OF_LAYER) {
            v_part = v_part ? op_add(t, v_part, g_sum) : g_sum;
            h_part = h_part ? op_add(t, h_part, q_sum) : q_sum;
            continue;
        }
        const bool glu = cfg->block == BLOCK_GLU;
        node *residual = glu ? op_mul(t, w, op_abs(t, as_row(t, layer[S4_NORM_W]))) : w;
        node *y = residual; /* (1, H) */
        if (cfg->block != BLOCK_BARE)
            y = op_matmul(t, y, false,
                          op_abs(t, glu ? value_half(t, layer[S4_MIX_W], H) : layer[S4_MIX_W]),
                          false);
        y = glu ? op_scale(t, y, gelu_slope) : y;
        node *by_state = op_sum(t, op_mul(t, y, q));
        h_part = h_part ? op_add(t, h_part, by_state) : by_state;
        w = glu ? op_add(t, residual, op_mul(t, y, g)) : op_mul(t, y, g);
    }
    if (a->of == GBM_OF_LOGITS)
        v_part = op_sum(t, op_matmul(t, w, false, op_abs(t, params[S4_ENC_W]), false));
    return op_mix(t, v_part, a->k[GBM_V], h_part, a->k[GBM_H]);
}

static double entries(const model *m, bool logits)
{
    const s4_cfg *cfg = m->cfg;
    const double D = (double)m->dim, F = (double)m->desc->n_features(m);
    const double states = F * (double)cfg->state / 2 * (double)cfg->layers;
    return logits ? states + D : states + F * (double)cfg->layers;
}

/* ---- ranges over substitution sets -------------------------------------------------------- */

static void ranges(const model *m, pass *p, const worst_args *a, node *out[RANGE_SIDES])
{
    s4_ranges(m, p, a->s, a->eps, &out[RANGE_LOWER], &out[RANGE_UPPER]);
}

/* ---- the matrix --------------------------------------------------------------------------- */

/* Channels do not mix in the state space: a row holds its channel's input and modes, and nothing
 * else is not zero. */
static stet_status matrix(const model *m, const stet_gbm_options *how, stet_gbm *g)
{
    (void)how;
    const s4_cfg *cfg = m->cfg;
    const size_t H = (size_t)cfg->channels, n = (size_t)cfg->state / 2,
                 layers = (size_t)cfg->layers;
    TRY(matrix_init(g, m,
                    &(matrix_shape){.rows = layers * H, .group = H, .map = 1, .cols = {1, n}}));
    snprintf(g->boxes, sizeof g->boxes, "all inputs and states");
    arena mem = {0};
    real *input = arena_new(&mem, real, H), *state = arena_new(&mem, real, H * n);
    stet_status st = input && state ? STET_OK : STET_ENOMEM;
    for (size_t l = 0; st == STET_OK && l < layers; l++) {
        const int first = s4_layer_at(cfg, (int)l);
        const s4_weights w = {H,
                              n,
                              model_value(m, first + S4_A),
                              model_value(m, first + S4_W),
                              model_value(m, first + S4_P),
                              model_value(m, first + S4_B),
                              model_value(m, first + S4_C),
                              model_value(m, first + S4_LOG_DT),
                              model_value(m, first + S4_D)};
        st = gbm_s4(&w, &mem, input, state);
        for (size_t h = 0; st == STET_OK && h < H; h++) {
            float *row = g->m + (l * H + h) * (1 + n);
            row[0] = (float)input[h];
            for (size_t i = 0; i < n; i++)
                row[1 + i] = (float)state[h * n + i];
        }
    }
    arena_deinit(&mem);
    return st == STET_OK ? matrix_logit_sum(m, NULL, NULL, &g->logit_sum) : st;
}

static void row_name(const stet_gbm *g, size_t row, char *out, size_t size)
{
    snprintf(out, size, "layer %zu, channel %zu", row / g->group, row % g->group);
}

static void col_name(const stet_gbm *g, size_t col, char *out, size_t size)
{
    if (col < g->part_end[STET_GBM_INPUT])
        snprintf(out, size, "input");
    else
        snprintf(out, size, "mode %zu", col - g->part_end[STET_GBM_INPUT]);
}

const model_bounds bounds_s4 = {
    .term = term,
    .entries = entries,
    .ranges = ranges,
    .matrix = matrix,
    .row_name = row_name,
    .col_name = col_name,
};
