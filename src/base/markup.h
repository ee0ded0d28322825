/* base/markup.h - pages that cannot be broken by what they show. A `markup` is text that is already
 * markup; a `const char *` is text that is not. The only way from the second to the first escapes:
 *
 *     markup page = {.escape = escape_html};
 *     put(&page, "<p class=\"%s\">%d texts of %s</p>", kind, n, name);
 *
 * `put` is printf whose format must be a literal and whose %s (and %.*s, %c) are escaped. Failures
 * are sticky, as in buf.h. */
#ifndef BASE_MARKUP_H
#define BASE_MARKUP_H

#include "base/buf.h"

typedef void markup_escape(buf *b, const char *s, size_t n);
/* For text and for attributes in double quotes. Control characters become U+FFFD. */
markup_escape escape_html;
/* For a table cell or a paragraph: no emphasis, no link, no HTML; line ends become spaces. */
markup_escape escape_markdown;

typedef struct markup {
    markup_escape *escape;
    buf out;
} markup;

#define put(m, ...) markup_put(m, "" __VA_ARGS__)
/* Knows the conversions %s %c %d %i %u %x %f %g %e %% with z, l, ll, width and precision. */
void markup_put(markup *m, const char *literal, ...) PRINTF_LIKE(2, 3);
void put_text(markup *m, const char *s, size_t n); /* escaped */
/* The same, and releases it. */
void put_buf(markup *m, buf *text);
void put_part(markup *m, const markup *part); /* markup of the same kind; takes its failure */
/* Bytes that are part of this program, such as an embedded style sheet. */
void put_trusted(markup *m, const void *bytes, size_t n);
stet_status markup_status(const markup *m);
void markup_deinit(markup *m);

/* "sha256-...", as a Content-Security-Policy names an inline script or style. */
enum { CSP_HASH = 7 + 44 + 1 };
void csp_hash(const void *bytes, size_t n, char out[CSP_HASH]);
void base64(buf *out, const unsigned char *p, size_t n);

#endif
