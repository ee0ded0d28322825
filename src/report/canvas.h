/* report/canvas.h - what a plot is drawn on: an SVG picture. Coordinates are pixels from the upper
 * left corner. Failures are sticky and come out of canvas_save or canvas_take. */
#ifndef REPORT_CANVAS_H
#define REPORT_CANVAS_H

#include "base/markup.h"
#include "stet/plot.h"

/* Roles, so that a theme can change; PAINT_SERIES + i is the i-th series' colour. */
enum { PAINT_PAPER, PAINT_INK, PAINT_FAINT, PAINT_SERIES };
enum { SERIES_COLOURS = 6 };

typedef enum anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } anchor;

typedef struct rgb {
    uint8_t r, g, b;
} rgb;
/* The light theme; the dark one is the picture's own business. */
rgb paint_light(int p);

/* A matrix as it is shown. Where `value` is there, a page tells it to a reader who points. */
typedef struct cells {
    const rgb *colour; /* (rows, cols) */
    size_t rows, cols;
    const float *value; /* (rows, cols) or NULL */
    double lo, hi;      /* of the colours */
    bool log;
} cells;

typedef struct canvas {
    double width, height;
    bool part; /* of a page */
    markup out;
} canvas;

void canvas_init(canvas *c, double width, double height);
/* One to stand in a page, which has the theme (canvas_theme). */
void canvas_init_part(canvas *c, double width, double height, const char *label);
void canvas_theme(buf *out); /* rules for the classes of the shapes, light and dark */
void canvas_deinit(canvas *c);

/* `title` (or NULL) is what a reader sees who points at the shape. */
void canvas_rect(canvas *c, double x, double y, double w, double h, int paint, double opacity,
                 const char *title);
void canvas_line(canvas *c, const double *xy, size_t points, int paint, double width);
void canvas_disc(canvas *c, double x, double y, double radius, int paint, const char *title);
/* The baseline begins, ends or has its middle at (x, y); `upright` text runs from below to above. */
void canvas_text(canvas *c, double x, double y, double size, anchor a, bool upright, int paint,
                 const char *s);
/* Cells stretched over the rectangle, unsmoothed. */
void canvas_image(canvas *c, double x, double y, double w, double h, const cells *m,
                  const char *title);

/* Whole at last: into a file, or appended to a page. */
stet_status canvas_save(canvas *c, const char *path);
void canvas_take(canvas *c, markup *out);

/* A plot as a part of a page: without title and legend, in the page's colours. Appends an <svg>
 * element; the title becomes its label for those who do not see it. */
stet_status plot_part(const stet_plot *p, markup *out);

/* Appends an image as the bytes of a PNG file; failures are the buffer's. */
void png_encode(const rgb *pixel, size_t rows, size_t cols, buf *out);

#endif
