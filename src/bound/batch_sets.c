/* bound/batch_sets.c - see batch_sets.h. */
#include "bound/batch_sets.h"

#include <string.h>

#include "base/pool.h"
#include "base/simd.h"

/* ---- part of a batch ---------------------------------------------------------------------- */

stet_status batch_part(const batch *x, const uint32_t *text, size_t n, arena *mem, batch *out)
{
    const seq_index *q = &x->seq;
    const size_t count = 3 * n + 1 + q->n_tokens + q->n_rows;
    uint32_t *block = arena_new(mem, uint32_t, count), *start = block, *order = start + n + 1,
             *row = order + n, *word = row + q->n_tokens,
             *renumbered = arena_znew(mem, uint32_t, q->n_rows); /* row + 1 */
    if (!block || !renumbered)
        return STET_ENOMEM;
    int32_t *label = (int32_t *)(word + q->n_rows);
    size_t tokens = 0, n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        start[i] = (uint32_t)tokens;
        label[i] = x->label[text[i]];
        order[i] = x->order[text[i]];
        for (size_t t = q->start[text[i]]; t < q->start[text[i] + 1]; t++) {
            const uint32_t v = q->row[t];
            if (renumbered[v] == 0) {
                word[n_rows] = x->word[v];
                renumbered[v] = (uint32_t)++n_rows;
            }
            row[tokens++] = renumbered[v] - 1;
        }
    }
    start[n] = (uint32_t)tokens;
    *out = (batch){.seq = {n, tokens, n_rows, n ? start[1] : 0, start, row},
                   .order = order,
                   .word = word,
                   .label = label,
                   .block = block,
                   .block_bytes = count * sizeof *block};
    return STET_OK;
}

/* ---- making ------------------------------------------------------------------------------- */

/* Made on the host, in memory of the tape. */
static stet_status make_rows(const word_sets *s, tape *t, uint32_t *slot, batch *x)
{
    const size_t V = x->seq.n_rows, T = x->seq.n_tokens;
    size_t n_alt = 0;
    for (size_t v = 0; v < V; v++)
        n_alt += s->start[x->word[v] + 1] - s->start[x->word[v]];
    const size_t size = set_rows_size(V, T, n_alt);
    uint32_t *block = arena_new(t->mem, uint32_t, size);
    if (!block)
        return STET_ENOMEM;
    x->sets = s;
    x->set_rows = set_rows_at(block, V, T, n_alt);
    memcpy(block, x->word, V * sizeof *block);
    x->n_set = batch_number_sets(slot, s, &x->seq, &x->set_rows);
    tape_twin(t, x->block, x->block_bytes);
    tape_twin(t, block, (size - V) * sizeof *block); /* uploaded once, without the scratch */
    return STET_OK;
}

stet_status batch_sets_make(const word_sets *s, const pass *p, const batch *given, uint32_t *slot,
                            batch_sets *out)
{
    tape *t = p->t;
    batch x = *given;
    if (x.sets != s)
        TRY(make_rows(s, t, slot, &x));
    const set_rows *r = &x.set_rows;
    const size_t V = x.seq.n_rows, T = x.seq.n_tokens;
    *out = (batch_sets){.seq = &given->seq,
                        .rows = p->scores_alone ? NULL : pass_rows(p, r->word, x.n_set.n_rows),
                        .word = r->word,
                        .token_lo = r->lo,
                        .token_hi = r->hi,
                        .n_rows = x.n_set.n_rows,
                        .n_moving = x.n_set.n_moving,
                        .n_alt = x.n_set.n_alt,
                        .at = tape_seq(t, &given->seq),
                        .start = tape_twin(t, r->start, (V + 1) * sizeof *r->start),
                        .alt = tape_twin(t, r->alt, x.n_set.n_alt * sizeof *r->alt),
                        .moving = tape_twin(t, r->moving, x.n_set.n_moving * sizeof *r->moving),
                        .lo_row = tape_twin(t, r->lo, T * sizeof *r->lo),
                        .hi_row = tape_twin(t, r->hi, T * sizeof *r->hi)};
    return tape_status(t);
}

const batch_sets *batch_sets_cut(tape *t, const batch_sets *s, const spans *cut)
{
    batch_sets *out = arena_new(t->mem, batch_sets, 1);
    if (!out)
        tape_fail(t, STET_ENOMEM);
    if (!out || !cut->at)
        return s;
    const size_t bytes = s->seq->n_tokens * sizeof *s->token_lo;
    *out = *s;
    out->seq = cut->seq;
    out->at = tape_seq(t, cut->seq);
    out->token_lo = spans_tokens(t, cut, s->token_lo);
    out->token_hi = spans_tokens(t, cut, s->token_hi);
    out->lo_row = tape_twin(t, out->token_lo, bytes);
    out->hi_row = tape_twin(t, out->token_hi, bytes);
    return out;
}

/* ---- extremes ----------------------------------------------------------------------------- */

