/* report/png.c - a canvas of dots. Every shape is a distance or an overlap with the dot's square,
 * so edges are smooth without a second, larger picture. */
#include <math.h>

#include "base/file.h"
#include "base/mem.h"
#include "report/canvas.h"
#include "report/png_file.h"
#include "report/stroke_font.h"

enum { DOTS = 2 }; /* to a pixel, each way */

typedef struct raster {
    canvas c;
    size_t rows, cols;
    rgb *dot;
} raster;

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static void blend(raster *r, size_t row, size_t col, rgb colour, double share)
{
    rgb *d = &r->dot[row * r->cols + col];
    d->r = (uint8_t)(d->r + (colour.r - d->r) * share + 0.5);
    d->g = (uint8_t)(d->g + (colour.g - d->g) * share + 0.5);
    d->b = (uint8_t)(d->b + (colour.b - d->b) * share + 0.5);
}

/* Dots [first, end) of an axis that [lo, hi] touches. */
static void touched(double lo, double hi, size_t n, size_t *first, size_t *end)
{
    *first = (size_t)clamp(floor(lo), 0, (double)n);
    *end = (size_t)clamp(ceil(hi), 0, (double)n);
}

static double overlap(double lo, double hi, size_t dot)
{
    return clamp(fmin(hi, (double)dot + 1) - fmax(lo, (double)dot), 0, 1);
}

static void rect(canvas *c, double x, double y, double w, double h, int paint, double opacity,
                 const char *title)
{
    (void)title;
    raster *r = (raster *)c;
    size_t row0, row1, col0, col1;
    x *= DOTS, y *= DOTS, w *= DOTS, h *= DOTS;
    touched(y, y + h, r->rows, &row0, &row1);
    touched(x, x + w, r->cols, &col0, &col1);
    for (size_t row = row0; row < row1; row++)
        for (size_t col = col0; col < col1; col++)
            blend(r, row, col, paint_light(paint),
                  opacity * overlap(y, y + h, row) * overlap(x, x + w, col));
}

/* A stroke with round ends; both ends alike make a disc. In dots. */
static void stroke(raster *r, double x0, double y0, double x1, double y1, double radius, rgb colour)
{
    const double dx = x1 - x0, dy = y1 - y0, length2 = dx * dx + dy * dy, reach = radius + 1;
    size_t row0, row1, col0, col1;
    touched(fmin(y0, y1) - reach, fmax(y0, y1) + reach, r->rows, &row0, &row1);
    touched(fmin(x0, x1) - reach, fmax(x0, x1) + reach, r->cols, &col0, &col1);
    for (size_t row = row0; row < row1; row++)
        for (size_t col = col0; col < col1; col++) {
            const double px = (double)col + 0.5 - x0, py = (double)row + 0.5 - y0;
            const double t = length2 > 0 ? clamp((px * dx + py * dy) / length2, 0, 1) : 0;
            const double distance = hypot(px - t * dx, py - t * dy);
            const double share = clamp(radius + 0.5 - distance, 0, 1);
            if (share > 0)
                blend(r, row, col, colour, share);
        }
}

static void line(canvas *c, const double *xy, size_t points, int paint, double width)
{
    raster *r = (raster *)c;
    for (size_t i = 0; i + 1 < points; i++)
        stroke(r, DOTS * xy[2 * i], DOTS * xy[2 * i + 1], DOTS * xy[2 * i + 2],
               DOTS * xy[2 * i + 3], DOTS * width / 2, paint_light(paint));
}

static void disc(canvas *c, double x, double y, double radius, int paint, const char *title)
{
    (void)title;
    stroke((raster *)c, DOTS * x, DOTS * y, DOTS * x, DOTS * y, DOTS * radius, paint_light(paint));
}

static void text(canvas *c, double x, double y, double size, anchor a, bool upright, int paint,
                 const char *s)
{
    raster *r = (raster *)c;
    const double unit = size / STROKE_HEIGHT * DOTS, radius = 0.45 * unit + 0.2;
    double along = (a == ANCHOR_START    ? 0
                    : a == ANCHOR_MIDDLE ? -0.5
                                         : -1) *
                   unit * stroke_width(s);
    while (*s) {
        int width;
        double last[2] = {0, 0};
        bool begun = false;
        for (const char *p = stroke_glyph(&s, &width); *p;) {
            if (*p == ' ') {
                begun = false;
                p++;
                continue;
            }
            const double u = along + unit * (p[0] - '0'), v = unit * (p[1] - '0' - STROKE_BASELINE);
            const double to[2] = {DOTS * x + (upright ? v : u), DOTS * y + (upright ? -u : v)};
            if (begun)
                stroke(r, last[0], last[1], to[0], to[1], radius, paint_light(paint));
            last[0] = to[0], last[1] = to[1];
            begun = true;
            p += 2;
        }
        along += unit * width;
    }
}

static void image(canvas *c, double x, double y, double w, double h, const cells *m,
                  const char *title)
{
    (void)title;
    raster *r = (raster *)c;
    const size_t rows = m->rows, cols = m->cols;
    size_t row0, row1, col0, col1;
    x *= DOTS, y *= DOTS, w *= DOTS, h *= DOTS;
    touched(y, y + h, r->rows, &row0, &row1);
    touched(x, x + w, r->cols, &col0, &col1);
    for (size_t row = row0; row < row1; row++)
        for (size_t col = col0; col < col1; col++) {
            const size_t i =
                (size_t)clamp(((double)row + 0.5 - y) / h * (double)rows, 0, (double)rows - 1);
            const size_t j =
                (size_t)clamp(((double)col + 0.5 - x) / w * (double)cols, 0, (double)cols - 1);
            r->dot[row * r->cols + col] = m->colour[i * cols + j];
        }
}

static stet_status save(canvas *c, const char *path)
{
    const raster *r = (const raster *)c;
    buf b = {0};
    png_encode(r->dot, r->rows, r->cols, &b);
    stet_status st = buf_status(&b);
    if (st == STET_OK)
        st = file_write_all(path, b.data, b.n);
    buf_deinit(&b);
    return st;
}

static void raster_free(canvas *c)
{
    mem_free(((raster *)c)->dot);
    mem_free(c);
}

canvas *canvas_png_new(double width, double height)
{
    raster *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->c = (canvas){width, height, rect, line, disc, text, image, save, raster_free};
    r->rows = (size_t)(DOTS * height);
    r->cols = (size_t)(DOTS * width);
    r->dot = mem_alloc(r->rows * r->cols, sizeof *r->dot);
    if (!r->dot) {
        mem_free(r);
        return NULL;
    }
    for (size_t i = 0; i < r->rows * r->cols; i++)
        r->dot[i] = paint_light(PAINT_PAPER);
    return &r->c;
}
