/* report/html_charts.c - accuracies beside each other, the frontier, accuracy by changed words, and
 * training curves. */
#include <math.h>

#include "base/mem.h"
#include "report/html.h"

stet_status html_figure(stet_plot *p, const char *heading, const char *caption, markup *b)
{
    put(b, "<figure><h3>%s</h3>\n", heading);
    const stet_status st = plot_part(p, b);
    stet_plot_free(p);
    put(b, "<figcaption>%s</figcaption></figure>\n", caption);
    return st;
}

/* ---- a row a measure, a dot a model ------------------------------------------------------- */

static double share_x(double part)
{
    const double left = 104, right = CHART_WIDTH - 18;
    return left + part * (right - left);
}

static void line2(canvas *c, double x0, double y0, double x1, double y1, int paint, double width)
{
    canvas_line(c, (double[]){x0, y0, x1, y1}, 2, paint, width);
}

enum { MOST_DOTS = 8 }; /* models in one chart of dots */

/* A dot for the share, a line for its interval; models one below the other. */
static void draw_row(const report *r, const summary *s, size_t col, double y, canvas *c)
{
    const size_t n = r->n < MOST_DOTS ? r->n : MOST_DOTS;
    char label[64];
    snprintf(label, sizeof label, "%.16s%s", s->col[col].label,
             s->col[col].kind == MEASURE_SAMPLE ? " (sample)" : "");
    canvas_text(c, share_x(0) - 14, y + 4, 12, ANCHOR_END, false, PAINT_INK, label);
    for (size_t i = 0; i < n; i++) {
        const share v = share_at(s, i, col);
        const double at = y + 9 * ((double)i - 0.5 * (double)(n - 1));
        if (!isfinite(v.value))
            continue;
        char title[256];
        snprintf(title, sizeof title, "%s, %s: %.1f %%, 95 %% interval %.1f to %.1f, %.0f texts",
                 r->run[i].name, s->col[col].label, 100 * v.value, 100 * v.lo, 100 * v.hi, v.n);
        if (isfinite(v.lo))
            line2(c, share_x(v.lo), at, share_x(v.hi), at, paint_of(i), 2);
        canvas_disc(c, share_x(v.value), at, 4, paint_of(i), title);
    }
}

static stet_status put_rows(const report *r, const summary *s, markup *b)
{
    const double lines = (double)(r->n < MOST_DOTS ? r->n : MOST_DOTS), row = 16 + 9 * lines,
                 top = 14, foot = 40, height = top + row * (double)s->n_cols + foot;
    canvas paper, *c = &paper;
    canvas_init_part(c, CHART_WIDTH, height,
                     "accuracy of each model: clean, under each attack, proved");
    for (int k = 0; k <= 4; k++) {
        char tick[16];
        snprintf(tick, sizeof tick, "%d", 25 * k);
        line2(c, share_x(k / 4.0), top - 4, share_x(k / 4.0), height - foot + 2, PAINT_FAINT, 1);
        canvas_text(c, share_x(k / 4.0), height - foot + 18, 12, ANCHOR_MIDDLE, false, PAINT_INK,
                    tick);
    }
    for (size_t j = 0; j < s->n_cols; j++)
        draw_row(r, s, j, top + row * ((double)j + 0.5), c);
    canvas_text(c, share_x(0.5), height - 6, 12, ANCHOR_MIDDLE, false, PAINT_INK,
                "correct answers (%)");
    put(b, "<figure><h3>Accuracy: clean, under attack, proved</h3>\n");
    canvas_take(c, b);
    put(b, "<figcaption>Lines are 95 %% intervals. ");
    if (r->n > MOST_DOTS)
        put(b, "The first %d of %zu models. ", MOST_DOTS, r->n);
    put(b, "Where they overlap, the difference may be chance.</figcaption></figure>\n");
    canvas_deinit(c);
    return markup_status(b);
}

/* ---- the frontier ------------------------------------------------------------------------- */

/* The share that a model is judged by, and the clean accuracy on the same texts. */
static bool judged(const summary *s, size_t run, bool proved, share *clean, share *firm)
{
    const size_t col = proved ? summary_proved(s, run) : summary_worst(s, run);
    if (col == SIZE_MAX)
        return false;
    *firm = share_at(s, run, col);
    *clean = clean_of(s->cell[run][col]);
    return isfinite(firm->value) && isfinite(clean->value);
}

