/* base/markup.c - see base/markup.h. */
#include "base/markup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"

/* ---- escapes ------------------------------------------------------------------------------ */

static bool control(char c)
{
    return ((unsigned char)c < ' ' && c != '\n' && c != '\t') || c == 0x7f;
}

static const char *html_name(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return control(c) ? "\xef\xbf\xbd" : NULL;
    }
}

void escape_html(buf *b, const char *s, size_t n)
{
    size_t plain = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = html_name(s[i]);
        if (!name)
            continue;
        buf_bytes(b, s + plain, i - plain);
        buf_str(b, name);
        plain = i + 1;
    }
    buf_bytes(b, s + plain, n - plain);
}

/* Addresses become links by themselves in some readers; a character reference prevents it. */
static const char *link_part(const char *s, size_t i, size_t n)
{
    if (s[i] == ':' && i + 2 < n && s[i + 1] == '/' && s[i + 2] == '/')
        return "&#58;";
    if (s[i] == '.' && i >= 3 && (s[i - 1] | 32) == 'w' && (s[i - 2] | 32) == 'w')
        return "&#46;";
    return s[i] == '@' ? "&#64;" : NULL;
}

void escape_markdown(buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = s[i] == '\'' || s[i] == '"' ? NULL : html_name(s[i]),
                   *link = link_part(s, i, n);
        if (name || link) {
            buf_str(b, name ? name : link);
            continue;
        }
        if (s[i] && strchr("\\`*_[]|~#$!", s[i]))
            buf_char(b, '\\');
        buf_char(b, s[i] == '\n' ? ' ' : s[i]);
    }
}

/* ---- formats ------------------------------------------------------------------------------ */

enum { SPEC_MAX = 32 };

typedef struct spec {
    char text[SPEC_MAX]; /* the conversion as printf wants it, '*' replaced by its number */
    size_t n;
    int precision; /* -1: none */
    char length;   /* 'z', 'l', 'L' for "ll", 0 */
    char letter;
} spec;

static int number_at(const char **f, va_list *ap)
{
    int v = 0;
    if (**f == '*') {
        ++*f;
        return va_arg(*ap, int);
    }
    for (; **f >= '0' && **f <= '9'; ++*f)
        v = 10 * v + (**f - '0');
    return v;
}

/* Reads the conversion after a '%'; returns what follows it. */
static const char *read_spec(const char *f, va_list *ap, spec *s)
{
    *s = (spec){.precision = -1, .text = "%", .n = 1};
    while (*f && strchr("-+ #0", *f) && s->n < 4)
        s->text[s->n++] = *f++;
    const int width = number_at(&f, ap);
    if (width > 0)
        s->n += (size_t)snprintf(s->text + s->n, 12, "%d", width);
    if (*f == '.') {
        f++;
        s->precision = number_at(&f, ap);
        s->n += (size_t)snprintf(s->text + s->n, 13, ".%d", s->precision);
    }
    for (; *f == 'z' || *f == 'l'; f++) {
        s->length = *f == 'l' && s->length == 'l' ? 'L' : *f;
        s->text[s->n++] = *f;
    }
    s->letter = *f;
    s->text[s->n++] = *f;
    s->text[s->n] = '\0';
    return f + 1;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_number(buf *b, const spec *s, va_list *ap)
{
    if (strchr("fge", s->letter))
        buf_printf(b, s->text, va_arg(*ap, double));
    else if (s->length == 'L')
        buf_printf(b, s->text, va_arg(*ap, long long));
    else if (s->length == 'l')
        buf_printf(b, s->text, va_arg(*ap, long));
    else if (s->length == 'z')
        buf_printf(b, s->text, va_arg(*ap, size_t));
    else
        buf_printf(b, s->text, va_arg(*ap, int));
}
#pragma GCC diagnostic pop

void markup_put(markup *m, const char *literal, ...)
{
    va_list ap;
    va_start(ap, literal);
    const char *f = literal;
    while (*f) {
        const size_t plain = strcspn(f, "%");
        buf_bytes(&m->out, f, plain);
        f += plain;
        if (!*f)
            break;
        spec s;
        f = read_spec(f + 1, &ap, &s);
        if (s.letter == 's') {
            const char *t = va_arg(ap, const char *);
            put_text(m, t, s.precision >= 0 ? strnlen(t, (size_t)s.precision) : strlen(t));
        } else if (s.letter == 'c') {
            const char c = (char)va_arg(ap, int);
            put_text(m, &c, 1);
        } else if (s.letter == '%') {
            buf_char(&m->out, '%');
        } else {
            put_number(&m->out, &s, &ap);
        }
    }
    va_end(ap);
}

void put_text(markup *m, const char *s, size_t n)
{
    m->escape(&m->out, s, n);
}

void put_buf(markup *m, buf *text)
{
    if (text->status != STET_OK)
        m->out.status = text->status;
    put_text(m, text->data ? text->data : "", text->n);
    buf_deinit(text);
}

void put_part(markup *m, const markup *part)
{
    if (part->out.status != STET_OK)
        m->out.status = part->out.status;
    buf_bytes(&m->out, part->out.data ? part->out.data : "", part->out.n);
}

void put_trusted(markup *m, const void *bytes, size_t n)
{
    buf_bytes(&m->out, bytes, n);
}

stet_status markup_status(const markup *m)
{
    return buf_status(&m->out);
}

void markup_deinit(markup *m)
{
    buf_deinit(&m->out);
}

/* ---- hashes ------------------------------------------------------------------------------- */

static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Up to three bytes as four digits. */
static void base64_group(const unsigned char *p, size_t n, char out[4])
{
    const unsigned long v =
        (unsigned long)p[0] << 16 | (n > 1 ? (unsigned long)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);
    out[0] = digit[v >> 18];
    out[1] = digit[v >> 12 & 63];
    out[2] = n > 1 ? digit[v >> 6 & 63] : '=';
    out[3] = n > 2 ? digit[v & 63] : '=';
}

void base64(buf *out, const unsigned char *p, size_t n)
{
    char four[4];
    for (size_t i = 0; i < n; i += 3) {
        base64_group(p + i, n - i, four);
        buf_bytes(out, four, sizeof four);
    }
}

void csp_hash(const void *bytes, size_t n, char out[CSP_HASH])
{
    sha256 h;
    char hex[SHA256_HEX];
    unsigned char raw[32];
    sha256_init(&h);
    sha256_add(&h, bytes, n);
    sha256_hex(&h, hex);
    for (size_t i = 0; i < sizeof raw; i++) {
        const char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        unsigned v = 0;
        sscanf(pair, "%x", &v);
        raw[i] = (unsigned char)v;
    }
    memcpy(out, "sha256-", 7);
    for (size_t i = 0; i < sizeof raw; i += 3)
        base64_group(raw + i, sizeof raw - i, out + 7 + i / 3 * 4);
    out[CSP_HASH - 1] = '\0';
}
