/* model/bilstm_view.c - edits of one text without re-reading it.
 *
 * Opening a text keeps the state of both directions before every word. A variant enters the forward direction at its first
 * edit and the backward direction at its last, and all variants advance together as one batch. A variant whose last edit
 * has passed and whose state has come back to the clean one, to within rounding, is done: from there on it reads what the clean
 * text reads. Each row of a step is computed by itself, so answers do not depend on who shares the batch.
 *
 * Where the classifier sees the largest or mean state, a variant takes over what the clean text has of the words
 * before its entry and, once it is done, of those that follow.
 *
 * Where the recurrence starts anew every few words (spans.h), each piece that has edits is a visit
 * of its own: the variant enters at the first of them and is done where the piece ends. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "model/bilstm.h"
#include "model/spans.h"
#include "tensor/kernels.h"

enum { PIECE = 96 };
/* A variant's state is compared with the clean one every so many steps: trained states take long to
 * come back, many never do, and comparing costs a tenth of a step. */
enum { LOOK_EVERY = 4 };
static const real same = (real)0x1p-22; /* states this near are the same up to rounding */

typedef bilstm_compiled compiled;

typedef struct view {
    stet_view base;
    const compiled *c;
    real *h[2], *s[2]; /* (n + 1, P): state and cell after reading i words of a direction */
    /* unless the last states count, (n + 1, P): the first i states together, and those that follow */
    real *before[2], *after[2];
} view;

/* ---- compile ------------------------------------------------------------------------------ */

static stet_status pack_cells(const model *m, compiled *c)
{
    const size_t H = c->H, G = c->G, P = c->P, each = G + G * H + P * 4 * H;
    c->block = mem_aligned(2 * each, sizeof *c->block);
    if (!c->block)
        return STET_ENOMEM;
    memset(c->block, 0, 2 * each * sizeof *c->block);
    for (int d = 0; d < 2; d++) {
        real *bias = c->block + (size_t)d * each, *u = bias + G, *u_back = u + G * H;
        const int first = d * LSTM_PER_DIRECTION;
        for (size_t j = 0; j < 4 * H; j++)
            bias[j] = model_value(m, first + LSTM_B_IH)[j] + model_value(m, first + LSTM_B_HH)[j];
        lstm_pack(H, model_value(m, first + LSTM_W_HH), u, u_back);
        c->cell[d] = (lstm_cell){H, G, P, bias, u, u_back};
    }
    return STET_OK;
}

static stet_status project_words(const model *m, compiled *c)
{
    for (int d = 0; d < 2; d++) {
        c->word[d] = mem_aligned(m->n_words * c->G, sizeof *c->word[d]);
        if (!c->word[d])
            return STET_ENOMEM;
        memset(c->word[d], 0, m->n_words * c->G * sizeof *c->word[d]);
        TRY(model_project_words(m, model_value(m, d * LSTM_PER_DIRECTION + LSTM_W_IH), true,
                                4 * c->H, c->word[d], c->G));
    }
    return STET_OK;
}

stet_status bilstm_compile(const model *m, void **out)
{
    compiled *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return STET_ENOMEM;
    c->H = (size_t)((const bilstm_cfg *)m->cfg)->hidden;
    c->pool = bilstm_pool_of(m);
    c->span = model_span(m);
    c->G = lstm_padded(4 * c->H);
    c->P = lstm_padded(c->H);
    stet_status st = pack_cells(m, c);
    if (st == STET_OK)
        st = project_words(m, c);
    if (st == STET_OK)
        *out = c;
    else
        bilstm_compiled_free(c);
    return st;
}

void bilstm_compiled_free(void *p)
{
    compiled *c = p;
    mem_free_aligned(c->block);
    mem_free_aligned(c->word[0]);
    mem_free_aligned(c->word[1]);
    mem_free(c);
}

/* ---- opening a text ----------------------------------------------------------------------- */

stet_view *bilstm_view_new(void)
{
    view *v = mem_zalloc(1, sizeof *v);
    return v ? &v->base : NULL;
}

/* The i-th word that direction d reads stands at this position. */
static size_t place(const view *v, int d, size_t i)
{
    return d ? v->base.n - 1 - i : i;
}

bool bilstm_starts(size_t span, size_t n, int d, size_t i)
{
    const size_t p = d ? n - 1 - i : i;
    return d ? p + 1 == span_end(span, n, p) : p == span_start(span, p);
}

