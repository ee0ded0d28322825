/* tensor/cpu/conv_pool.c - one kernel size of a text CNN: convolution, ReLU and max over time.
 *
 * A window's response is the sum over its taps l of w[:, :, l] x, x being the row of the word under
 * the tap. Words repeat, so every distinct row is projected on all taps once, by one product
 * P = rows W^T (V, k F); a window is then a sum of k gathered stretches of P. Bias and ReLU are
 * monotone, so they come after the maximum. Filters are padded with zeros to whole vectors.
 *
 * The gradient of a maximum reaches one window: for each text and filter with a positive response,
 * k rows of the input. Nothing else is touched. */
#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

enum {
    LANE = 16,
    COLUMNS = 64
}; /* filters in a vector; columns of the input in a backward piece */

typedef struct conv {
    const seq_index *seq;
    size_t D, F, k;
    size_t Fp; /* F rounded up to whole vectors */
    const real *rows, *w, *b;
    real *taps;      /* (k, Fp, D): w by tap */
    real *projected; /* (V, k, Fp) */
    real *y;         /* (B, F) */
    uint32_t *won;   /* (B, F): first position of the winning window; NULL: not wanted */
    /* backward */
    real *g; /* (B, F): gradient of the response, 0 where ReLU cut it off */
    real *dw, *db, *drows;
} conv;

static conv conv_of(const node *n)
{
    const node *x = n->in[0], *w = n->in[1];
    conv c = {.seq = ((const conv_pool_args *)n->args)->seq};
    c.F = w->shape.dim[0];
    c.D = w->shape.dim[1];
    c.k = w->shape.dim[2];
    c.Fp = (c.F + LANE - 1) / LANE * LANE;
    c.rows = x->value;
    c.w = w->value;
    c.b = n->in[2]->value;
    c.y = n->value;
    return c;
}

static void pack_filter(void *ctx, size_t f, int worker)
{
    (void)worker;
    const conv *c = ctx;
    for (size_t l = 0; l < c->k; l++) {
        real *to = c->taps + (l * c->Fp + f) * c->D;
        for (size_t d = 0; d < c->D; d++)
            to[d] = f < c->F ? c->w[(f * c->D + d) * c->k + l] : 0;
    }
}

static stet_status pack_taps(conv *c, arena *mem)
{
    c->taps = arena_new(mem, real, c->k * c->Fp * c->D);
    if (!c->taps)
        return STET_ENOMEM;
    pool_run(c->Fp, pack_filter, c);
    return STET_OK;
}

/* Maximum over the windows of one text, for LANE filters at a time. `k` is a constant in the usual
 * cases, which unrolls the sum. A text shorter than k has one window, whose last taps see zeros. */
static ALWAYS_INLINE void pool_lanes(const uint32_t *row, size_t len, size_t k, const real *p,
                                     size_t ld, size_t tap, real *best, uint32_t *at)
{
    const size_t windows = len > k ? len - k + 1 : 1;
    const size_t taps = len < k ? len : k;
    for (int j = 0; j < LANE; j++) {
        real s = p[row[0] * ld + (size_t)j];
        for (size_t l = 1; l < taps; l++)
            s += p[row[l] * ld + l * tap + (size_t)j];
        best[j] = s;
        at[j] = 0;
    }
    for (size_t t = 1; t < windows; t++) {
        for (int j = 0; j < LANE; j++) {
            real s = p[row[t] * ld + (size_t)j];
            for (size_t l = 1; l < k; l++)
                s += p[row[t + l] * ld + l * tap + (size_t)j];
            at[j] = s > best[j] ? (uint32_t)t : at[j];
            best[j] = s > best[j] ? s : best[j];
        }
    }
}

SIMD_CLONES static void pool_text(const conv *c, size_t text)
{
    const uint32_t *start = c->seq->start + text;
    const uint32_t *row = c->seq->row + start[0];
    const size_t len = start[1] - start[0], ld = c->k * c->Fp;
    for (size_t f = 0; f < c->F; f += LANE) {
        real best[LANE];
        uint32_t at[LANE];
        const real *p = c->projected + f;
        switch (c->k) {
        case 3:
            pool_lanes(row, len, 3, p, ld, c->Fp, best, at);
            break;
        case 4:
            pool_lanes(row, len, 4, p, ld, c->Fp, best, at);
            break;
        case 5:
            pool_lanes(row, len, 5, p, ld, c->Fp, best, at);
            break;
        default:
            pool_lanes(row, len, c->k, p, ld, c->Fp, best, at);
            break;
        }
        for (size_t j = 0; j < LANE && f + j < c->F; j++) {
            const real s = best[j] + c->b[f + j];
            c->y[text * c->F + f + j] = s < 0 ? 0 : s; /* a NaN stays */
            if (c->won)
                c->won[text * c->F + f + j] = at[j];
        }
    }
}

