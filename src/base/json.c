/* base/json.c - see base/json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { JSON_FILE_MAX = 1 << 30 };

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

stet_status json_read_file(const char *path, json_t **out)
{
    *out = NULL;
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

/* jansson 2.14 ignores some failed allocations and would hand back a shortened string, hence the
 * count of failures. */
stet_status json_read_text(const char *what, const char *text, size_t size, json_t **out)
{
    const size_t failures = mem_failures();
    json_error_t e;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (mem_failures() != failures ||
        (!*out && json_error_code(&e) == json_error_out_of_memory)) {
        json_decref(*out);
        *out = NULL;
        return error_set(STET_ENOMEM, "%s: out of memory", what);
    }
    if (!*out)
        return error_set(STET_EFORMAT, "%s:%d:%d: %s", what, e.line, e.column, e.text);
    return STET_OK;
}

static int write_piece(const char *data, size_t size, void *user)
{
    return atomic_write(user, data, size) == STET_OK ? 0 : -1;
}

static int append_piece(const char *data, size_t size, void *user)
{
    buf_bytes(user, data, size);
    return buf_status(user) == STET_OK ? 0 : -1;
}

/* jansson says only that it failed; a failed allocation or write has left its own message. */
static stet_status dump(const json_t *value, json_dump_callback_t fn, void *user, size_t flags)
{
    const size_t failures = mem_failures();
    if (json_dump_callback(value, fn, user, flags | JSON_ENCODE_ANY) == 0)
        return STET_OK;
    return mem_failures() != failures ? STET_ENOMEM : STET_EIO;
}

stet_status json_write_file(const char *path, const json_t *value)
{
    atomic_file f;
    TRY(atomic_open(&f, path));
    stet_status st = dump(value, write_piece, &f, JSON_INDENT(2));
    if (st == STET_OK)
        st = atomic_write(&f, "\n", 1);
    if (st == STET_OK)
        return atomic_commit(&f);
    atomic_abort(&f);
    return st;
}

stet_status json_write_line(buf *b, const json_t *value)
{
    TRY(buf_status(b));
    TRY(dump(value, append_piece, b, JSON_COMPACT));
    buf_char(b, '\n');
    return buf_status(b);
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
