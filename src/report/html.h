/* report/html.h - sections of the page. Each appends to the buffer, whose failure is sticky, and
 * writes nothing where there is nothing to show. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <string.h>

#include "base/markup.h"
#include "report/canvas.h"
#include "report/report_impl.h"
#include "stet/results.h"

/* The colour of a model is the same everywhere. */
static inline int paint_of(size_t run)
{
    return PAINT_SERIES + (int)(run % SERIES_COLOURS);
}
static inline void put_dot(markup *b, size_t run)
{
    put(b,
        "<svg class=\"dot\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><circle "
        "class=\"f%d\" cx=\"5\" cy=\"5\" r=\"5\"/></svg>",
        paint_of(run));
}
/* A bar filled to `part`. The page's policy forbids style attributes, so it is an SVG. */
static inline void put_bar(markup *b, const char *kind, double part)
{
    put(b,
        "<svg class=\"bar %s\" aria-hidden=\"true\"><rect width=\"%.1f%%\" "
        "height=\"100%%\"/></svg>",
        kind, 100 * part);
}

/* html_charts.c */
stet_status html_comparison(const report *r, const summary *s, markup *b);
stet_status html_training(const report *r, markup *b);
/* A plot in a <figure> with heading and caption; releases it. */
stet_status html_figure(stet_plot *p, const char *heading, const char *caption, markup *b);
enum { CHART_WIDTH = 420, CHART_HEIGHT = 270 };

/* html_bounds.c */
stet_status html_bounds(const report *r, markup *b);

/* html_study.c */
stet_status html_study(const report *r, markup *b);
/* html_errors.c */
stet_status html_errors(const report *r, markup *b);
/* html_flips.c */
void html_flips(const report *r, markup *b);
/* html_proofs.c */
stet_status html_proofs(const report *r, markup *b);
/* html_marked.c: the text of an example with its changes; `brief`: only what is near them. */
void html_marked(markup *b, const json_t *example, bool brief);
/* Each word as dark as the harm that its substitutes can do. */
void html_harm(markup *b, const json_t *example);

#endif
