/* tensor/cpu/conv_pool.c - one kernel size of a text CNN: convolution, ReLU and max over time.
 *
 * A window's response is the sum over its taps l of w[:, :, l] x, x being the row of the word under
 * the tap. Words repeat, so every distinct row is projected on all taps once, by one product
 * P = rows W^T (V, k F); a window is then a sum of k gathered stretches of P. Bias and ReLU are
 * monotone, so they come after the maximum.
 *
 * The gradient of a maximum reaches one window: for each text and filter with a positive response,
 * k rows of the input. Nothing else is touched. */
#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/cpu/panel.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

/* Filters and columns of the input in a backward piece. */
enum { FILTERS = 16, COLUMNS = 64 };

/* A text as the pooling kernel sees it: the projection of position t on tap l is at p + row[t] * ld
 * + l * tap. */
typedef struct pooled_text {
    const uint32_t *row;
    size_t len;
    const real *p;
    size_t ld, tap;
} pooled_text;

/* best[f] = largest response of filter f < n over the windows of k words, at[f] where it is first.
 * A text shorter than k has one window, whose last taps see zeros. Both have room for a multiple of
 * PANEL. */
typedef void pool_kernel(const pooled_text *x, size_t k, size_t n, real *best, uint32_t *at);

#define KERNEL_FILE "tensor/cpu/conv_pool_kernel.h"
#include "tensor/cpu/each_width.h"

/* A window that won with a positive response: where the gradient goes. */
typedef struct winner {
    real g;
    uint32_t token, taps; /* the first token; how many are inside the text */
} winner;

typedef struct conv {
    const seq_index *seq;
    size_t D, F, k;
    size_t cols; /* k F rounded up to whole panels */
    const real *rows, *w, *b;
    real *panels;    /* (D, cols), packed: column l F + f is w[f, :, l] */
    real *projected; /* (V, cols), and room to read a vector at the end */
    pool_kernel *pool;
    real *best;    /* (workers, cols): the maxima of a text */
    uint32_t *at;  /* (workers, cols): where they are */
    real *y;       /* (B, F) */
    uint32_t *won; /* (B, F): first position of the winning window; NULL: not wanted */
    /* backward */
    winner *winners;   /* (F, B): the first n_winners[f] of each row, in the order of texts */
    size_t *n_winners; /* (F) */
    real *taps;        /* (k, F, D): w by tap */
    real *dw, *db, *drows;
} conv;

static conv conv_of(const node *n)
{
    const node *x = n->in[0], *w = n->in[1];
    conv c = {.seq = ((const conv_pool_args *)n->args)->seq};
    c.F = w->shape.dim[0];
    c.D = w->shape.dim[1];
    c.k = w->shape.dim[2];
    c.cols = panel_padded(c.k * c.F);
    c.rows = x->value;
    c.w = w->value;
    c.b = n->in[2]->value;
    c.y = n->value;
    return c;
}

/* forward ------------------------------------------------------------------------------------ */

/* A piece is one tap of FILTERS filters. */
static void pack_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const conv *c = ctx;
    const size_t l = i % c->k, f = i / c->k * FILTERS;
    panel_pack(c->D, c->F - f < FILTERS ? c->F - f : FILTERS, c->w + f * c->D * c->k + l, c->k,
               c->D * c->k, l * c->F + f, c->panels);
}

static size_t filter_groups(const conv *c)
{
    return (c->F + FILTERS - 1) / FILTERS;
}

/* Bias and ReLU after the maximum. */
static void pool_piece(void *ctx, size_t text, int worker)
{
    const conv *c = ctx;
    const uint32_t *start = c->seq->start + text;
    const pooled_text x = {c->seq->row + start[0], start[1] - start[0], c->projected, c->cols,
                           c->F};
    real *best = c->best + (size_t)worker * c->cols;
    uint32_t *at = c->at + (size_t)worker * c->cols;
    c->pool(&x, c->k, c->F, best, at);
    for (size_t f = 0; f < c->F; f++) {
        const real s = best[f] + c->b[f];
        c->y[text * c->F + f] = s < 0 ? 0 : s; /* a NaN stays */
        if (c->won)
            c->won[text * c->F + f] = at[f];
    }
}

