/* bound/conv_ranges.c - see conv_ranges.h. A window's ends are the sums of its words' ends, ReLU
 * and maximum keep the order: so pooling runs three times over one table of projections, on the
 * tokens' own rows, on the rows of their smallest and on those of their largest values. */
#include "bound/conv_ranges.h"

#include <string.h>

#include "base/pool.h"
#include "bound/bound_ops.h"

enum { WEIGHT, BIAS, ROWS, INPUTS };

typedef struct ranges {
    const batch_sets *s;
    real eps;
    conv_filters filters;
    const real *b;
    pool_kernel *pool;
    pool_two_kernel *pool_two;
    real *best;   /* (workers, 2, cols): maxima and runners-up of a text */
    uint32_t *at; /* (workers, 2, cols) */
    real *y;      /* (B, RANGE_SIDES, F) */
    conv_windows *keep;
    /* backward */
    const real *dy;
    tap_terms terms;
    real *db;
} ranges;

static ranges ranges_of(const node *n)
{
    const conv_ranges_args *d = n->args;
    const node *w = n->in[WEIGHT];
    ranges r = {.s = d->s, .eps = (real)d->eps};
    r.filters = (conv_filters){w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->value};
    r.b = n->in[BIAS]->value;
    r.y = n->value;
    return r;
}

static void pool_piece(void *ctx, size_t piece, int worker)
{
    const ranges *r = ctx;
    const conv_windows *keep = r->keep;
    const size_t F = r->filters.F, text = piece / RANGE_SIDES, cols = keep->cols;
    const uint32_t *const row[RANGE_SIDES] = {r->s->at->row, r->s->lo_row, r->s->hi_row};
    const uint32_t *start = r->s->at->start + text;
    const pooled_text x = {row[piece % RANGE_SIDES] + start[0], start[1] - start[0], keep->table,
                           cols, F};
    real *best = r->best + (size_t)worker * 2 * cols;
    uint32_t *at = r->at + (size_t)worker * 2 * cols;
    if (keep->next && piece % RANGE_SIDES == RANGE_UPPER) {
        r->pool_two(&x, r->filters.k, F, &(pool_two){best, at, best + cols, at + cols});
        memcpy(keep->next + text * F, best + cols, F * sizeof *best);
        memcpy(keep->next_at + text * F, at + cols, F * sizeof *at);
    } else {
        r->pool(&x, r->filters.k, F, best, at);
    }
    for (size_t f = 0; f < F; f++) {
        const real s = best[f] + r->b[f];
        r->y[piece * F + f] = s < 0 ? 0 : s; /* a NaN stays */
        keep->won[piece * F + f] = at[f];
    }
}

static stet_status ranges_fwd(tape *t, node *n)
{
    ranges r = ranges_of(n);
    const batch_sets *s = r.s;
    const size_t B = s->seq->n_texts, F = r.filters.F, cols = conv_cols(&r.filters);
    conv_windows *keep = r.keep = n->saved = arena_znew(t->mem, conv_windows, 1);
    if (!keep)
        return STET_ENOMEM;
    keep->cols = cols;
    keep->table = arena_new(t->mem, real, (s->n_rows + 2 * s->n_moving) * cols + PANEL);
    keep->won = arena_new(t->mem, uint32_t, B * RANGE_SIDES * F);
    r.best = arena_new(t->mem, real, (size_t)stet_threads() * 2 * cols);
    r.at = arena_new(t->mem, uint32_t, (size_t)stet_threads() * 2 * cols);
    if (!keep->table || !keep->won || !r.best || !r.at)
        return STET_ENOMEM;
    if (((const conv_ranges_args *)n->args)->runners_up) {
        keep->next = arena_new(t->mem, real, B * F);
        keep->next_at = arena_new(t->mem, uint32_t, B * F);
        if (!keep->next || !keep->next_at)
            return STET_ENOMEM;
    }
    r.pool = conv_pool_kernel();
    r.pool_two = conv_pool_two_kernel();
    TRY(conv_project(&r.filters, n->in[ROWS]->value, s->n_rows, t->mem, keep->table, cols));
    batch_sets_extremes(s, (double)r.eps, keep->table, cols, NULL);
    pool_run(B * RANGE_SIDES, pool_piece, &r);
    return STET_OK;
}

