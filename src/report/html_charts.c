/* report/html_charts.c - accuracies beside each other, the frontier, and training curves. */
#include <math.h>

#include "base/mem.h"
#include "report/html.h"

stet_status html_figure(stet_plot *p, const char *attributes, const char *heading,
                        const char *caption, buf *b)
{
    buf_printf(b, "<figure%s%s><h3>", *attributes ? " " : "", attributes);
    esc(b, heading);
    buf_str(b, "</h3>\n");
    const stet_status st = plot_part(p, b);
    stet_plot_free(p);
    buf_str(b, "<figcaption>");
    esc(b, caption);
    buf_str(b, "</figcaption></figure>\n");
    return st;
}

/* ---- a row a measure, a dot a model ------------------------------------------------------- */

static double share_x(double share)
{
    const double left = 104, right = CHART_WIDTH - 18;
    return left + share * (right - left);
}

static void line2(canvas *c, double x0, double y0, double x1, double y1, int paint, double width)
{
    canvas_line(c, (double[]){x0, y0, x1, y1}, 2, paint, width);
}

static void draw_row(const report *r, const summary *s, size_t col, double y, canvas *c)
{
    double lo = INFINITY, hi = -INFINITY;
    for (size_t i = 0; i < r->n; i++)
        if (s->cell[i][col]) {
            lo = fmin(lo, measured_share(s->cell[i][col]));
            hi = fmax(hi, measured_share(s->cell[i][col]));
        }
    char label[64];
    snprintf(label, sizeof label, "%.16s", s->col[col].label);
    canvas_text(c, share_x(0) - 14, y + 4, 12, ANCHOR_END, false, PAINT_INK, label);
    if (hi > lo)
        line2(c, share_x(lo), y, share_x(hi), y, PAINT_FAINT, 3);
    for (size_t i = 0; i < r->n; i++) {
        if (!s->cell[i][col])
            continue;
        const double v = measured_share(s->cell[i][col]);
        char title[256];
        snprintf(title, sizeof title, "%s, %s: %.1f %%", r->run[i].name, s->col[col].label,
                 100 * v);
        canvas_disc(c, share_x(v), y, 5.5, paint_of(i), title);
    }
}

static stet_status put_rows(const report *r, const summary *s, buf *b)
{
    const double row = 28, top = 14, foot = 40, height = top + row * (double)s->n_cols + foot;
    canvas c;
    canvas_init_part(&c, CHART_WIDTH, height,
                     "accuracy of each model, untouched, under each attack, proved");
    for (int k = 0; k <= 4; k++) {
        char tick[16];
        snprintf(tick, sizeof tick, "%d", 25 * k);
        line2(&c, share_x(k / 4.0), top - 4, share_x(k / 4.0), height - foot + 2, PAINT_FAINT, 1);
        canvas_text(&c, share_x(k / 4.0), height - foot + 18, 12, ANCHOR_MIDDLE, false, PAINT_INK,
                    tick);
    }
    for (size_t j = 0; j < s->n_cols; j++)
        draw_row(r, s, j, top + row * ((double)j + 0.4), &c);
    canvas_text(&c, share_x(0.5), height - 6, 12, ANCHOR_MIDDLE, false, PAINT_INK,
                "right answers (%)");
    buf_str(b, "<figure><h3>Accuracy, from untouched to proved</h3>\n");
    canvas_take(&c, b);
    buf_str(b, "<figcaption>The further left a dot, the more answers were "
               "turned.</figcaption></figure>\n");
    canvas_deinit(&c);
    return buf_status(b);
}

/* ---- the frontier ------------------------------------------------------------------------- */

static stet_status put_frontier(const report *r, const summary *s, buf *b)
{
    bool proved = false;
    size_t points = 0;
    double mean = 0;
    for (size_t i = 0; i < r->n; i++)
        proved |= isfinite(summary_certified(s, i));
    for (size_t i = 0; i < r->n; i++)
        if (isfinite(proved ? summary_certified(s, i) : summary_worst(s, i)) &&
            isfinite(summary_clean(s, i))) {
            points++;
            mean += 100 * summary_clean(s, i);
        }
    if (points < 2)
        return STET_OK;
    mean /= (double)points;
    stet_plot *p;
    TRY(stet_plot_new(
        &(stet_plot_options){.title = proved ? "clean against certified accuracy"
                                             : "clean accuracy against the worst attack",
                             .x_label = "clean (%)",
                             .y_label = proved ? "proved (%)" : "worst attack (%)",
                             .x_lo = mean - 5, /* a difference of a tenth should look like one */
                             .x_hi = mean + 5,
                             .y_hi = 100,
                             .width = CHART_WIDTH,
                             .height = CHART_HEIGHT},
        &p));
    for (size_t i = 0; i < r->n; i++) {
        const double x = 100 * summary_clean(s, i),
                     y = 100 * (proved ? summary_certified(s, i) : summary_worst(s, i));
        stet_plot_line(p, r->run[i].name, &x, &y, NULL, 1);
    }
    return html_figure(p, "",
                       proved ? "Frontier: what proof costs" : "Frontier: what firmness costs",
                       "Up is firmer, right is more accurate on untouched texts; a model is worth "
                       "having if no other is both.",
                       b);
}

stet_status html_comparison(const report *r, const summary *s, buf *b)
{
    buf_str(b, "<div class=\"charts\">\n");
    TRY(put_rows(r, s, b));
    TRY(put_frontier(r, s, b));
    buf_str(b, "</div>\n");
    return STET_OK;
}

/* ---- training ----------------------------------------------------------------------------- */

static bool any_finite(const report *r, epoch_value k)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t e = 0; e < r->run[i].n_epochs; e++)
            if (isfinite(r->run[i].value[k][e]))
                return true;
    return false;
}

static stet_status put_curve(const report *r, epoch_value k, const char *heading, const char *label,
                             const char *caption, double scale, buf *b)
{
    if (!any_finite(r, k))
        return STET_OK;
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = heading,
                                           .x_label = "epoch",
                                           .y_label = label,
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < r->n; i++) {
        const run_folder *run = &r->run[i];
        double *y = mem_alloc(run->n_epochs + 1, sizeof *y);
        for (size_t e = 0; y && e < run->n_epochs; e++)
            y[e] = scale * run->value[k][e];
        st = y ? stet_plot_line(p, run->name, run->epoch, y, NULL, run->n_epochs) : STET_ENOMEM;
        mem_free(y);
    }
    if (st == STET_OK)
        return html_figure(p, "", heading, caption, b);
    stet_plot_free(p);
    return st;
}

stet_status html_training(const report *r, buf *b)
{
    if (!any_finite(r, EPOCH_LOSS))
        return STET_OK;
    buf_str(b, "<section id=\"training\"><h2>Training</h2>\n<div class=\"charts\">\n");
    TRY(put_curve(r, EPOCH_ACCURACY, "Validation accuracy", "right answers (%)",
                  "The epoch with the best value was kept; that makes it a little optimistic.", 100,
                  b));
    TRY(put_curve(r, EPOCH_LOSS, "Training loss", "loss",
                  "Defences add their own term, so levels differ between recipes.", 1, b));
    TRY(put_curve(r, EPOCH_VALID_LOSS, "Validation loss", "cross-entropy",
                  "Without the defence’s term: comparable.", 1, b));
    TRY(put_curve(r, EPOCH_GROWTH, "Growth bound in the loss", "growth bound",
                  "Mean over the epoch’s steps, for models trained with it.", 1, b));
    buf_str(b, "</div></section>\n");
    return STET_OK;
}
