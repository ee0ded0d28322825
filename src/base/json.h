/* base/json.h - jansson with our error model: a bad file names itself, line and column. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/buf.h"
#include "base/stream.h"

stet_status json_read_file(const char *path, json_t **out); /* plain or compressed */
stet_status json_read_own(const char *path, json_t **out);  /* one that we wrote: plain and not huge */
stet_status json_read_text(const char *what, const char *text, size_t size, json_t **out);
/* From here on mem_failures() counts what jansson had no memory for, too: it hides that at times. The host's allocator for
 * jansson stays in use. Reading a text calls this itself. */
void json_guard(void);
void json_unguard(void); /* jansson has its own allocator again, unless the host has changed it since */
/* Atomic, indented, keys in order of insertion. */
stet_status json_write_file(const char *path, const json_t *value);
/* As text with jansson's flags, in memory of ours; release with mem_free. */
stet_status json_text(const json_t *value, size_t flags, char **out);
/* JSON lines: one compact value and a line end appended to `b`; the next value of a stream (empty
 * lines are passed over; false at the end or on failure, then *st is not STET_OK). */
void json_append_line(buf *b, const json_t *value);
bool json_next_line(stream *s, json_t **out, stet_status *st);
/* Fields with a check of type and range; `what` names the object in the message. */
stet_status json_get_int(const json_t *o, const char *what, const char *key, int64_t lo, int64_t hi,
                         int64_t *out);
stet_status json_get_real(const json_t *o, const char *what, const char *key, double *out);
stet_status json_get_str(const json_t *o, const char *what, const char *key, const char **out);

#endif