const conv_windows *conv_ranges_windows(const node *n)
{
    return n->saved;
}

/* The word that stands under a tap at one end of a range, for a gradient g. */
static void add_extreme(const ranges *r, int side, size_t list, size_t col, real g, uint32_t v)
{
    const uint32_t word = side == RANGE_VALUE ? v
                          : side == RANGE_LOWER
                              ? batch_sets_argmin(r->s, r->keep->table, r->keep->cols, v, col)
                              : batch_sets_argmax(r->s, r->keep->table, r->keep->cols, v, col);
    tap_terms_add_word(&r->terms, list, g, r->eps, word, v);
}

/* The winning windows of one filter, in the order of texts. */
static void filter_piece(void *ctx, size_t f, int worker)
{
    (void)worker;
    const ranges *r = ctx;
    const seq_index *q = r->s->at;
    const size_t F = r->filters.F, k = r->filters.k;
    for (size_t text = 0; text < q->n_texts; text++) {
        const size_t len = q->start[text + 1] - q->start[text];
        for (int side = 0; side < RANGE_SIDES; side++) {
            const size_t i = (text * RANGE_SIDES + (size_t)side) * F + f;
            const uint32_t *row = q->row + q->start[text] + r->keep->won[i];
            if (!(r->y[i] > 0) || r->dy[i] == 0)
                continue;
            for (size_t l = 0; l < k && l < len; l++)
                add_extreme(r, side, f * k + l, l * F + f, r->dy[i], row[l]);
            if (r->db)
                r->db[f] += r->dy[i];
        }
    }
}

static stet_status ranges_bwd(tape *t, node *n)
{
    ranges r = ranges_of(n);
    const arena_mark scratch = arena_save(t->mem);
    r.keep = n->saved;
    r.dy = n->grad;
    r.db = n->in[BIAS]->grad;
    const size_t each = r.eps < 1 ? 2 : 1;
    TRY(tap_terms_make(&r.filters, r.s->seq->n_texts * RANGE_SIDES * each, t->mem, &r.terms));
    pool_run(r.filters.F, filter_piece, &r);
    if (n->in[WEIGHT]->grad)
        conv_weight_gradient(&r.filters, &r.terms, n->in[ROWS]->value, n->in[WEIGHT]->grad);
    if (n->in[ROWS]->grad)
        TRY(conv_rows_gradient(&r.filters, &r.terms, t->mem, n->in[ROWS]->grad));
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static stet_status ranges_infer(const node *n, shape *out)
{
    const conv_ranges_args *d = n->args;
    const node *w = n->in[WEIGHT];
    TRY(op_expect_shape(n, ROWS, shape2(d->s->n_rows, w->shape.dim[1]), "the rows"));
    TRY(op_expect_count(n, BIAS, w->shape.dim[0], "the bias"));
    *out = shape2(d->s->seq->n_texts, RANGE_SIDES * w->shape.dim[0]);
    return STET_OK;
}

const op_desc conv_ranges_op = {
    .name = "conv_ranges",
    .n_in = INPUTS,
    .infer = ranges_infer,
    .forward = {[DEV_CPU] = ranges_fwd, CUDA_KERNEL(cuda_conv_ranges_fwd)},
    .backward = {[DEV_CPU] = ranges_bwd, CUDA_KERNEL(cuda_conv_ranges_bwd)},
};

node *op_conv_ranges(tape *t, const batch_sets *s, node *w, node *b, double eps, bool runners_up)
{
    node *in[INPUTS] = {w, b, s->rows};
    const conv_ranges_args d = {s, eps, runners_up};
    return tape_push(t, &conv_ranges_op, in, INPUTS, &d, sizeof d);
}
