/* report/plot.c - see stet/plot.h: collects what is to be shown, finds the ranges, draws axes,
 * contents and legend. */
#include "stet/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "report/canvas.h"
#include "report/ticks.h"

typedef enum item_kind { ITEM_LINE, ITEM_HISTOGRAM, ITEM_HEAT, ITEM_MARK, ITEM_GUIDE } item_kind;

typedef struct item item;
struct item {
    item_kind kind;
    const char *name;
    size_t n; /* points, bins */
    double *x, *y, *spread;
    float *m; /* (rows, cols) */
    size_t rows, cols;
    stet_scale scale;
    double lo, hi; /* of the colours */
    int paint;
    item *next;
};

struct stet_plot {
    arena mem;
    stet_plot_options o; /* strings are own */
    item *first, *last;
    int n_series;
    bool heat;
    stet_status status;
};

/* ---- collecting --------------------------------------------------------------------------- */

static const char *own(stet_plot *p, const char *s)
{
    const char *copy = s ? arena_strndup(&p->mem, s, strlen(s)) : NULL;
    if (s && !copy)
        p->status = STET_ENOMEM;
    return copy;
}

stet_status stet_plot_new(const stet_plot_options *o, stet_plot **out)
{
    *out = NULL;
    stet_plot *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    p->o = *o;
    p->o.title = own(p, o->title);
    p->o.x_label = own(p, o->x_label);
    p->o.y_label = own(p, o->y_label);
    p->o.width = o->width > 0 ? o->width : 720;
    p->o.height = o->height > 0 ? o->height : 440;
    const char **names = o->n_x_names ? arena_znew(&p->mem, const char *, o->n_x_names) : NULL;
    if (o->n_x_names && !names)
        p->status = STET_ENOMEM;
    for (size_t i = 0; names && i < o->n_x_names; i++)
        names[i] = own(p, o->x_names[i]);
    p->o.x_names = names;
    if (p->status != STET_OK) {
        stet_plot_free(p);
        return STET_ENOMEM;
    }
    *out = p;
    return STET_OK;
}

void stet_plot_free(stet_plot *p)
{
    if (!p)
        return;
    arena_deinit(&p->mem);
    mem_free(p);
}

static item *add(stet_plot *p, item_kind kind, const char *name)
{
    item *it = p->status == STET_OK ? arena_znew(&p->mem, item, 1) : NULL;
    if (!it) {
        p->status = p->status == STET_OK ? STET_ENOMEM : p->status;
        return NULL;
    }
    it->kind = kind;
    it->name = own(p, name ? name : "");
    it->paint = kind == ITEM_MARK || kind == ITEM_GUIDE ? PAINT_INK : PAINT_SERIES + p->n_series++ % SERIES_COLOURS;
    *(p->first ? &p->last->next : &p->first) = it;
    p->last = it;
    return it;
}

static double *copy(stet_plot *p, const double *v, size_t n)
{
    double *own_copy = arena_new(&p->mem, double, n);
    if (!own_copy)
        p->status = STET_ENOMEM;
    else if (n)
        memcpy(own_copy, v, n * sizeof *v);
    return own_copy;
}

stet_status stet_plot_line(stet_plot *p, const char *name, const double *x, const double *y,
                           const double *spread, size_t n)
{
    item *it = add(p, ITEM_LINE, name);
    if (it) {
        it->n = n;
        it->x = copy(p, x, n);
        it->y = copy(p, y, n);
        it->spread = spread ? copy(p, spread, n) : NULL;
    }
    return p->status;
}

stet_status stet_plot_histogram(stet_plot *p, const char *name, const double *edge,
                                const double *height, size_t bins)
{
    item *it = add(p, ITEM_HISTOGRAM, name);
    if (it) {
        it->n = bins;
        it->x = copy(p, edge, bins + 1);
        it->y = copy(p, height, bins);
    }
    return p->status;
}

