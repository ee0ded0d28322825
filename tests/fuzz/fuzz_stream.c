/* tests/fuzz/fuzz_stream.c - compressed and plain files, by lines and by bytes. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/stream.h"

enum { LIMIT = 1 << 16 }; /* a bomb is the host's limit to set; here it is only slow */

static void read_lines(stream *s)
{
    char *line;
    size_t len, total = 0;
    stet_status st;
    while (total < LIMIT && stream_line(s, &line, &len, &st)) {
        if (line[len] != '\0' || memchr(line, '\n', len))
            abort();
        total += len;
    }
}

static void read_bytes(stream *s)
{
    char data[1000];
    size_t got, total = 0;
    while (total < LIMIT && stream_read(s, data, sizeof data, &got) == STET_OK && got > 0)
        total += got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    stream *s;
    if (stream_open(path, &s) == STET_OK) {
        stream_set_line_cap(s, 1 << 16);
        read_lines(s);
        stream_close(s);
    }
    if (stream_open(path, &s) == STET_OK) {
        read_bytes(s);
        stream_close(s);
    }
    return 0;
}
