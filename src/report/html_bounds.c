/* report/html_bounds.c - growth bound matrices as heat maps of one scale, the distribution of their
 * entries, and the constants that follow from them. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/html.h"

enum { MAP_SIDE = 48, BINS = 48, FINE = 2048 };

/* Smallest and largest entry of all models, so that maps share their colours; what is far below the
 * largest is as good as zero. */
static bool common_range(const report *r, double *lo, double *hi)
{
    *lo = INFINITY, *hi = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; r->run[i].has_gbm && k < r->run[i].gbm.rows * r->run[i].gbm.cols; k++) {
            const double v = (double)r->run[i].gbm.m[k];
            if (v > 0 && isfinite(v)) {
                *lo = fmin(*lo, v);
                *hi = fmax(*hi, v);
            }
        }
    *lo = fmax(*lo, *hi * 1e-6);
    return *lo < *hi;
}

/* How many entries of one model, or of all, fall into each of n equal parts of log [lo, hi];
 * returns their number. */
static double count(const stet_gbm *g, double lo, double hi, double *bin, size_t n)
{
    double total = 0;
    for (size_t k = 0; k < g->rows * g->cols; k++) {
        const double v = (double)g->m[k];
        if (!(v > 0) || !isfinite(v))
            continue;
        const double at = log(v / lo) / log(hi / lo) * (double)n;
        bin[at < 0 ? 0 : at >= (double)n ? n - 1 : (size_t)at]++;
        total++;
    }
    return total;
}

/* Colours go over the entries there are many of: a few far out would leave one shade for all
 * others. */
static void colour_range(const report *r, double *lo, double *hi)
{
    static const double tail = 0.005;
    double bin[FINE] = {0}, total = 0, below = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->run[i].has_gbm)
            total += count(&r->run[i].gbm, *lo, *hi, bin, FINE);
    const double from = *lo, ratio = *hi / *lo;
    size_t first = 0, last = FINE;
    for (size_t k = 0; k < FINE; k++) {
        below += bin[k];
        first = below < tail * total ? k + 1 : first;
        last = last == FINE && below >= (1 - tail) * total ? k + 1 : last;
    }
    *lo = from * pow(ratio, (double)first / FINE);
    *hi = from * pow(ratio, (double)(last > first ? last : first + 1) / FINE);
}

/* ---- heat maps ---------------------------------------------------------------------------- */

typedef struct ranked {
    double sum;
    size_t at;
} ranked;

static int by_sum(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->sum != y->sum ? (x->sum < y->sum) - (x->sum > y->sum)
                            : (x->at > y->at) - (x->at < y->at);
}

/* For each unit (or input), its place when those with the largest sums come first: the matrix in
 * the order of the weights' memory looks like noise. */
static size_t *places_by_sum(const stet_gbm *g, bool rows)
{
    const size_t n = rows ? g->rows : g->cols;
    ranked *order = mem_zalloc(n + 1, sizeof *order);
    size_t *place = mem_alloc(n + 1, sizeof *place);
    for (size_t i = 0; order && i < n; i++)
        order[i].at = i;
    for (size_t k = 0; order && k < g->rows * g->cols; k++)
        if (isfinite(g->m[k]))
            order[rows ? k / g->cols : k % g->cols].sum += (double)g->m[k];
    if (order && place) {
        qsort(order, n, sizeof *order, by_sum);
        for (size_t i = 0; i < n; i++)
            place[order[i].at] = i;
    }
    if (!order) {
        mem_free(place);
        return NULL;
    }
    mem_free(order);
    return place;
}

/* The matrix in that order, as the means of at most MAP_SIDE x MAP_SIDE blocks: single entries
 * would look like noise again. */
static float *arrange(const stet_gbm *g, size_t rows, size_t cols)
{
    float *m = mem_zalloc(rows * cols, sizeof *m), *n = mem_zalloc(rows * cols, sizeof *n);
    size_t *row = places_by_sum(g, true), *col = places_by_sum(g, false);
    const bool whole = m && n && row && col;
    for (size_t k = 0; whole && k < g->rows * g->cols; k++) {
        const size_t at =
            row[k / g->cols] * rows / g->rows * cols + col[k % g->cols] * cols / g->cols;
        m[at] += isfinite(g->m[k]) ? g->m[k] : 0;
        n[at] += 1;
    }
    for (size_t k = 0; whole && k < rows * cols; k++)
        m[k] /= n[k] > 0 ? n[k] : 1;
    mem_free(row);
    mem_free(col);
    mem_free(n);
    if (whole)
        return m;
    mem_free(m);
    return NULL;
}