stet_status stet_plot_heat(stet_plot *p, const float *m, size_t rows, size_t cols, stet_scale scale,
                           double lo, double hi)
{
    if (p->status == STET_OK && (rows == 0 || cols == 0))
        p->status = error_set(STET_EUSAGE, "a heat map of %zu x %zu", rows, cols);
    item *it = add(p, ITEM_HEAT, NULL);
    if (it) {
        it->m = arena_new(&p->mem, float, rows *cols);
        it->rows = rows;
        it->cols = cols;
        it->scale = scale;
        it->lo = lo;
        it->hi = hi;
        p->heat = true;
        if (it->m)
            memcpy(it->m, m, rows * cols * sizeof *m);
        else
            p->status = STET_ENOMEM;
    }
    return p->status;
}

stet_status stet_plot_mark(stet_plot *p, double x, const char *name)
{
    item *it = add(p, ITEM_MARK, name);
    if (it)
        it->x = copy(p, &x, 1);
    return p->status;
}

stet_status stet_plot_guide(stet_plot *p, double x0, double y0, double x1, double y1)
{
    item *it = add(p, ITEM_GUIDE, NULL);
    if (it) {
        it->x = copy(p, (double[]){x0, x1}, 2);
        it->y = copy(p, (double[]){y0, y1}, 2);
    }
    return p->status;
}

/* ---- ranges ------------------------------------------------------------------------------- */

typedef struct axis {
    double lo, hi;   /* of the data */
    double from, to; /* on the canvas */
    stet_scale scale;
} axis;

static bool shown(double v, stet_scale scale)
{
    return isfinite(v) && (scale == STET_LINEAR || v > 0);
}

static void include(axis *a, double v)
{
    if (!shown(v, a->scale))
        return;
    a->lo = v < a->lo ? v : a->lo;
    a->hi = v > a->hi ? v : a->hi;
}

/* Room around the data; something where there is none. */
static void widen(axis *a, double share, bool from_zero)
{
    if (!(a->lo <= a->hi))
        a->lo = a->scale == STET_LOG ? 0.1 : 0, a->hi = 1;
    if (a->scale == STET_LOG) {
        const double by = a->hi > a->lo ? pow(a->hi / a->lo, share) : 2;
        a->lo /= by;
        a->hi *= by;
        return;
    }
    const double by = a->hi > a->lo ? share * (a->hi - a->lo) : fmax(0.5, 0.1 * fabs(a->hi));
    a->hi += by;
    a->lo = from_zero && a->lo >= 0 ? 0 : a->lo - by;
}

static void find_ranges(const stet_plot *p, axis *x, axis *y)
{
    bool bars = false;
    *x = (axis){INFINITY, -INFINITY, 0, 0, p->o.n_x_names ? STET_LINEAR : p->o.x_scale};
    *y = (axis){INFINITY, -INFINITY, 0, 0, p->o.y_scale};
    for (const item *it = p->first; it; it = it->next) {
        const size_t edges = it->kind == ITEM_HISTOGRAM ? it->n + 1
                             : it->kind == ITEM_LINE    ? it->n
                                                        : 0;
        for (size_t i = 0; i < edges; i++)
            include(x, it->x[i]);
        for (size_t i = 0; i < it->n; i++) {
            include(y, it->y[i]);
            if (it->spread && isfinite(it->spread[i])) {
                include(y, it->y[i] - it->spread[i]);
                include(y, it->y[i] + it->spread[i]);
            }
        }
        bars |= it->kind == ITEM_HISTOGRAM;
        if (it->kind == ITEM_HEAT) {
            *x = (axis){.lo = 0, .hi = (double)it->cols};
            *y = (axis){.lo = (double)it->rows, .hi = 0}; /* row 0 on top */
            return;
        }
    }
    if (p->o.x_lo < p->o.x_hi) {
        include(x, p->o.x_lo);
        include(x, p->o.x_hi);
    }
    if (p->o.y_lo < p->o.y_hi) {
        include(y, p->o.y_lo);
        include(y, p->o.y_hi);
    }
    if (p->o.n_x_names) {
        x->lo = -0.5;
        x->hi = (double)p->o.n_x_names - 0.5;
    } else {
        widen(x, bars ? 0 : 0.04, false);
    }
    widen(y, 0.06, bars);
}

