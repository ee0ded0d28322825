/* bound/batch_sets.c - see batch_sets.h. */
#include "bound/batch_sets.h"

#include <string.h>

#include "base/pool.h"
#include "base/simd.h"

/* ---- part of a batch ---------------------------------------------------------------------- */

stet_status batch_part(const batch *x, size_t dim, const uint32_t *text, size_t n, arena *mem,
                       batch *out)
{
    const seq_index *q = &x->seq;
    uint32_t *start = arena_new(mem, uint32_t, n + 1), *row = arena_new(mem, uint32_t, q->n_tokens),
             *word = arena_new(mem, uint32_t, q->n_rows),
             *renumbered = arena_znew(mem, uint32_t, q->n_rows), /* row + 1 */
                 *order = arena_new(mem, uint32_t, n);
    int32_t *label = arena_new(mem, int32_t, n);
    real *rows = arena_new(mem, real, q->n_rows * dim);
    if (!start || !row || !word || !renumbered || !order || !label || !rows)
        return STET_ENOMEM;
    size_t tokens = 0, n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        start[i] = (uint32_t)tokens;
        label[i] = x->label[text[i]];
        order[i] = x->order[text[i]];
        for (size_t t = q->start[text[i]]; t < q->start[text[i] + 1]; t++) {
            const uint32_t v = q->row[t];
            if (renumbered[v] == 0) {
                word[n_rows] = x->word[v];
                memcpy(rows + n_rows * dim, x->rows + v * dim, dim * sizeof *rows);
                renumbered[v] = (uint32_t)++n_rows;
            }
            row[tokens++] = renumbered[v] - 1;
        }
    }
    start[n] = (uint32_t)tokens;
    *out = (batch){.seq = {n, tokens, n_rows, n ? start[1] : 0, start, row},
                   .order = order,
                   .word = word,
                   .rows = rows,
                   .label = label};
    return STET_OK;
}

/* ---- making ------------------------------------------------------------------------------- */

/* Rows of the sets of the batch's words: slot holds row + 1. Returns the number of rows. */
static size_t number_rows(const word_sets *s, const batch *x, uint32_t *slot, uint32_t *word,
                          uint32_t *start, uint32_t *alt)
{
    const size_t V = x->seq.n_rows;
    size_t n = V, at = 0;
    for (size_t v = 0; v < V; v++) {
        word[v] = x->word[v];
        slot[word[v]] = (uint32_t)v + 1;
    }
    for (size_t v = 0; v < V; v++) {
        start[v] = (uint32_t)at;
        for (uint32_t k = s->start[word[v]]; k < s->start[word[v] + 1]; k++) {
            uint32_t *mine = &slot[s->word[k]];
            if (*mine == 0) {
                word[n] = s->word[k];
                *mine = (uint32_t)++n;
            }
            alt[at++] = *mine - 1;
        }
    }
    start[V] = (uint32_t)at;
    for (size_t r = 0; r < n; r++)
        slot[word[r]] = 0;
    return n;
}

/* Which words move, and the rows of every token's extremes. */
static stet_status number_extremes(const batch *x, arena *mem, batch_sets *out)
{
    const seq_index *q = &x->seq;
    uint32_t *moving = arena_new(mem, uint32_t, q->n_rows + 1),
             *lo = arena_new(mem, uint32_t, q->n_tokens),
             *hi = arena_new(mem, uint32_t, q->n_tokens),
             *rank = arena_new(mem, uint32_t, q->n_rows);
    if (!moving || !lo || !hi || !rank)
        return STET_ENOMEM;
    for (size_t v = 0; v < q->n_rows; v++) {
        rank[v] = (uint32_t)out->n_moving;
        if (out->start[v + 1] > out->start[v])
            moving[out->n_moving++] = (uint32_t)v;
    }
    for (size_t t = 0; t < q->n_tokens; t++) {
        const uint32_t v = q->row[t];
        const bool moves = out->start[v + 1] > out->start[v];
        lo[t] = moves ? (uint32_t)out->n_rows + rank[v] : v;
        hi[t] = moves ? lo[t] + (uint32_t)out->n_moving : v;
    }
    out->moving = moving;
    out->lo_row = lo;
    out->hi_row = hi;
    return STET_OK;
}

stet_status batch_sets_make(const word_sets *s, const model *m, const batch *x, uint32_t *slot,
                            arena *mem, batch_sets *out)
{
    const size_t V = x->seq.n_rows;
    size_t n_alt = 0;
    for (size_t v = 0; v < V; v++)
        n_alt += s->start[x->word[v] + 1] - s->start[x->word[v]];
    uint32_t *word = arena_new(mem, uint32_t, V + n_alt), *start = arena_new(mem, uint32_t, V + 1),
             *alt = arena_new(mem, uint32_t, n_alt + 1);
    if (!word || !start || !alt)
        return STET_ENOMEM;
    const size_t n = number_rows(s, x, slot, word, start, alt);
    real *rows = arena_new(mem, real, n * m->dim);
    if (!rows)
        return STET_ENOMEM;
    memcpy(rows, x->rows, V * m->dim * sizeof *rows);
    for (size_t r = V; r < n; r++)
        for (size_t j = 0; j < m->dim; j++)
            rows[r * m->dim + j] = m->table[word[r] * m->dim + j];
    *out = (batch_sets){.seq = &x->seq, .n_rows = n, .rows = rows, .start = start, .alt = alt};
    return number_extremes(x, mem, out);
}

