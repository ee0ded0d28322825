/* cli/sweep_show.c - see sweep_show.h. */
#include "cli/sweep_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "stet/plot.h"

void sweep_tell(const sweep *s, const sweep_point *p)
{
    size_t done = 0;
    for (size_t i = 0; i < s->n; i++)
        done += s->point[i].stage == SWEEP_DONE;
    char said[240] = "";
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++)
        if (sweep_measures[m].share && !isnan(sweep_value(p, m)))
            snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s %.2f %%",
                     *said ? ", " : "", sweep_measures[m].line, 100 * sweep_value(p, m));
    if (!isnan(sweep_value(p, SWEEP_GBM)))
        snprintf(said + strlen(said), sizeof said - strlen(said), ", sum of M %.4g",
                 sweep_value(p, SWEEP_GBM));
    cli_note("%s: %s (%zu of %zu)", p->dir, said, done, s->n);
}

/* Is there a column for it? Validation texts and the block are the same. */
static bool shown(const sweep *s, sweep_measure m)
{
    return (sweep_wants(s, sweep_measures[m].stage) && !(s->frontier && m == SWEEP_VALID)) ||
           (m == SWEEP_SAMPLE && s->certify);
}

static const char *heading(const sweep *s, sweep_measure m)
{
    return s->frontier && m == SWEEP_SAMPLE ? "clean %" : sweep_measures[m].heading;
}

/* One row of settings and what was measured; without `p`, the heading. */
static void add_row(cli_table *t, const sweep *s, const sweep_grid *g, const sweep_point *p,
                    const sweep_cell *c, const char *mark)
{
    const char *column[SWEEP_AXES + SWEEP_MEASURES + 1];
    size_t n = 0;
    for (size_t x = 0; x < SWEEP_SEED; x++)
        if (g->axis[x].v[0])
            column[n++] = p ? p->value[x] : g->def[x].name;
    column[n++] = p ? cli_fmt("%zu", c->seeds) : "seeds";
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++)
        if (shown(s, m))
            column[n++] = p ? sweep_number(c, m) : heading(s, m);
    if (mark)
        column[n++] = mark;
    cli_row_of(t, column, n);
}

static bool is_among(size_t cell, const size_t *chosen, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (chosen[k] == cell)
            return true;
    return false;
}

/* `chosen` NULL: nothing is chosen. */
static void print_table(const sweep *s, const sweep_grid *g, const size_t *chosen, size_t n_chosen)
{
    cli_table t = {0};
    add_row(&t, s, g, NULL, NULL, chosen ? "frontier" : NULL);
    for (size_t i = 0; i < g->cells; i++) {
        const sweep_cell c = sweep_cell_at(g, i);
        add_row(&t, s, g, sweep_point_of(g, i), &c,
                !chosen                         ? NULL
                : is_among(i, chosen, n_chosen) ? "*"
                                                : "");
    }
    cli_table_print(&t);
}

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* A number where it is one. */
static json_t *value_json(const char *text)
{
    char *end;
    const double v = text ? strtod(text, &end) : 0;
    return !text ? json_null() : *end || !isfinite(v) ? cli_json_string(text) : json_real(v);
}

static json_t *cell_json(const sweep_page *w, const sweep_grid *g, const sweep_point *p,
                         const sweep_cell *c)
{
    json_t *o = cli_json_start(&cmd_sweep, w->cfg);
    for (size_t x = 0; x < SWEEP_SEED; x++)
        if (*g->def[x].key)
            json_object_set_new(o, g->def[x].key, value_json(p->value[x]));
    json_object_set_new(o, "seeds", json_integer((json_int_t)c->seeds));
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++) {
        char key[48];
        snprintf(key, sizeof key, "%s_spread", sweep_measures[m].key);
        json_object_set_new(o, sweep_measures[m].key, real_or_null(c->mean[m]));
        json_object_set_new(o, key, real_or_null(c->spread[m]));
    }
    return o;
}

static stet_status print_json(const sweep_page *w, const sweep_grid *g, const size_t *chosen,
                              size_t n_chosen)
{
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < g->cells; i++) {
        const sweep_cell c = sweep_cell_at(g, i);
        json_t *o = cell_json(w, g, sweep_point_of(g, i), &c);
        if (chosen) {
            json_object_set_new(o, "measured_on", json_string("blocks"));
            json_object_set_new(o, "frontier", json_boolean(is_among(i, chosen, n_chosen)));
        }
        st = cli_json_print(o);
    }
    return st;
}

