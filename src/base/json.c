/* base/json.c - see base/json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

enum { JSON_FILE_MAX = 1 << 30, JSON_OWN_MAX = 64 << 20 };

static stet_status read_rest(stream *s, buf *b)
{
    char chunk[16384];
    size_t got;
    do {
        TRY(stream_read(s, chunk, sizeof chunk, &got));
        if (b->n + got > JSON_FILE_MAX)
            return error_set(STET_EFORMAT, "%s: larger than %d bytes", stream_path(s),
                             JSON_FILE_MAX);
        buf_bytes(b, chunk, got);
    } while (got > 0 && buf_status(b) == STET_OK);
    return buf_status(b);
}

stet_status json_read_own(const char *path, json_t **out)
{
    *out = NULL;
    TRY(file_plain(path, JSON_OWN_MAX));
    return json_read_file(path, out);
}

stet_status json_read_file(const char *path, json_t **out)
{
    *out = NULL;
    struct stat sb;
    if (stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_size > JSON_FILE_MAX)
        return error_set(STET_EFORMAT, "%s: larger than %d bytes", path, JSON_FILE_MAX);
    stream *s;
    TRY(stream_open(path, &s));
    buf text = {0};
    stet_status st = read_rest(s, &text);
    if (st == STET_OK)
        st = json_read_text(stream_path(s), text.data, text.n, out);
    buf_deinit(&text);
    stream_close(s);
    return st;
}

static void newline(buf *b, int depth)
{
    buf_printf(b, "\n%*s", 2 * depth, "");
}

static bool is_flat(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        if (json_is_object(item) || json_is_array(item))
            return false;
    }
    return true;
}

static void dump(buf *b, const json_t *value, int depth);

/* A depth below 0 means everything on one line; lists of plain values always are. */
static void dump_array(buf *b, const json_t *array, int depth)
{
    const bool lines = depth >= 0 && !is_flat(array);
    buf_char(b, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i)
            buf_str(b, depth >= 0 && !lines ? ", " : ",");
        if (lines)
            newline(b, depth + 1);
        dump(b, json_array_get(array, i), lines ? depth + 1 : -1);
    }
    if (lines)
        newline(b, depth);
    buf_char(b, ']');
}

static void dump_object(buf *b, const json_t *object, int depth)
{
    const bool lines = depth >= 0 && json_object_size(object) > 0;
    bool first = true;
    buf_char(b, '{');
    for (void *it = json_object_iter((json_t *)(uintptr_t)object); it;
         it = json_object_iter_next((json_t *)(uintptr_t)object, it)) {
        if (!first)
            buf_char(b, ',');
        first = false;
        if (lines)
            newline(b, depth + 1);
        const char *key = json_object_iter_key(it);
        buf_json_string(b, key, strlen(key));
        buf_str(b, lines ? ": " : ":");
        dump(b, json_object_iter_value(it), lines ? depth + 1 : -1);
    }
    if (lines)
        newline(b, depth);
    buf_char(b, '}');
}

/* Our own writer: jansson's prints 0.1 as 0.10000000000000001, and every number of a list on its
 * own line. */
static void dump(buf *b, const json_t *value, int depth)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        dump_object(b, value, depth);
        break;
    case JSON_ARRAY:
        dump_array(b, value, depth);
        break;
    case JSON_STRING:
        buf_json_string(b, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        buf_real(b, json_real_value(value));
        break;
    case JSON_TRUE:
        buf_str(b, "true");
        break;
    case JSON_FALSE:
        buf_str(b, "false");
        break;
    case JSON_NULL:
        buf_str(b, "null");
        break;
    }
}

stet_status json_write_file(const char *path, const json_t *value)
{
    buf b = {0};
    dump(&b, value, 0);
    buf_char(&b, '\n');
    stet_status st = buf_status(&b);
    if (st == STET_OK)
        st = file_write_all(path, b.data, b.n);
    buf_deinit(&b);
    return st;
}

static int append(const char *text, size_t n, void *b)
{
    buf_bytes(b, text, n);
    return buf_status(b) == STET_OK ? 0 : -1;
}

stet_status json_text(const json_t *value, size_t flags, char **out)
{
    buf b = {0};
    const size_t failures = mem_failures(); /* jansson may dump a part where memory runs out */
    json_guard();
    stet_status st = json_dump_callback(value, append, &b, flags) == 0 && mem_failures() == failures
                         ? buf_status(&b)
                         : error_set(STET_ENOMEM, "out of memory for JSON");
    *out = st == STET_OK ? buf_take(&b) : NULL;
    buf_deinit(&b);
    return st;
}

void json_append_line(buf *b, const json_t *value)
{
    dump(b, value, -1);
    buf_char(b, '\n');
}

bool json_next_line(stream *s, json_t **out, stet_status *st)
{
    char *line;
    size_t len;
    *out = NULL;
    while (stream_line(s, &line, &len, st)) {
        if (strspn(line, " \t") == len)
            continue; /* an empty line says nothing */
        char what[512];
        snprintf(what, sizeof what, "%s:%zu", stream_path(s), stream_line_number(s));
        *st = json_read_text(what, line, len, out);
        return *st == STET_OK;
    }
    return false;
}

static stet_status need(const json_t *o, const char *what, const char *key, const char *expected,
                        json_t **out)
{
    if (!json_is_object(o))
        return error_set(STET_EFORMAT, "%s: expected an object", what);
    *out = json_object_get(o, key);
    if (!*out)
        return error_set(STET_EFORMAT, "%s: no \"%s\", expected %s", what, key, expected);
    return STET_OK;
}

stet_status json_get_int(const json_t *o, const char *what, const char *key, int64_t lo, int64_t hi,
                         int64_t *out)
{
    json_t *v;
    TRY(need(o, what, key, "an integer", &v));
    const json_int_t i = json_integer_value(v);
    if (!json_is_integer(v) || i < lo || i > hi)
        return error_set(STET_EFORMAT,
                         "%s: \"%s\": expected an integer from %" PRId64 " to %" PRId64, what, key,
                         lo, hi);
    *out = i;
    return STET_OK;
}

stet_status json_get_real(const json_t *o, const char *what, const char *key, double *out)
{
    json_t *v;
    TRY(need(o, what, key, "a number", &v));
    if (!json_is_number(v))
        return error_set(STET_EFORMAT, "%s: \"%s\": expected a number", what, key);
    *out = json_number_value(v);
    return STET_OK;
}

stet_status json_get_str(const json_t *o, const char *what, const char *key, const char **out)
{
    json_t *v;
    TRY(need(o, what, key, "a string", &v));
    if (!json_is_string(v))
        return error_set(STET_EFORMAT, "%s: \"%s\": expected a string", what, key);
    *out = json_string_value(v);
    return STET_OK;
}
