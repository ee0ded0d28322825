/* model/cnn_view.c - edits of one text without re-reading it.
 *
 * A changed word touches k windows of each kernel size k. The first edit of a text keeps the sum of every window (before bias
 * and ReLU, which are monotone and so may follow the maximum) and, per filter, the maximum over all windows
 * before and after each place; a variant then costs k window updates and two look-ups per filter, whatever the length of the
 * text. Between two edited places the maximum comes from blocks of windows. Opening a text keeps none of this: many texts
 * are asked for their own answer alone. */
#include <float.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "model/cnn.h"
#include "tensor/host/panel.h"
#include "tensor/kernels.h"

enum {
    BLOCK = 16,  /* windows a stored maximum */
    LANES = 128, /* filters handled at once, on the stack */
    PIECE = 32   /* variants a pool piece */
};
static const real lowest = -FLT_MAX;

typedef cnn_compiled compiled;

/* One kernel size of an opened text. */
typedef struct windows {
    size_t n;     /* windows */
    real *top;    /* (F): maximum over all windows */
    real *sum;    /* (n, F); this and the rest from the first edit on */
    real *before; /* (n + 1, F): maximum over windows < t */
    real *after;  /* (n + 1, F): maximum over windows >= t */
    real *block;  /* (ceil(n / BLOCK), F) */
} windows;

typedef struct view {
    stet_view base;
    const compiled *c;
    windows w[CNN_MAX_KERNELS];
    bool edited; /* windows are kept */
} view;

/* ---- opening a text ----------------------------------------------------------------------- */

stet_view *cnn_view_new(void)
{
    view *v = mem_zalloc(1, sizeof *v);
    return v ? &v->base : NULL;
}

static const real *tap(const compiled *c, uint32_t word, size_t kernel, size_t l)
{
    return c->word + word * c->width + c->first[kernel] + l * c->filters;
}

SIMD_CLONES
static void add_into(real *RESTRICT y, const real *RESTRICT x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

SIMD_CLONES
static void max_into(real *RESTRICT y, const real *RESTRICT x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > y[i] ? x[i] : y[i];
}

/* y = max(y, sum + (new - old)) */
SIMD_CLONES
static void max_swapped(real *RESTRICT y, const real *RESTRICT sum, const real *RESTRICT new,
                        const real *RESTRICT old, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const real x = sum[i] + (new[i] - old[i]);
        y[i] = x > y[i] ? x : y[i];
    }
}

static void fill(real *y, real x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x;
}

static void sum_window(const view *v, size_t kernel, size_t t, real *sum)
{
    const compiled *c = v->c;
    fill(sum, 0, c->filters);
    for (size_t l = 0; l < c->k[kernel] && t + l < v->base.n; l++) /* past the end are zeros */
        add_into(sum, tap(c, v->base.ids[t + l], kernel, l), c->filters);
}

static stet_status open_kernel(view *v, size_t kernel)
{
    const compiled *c = v->c;
    const size_t k = c->k[kernel], F = c->filters, len = v->base.n < k ? k : v->base.n;
    windows *w = &v->w[kernel];
    *w = (windows){.n = len - k + 1, .top = arena_new(&v->base.mem, real, F)};
    real *sum = arena_new(&v->base.mem, real, F);
    if (!w->top || !sum)
        return STET_ENOMEM;
    fill(w->top, lowest, F);
    for (size_t t = 0; t < w->n; t++) {
        sum_window(v, kernel, t, sum);
        max_into(w->top, sum, F);
    }
    return STET_OK;
}

static stet_status keep_windows(view *v, size_t kernel)
{
    const compiled *c = v->c;
    windows *w = &v->w[kernel];
    const size_t F = c->filters, n = w->n, blocks = (n + BLOCK - 1) / BLOCK;
    w->sum = arena_new(&v->base.mem, real, n * F);
    w->before = arena_new(&v->base.mem, real, (n + 1) * F);
    w->after = arena_new(&v->base.mem, real, (n + 1) * F);
    w->block = arena_new(&v->base.mem, real, blocks * F);
    if (!w->sum || !w->before || !w->after || !w->block)
        return STET_ENOMEM;
    fill(w->before, lowest, F);
    fill(w->after + n * F, lowest, F);
    fill(w->block, lowest, blocks * F);
    for (size_t t = 0; t < n; t++) {
        real *sum = w->sum + t * F;
        sum_window(v, kernel, t, sum);
        memcpy(w->before + (t + 1) * F, w->before + t * F, F * sizeof *sum);
        max_into(w->before + (t + 1) * F, sum, F);
        max_into(w->block + t / BLOCK * F, sum, F);
    }
    for (size_t t = n; t-- > 0;) {
        memcpy(w->after + t * F, w->after + (t + 1) * F, F * sizeof *w->after);
        max_into(w->after + t * F, w->sum + t * F, F);
    }
    return STET_OK;
}

