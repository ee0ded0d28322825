/* sweep/sweep_plot.c - see sweep_impl.h: what was measured, as plots. */
#include <math.h>

#include "stet/plot.h"
#include "sweep/sweep_impl.h"

/* ---- over the last axis ------------------------------------------------------------------- */

/* "test, lambda 2": the measure, and the values of the axes before the one that is drawn over. */
static void name_line(const sweep_grid *g, size_t cell, size_t over, int m, char *out, size_t size)
{
    char settings[256];
    sweep_cell_name(g, cell, over, settings, sizeof settings);
    snprintf(out, size, "%s%s%s", stet_sweep_numbers()[m].name, *settings ? ", " : "", settings);
}

/* Measures `from` to `to` over the last axis swept over, a line for each combination of the others:
 * as this axis is the fastest, a line is a stretch of cells. */
static void add_lines(stet_plot *p, const sweep_grid *g, size_t over, int from, int to)
{
    const size_t n = g->axis[over].n;
    for (int m = from; m <= to; m++)
        for (size_t first = 0; first < g->cells; first += n) {
            const double unit = stet_sweep_numbers()[m].share ? 100 : 1;
            double at[SWEEP_MOST], y[SWEEP_MOST], spread[SWEEP_MOST];
            bool any = false;
            for (size_t i = 0; i < n; i++) {
                stet_sweep_cell c;
                sweep_cell_at(g, first + i, &c);
                at[i] = (double)i;
                y[i] = unit * c.mean[m];
                spread[i] = unit * c.spread[m];
                any |= isfinite(y[i]);
            }
            char name[320];
            name_line(g, first, over, m, name, sizeof name);
            if (any)
                stet_plot_line(p, name, at, y, spread, n);
        }
}

static stet_status save_plot(stet_plot *p, const char *out, const char *name)
{
    char path[SWEEP_PATH + 32];
    snprintf(path, sizeof path, "%s/%s.svg", out, name);
    const stet_status st = stet_plot_save(p, path);
    stet_plot_free(p);
    return st;
}

static stet_status plot(const sweep *s, const char *name, const char *title, int from, int to)
{
    const sweep_grid *g = s->g;
    size_t over = SWEEP_SEED - 1;
    while (!g->axis[over].v[0])
        over--;
    const bool shares = stet_sweep_numbers()[from].share;
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = title,
                                           .x_label = g->def[over].name,
                                           .y_label = shares ? "accuracy (%)" : "sum of M",
                                           .y_scale = shares ? STET_LINEAR : STET_LOG,
                                           .x_names = g->axis[over].v,
                                           .n_x_names = g->axis[over].n},
                      &p));
    add_lines(p, g, over, from, to);
    return save_plot(p, s->a.out, name);
}

stet_status sweep_plots(const sweep *s)
{
    if (s->a.attack || s->certify)
        TRY(plot(s, "accuracy", "Accuracy", STET_SWEEP_SAMPLE, STET_SWEEP_CERTIFIED));
    else
        TRY(plot(s, "accuracy", "Clean accuracy", STET_SWEEP_VALID, STET_SWEEP_TEST));
    return plot(s, "gbm", "Growth bounds", STET_SWEEP_GBM, STET_SWEEP_LOGITS);
}

/* ---- the frontier ------------------------------------------------------------------------- */

/* A place for every cell, and one that is not a number after it where points stand alone. */
typedef struct dots {
    double *x, *y, *spread;
    size_t n;
} dots;

static dots dots_in(double *room, size_t most)
{
    return (dots){room, room + 2 * most, room + 4 * most, 0};
}

static void dots_add(dots *d, const stet_sweep_cell *c, bool alone)
{
    d->x[d->n] = 100 * c->mean[STET_SWEEP_SAMPLE];
    d->y[d->n] = 100 * c->mean[STET_SWEEP_CERTIFIED];
    d->spread[d->n++] = 100 * c->spread[STET_SWEEP_CERTIFIED];
    if (alone)
        d->x[d->n] = d->y[d->n] = d->spread[d->n] = NAN, d->n++;
}

static void dots_draw(const dots *d, stet_plot *p, const char *name)
{
    if (d->n)
        stet_plot_line(p, name, d->x, d->y, d->spread, d->n);
}

static bool is_among(size_t cell, const size_t *chosen, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (chosen[k] == cell)
            return true;
    return false;
}

static void add_dots(stet_plot *p, const sweep_grid *g, const sweep *final, const size_t *chosen,
                     size_t n, double *room)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    dots front = dots_in(room, g->cells), others = dots_in(room + 6 * g->cells, g->cells),
         test = dots_in(room + 12 * g->cells, g->cells);
    stet_sweep_cell c;
    for (size_t k = 0; k < n; k++) {
        sweep_cell_at(g, chosen[k], &c);
        dots_add(&front, &c, false);
        sweep_cell_of(&final->point[k * seeds], seeds, 1, &c);
        if (c.seeds)
            dots_add(&test, &c, false);
    }
    for (size_t i = 0; i < g->cells; i++) {
        sweep_cell_at(g, i, &c);
        if (c.seeds && !is_among(i, chosen, n))
            dots_add(&others, &c, true);
    }
    dots_draw(&front, p, "frontier on the blocks");
    dots_draw(&others, p, "other settings");
    dots_draw(&test, p, "frontier on the test texts");
}

stet_status sweep_frontier_plot(const sweep_grid *g, const sweep *final, const size_t *chosen,
                                size_t n)
{
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = "Certified against clean accuracy",
                                           .x_label = "clean accuracy (%)",
                                           .y_label = "certified accuracy (%)"},
                      &p));
    double *room = mem_alloc(18 * g->cells, sizeof *room);
    if (!room) {
        stet_plot_free(p);
        return STET_ENOMEM;
    }
    add_dots(p, g, final, chosen, n, room);
    mem_free(room);
    return save_plot(p, final->a.out, "frontier");
}
