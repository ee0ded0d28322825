/* certify/cert_cnn_windows.c - the range of every window sum over all choices of words.
 *
 * Positions are chosen independently, so a window's range is the sum of its positions' ranges, and
 * those come from trying every word: exact. With a budget of r words at most r of the window's
 * positions leave their reference. The words of a text stream through a ring of as many positions
 * as the widest kernel has taps. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "certify/cert_cnn.h"

/* Ranges of the last positions, by position modulo the length of the ring. */
typedef struct ring {
    size_t n;
    const real **lo, **hi, **ref; /* (n) rows of width, or NULL: the zero vector */
    real *room;                   /* (n, 2, width) */
} ring;

SIMD_CLONES
static void add_ends(real *RESTRICT lo, real *RESTRICT hi, const real *RESTRICT l,
                     const real *RESTRICT h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lo[i] += l[i];
        hi[i] += h[i];
    }
}

/* Widen a finished window by our rounding; keep the largest ends. */
SIMD_CLONES
static void finish_ends(real *RESTRICT lo, real *RESTRICT hi, const real *RESTRICT pad,
                        real *RESTRICT top_lo, real *RESTRICT top_hi, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lo[i] -= pad[i];
        hi[i] += pad[i];
        top_lo[i] = lo[i] > top_lo[i] ? lo[i] : top_lo[i];
        top_hi[i] = hi[i] > top_hi[i] ? hi[i] : top_hi[i];
    }
}

static void read_position(const cnn_work *w, ring *g, size_t p)
{
    const cert_task *t = w->t;
    const size_t slot = p % g->n, width = w->s->c->width;
    if (p >= t->n) { /* words past the end are zero vectors */
        g->lo[slot] = g->hi[slot] = g->ref[slot] = NULL;
        return;
    }
    const real *word = w->s->c->word;
    const uint32_t *set = t->word + t->start[p];
    const size_t count = t->start[p + 1] - t->start[p];
    g->lo[slot] = g->hi[slot] = g->ref[slot] = word + set[0] * width;
    if (count == 1)
        return;
    g->lo[slot] = cnn_hull(w->s, set, count, g->room + slot * 2 * width);
    g->hi[slot] = g->lo[slot] + width;
}

static void window_any(const cnn_work *w, const ring *g, size_t kernel, size_t t, real *lo,
                       real *hi)
{
    const cnn_compiled *c = w->s->c;
    for (size_t l = 0; l < c->k[kernel]; l++) {
        const size_t slot = (t + l) % g->n, at = c->first[kernel] + l * c->filters;
        if (g->lo[slot])
            add_ends(lo, hi, g->lo[slot] + at, g->hi[slot] + at, c->filters);
    }
}

double cnn_sum_of_largest(double *x, size_t n, size_t keep)
{
    double sum = 0;
    for (size_t i = 0; i < n && i < keep; i++) {
        size_t best = i;
        for (size_t j = i + 1; j < n; j++)
            best = x[j] > x[best] ? j : best;
        const double top = x[best];
        x[best] = x[i];
        x[i] = top;
        sum += top;
    }
    return sum;
}

/* At most the budget's number of paid positions leave their reference; the others are free to. */
static void window_limited(const cnn_work *w, const ring *g, size_t kernel, size_t t, real *lo,
                           real *hi)
{
    const cnn_compiled *c = w->s->c;
    const cert_task *task = w->t;
    for (size_t f = 0; f < c->filters; f++) {
        double down[CNN_MAX_TAPS], up[CNN_MAX_TAPS], low = lo[f], high = hi[f];
        size_t paid = 0;
        for (size_t l = 0; l < c->k[kernel]; l++) {
            const size_t slot = (t + l) % g->n, at = c->first[kernel] + l * c->filters + f;
            if (!g->lo[slot])
                continue;
            const bool free = task->unpaid && task->unpaid[t + l];
            const double ref = g->ref[slot][at], below = ref - g->lo[slot][at];
            const double above = g->hi[slot][at] - ref;
            low += free ? ref - below : ref;
            high += free ? ref + above : ref;
            down[paid] = below;
            up[paid] = above;
            paid += !free;
        }
        lo[f] = (real)(low - cnn_sum_of_largest(down, paid, task->budget));
        hi[f] = (real)(high + cnn_sum_of_largest(up, paid, task->budget));
    }
}

/* Has window t more positions to pay for than the budget allows? */
static bool exceeds_budget(const cnn_work *w, size_t kernel, size_t t)
{
    const cert_task *task = w->t;
    size_t paid = 0;
    for (size_t p = t; w->limited && p < t + w->s->c->k[kernel] && p < task->n; p++)
        paid += task->start[p + 1] - task->start[p] > 1 && !(task->unpaid && task->unpaid[p]);
    return paid > task->budget;
}

