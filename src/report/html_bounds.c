/* report/html_bounds.c - growth bound matrices as heat maps of one scale, the distribution of their
 * entries, and the constants that follow from them. */
#include <math.h>

#include "base/mem.h"
#include "report/html.h"

enum { MAP_CELLS = 256 * 256, BINS = 48, FINE = 2048 };

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

/* A large matrix is shown by the largest entry of each block: a bound of a block is a bound of its
 * parts. */
static float *shrink(const stet_gbm *g, size_t down, size_t across, size_t rows, size_t cols)
{
    float *m = mem_zalloc(rows * cols, sizeof *m);
    for (size_t r = 0; m && r < g->rows; r++)
        for (size_t c = 0; c < g->cols; c++) {
            float *to = &m[r / down * cols + c / across];
            *to = fmaxf(*to, g->m[r * g->cols + c]);
        }
    return m;
}

static stet_status put_map(const run_folder *run, double lo, double hi, buf *b)
{
    const stet_gbm *g = &run->gbm;
    size_t down = 1, across = 1; /* entries in a cell */
    while ((g->rows / down) * (g->cols / across) > MAP_CELLS)
        ++*(g->rows / down > g->cols / across ? &down : &across);
    const size_t rows = (g->rows + down - 1) / down, cols = (g->cols + across - 1) / across;
    char label[160], caption[160], attributes[64], unit[48] = "unit", input[48] = "input";
    snprintf(label, sizeof label, "growth bounds of %s", run->name);
    snprintf(caption, sizeof caption, "%zu units × %zu inputs, sum %.4g.%s", g->rows, g->cols,
             g->sum, down * across > 1 ? " A cell shows the largest entry of its block." : "");
    snprintf(attributes, sizeof attributes, "data-down=\"%zu\" data-across=\"%zu\"", down, across);
    if (down > 1)
        snprintf(unit, sizeof unit, "unit, in steps of %zu", down);
    if (across > 1)
        snprintf(input, sizeof input, "input, in steps of %zu", across);
    float *m = shrink(g, down, across, rows, cols);
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
        if (g->part_end[STET_GBM_INPUT] < g->cols) {
            stet_plot_mark(p, 0, "word");
            stet_plot_mark(p, (double)g->part_end[STET_GBM_INPUT] / (double)across, "state");
        }
        if (g->part_end[STET_GBM_STATE] < g->cols)
            stet_plot_mark(p, (double)g->part_end[STET_GBM_STATE] / (double)across, "cell");
        st = html_figure(p, attributes, run->name, caption, b);
    }
    mem_free(m);
    return st;
}

/* ---- distribution ------------------------------------------------------------------------- */

static stet_status put_distribution(const report *r, double lo, double hi, buf *b)
{
    double edge[BINS + 1], share[BINS];
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
        memset(share, 0, sizeof share);
        const double total = r->run[i].has_gbm ? count(&r->run[i].gbm, lo, hi, share, BINS) : 0;
        for (int k = 0; k < BINS; k++)
            share[k] *= total > 0 ? 100 / total : 0;
        stet_plot_histogram(p, r->run[i].name, edge, share, r->run[i].has_gbm ? BINS : 0);
    }
    return html_figure(p, "", "Distribution of the entries",
                       "Further left: the model reacts less to a change of its input.", b);
}

/* ---- constants ---------------------------------------------------------------------------- */

static void put_constants(const report *r, buf *b)
{
    static const struct {
        const char *label;
        size_t offset;
    } rows[] = {{"ΣM, sum of all entries", offsetof(stet_gbm, sum)},
                {"the same for the difference of two logits", offsetof(stet_gbm, logit_sum)},
                {"Lipschitz constant ∞→∞, largest row sum", offsetof(stet_gbm, lipschitz.inf_inf)},
                {"Lipschitz constant 1→∞, largest entry", offsetof(stet_gbm, lipschitz.one_inf)},
                {"Lipschitz constant 2→2", offsetof(stet_gbm, lipschitz.two_two)}};
    buf_str(b, "<figure><h3>Constants that follow</h3><div class=\"scroll\"><table "
               "class=\"plain\"><thead><tr><th></th>");
    for (size_t i = 0; i < r->n; i++) {
        buf_str(b, "<th class=\"n\" scope=\"col\">");
        esc(b, r->run[i].name);
        buf_str(b, "</th>");
    }
    buf_str(b, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        buf_printf(b, "<tr><td>%s</td>", rows[k].label);
        for (size_t i = 0; i < r->n; i++) {
            double v = NAN;
            memcpy(&v, (const char *)&r->run[i].gbm + rows[k].offset, sizeof v);
            if (r->run[i].has_gbm)
                buf_printf(b, "<td class=\"n\">%.4g</td>", v);
            else
                buf_str(b, "<td></td>");
        }
        buf_str(b, "</tr>\n");
    }
    buf_str(b, "</tbody></table></div></figure>\n");
}

stet_status html_bounds(const report *r, buf *b)
{
    enum { MOST_MAPS = 6 };
    double lo, hi;
    if (!common_range(r, &lo, &hi))
        return STET_OK;
    buf_str(b, "<section id=\"bounds\"><h2>Growth bounds</h2>\n<p>Entry (i, j) of the matrix M "
               "bounds how far unit i can move "
               "when input j moves by one. Smaller is firmer. All maps share one scale of "
               "colours.</p>\n<div class=\"charts\">\n");
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
    buf_str(b, "</div></section>\n");
    return STET_OK;
}
