/* base/buf.c - the growing byte string, and the two escapings every writer needs. */
#include "base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

/* Room for `n` more bytes and the NUL. */
static bool buf_reserve(buf *b, size_t n)
{
    if (b->status != STET_OK)
        return false;
    if (n > SIZE_MAX - b->n - 1)
        b->status = error_set(STET_ENOMEM, "out of memory: a string of %zu + %zu bytes", b->n, n);
    else
        b->status = mem_grow(&b->data, &b->cap, b->n + n + 1, 1);
    return b->status == STET_OK;
}

void buf_bytes(buf *b, const void *data, size_t n)
{
    if (!buf_reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
    b->data[b->n] = '\0';
}

void buf_str(buf *b, const char *s)
{
    buf_bytes(b, s, strlen(s));
}

void buf_char(buf *b, char c)
{
    buf_bytes(b, &c, 1);
}

void buf_printf(buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[256]; /* most pieces are short; longer ones are formatted twice */
    const int n = number_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        if (b->status == STET_OK)
            b->status = error_set(STET_EINTERNAL, "cannot format '%s'", fmt);
    } else if ((size_t)n < sizeof text) {
        buf_bytes(b, text, (size_t)n);
    } else if (buf_reserve(b, (size_t)n)) {
        va_start(ap, fmt);
        number_vprint(b->data + b->n, (size_t)n + 1, fmt, ap);
        va_end(ap);
        b->n += (size_t)n;
    }
}

void buf_real(buf *b, double x)
{
    if (!isfinite(x)) {
        buf_str(b, "null");
        return;
    }
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        number_print(text, sizeof text, "%.*g", digits, x);
        if (number_parse(text, NULL) == x)
            break;
    }
    buf_str(b, text);
    if (!strpbrk(text, ".e"))
        buf_str(b, ".0"); /* a reader should see a real number */
}

/* Length of the well-formed UTF-8 sequence at s, or 0: no overlong forms, surrogates or values
 * above U+10FFFF. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    const unsigned char c = s[0];
    const size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) ||
        (c == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

static void json_escape(buf *b, unsigned char c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *p = letters; *p; p += 2) {
        if ((unsigned char)p[0] == c) {
            buf_char(b, '\\');
            buf_char(b, p[1]);
            return;
        }
    }
    buf_printf(b, "\\u%04x", c);
}

void buf_json_string(buf *b, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    buf_char(b, '"');
    size_t plain = 0; /* start of the run not yet copied */
    for (size_t i = 0; i < n;) {
        const size_t len = utf8_length(p + i, n - i);
        if (len > 1 || (len == 1 && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')) {
            i += len;
            continue;
        }
        buf_bytes(b, s + plain, i - plain);
        if (len)
            json_escape(b, p[i]);
        else
            buf_str(b, "\xef\xbf\xbd"); /* U+FFFD */
        plain = ++i;
    }
    buf_bytes(b, s + plain, n - plain);
    buf_char(b, '"');
}

void buf_clear(buf *b)
{
    b->n = 0;
    if (b->data)
        b->data[0] = '\0';
}

stet_status buf_status(const buf *b)
{
    return b->status;
}

char *buf_take(buf *b)
{
    buf_bytes(b, "", 0); /* an empty string is a string too */
    char *s = NULL;
    if (b->status == STET_OK) {
        s = b->data;
        b->data = NULL;
    }
    buf_deinit(b);
    return s;
}

void buf_deinit(buf *b)
{
    mem_free(b->data);
    *b = (buf){0};
}
