/* report/html_proofs.c - what was proved: verdicts, margins, and texts with the harm that each word
 * can do. */
#include <math.h>

#include "report/html.h"

/* ---- verdicts ----------------------------------------------------------------------------- */

/* Texts of the sample that some attack flipped and that the proof left undecided. A flip of a model
 * that votes counts for nothing here: what may be likely is the majority over all copies. */
static double flipped_anyway(const summary *s, size_t run, const json_t *proof)
{
    size_t n = 0;
    if (json_object_get(proof, "confidence"))
        return 0;
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *o = s->cell[run][j], *v;
        size_t k;
        if (!is_attack(s, run, j) || !same_sample(o, proof))
            continue;
        json_array_foreach(flipped_of(o), k, v)
        {
            const json_int_t index = json_integer_value(v);
            bool before = has_text(proof, "broken_texts", index);
            for (size_t i = 0; i < j && !before; i++)
                before = is_attack(s, run, i) && same_sample(s->cell[run][i], proof) &&
                         (has_text(s->cell[run][i], "flipped", index) ||
                          has_text(s->cell[run][i], "turned", index));
            n += !before;
        }
    }
    return (double)n / fmax(1, num_of(proof, "n"));
}

static void put_verdicts(const summary *s, size_t run, const json_t *o, markup *b)
{
    const double attacked = fmin(flipped_anyway(s, run, o), num_of(o, "undecided"));
    const struct {
        const char *class, *label;
        double share;
    } part[] = {
        {"certified", "proved: no combination flips it", num_of(o, "certified")},
        {"likely", "likely: holds with a confidence, no proof", num_of(o, "likely")},
        {"undecided", "open: neither proved nor flipped", num_of(o, "undecided") - attacked},
        {"broken", "flipped: a counter-example is known", num_of(o, "broken") + attacked},
        {"wrong", "wrong before any change", 1 - num_of(o, "clean")}};
    enum { PARTS = sizeof part / sizeof *part };
    double from = 0;
    put(b, "<svg class=\"bar verdicts\" role=\"img\" aria-label=\"shares of the verdicts\">");
    for (size_t k = 0; k < PARTS; k++)
        if (part[k].share > 0) {
            put(b,
                "<rect class=\"%s\" x=\"%.2f%%\" width=\"%.2f%%\" height=\"100%%\"><title>%s: "
                "%.1f %%</title></rect>",
                part[k].class, 100 * from, 100 * part[k].share, part[k].label, 100 * part[k].share);
            from += part[k].share;
        }
    put(b, "</svg>\n<p class=\"note keys\">");
    for (size_t k = 0; k < PARTS; k++)
        if (part[k].share > 0)
            put(b, "<span><span class=\"key %s\"></span>%s %.1f %%</span> ", part[k].class,
                part[k].label, 100 * part[k].share);
    const share p = share_of(o);
    put(b,
        "<span>%.0f texts, 95 %% interval of the proved share %.1f to %.1f %%, %.2g s a "
        "text</span></p>\n",
        p.n, 100 * p.lo, 100 * p.hi, num_of(o, "seconds") / fmax(1, p.n));
}

/* ---- margins ------------------------------------------------------------------------------ */

/* Share of the texts with at least this proved margin, at the edges of the result's bins: whatever
 * the bins are, the curves of two models can be compared. */
static size_t margin_curve(const json_t *o, double *x, double *y, size_t most)
{
    const json_t *m = json_object_get(o, "margins"), *bins = json_object_get(m, "bins");
    const double lo = num_of(m, "lo"), hi = num_of(m, "hi"), texts = num_of(o, "n");
    const size_t n = json_array_size(bins);
    if (!n || n >= most || !isfinite(lo) || !(hi > lo) || !(texts > 0))
        return 0;
    double left = 0;
    for (size_t k = n + 1; k-- > 0;) {
        left += k < n ? json_number_value(json_array_get(bins, k)) : 0;
        x[k] = lo + (hi - lo) * (double)k / (double)n;
        y[k] = 100 * left / texts;
    }
    return n + 1;
}