static bool starts(const view *v, int d, size_t i)
{
    return bilstm_starts(v->c->span, v->base.n, d, i);
}

/* The step after the last of that piece, in direction d, which has the i-th word. */
static size_t piece_end(const view *v, int d, size_t i)
{
    const size_t p = place(v, d, i), span = v->c->span, n = v->base.n;
    return d ? n - span_start(span, p) : span_end(span, n, p);
}

void bilstm_pool_none(bilstm_pool pool, size_t n, real *all)
{
    for (size_t i = 0; i < n; i++)
        all[i] = pool == POOL_MAX ? (real)-INFINITY : 0;
}

SIMD_CLONES
void bilstm_pool_add(bilstm_pool pool, size_t n, const real *RESTRICT h, real *RESTRICT all)
{
    if (pool == POOL_MEAN)
        for (size_t i = 0; i < n; i++)
            all[i] += h[i];
    else
        for (size_t i = 0; i < n; i++)
            all[i] = h[i] > all[i] || h[i] != h[i] ? h[i] : all[i]; /* NaN stays NaN */
}

static void pool_clean(view *v, int d)
{
    const compiled *c = v->c;
    const size_t P = c->P, n = v->base.n;
    real *before = v->before[d], *after = v->after[d];
    bilstm_pool_none(c->pool, P, before);
    bilstm_pool_none(c->pool, P, after + n * P);
    for (size_t i = 0; i < n; i++) {
        const size_t back = n - 1 - i;
        memcpy(before + (i + 1) * P, before + i * P, P * sizeof *before);
        bilstm_pool_add(c->pool, P, v->h[d] + (i + 1) * P, before + (i + 1) * P);
        memcpy(after + back * P, after + (back + 1) * P, P * sizeof *after);
        bilstm_pool_add(c->pool, P, v->h[d] + (back + 1) * P, after + back * P);
    }
}

static void read_clean(void *ctx, size_t d, int worker)
{
    (void)worker;
    view *v = ctx;
    const compiled *c = v->c;
    const size_t P = c->P;
    real *z = v->h[d] + (v->base.n + 1) * P; /* scratch behind the states */
    memset(v->h[d], 0, P * sizeof *v->h[d]);
    memset(v->s[d], 0, P * sizeof *v->s[d]);
    for (size_t i = 0; i < v->base.n; i++) {
        const real *x = c->word[d] + v->base.ids[place(v, (int)d, i)] * c->G;
        const size_t from = starts(v, (int)d, i) ? 0 : i * P; /* the first state is zero */
        real *h = v->h[d] + (i + 1) * P, *s = v->s[d] + (i + 1) * P;
        memcpy(h, v->h[d] + from, P * sizeof *h);
        memcpy(s, v->s[d] + from, P * sizeof *s);
        lstm_step_read(&c->cell[d], 1, &x, h, s, z);
    }
    if (c->pool != POOL_LAST)
        pool_clean(v, (int)d);
}

void bilstm_head(const model *m, size_t n, const real *forward, const real *backward, float *out)
{
    const compiled *c = m->compiled;
    const size_t H = c->H;
    const real *fc = model_value(m, (int)m->n_params - 2),
               *bias = model_value(m, (int)m->n_params - 1);
    const real share = c->pool == POOL_MEAN ? 1 / (real)n : 1;
    for (size_t k = 0; k < m->n_classes; k++)
        out[k] = (float)((vec_dot(fc + k * 2 * H, forward, H) +
                          vec_dot(fc + k * 2 * H + H, backward, H)) *
                             share +
                         bias[k]);
}

/* What the classifier sees of the text as it is. */
static const real *clean_end(const view *v, int d)
{
    return (v->c->pool == POOL_LAST ? v->h[d] : v->before[d]) + v->base.n * v->c->P;
}

stet_status bilstm_view_open(stet_view *p)
{
    view *v = (view *)p;
    const compiled *c = v->c = p->m->compiled;
    const size_t n = p->n;
    for (int d = 0; d < 2; d++) {
        v->h[d] = arena_new(&v->base.mem, real, (n + 1) * c->P + c->G);
        v->s[d] = arena_new(&v->base.mem, real, (n + 1) * c->P);
        if (!v->h[d] || !v->s[d])
            return STET_ENOMEM;
        if (c->pool == POOL_LAST)
            continue;
        v->before[d] = arena_new(&v->base.mem, real, (n + 1) * c->P);
        v->after[d] = arena_new(&v->base.mem, real, (n + 1) * c->P);
        if (!v->before[d] || !v->after[d])
            return STET_ENOMEM;
    }
    pool_run(2, read_clean, v);
    bilstm_head(p->m, n, clean_end(v, 0), clean_end(v, 1), v->base.logits);
    return STET_OK;
}