static stet_status put_map(const run_folder *run, double lo, double hi, markup *b)
{
    const stet_gbm *g = &run->gbm;
    const size_t rows = g->rows < MAP_SIDE ? g->rows : MAP_SIDE,
                 cols = g->cols < MAP_SIDE ? g->cols : MAP_SIDE;
    char label[160], caption[200], unit[64] = "units", input[64] = "inputs";
    if (rows < g->rows)
        snprintf(unit, sizeof unit, "units in %zu blocks", rows);
    if (cols < g->cols)
        snprintf(input, sizeof input, "inputs in %zu blocks", cols);
    snprintf(label, sizeof label, "growth bounds of %s", run->name);
    snprintf(caption, sizeof caption, "%zu units × %zu inputs, largest sums first, sum of all %.4g.%s", g->rows, g->cols,
             g->sum,
             rows < g->rows || cols < g->cols ? " A cell is the mean of a block of entries." : "");
    float *m = arrange(g, rows, cols);
    stet_plot *p = NULL;
    stet_status st = m ? stet_plot_new(&(stet_plot_options){.title = label,
                                                            .x_label = input,
                                                            .y_label = unit,
                                                            .width = CHART_WIDTH,
                                                            .height = CHART_HEIGHT},
                                       &p)
                       : STET_ENOMEM;
    if (st == STET_OK) {
        stet_plot_heat(p, m, rows, cols, STET_LOG, lo, hi);
        st = html_figure(p, run->name, caption, b);
    }
    mem_free(m);
    return st;
}

/* ---- distribution ------------------------------------------------------------------------- */

static stet_status put_distribution(const report *r, double lo, double hi, markup *b)
{
    double edge[BINS + 1], part[BINS];
    for (int k = 0; k <= BINS; k++)
        edge[k] = lo * pow(hi / lo, (double)k / BINS);
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = "distribution of the entries",
                                           .x_label = "entry of M",
                                           .y_label = "share of entries (%)",
                                           .x_scale = STET_LOG,
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    for (size_t i = 0; i < r->n;
         i++) { /* also those without bounds, so that colours stay with their models */
        memset(part, 0, sizeof part);
        const double total = r->run[i].has_gbm ? count(&r->run[i].gbm, lo, hi, part, BINS) : 0;
        for (int k = 0; k < BINS; k++)
            part[k] *= total > 0 ? 100 / total : 0;
        stet_plot_histogram(p, r->run[i].name, edge, part, r->run[i].has_gbm ? BINS : 0);
    }
    return html_figure(p, "Distribution of the entries",
                       "Further left, the model reacts less to a change of its input. All models "
                       "share the same bins.",
                       b);
}

/* ---- constants ---------------------------------------------------------------------------- */

static void put_constants(const report *r, markup *b)
{
    static const struct {
        const char *label;
        size_t offset;
    } rows[] = {{"ΣM, sum of all entries", offsetof(stet_gbm, sum)},
                {"the same for the difference of two logits", offsetof(stet_gbm, logit_sum)},
                {"Lipschitz constant ∞→∞, largest row sum", offsetof(stet_gbm, lipschitz.inf_inf)},
                {"Lipschitz constant 1→∞, largest entry", offsetof(stet_gbm, lipschitz.one_inf)},
                {"Lipschitz constant 2→2", offsetof(stet_gbm, lipschitz.two_two)}};
    put(b, "<figure><h3>Lipschitz constants</h3><div class=\"scroll\"><table "
           "class=\"plain\"><thead><tr><th></th>");
    for (size_t i = 0; i < r->n; i++) {
        put(b, "<th class=\"n\" scope=\"col\">");
        put(b, "%s", r->run[i].name);
        put(b, "</th>");
    }
    put(b, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        put(b, "<tr><td>%s</td>", rows[k].label);
        for (size_t i = 0; i < r->n; i++) {
            double v = NAN;
            memcpy(&v, (const char *)&r->run[i].gbm + rows[k].offset, sizeof v);
            if (r->run[i].has_gbm)
                put(b, "<td class=\"n\">%.4g</td>", v);
            else
                put(b, "<td></td>");
        }
        put(b, "</tr>\n");
    }
    put(b, "</tbody></table></div></figure>\n");
}

stet_status html_bounds(const report *r, markup *b)
{
    enum { MOST_MAPS = 6 };
    double lo, hi;
    if (!common_range(r, &lo, &hi))
        return STET_OK;
    put(b, "<section id=\"bounds\"><h2>Growth bounds</h2>\n<p>Entry (i, j) of the matrix M "
           "bounds how far unit i of the layer moves when input j moves by one. The smaller its "
           "entries, the less a substitute can do. Units and inputs are sorted by their sums, and "
           "all maps share one scale of colours.</p>\n<div class=\"charts\">\n");
    size_t maps = 0;
    double from = lo, to = hi;
    colour_range(r, &from, &to);
    for (size_t i = 0; i < r->n && maps < MOST_MAPS; i++)
        if (r->run[i].has_gbm) {
            TRY(put_map(&r->run[i], from, to, b));
            maps++;
        }
    TRY(put_distribution(r, lo, hi, b));
    put_constants(r, b);
    put(b, "</div></section>\n");
    return STET_OK;
}