stet_status cpu_conv_pool_fwd(tape *t, node *n)
{
    conv c = conv_of(n);
    if (t->record && n->needs_grad) {
        n->saved = c.won = arena_new(t->mem, uint32_t, c.seq->n_texts * c.F);
        if (!c.won)
            return STET_ENOMEM;
    }
    const arena_mark scratch = arena_save(t->mem);
    const size_t V = c.seq->n_rows;
    c.panels = arena_znew(t->mem, real, c.D * c.cols);
    c.projected = arena_new(t->mem, real, V * c.cols + PANEL);
    c.best = arena_new(t->mem, real, (size_t)stet_threads() * c.cols);
    c.at = arena_new(t->mem, uint32_t, (size_t)stet_threads() * c.cols);
    if (!c.panels || !c.projected || !c.best || !c.at)
        return STET_ENOMEM;
    c.pool = FOR_MACHINE(pool);
    pool_run(c.k * filter_groups(&c), pack_piece, &c);
    panel_product(V, c.cols, c.D, c.rows, c.D, c.panels, c.projected, c.cols);
    pool_run(c.seq->n_texts, pool_piece, &c);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* backward ----------------------------------------------------------------------------------- */

static void list_winners(conv *c, const real *dy)
{
    const seq_index *q = c->seq;
    for (size_t f = 0; f < c->F; f++) {
        winner *list = c->winners + f * q->n_texts;
        size_t n = 0;
        for (size_t text = 0; text < q->n_texts; text++) {
            const size_t i = text * c->F + f, len = q->start[text + 1] - q->start[text];
            if (c->y[i] > 0)
                list[n++] = (winner){dy[i], q->start[text] + c->won[i],
                                     (uint32_t)(len < c->k ? len : c->k)};
        }
        c->n_winners[f] = n;
    }
}

/* sum (n_cols) = the winners' rows under tap l, from column d on, times their gradients. */
static ALWAYS_INLINE void sum_winners(const conv *c, size_t f, size_t l, size_t d, size_t n_cols,
                                      real *RESTRICT sum)
{
    const winner *list = c->winners + f * c->seq->n_texts;
    for (size_t j = 0; j < n_cols; j++)
        sum[j] = 0;
    for (size_t i = 0; i < c->n_winners[f]; i++) {
        if (l >= list[i].taps)
            continue;
        const real g = list[i].g;
        const real *RESTRICT x = c->rows + c->seq->row[list[i].token + l] * c->D + d;
        for (size_t j = 0; j < n_cols; j++)
            sum[j] += g * x[j];
    }
}

/* Some columns of the weights of some filters. So few columns of the input, for all its rows, stay
 * in a core's cache while the filters pass. */
SIMD_CLONES static void weight_gradient(const conv *c, size_t first, size_t end, size_t d)
{
    const size_t n_cols = c->D - d < COLUMNS ? c->D - d : COLUMNS;
    for (size_t f = first; f < end; f++) {
        real *dw = c->dw + (f * c->D + d) * c->k;
        for (size_t l = 0; l < c->k; l++) {
            real sum[COLUMNS];
            if (n_cols == COLUMNS)
                sum_winners(c, f, l, d, COLUMNS, sum);
            else
                sum_winners(c, f, l, d, n_cols, sum);
            for (size_t j = 0; j < n_cols; j++)
                dw[j * c->k + l] += sum[j];
        }
    }
}

static void weight_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const conv *c = ctx;
    const size_t groups = filter_groups(c), first = i % groups * FILTERS;
    weight_gradient(c, first, first + FILTERS < c->F ? first + FILTERS : c->F,
                    i / groups * COLUMNS);
}

static void tap_piece(void *ctx, size_t f, int worker)
{
    (void)worker;
    const conv *c = ctx;
    for (size_t l = 0; l < c->k; l++)
        for (size_t d = 0; d < c->D; d++)
            c->taps[(l * c->F + f) * c->D + d] = c->w[(f * c->D + d) * c->k + l];
}

/* Some columns of the input's gradient: pieces share no element. */
SIMD_CLONES static void rows_gradient(const conv *c, size_t d)
{
    const size_t n_cols = c->D - d < COLUMNS ? c->D - d : COLUMNS;
    for (size_t f = 0; f < c->F; f++) {
        const winner *list = c->winners + f * c->seq->n_texts;
        for (size_t i = 0; i < c->n_winners[f]; i++) {
            for (size_t l = 0; l < list[i].taps; l++) {
                real *RESTRICT dx = c->drows + c->seq->row[list[i].token + l] * c->D + d;
                const real *RESTRICT tap = c->taps + (l * c->F + f) * c->D + d;
                for (size_t j = 0; j < n_cols; j++)
                    dx[j] += list[i].g * tap[j];
            }
        }
    }
}

static void rows_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    rows_gradient(ctx, i * COLUMNS);
}

stet_status cpu_conv_pool_bwd(tape *t, node *n)
{
    conv c = conv_of(n);
    const size_t B = c.seq->n_texts, blocks = (c.D + COLUMNS - 1) / COLUMNS;
    const arena_mark scratch = arena_save(t->mem);
    c.won = n->saved;
    c.drows = n->in[0]->grad;
    c.dw = n->in[1]->grad;
    c.db = n->in[2]->grad;
    c.winners = arena_new(t->mem, winner, c.F * B);
    c.n_winners = arena_new(t->mem, size_t, c.F);
    if (!c.winners || !c.n_winners)
        return STET_ENOMEM;
    list_winners(&c, n->grad);
    for (size_t f = 0; c.db && f < c.F; f++)
        for (size_t i = 0; i < c.n_winners[f]; i++)
            c.db[f] += c.winners[f * B + i].g;
    if (c.dw)
        pool_run(blocks * filter_groups(&c), weight_piece, &c);
    if (c.drows) {
        c.taps = arena_new(t->mem, real, c.k * c.F * c.D);
        if (!c.taps)
            return STET_ENOMEM;
        pool_run(c.F, tap_piece, &c);
        pool_run(blocks, rows_piece, &c);
    }
    arena_restore(t->mem, scratch);
    return STET_OK;
}
