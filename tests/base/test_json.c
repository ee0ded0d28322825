/* tests/base/test_json.c */
#include "test.h"

#include <time.h>
#include <zlib.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    CHECK_OK(json_read_text("test", text, strlen(text), &v));
    return v;
}

static const char *in_dir(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

TEST(a_bad_text_names_itself_line_and_column)
{
    json_t *v = (json_t *)1;
    const char text[] = "{\n  \"a\": 1,\n  \"b\": oops\n}";
    CHECK_FAILS(json_read_text("cfg.json", text, sizeof text - 1, &v), STET_EFORMAT, "cfg.json:3:");
    CHECK(!v);
    CHECK_FAILS(json_read_text("x", "", 0, &v), STET_EFORMAT, "x:");
    CHECK_FAILS(json_read_text("x", "{\"a\":1,\"a\":2}", 13, &v), STET_EFORMAT, "duplicate");
    CHECK_FAILS(json_read_text("x", "[1] 2", 5, &v), STET_EFORMAT, "x:1:");
    CHECK_FAILS(json_read_text("x", "\"\xff\"", 3, &v), STET_EFORMAT, "x:1:1: unable to decode");
    CHECK_FAILS(json_read_text("x", "[1e999]", 7, &v), STET_EFORMAT, "x:1:");
}

TEST(very_deep_nesting_is_refused)
{
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    json_t *v;
    CHECK_FAILS(json_read_text("deep", deep, sizeof deep, &v), STET_EFORMAT, "depth");
}

/* What was read of it is given back in the order in which it was taken. */
TEST(a_long_text_that_breaks_off_is_refused_at_once)
{
    enum { STRINGS = 300000 };
    char *text = mem_alloc(STRINGS, 5);
    CHECK(text);
    size_t n = 0;
    for (int i = 0; i < STRINGS; i++, n += 5)
        memcpy(text + n, i == 0 ? "[\"xy\"" : ",\"xy\"", 5);
    json_t *v;
    const clock_t begin = clock();
    CHECK_FAILS(json_read_text("long", text, n, &v), STET_EFORMAT, "long:1:1500000: ']' expected");
    CHECK_LE((double)(clock() - begin) / CLOCKS_PER_SEC, 10); /* quadratic: a minute and more */
    mem_free(text);
}

TEST(a_value_is_written_readably_and_read_back)
{
    json_t *v = parse("{\"z\":1,\"name\":\"caf\u00e9 "
                      "\\\"x\\\"\",\"beta\":0.1,\"lr\":1.0,\"list\":[1,2.5,null],"
                      "\"deep\":[{\"a\":[]},{}],\"yes\":true,\"no\":false,\"none\":{}}"),
           *back;
    const char *path = in_dir("v.json");
    CHECK_OK(json_write_file(path, v));
    char *text;
    size_t size;
    CHECK_OK(file_read_all(path, 10000, &text, &size));
    CHECK_STR(text, "{\n"
                    "  \"z\": 1,\n"
                    "  \"name\": \"caf\u00e9 \\\"x\\\"\",\n"
                    "  \"beta\": 0.1,\n"
                    "  \"lr\": 1.0,\n"
                    "  \"list\": [1, 2.5, null],\n"
                    "  \"deep\": [\n"
                    "    {\n"
                    "      \"a\": []\n"
                    "    },\n"
                    "    {}\n"
                    "  ],\n"
                    "  \"yes\": true,\n"
                    "  \"no\": false,\n"
                    "  \"none\": {}\n"
                    "}\n");
    mem_free(text);
    CHECK_OK(json_read_file(path, &back));
    CHECK(json_equal(v, back));
    json_decref(v);
    json_decref(back);
}

TEST(a_compressed_file_is_read_and_a_bad_one_named)
{
    const char *path = in_dir("v.json.gz");
    gzFile z = gzopen(path, "wb");
    gzputs(z, "{\"a\": 7}");
    gzclose(z);
    json_t *v;
    int64_t a = 0;
    CHECK_OK(json_read_file(path, &v));
    CHECK_OK(json_get_int(v, "v", "a", 0, 10, &a));
    CHECK_EQ(a, 7);
    json_decref(v);
    CHECK_FAILS(json_read_file(in_dir("none.json"), &v), STET_EIO, "none.json: No such file");
    CHECK_OK(file_write_all(in_dir("bad.json"), "{\n]", 3));
    CHECK_FAILS(json_read_file(in_dir("bad.json"), &v), STET_EFORMAT, "bad.json:2:1: ");
    CHECK_OK(file_write_all(in_dir("empty.json"), "", 0));
    CHECK_FAILS(json_read_file(in_dir("empty.json"), &v), STET_EFORMAT, "empty.json:");
}

TEST(an_unwritable_place_is_told)
{
    json_t *v = parse("[]");
    CHECK_FAILS(json_write_file("/no/such/v.json", v), STET_EIO, "/no/such/v.json: No such file");
    json_decref(v);
}

TEST(fields_are_checked_for_presence_type_and_range)
{
    json_t *o = parse("{\"n\": 5, \"x\": 0.5, \"s\": \"text\", \"big\": 9223372036854775807}");
    int64_t n = 0;
    double x = 0;
    const char *s = NULL;
    CHECK_OK(json_get_int(o, "cfg", "n", 5, 5, &n));
    CHECK_EQ(n, 5);
    CHECK_OK(json_get_int(o, "cfg", "big", INT64_MIN, INT64_MAX, &n));
    CHECK(n == INT64_MAX);
    CHECK_OK(json_get_real(o, "cfg", "x", &x));
    CHECK_NEAR(x, 0.5, 0);
    CHECK_OK(json_get_real(o, "cfg", "n", &x)); /* an integer is a number */
    CHECK_NEAR(x, 5, 0);
    CHECK_OK(json_get_str(o, "cfg", "s", &s));
    CHECK_STR(s, "text");
    CHECK_FAILS(json_get_int(o, "cfg", "n", 6, 9, &n), STET_EFORMAT,
                "cfg: \"n\": expected an integer from 6 to 9");
    CHECK_FAILS(json_get_int(o, "cfg", "x", 0, 9, &n), STET_EFORMAT, "expected an integer");
    CHECK_FAILS(json_get_int(o, "cfg", "m", 0, 9, &n), STET_EFORMAT, "cfg: no \"m\"");
    CHECK_FAILS(json_get_real(o, "cfg", "s", &x), STET_EFORMAT, "cfg: \"s\": expected a number");
    CHECK_FAILS(json_get_str(o, "cfg", "n", &s), STET_EFORMAT, "cfg: \"n\": expected a string");
    CHECK_FAILS(json_get_str(NULL, "cfg", "n", &s), STET_EFORMAT, "cfg: expected an object");
    json_decref(o);
}

TEST(json_lines_are_written_and_read)
{
    buf b = {0};
    for (int i = 0; i < 3; i++) {
        json_t *v = json_pack("{s:i, s:[i,f]}", "step", i, "x", i, 0.5);
        json_append_line(&b, v);
        json_decref(v);
        buf_str(&b, i == 1 ? "\n  \n" : "");
    }
    CHECK_OK(buf_status(&b));
    CHECK(strncmp(b.data, "{\"step\":0,\"x\":[0,0.5]}\n", 23) == 0);
    CHECK_OK(file_write_all(in_dir("log.jsonl"), b.data, b.n));
    stream *s;
    json_t *v;
    stet_status st;
    int64_t step, next = 0;
    CHECK_OK(stream_open(in_dir("log.jsonl"), &s));
    while (json_next_line(s, &v, &st)) {
        CHECK_OK(json_get_int(v, "line", "step", 0, 9, &step));
        CHECK_EQ(step, next++);
        json_decref(v);
    }
    CHECK_OK(st);
    CHECK_EQ(next, 3);
    stream_close(s);
    buf_deinit(&b);
}

TEST(a_bad_json_line_is_named)
{
    stream *s;
    json_t *v;
    stet_status st;
    CHECK_OK(file_write_all(in_dir("log.jsonl"), "{}\n{]\n{}", 8));
    CHECK_OK(stream_open(in_dir("log.jsonl"), &s));
    CHECK(json_next_line(s, &v, &st));
    json_decref(v);
    CHECK(!json_next_line(s, &v, &st));
    CHECK_FAILS(st, STET_EFORMAT, "log.jsonl:2:");
    stream_close(s);
}

static const char sample[] = "{\"name\": \"a long enough string to need its own block \\u00e9\", "
                             "\"list\": [1, 2.5, [3, {\"deep\": null}], \"x\"], \"n\": 12345678}";

static stet_status read_text(void *ctx)
{
    json_t *v;
    TRY(json_read_text("sample", sample, sizeof sample - 1, &v));
    const bool right = !ctx || json_equal(v, ctx);
    json_decref(v);
    return right ? STET_OK : STET_EINTERNAL;
}

static stet_status write_and_read(void *ctx)
{
    json_t *v = NULL;
    TRY(json_read_text("sample", sample, sizeof sample - 1, &v));
    stet_status st = json_write_file(ctx, v);
    json_decref(v);
    v = NULL;
    if (st == STET_OK)
        st = json_read_file(ctx, &v);
    json_decref(v);
    return st;
}

/* Tokens whose text has to grow: of 16 bytes, of many, and numbers. */
static stet_status read_long_tokens(void *ctx)
{
    (void)ctx;
    static const char text[] =
        "{\"convs.0.weight\": 0.12345678901234567, \"lstm.weight_hh_l0_reverse\": [\"a text of "
        "more "
        "than thirty-two bytes \\u00e9\", 1234567890123456, 1.2345678901234e-10]}";
    json_t *v = NULL;
    const stet_status st = json_read_text("tokens", text, sizeof text - 1, &v);
    json_decref(v);
    return st;
}

TEST(a_long_token_survives_every_failed_allocation)
{
    CHECK_LE(10, ALLOC_FAIL_LOOP(read_long_tokens, NULL));
}

/* More values than the parser's last few, then an error. */
static stet_status read_broken(void *ctx)
{
    (void)ctx;
    static const char text[] =
        "{\"a\":[\"1\",\"2\",\"3\",\"4\",\"5\"],\"b\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14],\"c\":";
    json_t *v = NULL;
    const stet_status st = json_read_text("broken", text, sizeof text - 1, &v);
    return st == STET_EFORMAT ? STET_OK : st;
}

TEST(a_broken_text_survives_every_failed_allocation)
{
    CHECK_LE(30, ALLOC_FAIL_LOOP(read_broken, NULL));
}

TEST(json_survives_every_failed_allocation)
{
    char path[300];
    snprintf(path, sizeof path, "%s", in_dir("v.json"));
    CHECK_LE(10, ALLOC_FAIL_LOOP(read_text, NULL));
    CHECK_LE(20, ALLOC_FAIL_LOOP(write_and_read, path));
}