static void finish_window(const cnn_work *w, const ring *g, size_t kernel, size_t t, real *top_lo,
                          real *top_hi)
{
    const size_t F = w->s->c->filters;
    const cnn_ranges *r = &w->r[kernel];
    real *lo = r->lo + t * F, *hi = r->hi + t * F;
    memcpy(lo, cnn_bias(w, kernel), F * sizeof *lo);
    memcpy(hi, cnn_bias(w, kernel), F * sizeof *hi);
    if (exceeds_budget(w, kernel, t))
        window_limited(w, g, kernel, t, lo, hi);
    else
        window_any(w, g, kernel, t, lo, hi);
    finish_ends(lo, hi, w->pad + kernel * F, top_lo + kernel * F, top_hi + kernel * F, F);
}

static stet_status make_room(cnn_work *w, ring *g)
{
    const cnn_compiled *c = w->s->c;
    for (size_t i = 0; i < c->n_kernels; i++) {
        cnn_ranges *r = &w->r[i];
        r->n = w->t->n < c->k[i] ? 1 : w->t->n - c->k[i] + 1;
        r->lo = arena_new(&w->mem, real, r->n * c->filters);
        r->hi = arena_new(&w->mem, real, r->n * c->filters);
        if (!r->lo || !r->hi)
            return STET_ENOMEM;
    }
    g->n = w->s->longest;
    g->lo = arena_new(&w->mem, const real *, g->n);
    g->hi = arena_new(&w->mem, const real *, g->n);
    g->ref = arena_new(&w->mem, const real *, g->n);
    g->room = arena_new(&w->mem, real, g->n * 2 * c->width);
    return g->lo && g->hi && g->ref && g->room ? STET_OK : STET_ENOMEM;
}

stet_status cnn_windows(cnn_work *w)
{
    const cnn_shared *s = w->s;
    ring g;
    if (w->windows)
        return STET_OK;
    TRY(cnn_need(s->m, w->t->word, 1, w->t->start[w->t->n]));
    TRY(make_room(w, &g));
    const arena_mark scratch = arena_save(&w->mem);
    real *top_lo = arena_znew(&w->mem, real, s->features);
    real *top_hi = arena_znew(&w->mem, real, s->features); /* from 0: the ReLU */
    if (!top_lo || !top_hi)
        return STET_ENOMEM;
    const size_t end = w->t->n < s->longest ? s->longest : w->t->n;
    for (size_t p = 0; p < end; p++) {
        read_position(w, &g, p);
        for (size_t i = 0; i < s->c->n_kernels; i++)
            if (p + 1 >= s->c->k[i] && p + 1 - s->c->k[i] < w->r[i].n)
                finish_window(w, &g, i, p + 1 - s->c->k[i], top_lo, top_hi);
    }
    for (size_t f = 0; f < s->features; f++) {
        w->lo[f] = top_lo[f];
        w->hi[f] = top_hi[f];
    }
    w->windows = true;
    arena_restore(&w->mem, scratch);
    return STET_OK;
}

SIMD_CLONES
static void add_row(real *RESTRICT sum, const real *RESTRICT x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i];
}

SIMD_CLONES
static void keep_largest(real *RESTRICT top, uint32_t *RESTRICT at, const real *RESTRICT x,
                         uint32_t t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = x[i] > top[i] ? t : at[i];
        top[i] = x[i] > top[i] ? x[i] : top[i];
    }
}

stet_status cnn_winners(cnn_work *w, const uint32_t *ids, real *top, uint32_t *at)
{
    const cnn_compiled *c = w->s->c;
    const size_t F = c->filters, n = w->t->n;
    const arena_mark scratch = arena_save(&w->mem);
    real *sum = arena_new(&w->mem, real, F);
    if (!sum)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n_kernels; i++) {
        for (size_t f = 0; f < F; f++)
            top[i * F + f] = -INFINITY;
        for (size_t t = 0; t < w->r[i].n; t++) {
            memcpy(sum, cnn_bias(w, i), F * sizeof *sum);
            for (size_t l = 0; l < c->k[i] && t + l < n; l++)
                add_row(sum, cnn_tap(c, ids[t + l], i, l), F);
            keep_largest(top + i * F, at + i * F, sum, (uint32_t)t, F);
        }
    }
    arena_restore(&w->mem, scratch);
    return STET_OK;
}
