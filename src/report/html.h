/* report/html.h - sections of the page. Each appends to the buffer, whose failure is sticky, and
 * writes nothing where there is nothing to show. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <string.h>

#include "report/canvas.h"
#include "report/plot_part.h"
#include "report/report_impl.h"

static inline void esc(buf *b, const char *s)
{
    buf_html(b, s, strlen(s));
}

/* The colour of a model is the same everywhere. */
static inline int paint_of(size_t run)
{
    return PAINT_SERIES + (int)(run % SERIES_COLOURS);
}
static inline void put_dot(buf *b, size_t run)
{
    buf_printf(b,
               "<svg class=\"dot\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><circle "
               "class=\"f%d\" cx=\"5\" cy=\"5\" r=\"5\"/></svg>",
               paint_of(run));
}

/* html_charts.c */
stet_status html_comparison(const report *r, const summary *s, buf *b);
stet_status html_training(const report *r, buf *b);
/* A plot in a <figure> with heading and caption; releases it. `attributes`: more for the element,
 * or "". */
stet_status html_figure(stet_plot *p, const char *attributes, const char *heading,
                        const char *caption, buf *b);
enum { CHART_WIDTH = 420, CHART_HEIGHT = 270 };

/* html_bounds.c */
stet_status html_bounds(const report *r, buf *b);

/* html_texts.c */
void html_examples(const report *r, buf *b);
stet_status html_certificates(const report *r, buf *b);

#endif
