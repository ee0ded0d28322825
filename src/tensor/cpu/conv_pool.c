/* tensor/cpu/conv_pool.c - one kernel size of a text CNN: convolution, ReLU and max over time, on
 * the projections of the distinct rows (conv_taps.h). Bias and ReLU are monotone, so they come
 * after the maximum.
 *
 * The gradient of a maximum reaches one window: for each text and filter with a positive response,
 * k rows of the input. Nothing else is touched. */
#include <string.h>

#include "base/pool.h"
#include "tensor/host/conv_taps.h"
#include "tensor/joined.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

typedef struct conv {
    const seq_index *seq;
    conv_filters filters;
    size_t cols;
    const real *b;
    const real *projected; /* (V, cols; ld), and room to read a vector at the end */
    size_t ld;
    pool_kernel *pool;
    real *best;    /* (workers, cols): the maxima of a text */
    uint32_t *at;  /* (workers, cols): where they are */
    real *y;       /* (B, F) */
    uint32_t *won; /* (B, F): first position of the winning window; NULL: not wanted */
} conv;

static conv conv_of(const node *n)
{
    const node *w = n->in[1];
    conv c = {.seq = ((const made_args *)n->args)->seq.at};
    c.filters = (conv_filters){w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->value};
    c.cols = c.ld = conv_cols(&c.filters);
    c.b = n->in[2]->value;
    c.y = n->value;
    return c;
}

/* Bias and ReLU after the maximum. */
static void pool_piece(void *ctx, size_t text, int worker)
{
    const conv *c = ctx;
    const size_t F = c->filters.F;
    const uint32_t *start = c->seq->start + text;
    const pooled_text x = {c->seq->row + start[0], start[1] - start[0], c->projected, c->ld, F};
    real *best = c->best + (size_t)worker * c->cols;
    uint32_t *at = c->at + (size_t)worker * c->cols;
    c->pool(&x, c->filters.k, F, best, at);
    for (size_t f = 0; f < F; f++) {
        const real s = best[f] + c->b[f];
        c->y[text * F + f] = s < 0 ? 0 : s; /* a NaN stays */
        if (c->won)
            c->won[text * F + f] = at[f];
    }
}

stet_status cpu_conv_pool_fwd(tape *t, node *n)
{
    conv c = conv_of(n);
    if (t->record && n->needs_grad) {
        n->saved = c.won = arena_new(t->mem, uint32_t, c.seq->n_texts * c.filters.F);
        if (!c.won)
            return STET_ENOMEM;
    }
    const arena_mark scratch = arena_save(t->mem);
    const size_t V = c.seq->n_rows;
    const made_args *args = n->args;
    real *own = args->made ? NULL : arena_new(t->mem, real, V * c.cols + PANEL);
    c.best = arena_new(t->mem, real, (size_t)stet_threads() * c.cols);
    c.at = arena_new(t->mem, uint32_t, (size_t)stet_threads() * c.cols);
    if (!(own || args->made) || !c.best || !c.at)
        return STET_ENOMEM;
    c.pool = conv_pool_kernel();
    if (own)
        TRY(conv_project(&c.filters, n->in[0]->value, V, t->mem, own, c.cols));
    c.projected = own ? own : args->made;
    c.ld = own ? c.cols : args->ld;
    pool_run(c.seq->n_texts, pool_piece, &c);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* projections alone ---------------------------------------------------------------------------- */

size_t conv_made_cols(shape filters)
{
    return panel_padded(filters.dim[0] * filters.dim[2]);
}

shape conv_made_shape(size_t rows, node *const *filters, size_t n)
{
    shape s = shape2(rows, PANEL); /* room behind the last row */
    for (size_t i = 0; i < n; i++)
        s.dim[1] += conv_made_cols(filters[i]->shape);
    return s;
}

stet_status conv_made_infer(const node *n, shape *out)
{
    *out = conv_made_shape(shape_rows(n->in[0]->shape), n->in + 1, (size_t)n->n_in - 1);
    return STET_OK;
}

stet_status cpu_conv_made_fwd(tape *t, node *n)
{
    const size_t ld = shape_cols(n->shape);
    real *to = n->value;
    for (int i = 1; i < n->n_in; i++) {
        const shape w = n->in[i]->shape;
        const conv_filters f = {w.dim[0], w.dim[1], w.dim[2], n->in[i]->value};
        TRY(conv_project(&f, n->in[0]->value, shape_rows(n->shape), t->mem, to, ld));
        to += conv_cols(&f);
    }
    for (size_t r = 0; r < shape_rows(n->shape); r++)
        memset(n->value + (r + 1) * ld - PANEL, 0, PANEL * sizeof *to);
    return STET_OK;
}

/* The rows under the winning windows, by filter and tap, in the order of texts. */
static void list_winners(const conv *c, const real *dy, const tap_terms *terms, real *db)
{
    const seq_index *q = c->seq;
    const size_t F = c->filters.F, k = c->filters.k;
    for (size_t f = 0; f < F; f++) {
        for (size_t text = 0; text < q->n_texts; text++) {
            const size_t i = text * F + f, len = q->start[text + 1] - q->start[text];
            const uint32_t *row = q->row + q->start[text] + c->won[i];
            if (!(c->y[i] > 0))
                continue;
            for (size_t l = 0; l < k && l < len; l++)
                tap_terms_add(terms, f * k + l, dy[i], row[l]);
            if (db)
                db[f] += dy[i];
        }
    }
}

stet_status cpu_conv_pool_bwd(tape *t, node *n)
{
    conv c = conv_of(n);
    const arena_mark scratch = arena_save(t->mem);
    tap_terms terms;
    c.won = n->saved;
    TRY(tap_terms_make(&c.filters, c.seq->n_texts, t->mem, &terms));
    list_winners(&c, n->grad, &terms, n->in[2]->grad);
    if (n->in[1]->grad)
        conv_weight_gradient(&c.filters, &terms, n->in[0]->value, n->in[1]->grad);
    if (n->in[0]->grad)
        TRY(conv_rows_gradient(&c.filters, &terms, t->mem, n->in[0]->grad));
    arena_restore(t->mem, scratch);
    return STET_OK;
}
