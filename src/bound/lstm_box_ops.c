/* bound/lstm_box_ops.c - see lstm_box_ops.h. */
#include "bound/lstm_box_ops.h"

#include <string.h>

#include "bound/bound_args.h"
#include "bound/bound_ops.h"
#include "bound/gbm_lstm_ops.h"

enum { ROWS = 4, BOX, WORDS = 4 }; /* after the weights */

static stet_status box_infer(const node *n, shape *out)
{
    *out = shape2(4, gbm_lstm_of(n->in).H);
    return STET_OK;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* h, c (n + 1, H) of the words of an op, in its scratch memory. */
static stet_status read_states(tape *t, const node *n, real **h, real **c)
{
    const lstm_read_args *a = n->args;
    const lstm_weights w = gbm_lstm_of(n->in);
    *h = arena_new(t->mem, real, 2 * (a->n + 1) * w.H);
    if (!*h)
        return STET_ENOMEM;
    *c = *h + (a->n + 1) * w.H;
    return lstm_read(&w, n->in[ROWS]->value, a->at, a->n, a->reverse, t->mem, *h, *c);
}

static stet_status observed_fwd(tape *t, node *n)
{
    const lstm_read_args *a = n->args;
    const size_t H = shape_cols(n->shape);
    const arena_mark scratch = arena_save(t->mem);
    const state_box box = box_in(n->value, H);
    real *h, *c;
    TRY(read_states(t, n, &h, &c));
    memcpy(n->value, n->in[BOX]->value, 4 * H * sizeof *n->value);
    box_observe(&box, H, h, c, a->n, a->by, a->first); /* the last state starts no step */
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static stet_status observed_infer(const node *n, shape *out)
{
    TRY(box_infer(n, out));
    return op_expect_shape(n, BOX, *out, "the box");
}

static stet_status around_fwd(tape *t, node *n)
{
    const lstm_read_args *a = n->args;
    const size_t H = shape_cols(n->shape);
    const arena_mark scratch = arena_save(t->mem);
    const state_box box = box_in(n->value, H);
    real *h, *c;
    TRY(read_states(t, n, &h, &c));
    box_around(&box, H, h + a->n * H, c + a->n * H, a->by);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* ---- invariants --------------------------------------------------------------------------- */

static stet_status invariant_fwd(tape *t, node *n)
{
    const lstm_weights w = gbm_lstm_of(n->in);
    const real *words = n->in[WORDS]->value;
    const state_box box = box_in(n->value, w.H);
    return box_invariant(&w, words, words + w.D, *(const size_t *)n->args, t->mem, &box);
}

static stet_status invariant_infer(const node *n, shape *out)
{
    TRY(box_infer(n, out));
    return op_expect_shape(n, WORDS, shape2(2, gbm_lstm_of(n->in).D), "the box of words");
}

/* ---- words -------------------------------------------------------------------------------- */

static stet_status hull_fwd(tape *t, node *n)
{
    (void)t;
    const size_t first = *(const size_t *)n->args, D = shape_cols(n->shape);
    const size_t rows = shape_rows(n->in[0]->shape);
    const real *x = n->in[0]->value + first * D;
    real *lo = n->value, *hi = lo + D;
    memcpy(lo, x, D * sizeof *lo);
    memcpy(hi, x, D * sizeof *hi);
    for (size_t i = first; i < rows; i++, x += D)
        for (size_t j = 0; j < D; j++) {
            lo[j] = x[j] < lo[j] ? x[j] : lo[j];
            hi[j] = x[j] > hi[j] ? x[j] : hi[j];
        }
    return STET_OK;
}

static stet_status hull_infer(const node *n, shape *out)
{
    *out = shape2(2, shape_cols(n->in[0]->shape));
    if (*(const size_t *)n->args < shape_rows(n->in[0]->shape))
        return STET_OK;
    return error_set(STET_EUSAGE, "%s: the hull of no rows", n->op->name);
}

const op_desc rows_hull_op = {
    .name = "rows_hull",
    .n_in = 1,
    .constant = true,
    .infer = hull_infer,
    .forward = {[DEV_CPU] = hull_fwd, CUDA_KERNEL(cuda_rows_hull_fwd)},
};

node *op_rows_hull(tape *t, node *rows, size_t first)
{
    return tape_push(t, &rows_hull_op, &rows, 1, &first, sizeof first);
}

/* ---- as functions ------------------------------------------------------------------------- */

const op_desc lstm_observed_op = {
    .name = "lstm_observed",
    .n_in = BOX + 1,
    .constant = true,
    .infer = observed_infer,
    .forward = {[DEV_CPU] = observed_fwd, CUDA_KERNEL(cuda_lstm_observed_fwd)},
};
const op_desc lstm_around_op = {
    .name = "lstm_around",
    .n_in = ROWS + 1,
    .constant = true,
    .infer = box_infer,
    .forward = {[DEV_CPU] = around_fwd, CUDA_KERNEL(cuda_lstm_around_fwd)},
};
const op_desc lstm_invariant_op = {
    .name = "lstm_invariant",
    .n_in = WORDS + 1,
    .constant = true,
    .infer = invariant_infer,
    .forward = {[DEV_CPU] = invariant_fwd, CUDA_KERNEL(cuda_lstm_invariant_fwd)},
};

static lstm_read_args args_of(tape *t, const box_words *x, double by, bool first)
{
    return (lstm_read_args){tape_twin(t, x->index, x->n * sizeof *x->index), x->n, x->reverse,
                            first, by};
}

node *op_lstm_observed(tape *t, node *const w[4], const box_words *x, node *box, double forget,
                       bool first)
{
    node *in[BOX + 1] = {w[0], w[1], w[2], w[3], x->rows, box};
    const lstm_read_args a = args_of(t, x, forget, first);
    return tape_push(t, &lstm_observed_op, in, BOX + 1, &a, sizeof a);
}

node *op_lstm_around(tape *t, node *const w[4], const box_words *x, double radius)
{
    node *in[ROWS + 1] = {w[0], w[1], w[2], w[3], x->rows};
    const lstm_read_args a = args_of(t, x, radius, false);
    return tape_push(t, &lstm_around_op, in, ROWS + 1, &a, sizeof a);
}

node *op_lstm_invariant(tape *t, node *const w[4], node *words, size_t len)
{
    node *in[WORDS + 1] = {w[0], w[1], w[2], w[3], words};
    return tape_push(t, &lstm_invariant_op, in, WORDS + 1, &len, sizeof len);
}