static double place(const axis *a, double v)
{
    const double share =
        a->scale == STET_LOG ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
    return a->from + (a->to - a->from) * share;
}

/* ---- axes --------------------------------------------------------------------------------- */

static const double small = 12, large = 15;
enum { LEGEND_ROW = 18 };

static void line2(canvas *c, double x0, double y0, double x1, double y1, int paint, double width)
{
    canvas_line(c, (double[]){x0, y0, x1, y1}, 2, paint, width);
}

static void draw_axes(const stet_plot *p, canvas *c, const axis *x, const axis *y, bool bare)
{
    ticks t;
    ticks_make(fmin(y->lo, y->hi), fmax(y->lo, y->hi), y->scale, 6, &t);
    for (size_t i = 0; i < t.n; i++) {
        const double at = place(y, t.at[i]);
        if (!p->heat)
            line2(c, x->from, at, x->to, at, PAINT_FAINT, 1);
        canvas_text(c, x->from - 8, at + 4, small, ANCHOR_END, false, PAINT_INK, t.text[i]);
    }
    if (p->o.n_x_names) {
        for (size_t i = 0; i < p->o.n_x_names; i++)
            canvas_text(c, place(x, (double)i), y->from + 18, small, ANCHOR_MIDDLE, false,
                        PAINT_INK, p->o.x_names[i]);
    } else {
        ticks_make(x->lo, x->hi, x->scale, bare ? 5 : 8, &t);
        for (size_t i = 0; i < t.n; i++) {
            const double at = place(x, t.at[i]);
            line2(c, at, y->from, at, y->from + 4, PAINT_INK, 1);
            canvas_text(c, at, y->from + 18, small, ANCHOR_MIDDLE, false, PAINT_INK, t.text[i]);
        }
    }
    line2(c, x->from, y->from, x->to, y->from, PAINT_INK, 1);
    if (p->o.title && !bare)
        canvas_text(c, x->from, 24, large, ANCHOR_START, false, PAINT_INK, p->o.title);
    if (p->o.x_label)
        canvas_text(c, (x->from + x->to) / 2, c->height - 10, small, ANCHOR_MIDDLE, false,
                    PAINT_INK, p->o.x_label);
    if (p->o.y_label)
        canvas_text(c, 16, (y->from + y->to) / 2, small, ANCHOR_MIDDLE, true, PAINT_INK,
                    p->o.y_label);
}

/* The names of the series below the title, in as many rows as they need; how many more than one.
 * Without a canvas they are only counted. */
static int legend(const stet_plot *p, canvas *c, double left, double right)
{
    double at = left;
    int row = 0;
    for (const item *it = p->first; it; it = it->next) {
        if (it->kind > ITEM_HISTOGRAM || !*it->name)
            continue;
        const double wide = 32 + 0.62 * small * (double)strlen(it->name);
        if (at > left && at + wide > right)
            at = left, row++;
        if (c) {
            canvas_rect(c, at, 35 + LEGEND_ROW * row, 10, 10, it->paint, 1, NULL);
            canvas_text(c, at + 16, 44 + LEGEND_ROW * row, small, ANCHOR_START, false, PAINT_INK,
                        it->name);
        }
        at += wide;
    }
    return row;
}

/* ---- contents ----------------------------------------------------------------------------- */

