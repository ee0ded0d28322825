/* report/canvas.h - what a plot is drawn on: one list of calls, two kinds of paper. Coordinates are
 * pixels from the upper left corner of a canvas of nominal size; a raster may have several dots to
 * a pixel. Failures are sticky and come out of `save`. */
#ifndef REPORT_CANVAS_H
#define REPORT_CANVAS_H

#include "base/buf.h"

/* Roles, so that a theme can change; PAINT_SERIES + i is the i-th series' colour. */
enum { PAINT_PAPER, PAINT_INK, PAINT_FAINT, PAINT_SERIES };
enum { SERIES_COLOURS = 6 };

typedef enum anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } anchor;

typedef struct rgb {
    uint8_t r, g, b;
} rgb;
/* The light theme; the dark one is the SVG's own business. */
rgb paint_light(int p);

/* A matrix as it is shown. Where `value` is there, paper that can tells it to a reader who points.
 */
typedef struct cells {
    const rgb *colour; /* (rows, cols) */
    size_t rows, cols;
    const float *value; /* (rows, cols) or NULL */
    double lo, hi;      /* of the colours */
    bool log;
} cells;

typedef struct canvas canvas;
struct canvas {
    double width, height;
    /* `title` (or NULL) is what a reader sees who points at the shape. */
    void (*rect)(canvas *c, double x, double y, double w, double h, int paint, double opacity,
                 const char *title);
    void (*line)(canvas *c, const double *xy, size_t points, int paint, double width);
    void (*disc)(canvas *c, double x, double y, double radius, int paint, const char *title);
    /* The baseline begins, ends or has its middle at (x, y); `upright` text runs from below to
     * above. */
    void (*text)(canvas *c, double x, double y, double size, anchor a, bool upright, int paint,
                 const char *s);
    /* Cells stretched over the rectangle, unsmoothed. */
    void (*image)(canvas *c, double x, double y, double w, double h, const cells *m,
                  const char *title);
    stet_status (*save)(canvas *c, const char *path);
    void (*free)(canvas *c);
};

/* NULL: out of memory. */
canvas *canvas_svg_new(double width, double height);
/* One to stand in a page, which has the theme (svg_theme); instead of saving, take what was drawn.
 */
canvas *canvas_svg_part(double width, double height, const char *label);
void canvas_svg_take(canvas *c, buf *out);
void svg_theme(buf *out); /* rules for the classes of the shapes, light and dark */
canvas *canvas_png_new(double width, double height);

#endif
