/* Plots: what is drawn, in files that others can read. */
#include "stet/plot.h"

#include <zlib.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "base/mem.h"
#include "report/canvas.h"
#include "report/ticks.h"
#include "test.h"

static const char *in_dir(const char *name)
{
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_dir(), name);
    return path[turn];
}

static char *svg_of(const stet_plot *p)
{
    char *text;
    size_t n;
    CHECK_OK(stet_plot_save(p, in_dir("p.svg")));
    CHECK_OK(file_read_all(in_dir("p.svg"), 1 << 26, &text, &n));
    return text;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *s = text; (s = strstr(s, part)); s += strlen(part))
        n++;
    return n;
}

/* Every tag that opens closes, and no coordinate is missing a number. */
static void check_svg(const char *text)
{
    CHECK(strncmp(text, "<svg ", 5) == 0 && strcmp(text + strlen(text) - 7, "</svg>\n") == 0);
    CHECK_EQ(count(text, "<text"), count(text, "</text>"));
    CHECK_EQ(count(text, "<title>"), count(text, "</title>"));
    CHECK(!strstr(text, "nan") && !strstr(text, "inf"));
}

static stet_plot *line_plot(void)
{
    const double x[] = {0, 1, 2, 3}, y[] = {1, NAN, 4, 8}, spread[] = {0.5, 0, 1, 2};
    static const char *const names[] = {"0", "1e-4", "a<b", "c&d"};
    stet_plot *p;
    CHECK_OK(stet_plot_new(
        &(stet_plot_options){
            .title = "T & <t>", .x_label = "x", .y_label = "y", .x_names = names, .n_x_names = 4},
        &p));
    CHECK_OK(stet_plot_line(p, "one", x, y, spread, 4));
    CHECK_OK(stet_plot_line(p, "two", x, x, NULL, 4));
    return p;
}

TEST(lines_have_a_point_each_and_names_are_escaped)
{
    stet_plot *p = line_plot();
    char *text = svg_of(p);
    check_svg(text);
    CHECK_EQ(count(text, "<circle"), 7); /* NaN is left out */
    CHECK_EQ(count(text, "<title>one: "), 3);
    CHECK(strstr(text, "T &amp; &lt;t&gt;") && strstr(text, "a&lt;b") &&
          strstr(text, ">two</text>"));
    CHECK(strstr(text, "prefers-color-scheme:dark"));
    mem_free(text);
    stet_plot_free(p);
}

TEST(a_long_legend_has_several_rows_inside_the_picture)
{
    const double v[] = {0, 1};
    stet_plot *p;
    CHECK_OK(stet_plot_new(&(stet_plot_options){.width = 600}, &p));
    for (char name[] = "a: under attack, lambda 2"; *name <= 'f'; ++*name)
        CHECK_OK(stet_plot_line(p, name, v, v, NULL, 2));
    char *text = svg_of(p);
    double x, y, last = 0;
    size_t rows = 0;
    for (char first = 'a'; first <= 'f'; first++) {
        char name[] = ">?: under attack, lambda 2</text>";
        name[1] = first;
        char *at = strstr(text, name);
        CHECK(at != NULL);
        while (at > text && strncmp(at, " x=", 3) != 0)
            at--;
        CHECK_EQ(sscanf(at, " x=\"%lf\" y=\"%lf\"", &x, &y), 2);
        CHECK(x >= 0 && x + 25 * 6 <= 600);
        rows += y > last;
        last = y;
    }
    CHECK_EQ(rows, 3);
    mem_free(text);
    stet_plot_free(p);
}

TEST(a_logarithmic_axis_leaves_out_what_has_no_logarithm)
{
    const double edge[] = {0, 0.1, 1, 10}, height[] = {5, 3, 0};
    stet_plot *p;
    CHECK_OK(stet_plot_new(&(stet_plot_options){.x_scale = STET_LOG}, &p));
    CHECK_OK(stet_plot_histogram(p, "h", edge, height, 3));
    char *text = svg_of(p);
    check_svg(text);
    CHECK_EQ(count(text, "<title>h: "), 1);
    mem_free(text);
    stet_plot_free(p);
}

TEST(nothing_to_show_is_still_a_plot)
{
    const double x[] = {NAN, INFINITY}, y[] = {1, 2};
    for (int log = 0; log < 2; log++) {
        stet_plot *p;
        CHECK_OK(stet_plot_new(&(stet_plot_options){.x_scale = log ? STET_LOG : STET_LINEAR,
                                                    .y_scale = log ? STET_LOG : STET_LINEAR},
                               &p));
        char *text = svg_of(p);
        check_svg(text);
        mem_free(text);
        CHECK_OK(stet_plot_line(p, "none", x, y, NULL, 2));
        CHECK_OK(stet_plot_line(p, "empty", NULL, NULL, NULL, 0));
        CHECK_OK(stet_plot_mark(p, -5, "m"));
        text = svg_of(p);
        check_svg(text);
        CHECK_EQ(count(text, "<circle"), 0);
        mem_free(text);
        stet_plot_free(p);
    }
}