stet_status cnn_view_open(stet_view *p)
{
    view *v = (view *)p;
    v->c = p->m->compiled;
    v->edited = false;
    TRY(cnn_need(p->m, p->ids, 1, p->n));
    for (size_t i = 0; i < v->c->n_kernels; i++)
        TRY(open_kernel(v, i));
    const size_t none[2] = {0, 0};
    return cnn_view_edits(p, NULL, none, 1, p->logits);
}

/* ---- edits -------------------------------------------------------------------------------- */

/* y = max(y, windows from..to) over filters f.. */
static void range_max(const windows *w, size_t F, size_t from, size_t to, size_t f, size_t lanes,
                      real *y)
{
    for (size_t t = from; t < to;) {
        if (t % BLOCK == 0 && t + BLOCK <= to) {
            max_into(y, w->block + t / BLOCK * F + f, lanes);
            t += BLOCK;
        } else {
            max_into(y, w->sum + t * F + f, lanes);
            t++;
        }
    }
}

/* The window sum at t with every edit that it covers. */
static void edited_window(const view *v, size_t kernel, size_t t, const stet_edit *e, size_t n,
                          size_t f, size_t lanes, real *y)
{
    const compiled *c = v->c;
    const windows *w = &v->w[kernel];
    const size_t k = c->k[kernel];
    const stet_edit *only = NULL;
    size_t covered = 0;
    for (size_t i = 0; i < n; i++)
        if (e[i].pos >= t && e[i].pos < t + k) {
            only = &e[i];
            covered++;
        }
    const real *sum = w->sum + t * c->filters + f;
    if (covered == 1) {
        const size_t l = only->pos - t;
        max_swapped(y, sum, tap(c, only->word, kernel, l) + f,
                    tap(c, v->base.ids[only->pos], kernel, l) + f, lanes);
        return;
    }
    real x[LANES];
    fill(x, 0, lanes);
    for (size_t l = 0; l < k && t + l < v->base.n; l++) {
        uint32_t word = v->base.ids[t + l];
        for (size_t i = 0; i < n; i++)
            if (e[i].pos == t + l)
                word = e[i].word;
        add_into(x, tap(c, word, kernel, l) + f, lanes);
    }
    max_into(y, x, lanes);
}

/* Maximum over time of `lanes` filters of one kernel, with the edits. Edits are cut into groups whose windows touch. */
static void pool_filters(const view *v, size_t kernel, const stet_edit *e, size_t n, size_t f,
                         size_t lanes, real *y)
{
    const windows *w = &v->w[kernel];
    const size_t F = v->c->filters, k = v->c->k[kernel];
    if (n == 0) {
        memcpy(y, w->top + f, lanes * sizeof *y);
        return;
    }
    fill(y, lowest, lanes);
    size_t done = 0; /* windows < done are in y */
    for (size_t i = 0; i < n;) {
        size_t j = i + 1;
        while (j < n && e[j].pos < e[j - 1].pos + k)
            j++;
        const size_t from = e[i].pos + 1 < k ? 0 : e[i].pos + 1 - k;
        const size_t last = e[j - 1].pos < w->n - 1 ? e[j - 1].pos : w->n - 1;
        if (i == 0)
            max_into(y, w->before + from * F + f, lanes);
        else
            range_max(w, F, done, from, f, lanes, y);
        for (size_t t = from; t <= last; t++)
            edited_window(v, kernel, t, e + i, j - i, f, lanes, y);
        done = last + 1;
        i = j;
    }
    max_into(y, w->after + done * F + f, lanes);
}

/* The same after bias and ReLU: features. */
static void pool_features(const view *v, size_t kernel, const stet_edit *e, size_t n, size_t f,
                          size_t lanes, real *y)
{
    const real *b = model_value(v->base.m, (int)(2 * kernel + 1)) + f;
    pool_filters(v, kernel, e, n, f, lanes, y);
    for (size_t j = 0; j < lanes; j++)
        y[j] = y[j] + b[j] > 0 ? y[j] + b[j] : 0;
}