typedef struct extremes_job {
    const batch_sets *s;
    real eps;
    real *table;
    size_t cols;
    uint32_t *at;
} extremes_job;

SIMD_CLONES static void take_extremes(size_t n, const real *RESTRICT x, real *RESTRICT lo,
                                      real *RESTRICT hi)
{
    for (size_t j = 0; j < n; j++) {
        lo[j] = x[j] < lo[j] ? x[j] : lo[j];
        hi[j] = x[j] > hi[j] ? x[j] : hi[j];
    }
}

/* The same, noting which row it is. */
SIMD_CLONES static void note_extremes(size_t n, const real *RESTRICT x, uint32_t row,
                                      real *RESTRICT lo, real *RESTRICT hi,
                                      uint32_t *RESTRICT lo_at, uint32_t *RESTRICT hi_at)
{
    for (size_t j = 0; j < n; j++) {
        lo_at[j] = x[j] < lo[j] ? row : lo_at[j];
        hi_at[j] = x[j] > hi[j] ? row : hi_at[j];
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
    uint32_t *lo_at = e->at ? e->at + i * cols : NULL,
             *hi_at = e->at ? lo_at + s->n_moving * cols : NULL;
    memcpy(lo, x, cols * sizeof *lo);
    memcpy(hi, x, cols * sizeof *hi);
    for (size_t j = 0; e->at && j < cols; j++)
        lo_at[j] = hi_at[j] = (uint32_t)v;
    for (uint32_t k = s->start[v]; k < s->start[v + 1]; k++)
        if (e->at)
            note_extremes(cols, e->table + s->alt[k] * cols, s->alt[k], lo, hi, lo_at, hi_at);
        else
            take_extremes(cols, e->table + s->alt[k] * cols, lo, hi);
    if (e->eps < 1)
        draw_near(cols, e->eps, x, lo, hi);
}

void batch_sets_extremes(const batch_sets *s, double eps, real *table, size_t cols, uint32_t *at)
{
    extremes_job e = {s, (real)eps, table, cols, at};
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

/* Rows are read in strips and out of order, which no machine foresees: n entries of one that comes
 * AHEAD steps later. */
enum { AHEAD = 6 };
static ALWAYS_INLINE void fetch(const void *from, size_t n)
{
    enum { LINE = 64 };
    for (size_t at = 0; at < n * sizeof(real); at += LINE)
        __builtin_prefetch((const char *)from + at);
}

SIMD_CLONES static void add_tokens(const token_gradients *g, size_t cols, size_t first, size_t n,
                                   real *dtable, double *RESTRICT sum)
{
    for (size_t i = 0; i < g->n; i++) {
        const real *RESTRICT centre = g->centre + i * g->ld,
                             *RESTRICT radius = g->radius + i * g->ld;
        real *lo = dtable + g->lo_row[i] * cols + first, *hi = dtable + g->hi_row[i] * cols + first;
        const size_t next = i + AHEAD < g->n ? i + AHEAD : i;
        fetch(g->centre + next * g->ld, n);
        fetch(g->radius + next * g->ld, n);
        fetch(dtable + g->lo_row[next] * cols + first, n);
        fetch(dtable + g->hi_row[next] * cols + first, n);
        for (size_t j = 0; j < n; j++)
            lo[j] += (centre[j] - radius[j]) / 2;
        for (size_t j = 0; j < n; j++)
            hi[j] += (centre[j] + radius[j]) / 2;
        for (size_t j = 0; j < n; j++)
            sum[j] += (double)centre[j];
    }
}

void batch_sets_back(const batch_sets *s, double eps, const uint32_t *at, size_t cols, size_t first,
                     size_t n_cols, const token_gradients *g, real *dtable, double *sum)
{
    const real by = (real)eps;
    add_tokens(g, cols, first, n_cols, dtable, sum);
    for (size_t i = 0; i < s->n_moving; i++) {
        const uint32_t v = s->moving[i];
        const real *lo = dtable + (s->n_rows + i) * cols, *hi = lo + s->n_moving * cols;
        const uint32_t *lo_at = at + i * cols, *hi_at = lo_at + s->n_moving * cols;
        const size_t next = i + AHEAD < s->n_moving ? i + AHEAD : i, w = s->moving[next];
        fetch(dtable + (s->n_rows + next) * cols + first, n_cols);
        fetch(dtable + (s->n_rows + s->n_moving + next) * cols + first, n_cols);
        fetch(at + next * cols + first, n_cols);
        fetch(at + (s->n_moving + next) * cols + first, n_cols);
        fetch(dtable + w * cols + first, n_cols);
        for (uint32_t k = s->start[w]; k < s->start[w + 1]; k++)
            fetch(dtable + s->alt[k] * cols + first, n_cols);
        for (size_t j = first; j < first + n_cols; j++) {
            dtable[lo_at[j] * cols + j] += by * lo[j];
            dtable[hi_at[j] * cols + j] += by * hi[j];
            dtable[v * cols + j] += (1 - by) * (lo[j] + hi[j]);
        }
    }
}