static stet_status draw_line(const item *it, canvas *c, const axis *x, const axis *y, arena *mem)
{
    const arena_mark mark = arena_save(mem);
    double *xy = arena_new(mem, double, 2 * it->n + 2);
    if (!xy)
        return STET_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i <= it->n; i++) {
        if (i < it->n && shown(it->x[i], x->scale) && shown(it->y[i], y->scale)) {
            xy[2 * n] = place(x, it->x[i]);
            xy[2 * n++ + 1] = place(y, it->y[i]);
            continue;
        }
        if (n > 1)
            canvas_line(c, xy, n, it->paint, 2);
        n = 0;
    }
    for (size_t i = 0; i < it->n; i++) {
        if (!shown(it->x[i], x->scale) || !shown(it->y[i], y->scale))
            continue;
        const double px = place(x, it->x[i]), py = place(y, it->y[i]);
        const double lo = it->spread ? it->y[i] - it->spread[i] : 0,
                     hi = it->spread ? it->y[i] + it->spread[i] : 0;
        if (it->spread && shown(lo, y->scale) && shown(hi, y->scale))
            line2(c, px, place(y, lo), px, place(y, hi), it->paint, 1);
        char title[160];
        snprintf(title, sizeof title, "%.80s%s%.6g, %.6g", it->name, *it->name ? ": " : "",
                 it->x[i], it->y[i]);
        canvas_disc(c, px, py, 3.5, it->paint, title);
    }
    arena_restore(mem, mark);
    return STET_OK;
}

static void draw_histogram(const item *it, canvas *c, const axis *x, const axis *y)
{
    const double floor_at = place(y, y->lo);
    for (size_t i = 0; i < it->n; i++) {
        if (!shown(it->x[i], x->scale) || !shown(it->x[i + 1], x->scale) ||
            !shown(it->y[i], y->scale) || it->y[i] <= y->lo)
            continue;
        const double left = place(x, it->x[i]), right = place(x, it->x[i + 1]),
                     top = place(y, it->y[i]);
        char title[160];
        snprintf(title, sizeof title, "%.80s: %.4g to %.4g, %.4g", it->name, it->x[i], it->x[i + 1],
                 it->y[i]);
        canvas_rect(c, left, top, right - left, floor_at - top, it->paint, 0.5, title);
        line2(c, left, top, right, top, it->paint, 1);
    }
}

/* ---- heat maps ---------------------------------------------------------------------------- */

/* Dark blue to cream; brightness grows all the way, so that it also reads in grey. */
static rgb heat_colour(double share)
{
    static const double stop[][3] = {{13, 20, 54},   {26, 72, 118},  {27, 132, 136},
                                     {92, 180, 107}, {205, 214, 84}, {253, 247, 200}};
    enum { LAST = sizeof stop / sizeof *stop - 1 };
    const double at = fmin(fmax(share, 0), 1) * LAST;
    const size_t i = at < LAST ? (size_t)at : LAST - 1;
    const double f = at - (double)i;
    double v[3];
    for (int k = 0; k < 3; k++)
        v[k] = stop[i][k] + f * (stop[i + 1][k] - stop[i][k]);
    return (rgb){(uint8_t)v[0], (uint8_t)v[1], (uint8_t)v[2]};
}

static const double heat_decades =
    1e-6; /* what is this much below the largest entry has the darkest colour */

static axis heat_range(const item *it)
{
    axis a = {INFINITY, -INFINITY, 0, 1, it->scale};
    for (size_t i = 0; it->lo == it->hi && i < it->rows * it->cols; i++)
        include(&a, (double)it->m[i]);
    include(&a, it->lo == it->hi ? NAN : it->lo);
    include(&a, it->lo == it->hi ? NAN : it->hi);
    if (!(a.lo < a.hi))
        widen(&a, 0.1, false);
    if (a.scale == STET_LOG && a.lo < a.hi * heat_decades)
        a.lo = a.hi * heat_decades;
    return a;
}

static void draw_colour_bar(canvas *c, axis range, double x, const axis *y)
{
    enum { STEPS = 128 };
    rgb bar[STEPS];
    ticks t;
    for (int i = 0; i < STEPS; i++)
        bar[i] = heat_colour(1 - (double)i / (STEPS - 1));
    canvas_image(c, x, y->to, 14, y->from - y->to,
                 &(cells){.colour = bar, .rows = STEPS, .cols = 1}, NULL);
    range.from = y->from;
    range.to = y->to;
    ticks_make(range.lo, range.hi, range.scale, 6, &t);
    for (size_t i = 0; i < t.n; i++)
        canvas_text(c, x + 20, place(&range, t.at[i]) + 4, small, ANCHOR_START, false, PAINT_INK,
                    t.text[i]);
}