/* ---- edits -------------------------------------------------------------------------------- */

/* What one pool piece works in. */
typedef struct scratch {
    real *h, *s;   /* (PIECE, P): states of the active rows */
    real *z;       /* (PIECE, G) */
    real *last[2]; /* (PIECE, P): what the classifier sees of the variants */
    const real *x[PIECE];
    size_t variant[PIECE]; /* which variant each active row is */
    size_t due[PIECE];     /* the step at which each variant enters next; or the end */
} scratch;

typedef struct edits_job {
    const view *v;
    const stet_edit *edits;
    const size_t *start;
    size_t n;
    float *logits;
    scratch *work; /* one per worker */
} edits_job;

/* The first step of direction d, from `step` on, that reads an edit of variant i; n: none does. */
static size_t next_edit(const edits_job *j, int d, size_t i, size_t step)
{
    const size_t n = j->v->base.n, from = j->start[i], to = j->start[i + 1];
    for (size_t k = 0; k < to - from; k++) {
        const size_t pos = j->edits[d ? to - 1 - k : from + k].pos, at = d ? n - 1 - pos : pos;
        if (at >= step)
            return at;
    }
    return n;
}

static uint32_t word_at(const edits_job *j, size_t i, size_t pos)
{
    for (size_t e = j->start[i]; e < j->start[i + 1]; e++)
        if (j->edits[e].pos == pos)
            return j->edits[e].word;
    return j->v->base.ids[pos];
}

SIMD_CLONES
static real distance(const real *RESTRICT a, const real *RESTRICT b, size_t n)
{
    real worst = 0;
    for (size_t i = 0; i < n; i++) {
        const real d = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
        worst = d > worst ? d : worst;
    }
    return worst;
}

static bool came_back(const view *v, int d, size_t step, const real *h, const real *s)
{
    const size_t P = v->c->P, H = v->c->H;
    return distance(h, v->h[d] + step * P, H) <= same && distance(s, v->s[d] + step * P, H) <= same;
}

/* Variants of [from, to) whose next edit is read at this step become rows `active` and on. */
static size_t enter(const edits_job *j, int d, size_t from, size_t to, size_t step, size_t active,
                    scratch *w)
{
    const view *v = j->v;
    const size_t P = v->c->P, before = starts(v, d, step) ? 0 : step * P;
    for (size_t i = from; i < to; i++) {
        if (w->due[i - from] != step)
            continue;
        if (v->c->pool != POOL_LAST && next_edit(j, d, i, 0) == step)
            memcpy(w->last[d] + (i - from) * P, v->before[d] + step * P, P * sizeof *w->h);
        memcpy(w->h + active * P, v->h[d] + before, P * sizeof *w->h);
        memcpy(w->s + active * P, v->s[d] + before, P * sizeof *w->s);
        w->variant[active++] = i;
    }
    return active;
}

/* A variant reads what the clean text reads, from `step` to its next edit. */
static void skip(const edits_job *j, int d, size_t from, size_t i, size_t step, scratch *w)
{
    const view *v = j->v;
    const size_t P = v->c->P, next = next_edit(j, d, i, step);
    real *last = w->last[d] + (i - from) * P;
    w->due[i - from] = next;
    if (v->c->pool == POOL_LAST)
        return;
    if (next == v->base.n)
        bilstm_pool_add(v->c->pool, P, v->after[d] + step * P, last);
    for (; next < v->base.n && step < next; step++)
        bilstm_pool_add(v->c->pool, P, v->h[d] + (step + 1) * P, last);
}

/* After a step, rows leave that have read their last edit of the piece and are the clean text again,
 * or whose piece has ended. How many go on. */