static stet_plot *heat_plot(void)
{
    float m[6 * 9];
    for (int i = 0; i < 54; i++)
        m[i] = i % 7 ? (float)i / 100 : 0;
    m[3] = NAN;
    stet_plot *p;
    CHECK_OK(stet_plot_new(&(stet_plot_options){.title = "M", .width = 400, .height = 300}, &p));
    CHECK_OK(stet_plot_heat(p, m, 6, 9, STET_LOG, 0, 0));
    CHECK_OK(stet_plot_mark(p, 4, "h"));
    return p;
}

static uint32_t u32_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* An image chunk by chunk, as the format says: signature, header, one stream of rows, end. */
TEST(images_are_png_files)
{
    enum { ROWS = 5, COLS = 7, LINE = 1 + 3 * COLS };
    rgb pixel[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        pixel[i] = (rgb){(uint8_t)(7 * i), (uint8_t)(255 - i), (uint8_t)(i * i)};
    buf png = {0};
    png_encode(pixel, ROWS, COLS, &png);
    CHECK_OK(buf_status(&png));
    CHECK(memcmp(png.data, "\x89PNG\r\n\x1a\n", 8) == 0);
    static const char *const types[] = {"IHDR", "IDAT", "IEND"};
    size_t at = 8;
    for (int k = 0; k < 3; k++) {
        const size_t n = u32_at(png.data + at);
        const char *data = png.data + at + 8;
        CHECK(memcmp(png.data + at + 4, types[k], 4) == 0);
        CHECK_EQ(u32_at(data + n), crc32(0, (const unsigned char *)data - 4, (uInt)n + 4));
        if (k == 0)
            CHECK(n == 13 && u32_at(data) == COLS && u32_at(data + 4) == ROWS && data[8] == 8 &&
                  data[9] == 2);
        if (k == 1) {
            unsigned char raw[ROWS * LINE];
            uLongf size = sizeof raw;
            CHECK(uncompress(raw, &size, (const unsigned char *)data, n) == Z_OK);
            CHECK_EQ(size, sizeof raw);
            for (int r = 0; r < ROWS; r++)
                CHECK(raw[r * LINE] == 0 &&
                      memcmp(raw + r * LINE + 1, pixel + r * COLS, LINE - 1) == 0);
        }
        at += 12 + n;
    }
    CHECK_EQ(at, png.n);
    buf_deinit(&png);
}

TEST(a_heat_map_is_an_image)
{
    stet_plot *p = heat_plot();
    char *text = svg_of(p);
    check_svg(text);
    CHECK_EQ(count(text, "data:image/png;base64,iVBORw0KGgo"), 2); /* the matrix, its colour bar */
    mem_free(text);
    stet_plot_free(p);
}

TEST(mistakes_are_named)
{
    stet_plot *p = line_plot();
    CHECK_FAILS(stet_plot_save(p, in_dir("p.jpg")), STET_EUSAGE,
                "expected a name that ends in .svg");
    CHECK_FAILS(stet_plot_save(p, in_dir("none/p.svg")), STET_EIO, "none/p.svg");
    CHECK_FAILS(stet_plot_heat(p, NULL, 0, 3, STET_LINEAR, 0, 0), STET_EUSAGE, "heat map of 0 x 3");
    CHECK(stet_plot_save(p, in_dir("p.svg")) == STET_EUSAGE); /* remembered */
    stet_plot_free(p);
}

static stet_status draw_both(void *ctx)
{
    (void)ctx;
    const double v[] = {1, 2};
    const float m[] = {1, 2, 3, 4};
    stet_plot *p;
    stet_status st = stet_plot_new(&(stet_plot_options){.title = "t",
                                                        .x_names = (const char *const[]){"a"},
                                                        .n_x_names = 1,
                                                        .width = 60,
                                                        .height = 130},
                                   &p);
    if (st != STET_OK)
        return st;
    stet_plot_line(p, "l", v, v, v, 2);
    st = stet_plot_save(p, in_dir("f.svg"));
    if (st == STET_OK) {
        stet_plot_heat(p, m, 2, 2, STET_LOG, 0.5, 8);
        st = stet_plot_save(p, in_dir("f.svg"));
    }
    stet_plot_free(p);
    return st;
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    CHECK_LE(10, ALLOC_FAIL_LOOP(draw_both, NULL));
}

/* ---- numbers ------------------------------------------------------------------ */

TEST(ticks_are_round_and_within_the_axis)
{
    static const double range[][2] = {{0, 1},        {-3, 7},       {0.001, 0.0012},
                                      {100, 250000}, {-1e-9, 1e-9}, {86.2, 88.9}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        for (int log = 0; log < 2; log++) {
            const double lo = log ? fabs(range[i][0]) + 1e-6 : range[i][0],
                         hi = log ? lo + range[i][1] - range[i][0] : range[i][1];
            ticks t;
            ticks_make(lo, hi, log ? STET_LOG : STET_LINEAR, 6, &t);
            CHECK(log || (t.n >= 3 && t.n <= 12));
            for (size_t k = 0; k < t.n; k++) {
                CHECK(t.at[k] >= lo - 1e-9 * fabs(lo) && t.at[k] <= hi + 1e-9 * fabs(hi));
                CHECK(k == 0 || t.at[k] > t.at[k - 1]);
                CHECK_NEAR(atof(t.text[k]), t.at[k], 1e-3 * (fabs(t.at[k]) + (hi - lo)));
            }
        }
    ticks t;
    ticks_make(1e-6, 1, STET_LOG, 8, &t);
    CHECK_STR(t.text[1], "1e-5");
}