/* ---- extremes ----------------------------------------------------------------------------- */

typedef struct extremes_job {
    const batch_sets *s;
    real eps;
    real *table;
    size_t cols;
} extremes_job;

SIMD_CLONES static void take_extremes(size_t n, const real *RESTRICT x, real *RESTRICT lo,
                                      real *RESTRICT hi)
{
    for (size_t j = 0; j < n; j++) {
        lo[j] = x[j] < lo[j] ? x[j] : lo[j];
        hi[j] = x[j] > hi[j] ? x[j] : hi[j];
    }
}

/* Part of the way from the word to its extremes. */
SIMD_CLONES static void draw_near(size_t n, real eps, const real *RESTRICT x, real *RESTRICT lo,
                                  real *RESTRICT hi)
{
    for (size_t j = 0; j < n; j++) {
        lo[j] = x[j] + eps * (lo[j] - x[j]);
        hi[j] = x[j] + eps * (hi[j] - x[j]);
    }
}

static void extremes_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const extremes_job *e = ctx;
    const batch_sets *s = e->s;
    const size_t v = s->moving[i], cols = e->cols;
    const real *x = e->table + v * cols;
    real *lo = e->table + (s->n_rows + i) * cols, *hi = lo + s->n_moving * cols;
    memcpy(lo, x, cols * sizeof *lo);
    memcpy(hi, x, cols * sizeof *hi);
    for (uint32_t k = s->start[v]; k < s->start[v + 1]; k++)
        take_extremes(cols, e->table + s->alt[k] * cols, lo, hi);
    if (e->eps < 1)
        draw_near(cols, e->eps, x, lo, hi);
}

void batch_sets_extremes(const batch_sets *s, double eps, real *table, size_t cols)
{
    extremes_job e = {s, (real)eps, table, cols};
    pool_run(s->n_moving, extremes_piece, &e);
}

uint32_t batch_sets_argmin(const batch_sets *s, const real *table, size_t cols, uint32_t v,
                           size_t col)
{
    uint32_t best = v;
    for (uint32_t k = s->start[v]; k < s->start[v + 1]; k++)
        if (table[s->alt[k] * cols + col] < table[best * cols + col])
            best = s->alt[k];
    return best;
}

uint32_t batch_sets_argmax(const batch_sets *s, const real *table, size_t cols, uint32_t v,
                           size_t col)
{
    uint32_t best = v;
    for (uint32_t k = s->start[v]; k < s->start[v + 1]; k++)
        if (table[s->alt[k] * cols + col] > table[best * cols + col])
            best = s->alt[k];
    return best;
}

/* ---- gradients ---------------------------------------------------------------------------- */

SIMD_CLONES static void add_tokens(const token_gradients *g, size_t cols, size_t first, size_t n,
                                   real *dtable, double *RESTRICT sum)
{
    for (size_t i = 0; i < g->n; i++) {
        const real *RESTRICT centre = g->centre + i * g->ld,
                             *RESTRICT radius = g->radius + i * g->ld;
        real *lo = dtable + g->lo_row[i] * cols + first, *hi = dtable + g->hi_row[i] * cols + first;
        for (size_t j = 0; j < n; j++)
            lo[j] += (centre[j] - radius[j]) / 2;
        for (size_t j = 0; j < n; j++)
            hi[j] += (centre[j] + radius[j]) / 2;
        for (size_t j = 0; j < n; j++)
            sum[j] += (double)centre[j];
    }
}

void batch_sets_back(const batch_sets *s, double eps, const real *table, size_t cols, size_t first,
                     size_t n_cols, const token_gradients *g, real *dtable, double *sum)
{
    const real by = (real)eps;
    add_tokens(g, cols, first, n_cols, dtable, sum);
    for (size_t i = 0; i < s->n_moving; i++) {
        const uint32_t v = s->moving[i];
        const real *lo = dtable + (s->n_rows + i) * cols, *hi = lo + s->n_moving * cols;
        for (size_t j = first; j < first + n_cols; j++) {
            dtable[batch_sets_argmin(s, table, cols, v, j) * cols + j] += by * lo[j];
            dtable[batch_sets_argmax(s, table, cols, v, j) * cols + j] += by * hi[j];
            dtable[v * cols + j] += (1 - by) * (lo[j] + hi[j]);
        }
    }
}
