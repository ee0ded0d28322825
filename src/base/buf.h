/* base/buf.h - a growing byte string. Failures are sticky: append freely, check buf_status once. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/error.h"

typedef struct buf {
    char *data; /* NUL-terminated once something was appended */
    size_t n, cap;
    stet_status status;
} buf; /* {0} is valid */

void buf_bytes(buf *b, const void *data, size_t n);
void buf_str(buf *b, const char *s);
void buf_char(buf *b, char c);
void buf_printf(buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_real(buf *b, double x); /* shortest text that reads back as x; "null" if not finite */
/* Quoted and escaped; invalid UTF-8 becomes U+FFFD. */
void buf_json_string(buf *b, const char *s, size_t n);
void buf_clear(buf *b); /* keeps the memory, and a failure */
stet_status buf_status(const buf *b);
char *buf_take(buf *b); /* hand the string over; NULL after a failure */
void buf_deinit(buf *b);

#endif
