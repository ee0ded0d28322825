/* base/stream.c - bytes from a file through a decoder, and lines from the bytes. */
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer_size.h"
#include "base/codec.h"
#include "base/mem.h"

enum {
    IN_SIZE = BUFFER_SIZE(256 << 10, 64),
    OUT_SIZE = BUFFER_SIZE(512 << 10, 128),
    LINE_CAP = 64 << 20
};

struct stream {
    char *path;
    int fd;
    codec *codec; /* NULL: plain */
    /* bytes read from the file and not yet decoded: in[in_pos, in_n) */
    unsigned char *in;
    size_t in_pos, in_n;
    bool in_end; /* the file has no more */
    /* bytes decoded and not yet handed out: out[begin, end), searched for a line end to `scanned`;
     * there is always room for a NUL at out[end] */
    char *out;
    size_t out_cap, begin, scanned, end;
    bool out_end;
    size_t line_cap, line_no;
    stet_status status; /* failures are final */
};

static stet_status read_file(stream *s, void *data, size_t size, size_t *got)
{
    ssize_t n;
    do
        n = read(s->fd, data, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set(STET_EIO, "%s: %s", s->path, strerror(errno));
    *got = (size_t)n;
    s->in_end = n == 0;
    return STET_OK;
}

/* Enough of the beginning to tell the format; a pipe may give it in small pieces. */
static stet_status read_magic(stream *s)
{
    while (s->in_n < CODEC_MAGIC_MAX && !s->in_end) {
        size_t got = 0;
        TRY(read_file(s, s->in + s->in_n, IN_SIZE - s->in_n, &got));
        s->in_n += got;
    }
    return codec_new(s->in, s->in_n, &s->codec);
}

stet_status stream_open(const char *path, stream **out)
{
    *out = NULL;
    stream *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    const bool is_stdin = strcmp(path, "-") == 0;
    s->fd = -1;
    s->line_cap = LINE_CAP;
    s->path = mem_strdup(is_stdin ? "<stdin>" : path);
    s->in = mem_alloc(IN_SIZE, 1);
    stet_status st = s->path && s->in ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        s->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        st = s->fd >= 0 ? read_magic(s) : error_set(STET_EIO, "%s: %s", path, strerror(errno));
    }
    if (st == STET_OK)
        *out = s;
    else
        stream_close(s);
    return st;
}

static stet_status copy_plain(stream *s, char *data, size_t size, size_t *got)
{
    const size_t left = s->in_n - s->in_pos;
    if (left == 0)
        return read_file(s, data, size, got);
    *got = left < size ? left : size;
    memcpy(data, s->in + s->in_pos, *got);
    s->in_pos += *got;
    return STET_OK;
}

/* At least one byte into data[0, size), size > 0; *got 0 only at the end. */
static stet_status decode(stream *s, char *data, size_t size, size_t *got)
{
    *got = 0;
    if (!s->codec)
        return copy_plain(s, data, size, got);
    for (bool done = false; *got == 0 && !done;) {
        if (s->in_pos == s->in_n && !s->in_end) {
            s->in_pos = s->in_n = 0;
            TRY(read_file(s, s->in, IN_SIZE, &s->in_n));
        }
        size_t used = 0;
        const stet_status st = codec_decode(s->codec, s->in + s->in_pos, s->in_n - s->in_pos, &used,
                                            data, size, got, s->in_end, &done);
        if (st != STET_OK)
            return error_prefix(st, "%s", s->path);
        s->in_pos += used;
    }
    return STET_OK;
}

static stet_status check_usable(const stream *s)
{
    return s->status == STET_OK
               ? STET_OK
               : error_set(s->status, "%s: not readable after an earlier failure", s->path);
}

stet_status stream_read(stream *s, void *data, size_t size, size_t *got)
{
    *got = 0;
    TRY(check_usable(s));
    if (s->begin < s->end) {
        *got = s->end - s->begin < size ? s->end - s->begin : size;
        memcpy(data, s->out + s->begin, *got);
        s->begin += *got;
        if (s->scanned < s->begin)
            s->scanned = s->begin;
    } else if (size > 0 && !s->out_end) {
        s->status = decode(s, data, size, got);
        s->out_end = s->status == STET_OK && *got == 0;
    }
    return s->status;
}

/* More decoded bytes behind out[end]: move what is left to the front, or make room for a line
 * longer than the buffer. */
static stet_status fill(stream *s)
{
    const size_t left = s->end - s->begin;
    if (left > s->line_cap)
        return error_set(STET_EFORMAT, "%s:%zu: line longer than %zu bytes", s->path,
                         s->line_no + 1, s->line_cap);
    if (s->begin > 0) {
        memmove(s->out, s->out + s->begin, left);
        s->scanned -= s->begin;
        s->begin = 0;
        s->end = left;
    }
    if (s->end + OUT_SIZE / 2 >= s->out_cap)
        TRY(mem_grow(&s->out, &s->out_cap, s->end + OUT_SIZE + 1, 1));
    size_t got;
    TRY(decode(s, s->out + s->end, s->out_cap - 1 - s->end, &got));
    s->end += got;
    s->out_end = got == 0;
    return STET_OK;
}

bool stream_line(stream *s, char **line, size_t *len, stet_status *st)
{
    if ((*st = check_usable(s)) != STET_OK)
        return false;
    char *eol = NULL;
    for (;;) {
        if (s->scanned < s->end)
            eol = memchr(s->out + s->scanned, '\n', s->end - s->scanned);
        if (eol)
            break;
        s->scanned = s->end;
        if (s->out_end)
            break;
        if ((*st = s->status = fill(s)) != STET_OK)
            return false;
    }
    if (!eol && s->begin == s->end)
        return false;
    char *const begin = s->out + s->begin;
    char *end = eol ? eol : s->out + s->end;
    s->begin = s->scanned = eol ? (size_t)(eol + 1 - s->out) : s->end;
    if (end > begin && end[-1] == '\r')
        end--;
    *end = '\0';
    *line = begin;
    *len = (size_t)(end - begin);
    s->line_no++;
    if (*len > s->line_cap) {
        *st = s->status = error_set(STET_EFORMAT, "%s:%zu: line longer than %zu bytes", s->path,
                                    s->line_no, s->line_cap);
        return false;
    }
    return true;
}

void stream_set_line_cap(stream *s, size_t bytes)
{
    s->line_cap = bytes;
}

size_t stream_line_number(const stream *s)
{
    return s->line_no;
}

const char *stream_path(const stream *s)
{
    return s->path;
}

void stream_close(stream *s)
{
    if (!s)
        return;
    if (s->fd > STDIN_FILENO)
        close(s->fd);
    codec_free(s->codec);
    mem_free(s->path);
    mem_free(s->in);
    mem_free(s->out);
    mem_free(s);
}