static stet_status draw_heat(const item *it, canvas *c, const axis *x, const axis *y, arena *mem)
{
    const arena_mark mark = arena_save(mem);
    const axis range = heat_range(it);
    rgb *cell = arena_new(mem, rgb, it->rows * it->cols);
    if (!cell)
        return STET_ENOMEM;
    for (size_t i = 0; i < it->rows * it->cols; i++) {
        const double v = (double)it->m[i];
        cell[i] = shown(v, range.scale) ? heat_colour(place(&range, fmax(v, range.lo)))
                                        : paint_light(PAINT_FAINT);
    }
    char title[160];
    snprintf(title, sizeof title, "%zu x %zu entries from %.4g to %.4g", it->rows, it->cols,
             range.lo, range.hi);
    canvas_image(
        c, x->from, y->to, x->to - x->from, y->from - y->to,
        &(cells){cell, it->rows, it->cols, it->m, range.lo, range.hi, range.scale == STET_LOG},
        title);
    arena_restore(mem, mark);
    draw_colour_bar(c, range, x->to + 16, y);
    return STET_OK;
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* `bare`: title and legend stand elsewhere. */
static stet_status draw(const stet_plot *p, canvas *c, arena *mem, bool bare)
{
    axis x, y;
    find_ranges(p, &x, &y);
    x.from = bare ? 62 : 76;
    x.to = c->width - (p->heat ? 84 : bare ? 14 : 24);
    y.from = c->height - (bare ? 46 : 56);
    y.to = bare ? 22 : 60 + LEGEND_ROW * legend(p, NULL, x.from, x.to);
    draw_axes(p, c, &x, &y, bare);
    for (const item *it = p->first; it; it = it->next)
        switch (it->kind) {
        case ITEM_LINE:
            TRY(draw_line(it, c, &x, &y, mem));
            break;
        case ITEM_HISTOGRAM:
            draw_histogram(it, c, &x, &y);
            break;
        case ITEM_HEAT:
            TRY(draw_heat(it, c, &x, &y, mem));
            break;
        case ITEM_GUIDE:
            line2(c, place(&x, it->x[0]), place(&y, it->y[0]), place(&x, it->x[1]),
                  place(&y, it->y[1]), PAINT_INK, 1);
            break;
        case ITEM_MARK:
            break;
        }
    for (const item *it = p->first; it; it = it->next)
        if (it->kind == ITEM_MARK && shown(it->x[0], x.scale) && it->x[0] >= x.lo &&
            it->x[0] <= x.hi) {
            line2(c, place(&x, it->x[0]), y.to - 4, place(&x, it->x[0]), y.from, PAINT_FAINT, 1);
            canvas_text(c, place(&x, it->x[0]) + 4, y.to - 6, small, ANCHOR_START, false, PAINT_INK,
                        it->name);
        }
    if (!bare)
        legend(p, c, x.from, x.to);
    return STET_OK;
}

stet_status stet_plot_save(const stet_plot *p, const char *path)
{
    TRY(p->status);
    const size_t n = strlen(path);
    if (n < 4 || strcmp(path + n - 4, ".svg") != 0)
        return error_set(STET_EUSAGE, "%s: expected a name that ends in .svg", path);
    canvas c;
    arena mem = {0};
    canvas_init(&c, p->o.width, p->o.height);
    stet_status st = draw(p, &c, &mem, false);
    if (st == STET_OK)
        st = canvas_save(&c, path);
    arena_deinit(&mem);
    canvas_deinit(&c);
    return st;
}

stet_status plot_part(const stet_plot *p, markup *out)
{
    TRY(p->status);
    canvas c;
    arena mem = {0};
    canvas_init_part(&c, p->o.width, p->o.height, p->o.title ? p->o.title : "");
    const stet_status st = draw(p, &c, &mem, true);
    if (st == STET_OK)
        canvas_take(&c, out);
    arena_deinit(&mem);
    canvas_deinit(&c);
    return st == STET_OK ? markup_status(out) : st;
}
