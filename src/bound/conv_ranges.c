/* bound/conv_ranges.c - see conv_ranges.h. A window's ends are the sums of its words' ends, ReLU
 * and maximum keep the order: so pooling runs three times over one table of projections, on the
 * tokens' own rows, on the rows of their smallest and on those of their largest values. */
#include "bound/conv_ranges.h"

#include "base/pool.h"
#include "tensor/cpu/conv_taps.h"

enum { VALUE, LOWER, UPPER, SIDES };

typedef struct ranges_data {
    const batch_sets *s;
    double eps;
} ranges_data;

typedef struct ranges {
    const batch_sets *s;
    real eps;
    conv_filters filters;
    size_t cols;
    const real *b;
    real *table; /* (n_rows + 2 n_moving, cols), and room to read a vector at the end */
    pool_kernel *pool;
    real *best;    /* (workers, cols) */
    uint32_t *at;  /* (workers, cols) */
    real *y;       /* (B, SIDES, F) */
    uint32_t *won; /* (B, SIDES, F): first position of the winning window */
    /* backward */
    const real *dy;
    tap_terms terms;
    real *db;
} ranges;

/* What backward needs again. */
typedef struct kept {
    real *table;
    uint32_t *won;
} kept;

static ranges ranges_of(const node *n)
{
    const ranges_data *d = custom_data(n);
    const node *w = n->in[0];
    ranges r = {.s = d->s, .eps = (real)d->eps};
    r.filters = (conv_filters){w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->value};
    r.cols = conv_cols(&r.filters);
    r.b = n->in[1]->value;
    r.y = n->value;
    return r;
}

static void pool_piece(void *ctx, size_t piece, int worker)
{
    const ranges *r = ctx;
    const size_t F = r->filters.F, text = piece / SIDES;
    const uint32_t *const row[SIDES] = {r->s->seq->row, r->s->lo_row, r->s->hi_row};
    const uint32_t *start = r->s->seq->start + text;
    const pooled_text x = {row[piece % SIDES] + start[0], start[1] - start[0], r->table, r->cols,
                           F};
    real *best = r->best + (size_t)worker * r->cols;
    uint32_t *at = r->at + (size_t)worker * r->cols;
    r->pool(&x, r->filters.k, F, best, at);
    for (size_t f = 0; f < F; f++) {
        const real s = best[f] + r->b[f];
        r->y[piece * F + f] = s < 0 ? 0 : s; /* a NaN stays */
        r->won[piece * F + f] = at[f];
    }
}

static stet_status ranges_fwd(tape *t, node *n)
{
    ranges r = ranges_of(n);
    const batch_sets *s = r.s;
    kept *keep = n->saved = arena_new(t->mem, kept, 1);
    r.table = arena_new(t->mem, real, (s->n_rows + 2 * s->n_moving) * r.cols + PANEL);
    r.won = arena_new(t->mem, uint32_t, s->seq->n_texts * SIDES * r.filters.F);
    r.best = arena_new(t->mem, real, (size_t)stet_threads() * r.cols);
    r.at = arena_new(t->mem, uint32_t, (size_t)stet_threads() * r.cols);
    if (!keep || !r.table || !r.won || !r.best || !r.at)
        return STET_ENOMEM;
    *keep = (kept){r.table, r.won};
    r.pool = conv_pool_kernel();
    TRY(conv_project(&r.filters, s->rows, s->n_rows, t->mem, r.table));
    batch_sets_extremes(s, (double)r.eps, r.table, r.cols);
    pool_run(s->seq->n_texts * SIDES, pool_piece, &r);
    return STET_OK;
}

/* The word that stands under a tap at one end of a range, for a gradient g. */
static void add_extreme(const ranges *r, int side, size_t list, size_t col, real g, uint32_t v)
{
    const uint32_t word = side == VALUE   ? v
                          : side == LOWER ? batch_sets_argmin(r->s, r->table, r->cols, v, col)
                                          : batch_sets_argmax(r->s, r->table, r->cols, v, col);
    if (word == v || r->eps == 1) {
        tap_terms_add(&r->terms, list, g, word);
        return;
    }
    tap_terms_add(&r->terms, list, r->eps * g, word);
    tap_terms_add(&r->terms, list, (1 - r->eps) * g, v);
}

/* The winning windows of one filter, in the order of texts. */
static void filter_piece(void *ctx, size_t f, int worker)
{
    (void)worker;
    const ranges *r = ctx;
    const seq_index *q = r->s->seq;
    const size_t F = r->filters.F, k = r->filters.k;
    for (size_t text = 0; text < q->n_texts; text++) {
        const size_t len = q->start[text + 1] - q->start[text];
        for (int side = 0; side < SIDES; side++) {
            const size_t i = (text * SIDES + (size_t)side) * F + f;
            const uint32_t *row = q->row + q->start[text] + r->won[i];
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
    const kept *keep = n->saved;
    const arena_mark scratch = arena_save(t->mem);
    r.table = keep->table;
    r.won = keep->won;
    r.dy = n->grad;
    r.db = n->in[1]->grad;
    const size_t each = r.eps < 1 ? 2 : 1;
    TRY(tap_terms_make(&r.filters, r.s->seq->n_texts * SIDES * each, t->mem, &r.terms));
    pool_run(r.filters.F, filter_piece, &r);
    if (n->in[0]->grad)
        conv_weight_gradient(&r.filters, &r.terms, r.s->rows, n->in[0]->grad);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

node *op_conv_ranges(tape *t, const batch_sets *s, node *w, node *b, double eps)
{
    node *in[] = {w, b};
    const ranges_data d = {s, eps};
    const size_t F = w ? w->shape.dim[0] : 0;
    return op_custom(t, in, 2, shape2(s->seq->n_texts, SIDES * F), ranges_fwd, ranges_bwd, &d,
                     sizeof d);
}
