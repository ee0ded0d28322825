/* report/html_errors.c - which classes are mistaken for which, and how far probabilities can be
 * believed: from the results of stet eval. */
#include <math.h>

#include "report/html.h"

enum { MOST_CLASSES = 12, MOST_PAIRS = 10 };

static double count_at(const json_t *rows, size_t is, size_t said)
{
    return json_number_value(json_array_get(json_array_get(rows, is), said));
}

static const char *class_at(const json_t *o, size_t c)
{
    return str_of(json_array_get(json_object_get(o, "per_class"), c), "class");
}

static void put_matrix(const json_t *o, size_t classes, markup *b)
{
    const json_t *rows = json_object_get(o, "confusion");
    put(b, "<div class=\"scroll\"><table class=\"plain confusion\"><thead><tr><th>true class</th>");
    for (size_t c = 0; c < classes; c++)
        put(b, "<th class=\"n\" scope=\"col\">%s</th>", class_at(o, c));
    put(b, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < classes; i++) {
        double total = 0;
        for (size_t j = 0; j < classes; j++)
            total += count_at(rows, i, j);
        put(b, "<tr><th scope=\"row\">%s</th>", class_at(o, i));
        for (size_t j = 0; j < classes; j++) {
            const double n = count_at(rows, i, j), part = total > 0 ? n / total : 0;
            put(b, "<td class=\"n %s%d\">%.0f</td>", i == j ? "hit" : "miss",
                (int)ceil(4 * fmin(part, 1)), n);
        }
        put(b, "</tr>\n");
    }
    put(b, "</tbody></table></div>\n");
}

/* Of many classes, the pairs that are mixed up most. */
static void put_pairs(const json_t *o, size_t classes, markup *b)
{
    const json_t *rows = json_object_get(o, "confusion");
    double below = INFINITY;
    put(b, "<ol class=\"pairs\">");
    for (size_t k = 0, shown = 0; k < MOST_PAIRS && shown < MOST_PAIRS; k++) {
        double best = 0;
        for (size_t i = 0; i < classes; i++)
            for (size_t j = 0; j < classes; j++)
                if (i != j && count_at(rows, i, j) < below)
                    best = fmax(best, count_at(rows, i, j));
        if (best <= 0)
            break;
        for (size_t i = 0; i < classes && shown < MOST_PAIRS; i++)
            for (size_t j = 0; j < classes && shown < MOST_PAIRS; j++)
                if (i != j && count_at(rows, i, j) == best) {
                    put(b, "<li>%.0f of %s called %s</li>", best, class_at(o, i), class_at(o, j));
                    shown++;
                }
        below = best;
    }
    put(b, "</ol>\n");
}

static void put_confusion(const report *r, size_t run, const json_t *o, markup *b)
{
    const size_t classes = json_array_size(json_object_get(o, "confusion"));
    if (!classes)
        return;
    put(b, "<figure><h3>");
    put_dot(b, run);
    put(b, "%s</h3>\n", r->run[run].name);
    if (classes <= MOST_CLASSES)
        put_matrix(o, classes, b);
    else
        put_pairs(o, classes, b);
    if (classes <= MOST_CLASSES)
        put(b, "<figcaption>A row for each true class, a column for each answer: numbers of "
               "texts.</figcaption>");
    put(b, "</figure>\n");
}

static const json_t *eval_of(const summary *s, size_t run)
{
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->col[j].kind == MEASURE_CLEAN)
            return s->cell[run][j];
    return NULL;
}

static stet_status put_calibration(const report *r, const summary *s, markup *b)
{
    enum { BINS = 64 };
    stet_plot *p;
    bool any = false;
    double least = 100;
    TRY(stet_plot_new(&(stet_plot_options){.title = "calibration",
                                           .x_label = "confidence (%)",
                                           .y_label = "correct (%)",
                                           .y_lo = 0,
                                           .y_hi = 100,
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    for (size_t i = 0; i < r->n; i++) {
        const json_t *bins = json_object_get(eval_of(s, i), "calibration"), *o;
        double x[BINS], y[BINS], half[BINS];
        size_t n = 0, k;
        json_array_foreach(bins, k, o) if (n < BINS && num_of(o, "n") >= 20)
        {
            double lo, hi;
            x[n] = 100 * num_of(o, "confidence");
            y[n] = 100 * num_of(o, "accuracy");
            stet_interval(num_of(o, "accuracy"), num_of(o, "n"), &lo, &hi);
            half[n] = 50 * (hi - lo);
            least = fmin(least, x[n++]);
        }
        any |= n > 0;
        stet_plot_line(p, r->run[i].name, x, y, half, n);
    }
    stet_plot_guide(p, least, least, 100, 100);
    if (!any) {
        stet_plot_free(p);
        return STET_OK;
    }
    return html_figure(
        p, "Calibration",
        "Of the answers given with so much confidence, how many were correct. Below "
        "the diagonal a model is too sure of itself. Bars are 95 % intervals; groups "
        "of fewer than 20 texts are left out.",
        b);
}

stet_status html_errors(const report *r, markup *b)
{
    bool begun = false;
    for (size_t k = 0; k < r->n_data; k++) {
        const summary *s = &r->data[k];
        bool here = false;
        for (size_t i = 0; i < r->n; i++)
            here |= json_array_size(json_object_get(eval_of(s, i), "confusion")) > 0;
        if (!here)
            continue;
        if (!begun)
            put(b, "<section id=\"errors\"><h2>Errors and confidence</h2>\n<p>On unchanged texts: "
                   "which classes are mistaken for which, and whether a confident answer is more "
                   "often correct.</p>\n");
        begun = true;
        put(b, "<div class=\"charts\">\n");
        TRY(put_calibration(r, s, b));
        for (size_t i = 0; i < r->n && i < SERIES_COLOURS; i++)
            put_confusion(r, i, eval_of(s, i), b);
        put(b, "</div>\n");
    }
    if (begun)
        put(b, "</section>\n");
    return STET_OK;
}
