#include "text/float_text.h"

#include <locale.h>

#include "base/rng.h"
#include "base/stream.h"
#include "test.h"

/* Bits, so that -0 is not 0. */
static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static void check_like_strtof(const char *text)
{
    float x = -7;
    const char *end = float_parse(text, &x);
    char *expected_end;
    const float expected = strtof(text, &expected_end);
    if (end != expected_end || bits_of(x) != bits_of(expected))
        test_fail(__FILE__, __LINE__, "\"%s\" gave %a, expected %a", text, (double)x,
                  (double)expected);
}

TEST(what_is_no_decimal_number_is_refused)
{
    static const char *const none[] = {"",    "-",   "+",    ".",  "-.", "e5",  ".e5",
                                       "nan", "inf", "-inf", " 1", "x",  "--1", "+-1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        float x;
        if (float_parse(none[i], &x))
            test_fail(__FILE__, __LINE__, "\"%s\" was taken for a number", none[i]);
    }
}

TEST(a_number_ends_where_its_grammar_ends)
{
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {{"1.5 2", 3}, {"1e", 1},   {"1e+", 1}, {"1e+x", 1},  {"2.e3x", 4},
                 {".5.5", 2},  {"0x10", 1}, {"7,5", 1}, {"1e5e5", 3}, {"12\n", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x;
        CHECK_EQ(float_parse(cases[i].text, &x) - cases[i].text, cases[i].len);
    }
}

TEST(corner_cases_read_as_the_c_library_reads_them)
{
    static const char *const cases[] = {
        "0",
        "-0",
        "+0.0",
        "00012",
        "1e0",
        "1e-0",
        "123456789012345678",
        "1234567890123456789",
        "12345678901234567890",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "0.00000000000000000000000000001",
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "3.4028234663852886e38",
        "3.4028235677973366e38",
        "3.4028235677973362e38",
        "3.4028236e38",
        "1e39",
        "-1e39",
        "1e400",
        "1e-400",
        "1e99999999999",
        "1e-99999999999",
        "0e99999999999",
        "1.17549435e-38",
        "1.1754943e-38",
        "1.17549428e-38",
        "1.4e-45",
        "7e-46",
        "7.1e-46",
        "7.006492321624085e-46",
        "16777217",
        "16777217.0000001",
        "16777216.9999999",
        "16777219",
        "33554433",
        "0.1",
        "0.3",
        "8388608.5",
        "8388609.5",
        "8388608.500000000000000000000000000001",
        "1.00000005960464477539",
        "1.000000059604644775390625",
        "1.0000000596046447753906250000000000000000000000000000001",
        "1.000000059604644775390624999999999999999",
        "5e-324",
        "9007199254740993",
        "9007199254740993e-3",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_like_strtof(cases[i]);
}

TEST(five_million_random_texts_read_as_the_c_library_reads_them)
{
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (int i = 0; i < 5000000; i++) {
        char text[128];
        const double small = rng_range(&r, -3, 3);
        const float any = float_of((uint32_t)rng_u64(&r) % 0x7f800000);
        switch (i % 5) {
        case 0: /* like a file of vectors */
            snprintf(text, sizeof text, "%.*f", (int)rng_below(&r, 12), small);
            break;
        case 1:
            snprintf(text, sizeof text, "%.*g", (int)rng_below(&r, 20), small);
            break;
        case 2: /* any float */
            snprintf(text, sizeof text, "%.*g", (int)rng_below(&r, 25), (double)any);
            break;
        case 3: /* halfway between two floats, or nearly */
            snprintf(text, sizeof text, "%.*e", (int)rng_below(&r, 50),
                     ((double)any + (double)nextafterf(any, 0)) / 2);
            break;
        default: /* any digits */
            snprintf(text, sizeof text, "%llu.%llue%d",
                     (unsigned long long)(rng_u64(&r) >> rng_below(&r, 64)),
                     (unsigned long long)(rng_u64(&r) >> rng_below(&r, 64)),
                     (int)rng_below(&r, 100) - 60);
        }
        check_like_strtof(text);
    }
}

TEST(short_decimals_around_midpoints_read_right)
{
    /* m + 1/2 with a tiny decimal added or taken away is where rounding twice would fail. */
    rng r = rng_stream(2, STREAM_TEST, 0);
    for (int i = 0; i < 200000; i++) {
        const unsigned m = 8388608 + (unsigned)rng_below(&r, 8388608);
        const int nines = (int)rng_below(&r, 14);
        char text[64];
        snprintf(text, sizeof text, "%u.5%0*d", m, nines + 1, (int)rng_below(&r, 2));
        check_like_strtof(text);
        snprintf(text, sizeof text, "%u.4%.*s", m, nines, "99999999999999");
        check_like_strtof(text);
    }
}

TEST(the_decimal_point_is_a_point_in_every_locale)
{
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        SKIP("no locale with a decimal comma");
    float x;
    CHECK(float_parse("1.00000005960464477539062500000000001", &x) != NULL); /* the slow path */
    CHECK_EQ(bits_of(x), 0x3f800001);
    char text[FLOAT_TEXT_MAX + 1];
    *float_format(0.5f, text) = '\0';
    CHECK_STR(text, "0.5");
}

TEST(formatted_floats_look_as_expected)
{
    static const struct {
        float x;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0f, "-0"},
                 {1, "1"},
                 {-0.0074364f, "-0.0074364"},
                 {0.1f, "0.1"},
                 {1e8f, "100000000"},
                 {1e9f, "1e+09"},
                 {1e-4f, "0.0001"},
                 {-4.7902e-5f, "-4.7902e-05"},
                 {16777216, "16777216"},
                 {3.4028235e38f, "3.4028235e+38"},
                 {1.17549435e-38f, "1.1754944e-38"},
                 {0.33333334f, "0.33333334"},
                 {123.5f, "123.5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[FLOAT_TEXT_MAX + 1];
        *float_format(cases[i].x, text) = '\0';
        CHECK_STR(text, cases[i].text);
    }
}

TEST(two_million_floats_survive_writing_and_reading)
{
    rng r = rng_stream(3, STREAM_TEST, 0);
    for (int i = 0; i < 2000000; i++) {
        const uint32_t u = (uint32_t)rng_u64(&r);
        const float x =
            float_of(i % 2 ? u : (u & 0x80ffffff) | 0x3e000000); /* any, or of a usual size */
        if (!isfinite(x))
            continue;
        char text[FLOAT_TEXT_MAX + 8];
        char *end = float_format(x, text);
        CHECK_LE(end - text, FLOAT_TEXT_MAX);
        *end = '\0';
        float ours;
        CHECK(float_parse(text, &ours) == end);
        CHECK_EQ(bits_of(ours), bits_of(x));
        CHECK_EQ(bits_of(strtof(text, NULL)), bits_of(x));
    }
}

TEST(every_number_of_a_sample_of_glove_reads_as_the_c_library_reads_it)
{
    stream *s;
    CHECK_OK(stream_open(test_data("glove/glove.6B.300d.core.txt.xz"), &s));
    char *line;
    size_t len, n = 0;
    stet_status st;
    while (stream_line(s, &line, &len, &st) && stream_line_number(s) <= 10000) {
        for (const char *p = strchr(line, ' '); *p == ' '; n++) {
            float x;
            char *expected_end;
            const float expected = strtof(p + 1, &expected_end);
            p = float_parse(p + 1, &x);
            CHECK(p == expected_end);
            CHECK_EQ(bits_of(x), bits_of(expected));
        }
    }
    stream_close(s);
    CHECK_EQ(n, 3000000);
}
