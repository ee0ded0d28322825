/* report/plot_part.h - a plot as a part of a page: without title and legend, in the page's colours.
 */
#ifndef REPORT_PLOT_PART_H
#define REPORT_PLOT_PART_H

#include "report/canvas.h"
#include "stet/plot.h"

/* Appends an <svg> element; the title becomes its label for those who do not see it. */
stet_status plot_part(const stet_plot *p, markup *out);

#endif