static stet_status put_margins(const report *r, const summary *s, markup *b)
{
    enum { MOST_BINS = 64 };
    stet_plot *p;
    TRY(stet_plot_new(&(stet_plot_options){.title = "proved margins",
                                           .x_label = "proved margin, at least",
                                           .y_label = "texts (%)",
                                           .y_lo = 0,
                                           .y_hi = 100,
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        double x[MOST_BINS + 1], y[MOST_BINS + 1];
        size_t n = 0;
        for (size_t j = 0; j < s->n_cols && n == 0; j++)
            if (s->col[j].kind == MEASURE_CERTIFIED)
                n = margin_curve(s->cell[i][j], x, y, MOST_BINS + 1);
        any |= n > 0;
        stet_plot_line(p, r->run[i].name, x, y, NULL, n);
    }
    stet_plot_mark(p, 0, "proved from here");
    if (!any) {
        stet_plot_free(p);
        return STET_OK;
    }
    put(b, "<div class=\"charts\">");
    TRY(html_figure(p, "Proved margins",
                    "The share of all texts whose correct answer keeps at least this margin, "
                    "whatever is swapped. At 0 it is the proved share; further right shows how "
                    "much room is left.",
                    b));
    put(b, "</div>\n");
    return STET_OK;
}

/* ---- texts -------------------------------------------------------------------------------- */

static void put_certificate(const json_t *e, markup *b)
{
    put(b, "<article><p class=\"who\"><span><b>%s</b>, %s</span>", str_of(e, "label"),
        str_of(e, "verdict"));
    if (isfinite(num_of(e, "margin")))
        put(b, "<span>margin %.3f unchanged, at least %.3f whatever is swapped</span>",
            num_of(e, "clean"), num_of(e, "margin"));
    if (isfinite(num_of(e, "variants_log10")))
        put(b, "<span>10<sup>%.0f</sup> variants</span>", num_of(e, "variants_log10"));
    put(b, "<span>text %.0f</span></p>\n", num_of(e, "index"));
    if (json_array_size(json_object_get(e, "changes"))) {
        put(b, "<p class=\"text\">");
        html_marked(b, e, true);
        put(b, "</p>");
    }
    const json_t *harm = json_object_get(e, "harm"), *first = json_array_get(harm, 0);
    put(b, "<p class=\"text\">");
    html_harm(b, e);
    put(b, "</p>");
    if (first)
        put(b,
            "<p class=\"note\">The darker a word, the more of the margin a substitute can take "
            "there, as far as the bound knows. Most harmful: %s → %s (%.3f).</p>",
            str_of(first, "from"), str_of(first, "to"), num_of(first, "drop"));
    put(b, "</article>\n");
}

static void put_model(const report *r, const summary *s, size_t i, size_t j, markup *b)
{
    enum { EACH = 6 };
    const json_t *list = json_object_get(s->cell[i][j], "examples");
    put(b, "<h3>");
    put_dot(b, i);
    put(b, "%s <small>%s</small></h3>\n", r->run[i].name, s->col[j].note);
    put_verdicts(s, i, s->cell[i][j], b);
    if (!json_array_size(list))
        return;
    put(b, "<details><summary>texts with the most variants, and what each word can do"
           "</summary><div class=\"texts\">\n");
    for (size_t e = 0; e < json_array_size(list) && e < EACH; e++)
        put_certificate(json_array_get(list, e), b);
    put(b, "</div></details>\n");
}

stet_status html_proofs(const report *r, markup *b)
{
    bool begun = false;
    for (size_t k = 0; k < r->n_data; k++) {
        const summary *s = &r->data[k];
        bool here = false;
        for (size_t j = 0; j < s->n_cols; j++)
            for (size_t i = 0; i < r->n; i++) {
                if (!s->cell[i][j] || s->col[j].kind != MEASURE_CERTIFIED)
                    continue;
                if (!begun)
                    put(b, "<section id=\"proofs\"><h2>Proofs</h2>\n<p>A proof covers every "
                           "combination of the allowed substitutes at once, including the rounding "
                           "of the program that computes the answer. A text that is neither proved "
                           "nor flipped stays open.</p>\n");
                begun = here = true;
                put_model(r, s, i, j, b);
            }
        if (here)
            TRY(put_margins(r, s, b));
    }
    if (begun)
        put(b, "</section>\n");
    return STET_OK;
}