static stet_status put_frontier(const report *r, const summary *s, markup *b)
{
    bool proved = false;
    size_t points = 0;
    double mean = 0;
    share clean = {0}, firm = {0};
    for (size_t i = 0; i < r->n; i++)
        proved |= summary_proved(s, i) != SIZE_MAX;
    for (size_t i = 0; i < r->n; i++)
        if (judged(s, i, proved, &clean, &firm)) {
            points++;
            mean += 100 * clean.value;
        }
    if (points < 2)
        return STET_OK;
    mean /= (double)points;
    stet_plot *p;
    TRY(stet_plot_new(
        &(stet_plot_options){.title = proved ? "clean against certified accuracy"
                                             : "clean accuracy against the strongest attack",
                             .x_label = "clean accuracy (%)",
                             .y_label = proved ? "proved (%)" : "under the strongest attack (%)",
                             .x_lo = mean - 5, /* a difference of a tenth should look like one */
                             .x_hi = fmin(100, mean + 5),
                             .y_hi = 100,
                             .width = CHART_WIDTH,
                             .height = CHART_HEIGHT},
        &p));
    for (size_t i = 0; i < r->n; i++) { /* all, so that colours stay with their models */
        const bool any = judged(s, i, proved, &clean, &firm);
        const double x = 100 * clean.value, y = 100 * firm.value, half = 50 * (firm.hi - firm.lo);
        stet_plot_line(p, r->run[i].name, &x, &y, &half, any ? 1 : 0);
    }
    return html_figure(p,
                       proved ? "Frontier: what a proof costs" : "Frontier: what robustness costs",
                       "Up is more robust, right is more accurate on unchanged texts. A model is "
                       "worth having if no other is better at both. Bars are 95 % intervals; both "
                       "figures are of the same texts.",
                       b);
}

/* ---- how many words it takes -------------------------------------------------------------- */

/* Accuracy if the attacker may change at most k words, k = 0, 1, ...; 0: not known for all. */
static size_t by_words(const json_t *attack, double *y, size_t most)
{
    const json_t *flips = json_object_get(attack, "flips"), *o;
    const share clean = clean_of(attack);
    size_t k, last = 0;
    if (!clean.n || !isfinite(clean.value) ||
        json_array_size(flips) != json_array_size(flipped_of(attack)))
        return 0;
    for (size_t w = 0; w < most; w++)
        y[w] = 100 * clean.value;
    json_array_foreach(flips, k, o)
    {
        const double changed = num_of(o, "changed");
        for (size_t w = 0; w < most; w++)
            y[w] -= (double)w >= changed ? 100 / clean.n : 0;
        last = changed > (double)last ? (size_t)changed : last;
    }
    return last + 2 < most ? last + 2 : most;
}

static stet_status put_by_words(const report *r, const summary *s, markup *b)
{
    enum { MOST_WORDS = 21 };
    double x[MOST_WORDS], y[MAX_RUNS][MOST_WORDS];
    size_t longest = 0;
    for (size_t w = 0; w < MOST_WORDS; w++)
        x[w] = (double)w;
    for (size_t i = 0; i < r->n; i++) {
        const size_t worst = summary_worst(s, i);
        const size_t n = worst == SIZE_MAX ? 0 : by_words(s->cell[i][worst], y[i], MOST_WORDS);
        y[i][0] = n ? y[i][0] : NAN;
        longest = n > longest ? n : longest;
    }
    if (longest < 2)
        return STET_OK;
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = "accuracy against the number of changed words",
                                           .x_label = "words changed at most",
                                           .y_label = "accuracy (%)",
                                           .y_lo = 0,
                                           .y_hi = 100,
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    for (size_t i = 0; i < r->n; i++)
        stet_plot_line(p, r->run[i].name, x, y[i], NULL, isfinite(y[i][0]) ? longest : 0);
    return html_figure(p, "Accuracy by number of changed words",
                       "What the strongest attack on each model reached with so many changed "
                       "words. An attack that looked for fewer changes might need fewer.",
                       b);
}

stet_status html_comparison(const report *r, const summary *s, markup *b)
{
    put(b, "<div class=\"charts\">\n");
    TRY(put_rows(r, s, b));
    TRY(put_frontier(r, s, b));
    TRY(put_by_words(r, s, b));
    put(b, "</div>\n");
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
                             const char *caption, double scale, markup *b)
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
        return html_figure(p, heading, caption, b);
    stet_plot_free(p);
    return st;
}

stet_status html_training(const report *r, markup *b)
{
    if (!any_finite(r, EPOCH_LOSS))
        return STET_OK;
    put(b, "<section id=\"training\"><h2>Training</h2>\n<div class=\"charts\">\n");
    TRY(put_curve(r, EPOCH_ACCURACY, "Validation accuracy", "correct answers (%)",
                  "A run keeps its best epoch, so that value is a little optimistic; certified "
                  "training keeps the last one.",
                  100, b));
    TRY(put_curve(r, EPOCH_LOSS, "Training loss", "loss",
                  "Defences add a term of their own, so levels differ between recipes.", 1, b));
    TRY(put_curve(r, EPOCH_VALID_LOSS, "Validation loss", "cross-entropy",
                  "Without the defence’s term, so models can be compared.", 1, b));
    TRY(put_curve(r, EPOCH_GROWTH, "Growth bound in the loss", "growth bound",
                  "Mean over the steps of an epoch, for models trained with it. It usually rises: "
                  "weights start near zero and must grow to tell the classes apart. Training "
                  "without the term lets it rise further; compare ΣM in the summary.",
                  1, b));
    put(b, "</div></section>\n");
    return STET_OK;
}