static void pool_piece(void *ctx, size_t text, int worker)
{
    (void)worker;
    pool_text(ctx, text);
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
    TRY(pack_taps(&c, t->mem));
    const size_t V = c.seq->n_rows, cols = c.k * c.Fp;
    c.projected = arena_new(t->mem, real, V * cols);
    if (!c.projected)
        return STET_ENOMEM;
    gemm(false, true, V, cols, c.D, 1, c.rows, c.D, c.taps, c.D, 0, c.projected, cols);
    pool_run(c.seq->n_texts, pool_piece, &c);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* The row under tap l of the window that won for (text, filter); NULL: a zero beyond a short text.
 */
static ALWAYS_INLINE const uint32_t *won_row(const conv *c, size_t text, size_t f, size_t l)
{
    const uint32_t *start = c->seq->start + text;
    const size_t at = start[0] + c->won[text * c->F + f] + l;
    return at < start[1] ? c->seq->row + at : NULL;
}

/* One filter's weights: texts in order. */
SIMD_CLONES static void filter_gradient(const conv *c, size_t f, real *acc)
{
    const size_t D = c->D;
    for (size_t l = 0; l < c->k; l++) {
        memset(acc, 0, D * sizeof *acc);
        for (size_t text = 0; text < c->seq->n_texts; text++) {
            const real g = c->g[text * c->F + f];
            const uint32_t *row = won_row(c, text, f, l);
            if (g == 0 || !row)
                continue;
            const real *x = c->rows + *row * D;
            for (size_t d = 0; d < D; d++)
                acc[d] += g * x[d];
        }
        for (size_t d = 0; d < D; d++)
            c->dw[(f * D + d) * c->k + l] += acc[d];
    }
}

typedef struct filter_job {
    const conv *c;
    real *acc; /* (threads, D) */
} filter_job;

static void filter_piece(void *ctx, size_t f, int worker)
{
    const filter_job *job = ctx;
    filter_gradient(job->c, f, job->acc + (size_t)worker * job->c->D);
}

/* A stretch of columns of the input's gradient: pieces share no element. */
SIMD_CLONES static void rows_gradient(const conv *c, size_t first)
{
    const size_t n = c->D - first < COLUMNS ? c->D - first : COLUMNS;
    for (size_t text = 0; text < c->seq->n_texts; text++) {
        for (size_t f = 0; f < c->F; f++) {
            const real g = c->g[text * c->F + f];
            for (size_t l = 0; g != 0 && l < c->k; l++) {
                const uint32_t *row = won_row(c, text, f, l);
                if (!row)
                    break;
                real *RESTRICT to = c->drows + *row * c->D + first;
                const real *RESTRICT tap = c->taps + (l * c->Fp + f) * c->D + first;
                for (size_t d = 0; d < n; d++)
                    to[d] += g * tap[d];
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
    c.won = n->saved;
    c.drows = n->in[0]->grad;
    c.dw = n->in[1]->grad;
    c.db = n->in[2]->grad;
    const size_t B = c.seq->n_texts;
    const arena_mark scratch = arena_save(t->mem);
    c.g = arena_new(t->mem, real, B * c.F);
    if (!c.g)
        return STET_ENOMEM;
    for (size_t i = 0; i < B * c.F; i++)
        c.g[i] = c.y[i] > 0 ? n->grad[i] : 0;

    for (size_t i = 0; c.db && i < B * c.F; i++)
        c.db[i % c.F] += c.g[i];
    if (c.dw) {
        filter_job job = {&c, arena_new(t->mem, real, (size_t)stet_threads() * c.D)};
        if (!job.acc)
            return STET_ENOMEM;
        pool_run(c.F, filter_piece, &job);
    }
    if (c.drows) {
        TRY(pack_taps(&c, t->mem));
        pool_run((c.D + COLUMNS - 1) / COLUMNS, rows_piece, &c);
    }
    arena_restore(t->mem, scratch);
    return STET_OK;
}