/* "test, lambda 2": the measure, and the values of the axes before the one that is drawn over. */
static void name_line(const sweep_grid *g, size_t cell, size_t over, sweep_measure m, char *out,
                      size_t size)
{
    char settings[256];
    sweep_cell_name(g, cell, over, settings, sizeof settings);
    snprintf(out, size, "%s%s%s", sweep_measures[m].line, *settings ? ", " : "", settings);
}

/* Measures `from` to `to` over the last axis swept over, a line for each combination of the others:
 * as this axis is the fastest, a line is a stretch of cells. */
static void add_lines(stet_plot *p, const sweep_grid *g, size_t over, sweep_measure from,
                      sweep_measure to)
{
    const size_t n = g->axis[over].n;
    for (sweep_measure m = from; m <= to; m++)
        for (size_t first = 0; first < g->cells; first += n) {
            const double unit = sweep_measures[m].share ? 100 : 1;
            double at[SWEEP_MOST], y[SWEEP_MOST], spread[SWEEP_MOST];
            bool any = false;
            for (size_t i = 0; i < n; i++) {
                const sweep_cell c = sweep_cell_at(g, first + i);
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

static stet_status plot(const sweep_page *w, const sweep_grid *g, const char *name,
                        const char *title, sweep_measure from, sweep_measure to)
{
    size_t over = SWEEP_SEED - 1;
    while (!g->axis[over].v[0])
        over--;
    const bool shares = sweep_measures[from].share;
    stet_plot *p;
    stet_status st =
        stet_plot_new(&(stet_plot_options){.title = title,
                                           .x_label = g->def[over].name,
                                           .y_label = shares ? "accuracy (%)" : "sum of M",
                                           .y_scale = shares ? STET_LINEAR : STET_LOG,
                                           .x_names = g->axis[over].v,
                                           .n_x_names = g->axis[over].n},
                      &p);
    if (st != STET_OK)
        return st;
    add_lines(p, g, over, from, to);
    char path[1100];
    snprintf(path, sizeof path, "%s/%s.svg", w->out, name);
    st = stet_plot_save(p, path);
    stet_plot_free(p);
    return st;
}

stet_status sweep_show_cells(const sweep_page *w, const sweep *s, const sweep_grid *g,
                             const size_t *chosen, size_t n)
{
    if (w->json)
        return print_json(w, g, chosen, n);
    print_table(s, g, chosen, n);
    return STET_OK;
}

stet_status sweep_show(const sweep_page *w, const sweep *s, const sweep_grid *g)
{
    stet_status st = sweep_show_cells(w, s, g, NULL, 0);
    if (st == STET_OK)
        st = s->attack || s->certify
                 ? plot(w, g, "accuracy", "Accuracy", SWEEP_SAMPLE, SWEEP_CERTIFIED)
                 : plot(w, g, "accuracy", "Clean accuracy", SWEEP_VALID, SWEEP_TEST);
    if (st == STET_OK)
        st = plot(w, g, "gbm", "Growth bounds", SWEEP_GBM, SWEEP_LOGITS);
    return st;
}

stet_status sweep_show_final(const sweep_page *w, const sweep *final, const sweep_grid *g, size_t n)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    cli_table t = {0};
    stet_status st = STET_OK;
    add_row(&t, final, g, NULL, NULL, NULL);
    for (size_t k = 0; st == STET_OK && k < n; k++) {
        const sweep_point *p = &final->point[k * seeds];
        const sweep_cell c = sweep_cell_of(p, seeds, 1);
        add_row(&t, final, g, p, &c, NULL);
        if (w->json) {
            json_t *o = cell_json(w, g, p, &c);
            json_object_set_new(o, "measured_on", json_string("test"));
            st = cli_json_print(o);
        }
    }
    if (!w->json) {
        printf("\nthe frontier, trained on all texts and measured on %s:\n", final->source.data);
        cli_table_print(&t);
    }
    cli_table_drop(&t);
    return st;
}
