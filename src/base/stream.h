/* base/stream.h - bytes and lines from plain, .gz, .xz and .zst files (told by magic, not by name),
 * or from "-" (standard input). Bounded memory; truncated or corrupt data gives STET_EFORMAT that
 * names the file.
 *
 *     stream *s;
 *     TRY(stream_open(path, &s));
 *     while (stream_line(s, &line, &len, &st)) ...   // without the line end; no trailing CR
 *     stream_close(s); */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include "base/error.h"

typedef struct stream stream;

stet_status stream_open(const char *path, stream **out);
/* Up to `size` bytes; *got 0 at the end. */
stet_status stream_read(stream *s, void *data, size_t size, size_t *got);
/* The next line, valid until the next call, NUL-terminated too. false at the end or on failure
 * (then *st is not STET_OK). A line longer than `stream_set_line_cap` is a failure: STET_EFORMAT
 * naming file and line. */
bool stream_line(stream *s, char **line, size_t *len, stet_status *st);
void stream_set_line_cap(stream *s, size_t bytes); /* default 64 MiB */
size_t stream_line_number(const stream *s);        /* of the line last returned, from 1 */
const char *stream_path(const stream *s);
void stream_close(stream *s); /* NULL is fine */

#endif
