/* tests/base/test_buf.c */
#include "test.h"

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/mem.h"

TEST(pieces_are_appended_and_ended)
{
    buf b = {0};
    buf_str(&b, "a");
    buf_char(&b, 'b');
    buf_bytes(&b, "cde", 2);
    buf_printf(&b, "%d", 42);
    CHECK_STR(b.data, "abcd42");
    CHECK_EQ(b.n, 6);
    const size_t cap = b.cap;
    buf_clear(&b);
    CHECK_STR(b.data, "");
    CHECK_EQ(b.cap, cap);
    buf_deinit(&b);
}

TEST(a_long_piece_is_formatted_whole)
{
    buf b = {0};
    buf_str(&b, "x");
    for (int n = 250; n < 262; n++) {
        buf_clear(&b);
        buf_printf(&b, "%*d|", n, 7);
        CHECK_EQ(b.n, n + 1);
        CHECK_EQ(strlen(b.data), n + 1);
        CHECK_EQ(b.data[n - 1], '7');
    }
    buf_deinit(&b);
}

TEST(the_string_can_be_taken)
{
    buf b = {0};
    char *s = buf_take(&b);
    CHECK_STR(s, "");
    mem_free(s);
    buf_str(&b, "mine");
    s = buf_take(&b);
    CHECK(!b.data && !b.n);
    CHECK_STR(s, "mine");
    mem_free(s);
}

TEST(failures_are_sticky)
{
    buf b = {0};
    buf_str(&b, "a");
    buf_bytes(&b, "", SIZE_MAX - 1);
    CHECK_FAILS(buf_status(&b), STET_ENOMEM, "out of memory");
    buf_str(&b, "more");
    CHECK_EQ(b.n, 1);
    CHECK(!buf_take(&b));
}

static void check_json(const char *s, size_t n, const char *expected)
{
    buf b = {0};
    buf_json_string(&b, s, n);
    CHECK_STR(b.data, expected);
    buf_deinit(&b);
}
#define JSON(text, expected) check_json(text, sizeof text - 1, expected)

TEST(json_strings_are_escaped)
{
    JSON("", "\"\"");
    JSON("a \"b\" \\ / \x7f", "\"a \\\"b\\\" \\\\ / \x7f\"");
    JSON("\b\f\n\r\t\x01\x1f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\"");
    JSON("a\0b", "\"a\\u0000b\"");
    JSON("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

#define BAD "\xef\xbf\xbd"
TEST(invalid_utf8_becomes_the_replacement_character)
{
    JSON("a\xff"
         "b",
         "\"a" BAD "b\"");
    JSON("\xc3", "\"" BAD "\"");                 /* cut short */
    JSON("\xc0\xaf", "\"" BAD BAD "\"");         /* overlong */
    JSON("\xe0\x80\x80", "\"" BAD BAD BAD "\""); /* overlong */
    JSON("\xf0\x80\x80\x80", "\"" BAD BAD BAD BAD "\"");
    JSON("\xed\xa0\x80", "\"" BAD BAD BAD "\""); /* surrogate */
    JSON("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\"");
    JSON("\xf0\x9f\x98", "\"" BAD BAD BAD "\"");
    JSON("\x80z", "\"" BAD "z\"");
    JSON("\xe2\x82\"", "\"" BAD BAD "\\\"\"");
}

static void check_real(double x, const char *expected)
{
    buf b = {0};
    buf_real(&b, x);
    CHECK_STR(b.data, expected);
    if (isfinite(x))
        CHECK(strtod(b.data, NULL) == x);
    buf_deinit(&b);
}

TEST(reals_are_short_and_exact)
{
    check_real(0.1, "0.1");
    check_real(10, "10.0");
    check_real(-0.0, "-0.0");
    check_real(1e300, "1e+300");
    check_real(0.1 + 0.2, "0.30000000000000004");
    check_real(1.0 / 3, "0.3333333333333333");
    check_real(5e-324, "4.94066e-324");
    check_real(123456789, "123456789.0");
    check_real(NAN, "null");
    check_real(-INFINITY, "null");
}

static stet_status build(void *ctx)
{
    (void)ctx;
    buf b = {0};
    for (int i = 0; i < 100; i++) {
        buf_printf(&b, "%300d", i);
        buf_json_string(&b, "a\n\xff", 3);
        buf_real(&b, 0.5);
    }
    const stet_status st = buf_status(&b);
    char *s = buf_take(&b);
    if ((st == STET_OK) != (s != NULL))
        return STET_EINTERNAL;
    mem_free(s);
    return st;
}

TEST(a_string_survives_every_failed_allocation)
{
    CHECK_LE(4, ALLOC_FAIL_LOOP(build, NULL));
}
