/* report/svg.c - see canvas.h. Colours are classes, so that a reader in a dark theme
 * sees light ink on dark paper; images are embedded as PNG. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "report/canvas.h"

/* Paper, ink, faint, then the series: told apart with any colour vision, and on both papers. */
static const rgb light[] = {{255, 255, 255}, {34, 37, 43},  {221, 224, 229},
                            {0, 104, 176},   {213, 84, 0},  {0, 138, 100},
                            {178, 80, 150},  {196, 140, 0}, {70, 80, 95}};
static const rgb dark[] = {{22, 24, 29},    {226, 229, 234}, {58, 63, 72},
                           {92, 172, 238},  {255, 146, 82},  {66, 205, 165},
                           {232, 152, 208}, {242, 196, 76},  {170, 180, 195}};
enum { PAINTS = sizeof light / sizeof *light };

rgb paint_light(int p)
{
    return light[p < PAINTS ? p : PAINT_INK];
}

/* ---- shapes ------------------------------------------------------------------------------- */

static void close_tag(canvas *c, const char *name, const char *title)
{
    if (title) {
        put(&c->out, "><title>%s</title></%s>\n", title, name);
    } else {
        put(&c->out, "/>\n");
    }
}

void canvas_rect(canvas *c, double x, double y, double w, double h, int paint, double opacity,
                 const char *title)
{
    put(&c->out, "<rect class=\"f%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", paint,
        x, y, w, h);
    if (opacity < 1)
        put(&c->out, " fill-opacity=\"%.2f\"", opacity);
    close_tag(c, "rect", title);
}

void canvas_line(canvas *c, const double *xy, size_t points, int paint, double width)
{
    put(&c->out, "<path class=\"s%d\" stroke-width=\"%.2f\" d=\"", paint, width);
    for (size_t i = 0; i < points; i++)
        put(&c->out, "%c%.2f %.2f", i ? 'L' : 'M', xy[2 * i], xy[2 * i + 1]);
    put(&c->out, "\"/>\n");
}

void canvas_disc(canvas *c, double x, double y, double radius, int paint, const char *title)
{
    put(&c->out, "<circle class=\"f%d\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\"", paint, x, y, radius);
    close_tag(c, "circle", title);
}

void canvas_text(canvas *c, double x, double y, double size, anchor a, bool upright, int paint,
                 const char *t)
{
    static const char *const names[] = {"start", "middle", "end"};
    put(&c->out, "<text class=\"f%d\" font-size=\"%.4g\" text-anchor=\"%s\"", paint, size,
        names[a]);
    if (upright)
        put(&c->out, " transform=\"translate(%.2f %.2f) rotate(-90)\">", x, y);
    else
        put(&c->out, " x=\"%.2f\" y=\"%.2f\">", x, y);
    put(&c->out, "%s", t);
    put(&c->out, "</text>\n");
}

/* The values in 255 steps between lo and hi, as base64; 0 is a cell that is not shown. */
static void put_values(buf *out, const cells *m)
{
    const size_t n = m->rows * m->cols;
    unsigned char *step = mem_alloc(n, 1);
    if (!step) {
        out->status = STET_ENOMEM;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const double v = (double)m->value[i], share = m->log ? log(v / m->lo) / log(m->hi / m->lo)
                                                             : (v - m->lo) / (m->hi - m->lo);
        const bool shown = isfinite(v) && (!m->log || v > 0);
        step[i] = shown ? (unsigned char)(1 + lround(254 * fmin(fmax(share, 0), 1))) : 0;
    }
    buf_printf(
        out,
        " data-rows=\"%zu\" data-cols=\"%zu\" data-lo=\"%.6g\" data-hi=\"%.6g\" data-log=\"%d\" "
        "data-steps=\"",
        m->rows, m->cols, m->lo, m->hi, m->log);
    base64(out, step, n);
    buf_char(out, '"');
    mem_free(step);
}

void canvas_image(canvas *c, double x, double y, double w, double h, const cells *m,
                  const char *title)
{
    buf png = {0};
    png_encode(m->colour, m->rows, m->cols, &png);
    put(&c->out,
        "<image x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
        "preserveAspectRatio=\"none\" image-rendering=\"pixelated\" "
        "href=\"data:image/png;base64,",
        x, y, w, h);
    if (buf_status(&png) == STET_OK)
        base64(&c->out.out, (const unsigned char *)png.data, png.n);
    else
        c->out.out.status = buf_status(&png);
    put(&c->out, "\"");
    if (m->value && c->part)
        put_values(&c->out.out, m);
    close_tag(c, "image", title);
    buf_deinit(&png);
}

/* ---- file --------------------------------------------------------------------------------- */

static void theme(buf *b, const rgb *colour)
{
    for (int i = 0; i < PAINTS; i++)
        buf_printf(b, ".f%d{fill:#%02x%02x%02x}.s%d{stroke:#%02x%02x%02x}", i, colour[i].r,
                   colour[i].g, colour[i].b, i, colour[i].r, colour[i].g, colour[i].b);
}

stet_status canvas_save(canvas *c, const char *path)
{
    put(&c->out, "</svg>\n");
    TRY(markup_status(&c->out));
    return file_write_all(path, c->out.out.data, c->out.out.n);
}

void canvas_deinit(canvas *c)
{
    markup_deinit(&c->out);
}

void canvas_theme(buf *out)
{
    theme(out, light);
    buf_str(out, "@media(prefers-color-scheme:dark){");
    theme(out, dark);
    buf_char(out, '}');
}

void canvas_init(canvas *c, double width, double height)
{
    *c = (canvas){.out.escape = escape_html, .width = width, .height = height};
    put(&c->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
        "height=\"%g\" "
        "font-family=\"system-ui, "
        "sans-serif\">\n<style>path{fill:none;stroke-linejoin:round;stroke-linecap:round}",
        width, height, width, height);
    canvas_theme(&c->out.out);
    put(&c->out, "</style>\n");
    canvas_rect(c, 0, 0, width, height, PAINT_PAPER, 1, NULL);
}

void canvas_init_part(canvas *c, double width, double height, const char *label)
{
    *c = (canvas){.out.escape = escape_html, .width = width, .height = height, .part = true};
    put(&c->out, "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 %g %g\" aria-label=\"", width,
        height);
    put(&c->out, "%s", label);
    put(&c->out, "\">\n");
}

void canvas_take(canvas *c, markup *out)
{
    put(&c->out, "</svg>\n");
    put_part(out, &c->out);
}