static void variant_logits(const view *v, const stet_edit *e, size_t n, float *out)
{
    const model *m = v->base.m;
    const size_t F = v->c->filters, features = v->c->n_kernels * F;
    const real *fc = model_value(m, (int)m->n_params - 2),
               *bias = model_value(m, (int)m->n_params - 1);
    real y[LANES];
    for (size_t c = 0; c < m->n_classes; c++)
        out[c] = (float)bias[c];
    for (size_t i = 0; i < v->c->n_kernels; i++) {
        for (size_t f = 0; f < F; f += LANES) {
            const size_t lanes = F - f < LANES ? F - f : LANES;
            pool_features(v, i, e, n, f, lanes, y);
            for (size_t c = 0; c < m->n_classes; c++)
                out[c] += (float)vec_dot(y, fc + c * features + i * F + f, lanes);
        }
    }
}

typedef struct edits_job {
    const view *v;
    const stet_edit *edits;
    const size_t *start;
    size_t n;
    float *logits;
    atomic_bool failed; /* out of memory */
} edits_job;

/* The layers behind the maximum, for some texts at once: the weights of the one before the last are
 * read once. */
stet_status cnn_logits(const model *m, const real *y, size_t n, float *logits)
{
    const cnn_compiled *c = m->compiled;
    const size_t in = c->n_kernels * c->filters, units = c->dense ? panel_padded(c->dense) : in,
                 last = c->dense ? c->dense : in, K = m->n_classes;
    const real *fc = model_value(m, (int)m->n_params - 2),
               *bias = model_value(m, (int)m->n_params - 1);
    real *h = c->dense ? mem_aligned(n * units, sizeof *h) : NULL;
    if (c->dense && !h)
        return STET_ENOMEM;
    for (size_t j = 0; j < units && h; j += PANEL)
        panel_kernel()(n, in, (panel_left){y, in, 1},
                       (panel_right){c->dense_panels + j * in, PANEL}, (panel_start){.zero = true},
                       h + j, units);
    for (size_t i = 0; i < n; i++) {
        const real *x = y + i * in;
        if (h) {
            const real *b = model_value(m, cnn_dense(m) + 1);
            real *const own = h + i * units;
            for (size_t j = 0; j < c->dense; j++)
                own[j] = own[j] + b[j] > 0 ? own[j] + b[j] : 0;
            x = own;
        }
        for (size_t k = 0; k < K; k++)
            logits[i * K + k] = (float)(bias[k] + vec_dot(x, fc + k * last, last));
    }
    mem_free_aligned(h);
    return STET_OK;
}

/* Variants first .. end of a model with a layer before the last, together. */
static stet_status dense_logits(const edits_job *job, size_t first, size_t end)
{
    const view *v = job->v;
    const cnn_compiled *c = v->c;
    const size_t F = c->filters, in = c->n_kernels * F, n = end - first;
    real *y = mem_aligned(n * in, sizeof *y);
    if (!y)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const size_t *at = &job->start[first + i];
        for (size_t k = 0; k < c->n_kernels; k++)
            for (size_t f = 0; f < F; f += LANES)
                pool_features(v, k, job->edits + at[0], at[1] - at[0], f,
                              F - f < LANES ? F - f : LANES, y + i * in + k * F + f);
    }
    const stet_status st = cnn_logits(v->base.m, y, n, job->logits + first * v->base.m->n_classes);
    mem_free_aligned(y);
    return st;
}

static void edits_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    edits_job *j = ctx;
    const size_t end = (piece + 1) * PIECE < j->n ? (piece + 1) * PIECE : j->n;
    if (j->v->c->dense) {
        if (dense_logits(j, piece * PIECE, end) != STET_OK)
            atomic_store(&j->failed, true);
        return;
    }
    for (size_t i = piece * PIECE; i < end; i++)
        variant_logits(j->v, j->edits + j->start[i], j->start[i + 1] - j->start[i],
                       j->logits + i * j->v->base.m->n_classes);
}

stet_status cnn_view_edits(stet_view *p, const stet_edit *edits, const size_t *start, size_t n,
                           float *logits)
{
    view *v = (view *)p;
    if (start[n] > start[0])
        TRY(cnn_need(p->m, &edits[start[0]].word, sizeof *edits / sizeof edits->word,
                     start[n] - start[0]));
    for (size_t i = 0; start[n] > start[0] && !v->edited && i < v->c->n_kernels; i++)
        TRY(keep_windows(v, i));
    v->edited = v->edited || start[n] > start[0];
    edits_job j = {.v = v, .edits = edits, .start = start, .n = n, .logits = logits};
    pool_run((n + PIECE - 1) / PIECE, edits_piece, &j);
    return atomic_load(&j.failed) ? error_set(STET_ENOMEM, "out of memory for variants of a text")
                                  : STET_OK;
}
