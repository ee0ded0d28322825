/* stet/plot.h - plots as SVG: lines, histograms, heat maps.
 *
 *     stet_plot *p;
 *     stet_plot_new(&(stet_plot_options){.title = "accuracy", .x_label = "beta"}, &p);
 *     stet_plot_line(p, "clean", beta, accuracy, NULL, n);
 *     stet_status st = stet_plot_save(p, "accuracy.svg");
 *     stet_plot_free(p);
 *
 * SVG files follow the reader's light or dark theme and name a point when the mouse is over it.
 * Everything given is copied. A failed addition is remembered: it is enough to look at the status
 * of stet_plot_save. */
#ifndef STET_PLOT_H
#define STET_PLOT_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_plot stet_plot;
typedef enum stet_scale { STET_LINEAR, STET_LOG } stet_scale;

typedef struct stet_plot_options {
    const char *title, *x_label, *y_label; /* NULL: none */
    stet_scale x_scale, y_scale;           /* LOG: what is not positive is left out */
    const char *const *x_names;            /* NULL, or names of the places x = 0, 1, ... */
    size_t n_x_names;
    double x_lo, x_hi, y_lo, y_hi; /* ranges shown at least; equal: only what the contents need */
    double width, height;          /* 0: 720 by 440 */
} stet_plot_options;

STET_API stet_status stet_plot_new(const stet_plot_options *o, stet_plot **out);
STET_API void stet_plot_free(stet_plot *p); /* NULL is fine */

/* Points joined by a line; those that are not finite are left out and break it. `spread` NULL, or
 * half the height of an error bar at each point. */
STET_API stet_status stet_plot_line(stet_plot *p, const char *name, const double *x,
                                    const double *y, const double *spread, size_t n);
/* Bars over [edge[i], edge[i + 1]), transparent enough that two histograms may lie on each other.
 */
STET_API stet_status stet_plot_histogram(stet_plot *p, const char *name, const double *edge,
                                         const double *height, size_t bins);
/* The matrix as an image, row 0 on top, with a bar that explains the colours. On a logarithmic
 * scale zeros are left blank. Colours go from `lo` to `hi`, so that two maps can be compared, or,
 * where these are equal, over the entries there are. At most one map in a plot, and nothing but
 * marks beside it. */
STET_API stet_status stet_plot_heat(stet_plot *p, const float *m, size_t rows, size_t cols,
                                    stet_scale scale, double lo, double hi);
/* A thin line across the plot at x, with a word at its upper end. */
STET_API stet_status stet_plot_mark(stet_plot *p, double x, const char *name);

/* A thin line from one point to another, to compare with. */
STET_API stet_status stet_plot_guide(stet_plot *p, double x0, double y0, double x1, double y1);

/* The name ends in .svg; atomic. */
STET_API stet_status stet_plot_save(const stet_plot *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
