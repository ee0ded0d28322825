/* model/feature_cache.c - see feature_cache.h. */
#include "model/feature_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/strmap.h"

typedef struct file_head {
    char magic[16], encoder[64];
    uint64_t dim, size_of_number;
} file_head;

typedef struct record_head {
    char key[64];
    uint64_t n, check; /* pieces; hash of the numbers */
} record_head;

struct feature_cache {
    char *path;
    int fd;
    size_t dim;
    strmap keys;
    uint64_t *at; /* (keys.n) where the record of a key begins */
    size_t cap;
    uint64_t end;
};

static const char magic[16] = "stet features 1";

static stet_status failed(const feature_cache *c, const char *what)
{
    return error_set(STET_EIO, "%s: %s: %s", c->path, what, strerror(errno));
}

/* All of it, or an error; *whole false: the file ends before. */
static stet_status read_at(const feature_cache *c, void *to, size_t size, uint64_t at, bool *whole)
{
    char *p = to;
    *whole = false;
    while (size) {
        const ssize_t n = pread(c->fd, p, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(c, "cannot read");
        if (n == 0)
            return STET_OK;
        p += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    *whole = true;
    return STET_OK;
}

static stet_status write_at(const feature_cache *c, const void *from, size_t size, uint64_t at)
{
    const char *p = from;
    while (size) {
        const ssize_t n = pwrite(c->fd, p, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(c, "cannot write");
        p += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return STET_OK;
}

static size_t row_bytes(const feature_cache *c, uint64_t n)
{
    return (size_t)n * c->dim * sizeof(real);
}

static stet_status note(feature_cache *c, const char key[64], uint64_t at)
{
    uint32_t id;
    TRY(strmap_add(&c->keys, key, 64, &id));
    TRY(mem_grow(&c->at, &c->cap, c->keys.n, sizeof *c->at));
    c->at[id] = at;
    return STET_OK;
}

/* ---- opening ------------------------------------------------------------------------------ */

static stet_status check_head(feature_cache *c, const char *encoder, uint64_t size)
{
    file_head want = {.dim = c->dim, .size_of_number = sizeof(real)}, got;
    bool whole;
    memcpy(want.magic, magic, sizeof want.magic);
    memcpy(want.encoder, encoder, sizeof want.encoder);
    c->end = sizeof want;
    if (size == 0)
        return write_at(c, &want, sizeof want, 0);
    TRY(read_at(c, &got, sizeof got, 0, &whole));
    if (!whole || memcmp(got.magic, magic, sizeof magic) != 0)
        return error_set(STET_EFORMAT, "%s: no file of features", c->path);
    return memcmp(&got, &want, sizeof got) == 0
               ? STET_OK
               : error_set(STET_EUSAGE, "%s: has the features of other weights; name another file",
                           c->path);
}

static stet_status list_records(feature_cache *c, uint64_t size)
{
    const uint64_t row = row_bytes(c, 1);
    while (c->end < size) {
        record_head h;
        bool whole;
        TRY(read_at(c, &h, sizeof h, c->end, &whole));
        if (!whole || h.n > (size - c->end - sizeof h) / row)
            break;
        TRY(note(c, h.key, c->end));
        c->end += sizeof h + h.n * row;
    }
    if (c->end == size)
        return STET_OK;
    log_info("%s: its last record is not whole, and is made again", c->path);
    return ftruncate(c->fd, (off_t)c->end) == 0 ? STET_OK : failed(c, "cannot be cut");
}

static stet_status open_file(feature_cache *c, const char *encoder)
{
    struct stat s;
    c->fd = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (c->fd < 0)
        return failed(c, "cannot be opened");
    if (fstat(c->fd, &s) != 0)
        return failed(c, "cannot be looked at");
    if (!S_ISREG(s.st_mode))
        return error_set(STET_EIO, "%s: not a plain file", c->path);
    if (flock(c->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? error_set(STET_EIO, "%s: another process writes to it", c->path)
                   : failed(c, "cannot be locked");
    TRY(check_head(c, encoder, (uint64_t)s.st_size));
    return s.st_size ? list_records(c, (uint64_t)s.st_size) : STET_OK;
}

stet_status feature_cache_open(const char *path, const char encoder[SHA256_HEX], size_t dim,
                               feature_cache **out)
{
    feature_cache *c = *out = mem_zalloc(1, sizeof *c);
    if (!c)
        return STET_ENOMEM;
    c->fd = -1;
    c->dim = dim;
    c->path = mem_strdup(path);
    const stet_status st = c->path ? open_file(c, encoder) : STET_ENOMEM;
    if (st == STET_OK)
        return STET_OK;
    feature_cache_close(c);
    *out = NULL;
    return st;
}

void feature_cache_close(feature_cache *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    strmap_deinit(&c->keys);
    mem_free(c->at);
    mem_free(c->path);
    mem_free(c);
}

/* ---- texts -------------------------------------------------------------------------------- */

static void key_of(const uint32_t *ids, size_t n, char key[SHA256_HEX])
{
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, ids, n * sizeof *ids);
    sha256_hex(&h, key);
}

stet_status feature_cache_get(feature_cache *c, const uint32_t *ids, size_t n, real *rows,
                              bool *found)
{
    char key[SHA256_HEX];
    record_head h;
    bool whole;
    key_of(ids, n, key);
    const uint32_t id = strmap_find(&c->keys, key, 64);
    *found = id != STRMAP_NONE;
    if (!*found)
        return STET_OK;
    TRY(read_at(c, &h, sizeof h, c->at[id], &whole));
    if (whole && h.n == n)
        TRY(read_at(c, rows, row_bytes(c, n), c->at[id] + sizeof h, &whole));
    return whole && h.n == n && h.check == hash_bytes(rows, row_bytes(c, n), 0)
               ? STET_OK
               : error_set(STET_EFORMAT, "%s: damaged; remove it, and it is made again", c->path);
}

stet_status feature_cache_put(feature_cache *c, const uint32_t *ids, size_t n, const real *rows)
{
    char key[SHA256_HEX];
    record_head h = {.n = n, .check = hash_bytes(rows, row_bytes(c, n), 0)};
    key_of(ids, n, key);
    memcpy(h.key, key, sizeof h.key);
    TRY(write_at(c, &h, sizeof h, c->end));
    TRY(write_at(c, rows, row_bytes(c, n), c->end + sizeof h));
    TRY(note(c, key, c->end));
    c->end += sizeof h + row_bytes(c, n);
    return STET_OK;
}