static size_t leave(const edits_job *j, int d, size_t from, size_t step, size_t active, scratch *w)
{
    const view *v = j->v;
    const size_t P = v->c->P;
    const size_t end = piece_end(v, d, step);
    const bool ends = step + 1 == end && end < v->base.n,
               look = step % LOOK_EVERY == LOOK_EVERY - 1;
    for (size_t r = 0; (ends || look) && r < active;) {
        const size_t i = w->variant[r];
        if (!ends && (next_edit(j, d, i, step + 1) < end ||
                      !came_back(v, d, step + 1, w->h + r * P, w->s + r * P))) {
            r++;
            continue;
        }
        skip(j, d, from, i, step + 1, w);
        active--; /* the last row takes its place */
        w->variant[r] = w->variant[active];
        memcpy(w->h + r * P, w->h + active * P, P * sizeof *w->h);
        memcpy(w->s + r * P, w->s + active * P, P * sizeof *w->s);
    }
    return active;
}

/* The first step at which one of n variants enters; or beyond the text. */
static size_t first_due(const scratch *w, size_t n, size_t beyond)
{
    for (size_t i = 0; i < n; i++)
        beyond = w->due[i] < beyond ? w->due[i] : beyond;
    return beyond;
}

/* Run direction d of variants [from, to); what the classifier sees of them goes to w->last[d]. */
static void run_direction(const edits_job *j, int d, size_t from, size_t to, scratch *w)
{
    const view *v = j->v;
    const size_t P = v->c->P;
    const bilstm_pool pool = v->c->pool;
    for (size_t i = from; i < to; i++) {
        memcpy(w->last[d] + (i - from) * P, clean_end(v, d), P * sizeof *w->h);
        w->due[i - from] = next_edit(j, d, i, 0);
    }
    size_t active = 0;
    for (size_t step = first_due(w, to - from, v->base.n); step < v->base.n;
         step = active ? step + 1 : first_due(w, to - from, v->base.n)) {
        active = enter(j, d, from, to, step, active, w);
        const size_t pos = place(v, d, step);
        for (size_t r = 0; r < active; r++)
            w->x[r] = v->c->word[d] + word_at(j, w->variant[r], pos) * v->c->G;
        lstm_step_read(&v->c->cell[d], active, w->x, w->h, w->s, w->z);
        for (size_t r = 0; pool != POOL_LAST && r < active; r++)
            bilstm_pool_add(pool, P, w->h + r * P, w->last[d] + (w->variant[r] - from) * P);
        active = leave(j, d, from, step, active, w);
    }
    for (size_t r = 0; pool == POOL_LAST && r < active; r++)
        memcpy(w->last[d] + (w->variant[r] - from) * P, w->h + r * P, P * sizeof *w->h);
}

static void edits_piece(void *ctx, size_t piece, int worker)
{
    const edits_job *j = ctx;
    scratch *w = &j->work[worker];
    const size_t from = piece * PIECE, to = from + PIECE < j->n ? from + PIECE : j->n,
                 P = j->v->c->P, K = j->v->base.m->n_classes;
    run_direction(j, 0, from, to, w);
    run_direction(j, 1, from, to, w);
    for (size_t i = from; i < to; i++)
        bilstm_head(j->v->base.m, j->v->base.n, w->last[0] + (i - from) * P,
                    w->last[1] + (i - from) * P, j->logits + i * K);
}

static bool scratch_init(arena *a, const compiled *c, scratch *w)
{
    w->h = arena_znew(a, real, PIECE * c->P);
    w->s = arena_znew(a, real, PIECE * c->P);
    w->z = arena_new(a, real, PIECE * c->G);
    w->last[0] = arena_new(a, real, PIECE * c->P);
    w->last[1] = arena_new(a, real, PIECE * c->P);
    return w->h && w->s && w->z && w->last[0] && w->last[1];
}

stet_status bilstm_view_edits(stet_view *p, const stet_edit *edits, const size_t *start, size_t n,
                              float *logits)
{
    view *v = (view *)p;
    const arena_mark mark = arena_save(&v->base.mem);
    const size_t workers = (size_t)stet_threads();
    edits_job j = {v, edits, start, n, logits, arena_new(&v->base.mem, scratch, workers)};
    bool ok = j.work != NULL;
    for (size_t i = 0; ok && i < workers; i++)
        ok = scratch_init(&v->base.mem, v->c, &j.work[i]);
    if (ok)
        pool_run((n + PIECE - 1) / PIECE, edits_piece, &j);
    arena_restore(&v->base.mem, mark);
    return ok ? STET_OK : STET_ENOMEM;
}
