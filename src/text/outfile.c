/* text/outfile.c - gzip, xz and zstd between us and an atomic file. They take their memory from base/mem.h, like the
 * decoders of base/codec.c. */
#define ZSTD_STATIC_LINKING_ONLY /* for the allocator argument */
#include "text/outfile.h"

#include <errno.h>
#include <lzma.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/file.h"
#include "base/mem.h"

enum { OUT_SIZE = 64 << 10 };

typedef struct pack_io {
    const unsigned char *in;
    size_t in_n; /* both shrink from the front as bytes are used */
    unsigned char *out;
    size_t out_n;
} pack_io;

typedef struct packer {
    const char *suffix;
    bool (*start)(outfile *f);
    /* Some of io->in; with `end` and no input left, the rest of the output. *done: all of it is out. */
    bool (*step)(outfile *f, pack_io *io, bool end, bool *done);
    void (*stop)(outfile *f);
} packer;

struct outfile {
    atomic_file file;
    FILE *standard;     /* standard output instead of `file`, or NULL */
    const packer *pack; /* NULL: plain */
    unsigned char *out; /* (OUT_SIZE) */
    union {
        z_stream gz;
        lzma_stream xz;
        ZSTD_CStream *zst;
    } u;
};

static void *count_alloc(void *opaque, size_t count, size_t size)
{
    (void)opaque;
    return mem_alloc(count, size);
}

static void *gz_alloc(void *opaque, unsigned count, unsigned size)
{
    return count_alloc(opaque, count, size);
}

static void *zst_alloc(void *opaque, size_t size)
{
    return count_alloc(opaque, 1, size);
}

static void release(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

/* The header that zlib writes by itself carries no time. */
static bool gz_start(outfile *f)
{
    f->u.gz = (z_stream){.zalloc = gz_alloc, .zfree = release};
    return deflateInit2(&f->u.gz, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                        Z_DEFAULT_STRATEGY) == Z_OK;
}

static bool gz_step(outfile *f, pack_io *io, bool end, bool *done)
{
    z_stream *const z = &f->u.gz;
    const unsigned some = io->in_n < 1 << 30 ? (unsigned)io->in_n : 1 << 30;
    z->next_in = (unsigned char *)(uintptr_t)io->in;
    z->avail_in = some;
    z->next_out = io->out;
    z->avail_out = (unsigned)io->out_n;
    const int rc = deflate(z, end && some == io->in_n ? Z_FINISH : Z_NO_FLUSH);
    io->in += some - z->avail_in;
    io->in_n -= some - z->avail_in;
    io->out_n = z->avail_out;
    *done = rc == Z_STREAM_END;
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR; /* the last: no progress now */
}

static void gz_stop(outfile *f)
{
    deflateEnd(&f->u.gz);
}

static bool xz_start(outfile *f)
{
    static const lzma_allocator allocator = {count_alloc, release, NULL};
    f->u.xz = (lzma_stream)LZMA_STREAM_INIT;
    f->u.xz.allocator = &allocator;
    return lzma_easy_encoder(&f->u.xz, LZMA_PRESET_DEFAULT, LZMA_CHECK_CRC64) == LZMA_OK;
}

static bool xz_step(outfile *f, pack_io *io, bool end, bool *done)
{
    lzma_stream *const z = &f->u.xz;
    z->next_in = io->in;
    z->avail_in = io->in_n;
    z->next_out = io->out;
    z->avail_out = io->out_n;
    const lzma_ret rc = lzma_code(z, end ? LZMA_FINISH : LZMA_RUN);
    io->in = z->next_in;
    io->in_n = z->avail_in;
    io->out_n = z->avail_out;
    *done = rc == LZMA_STREAM_END;
    return rc == LZMA_OK || rc == LZMA_STREAM_END || rc == LZMA_BUF_ERROR;
}

static void xz_stop(outfile *f)
{
    lzma_end(&f->u.xz);
}

static bool zst_start(outfile *f)
{
    f->u.zst = ZSTD_createCStream_advanced((ZSTD_customMem){zst_alloc, release, NULL});
    return f->u.zst != NULL;
}

static bool zst_step(outfile *f, pack_io *io, bool end, bool *done)
{
    ZSTD_inBuffer in = {io->in, io->in_n, 0};
    ZSTD_outBuffer out = {io->out, io->out_n, 0};
    const size_t rc = ZSTD_compressStream2(f->u.zst, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
    io->in += in.pos;
    io->in_n -= in.pos;
    io->out_n -= out.pos;
    *done = end && rc == 0;
    return !ZSTD_isError(rc);
}

static void zst_stop(outfile *f)
{
    ZSTD_freeCStream(f->u.zst);
}

static const packer packers[] = {
    {".gz", gz_start, gz_step, gz_stop},
    {".xz", xz_start, xz_step, xz_stop},
    {".zst", zst_start, zst_step, zst_stop},
};

static const packer *packer_of(const char *path, size_t n)
{
    for (size_t i = 0; i < sizeof packers / sizeof *packers; i++) {
        const size_t k = strlen(packers[i].suffix);
        if (n > k && strncasecmp(path + n - k, packers[i].suffix, k) == 0)
            return &packers[i];
    }
    return NULL;
}

size_t outfile_stem(const char *path, size_t n)
{
    const packer *p = packer_of(path, n);
    return p ? n - strlen(p->suffix) : n;
}

static stet_status put(outfile *f, const void *data, size_t n)
{
    if (!f->standard)
        return atomic_write(&f->file, data, n);
    return fwrite(data, 1, n, f->standard) == n
               ? STET_OK
               : error_set(STET_EIO, "standard output: %s", strerror(errno));
}

/* What is in memory has no other reason to fail than memory. */
static stet_status pack(outfile *f, const void *data, size_t n, bool end)
{
    pack_io io = {.in = data, .in_n = n};
    for (bool done = false; end ? !done : io.in_n > 0;) {
        io.out = f->out;
        io.out_n = OUT_SIZE;
        if (!f->pack->step(f, &io, end, &done))
            return error_set(STET_ENOMEM, "out of memory for compressed data");
        TRY(put(f, f->out, OUT_SIZE - io.out_n));
    }
    return STET_OK;
}

static stet_status start_packing(outfile *f, const packer *how)
{
    f->out = mem_alloc(OUT_SIZE, 1);
    if (!f->out || !how->start(f))
        return error_set(STET_ENOMEM, "out of memory for compressed data");
    f->pack = how;
    return STET_OK;
}

/* Our own stream on the same descriptor: what the host's stdio still holds comes first. */
static stet_status open_standard(outfile *f)
{
    fflush(stdout);
    const int fd = dup(STDOUT_FILENO);
    f->standard = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f->standard)
        return STET_OK;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    return error_set(STET_EIO, "standard output: %s", strerror(error));
}

stet_status outfile_open(const char *path, outfile **out)
{
    *out = NULL;
    outfile *f = mem_zalloc(1, sizeof *f);
    if (!f)
        return STET_ENOMEM;
    const packer *how = packer_of(path, strlen(path));
    stet_status st = strcmp(path, "-") == 0 ? open_standard(f) : atomic_open(&f->file, path);
    if (st == STET_OK && how)
        st = start_packing(f, how);
    if (st != STET_OK)
        return outfile_close(f, st);
    *out = f;
    return STET_OK;
}

stet_status outfile_write(outfile *f, const void *data, size_t n)
{
    return f->pack ? pack(f, data, n, false) : put(f, data, n);
}

stet_status outfile_close(outfile *f, stet_status st)
{
    if (!f)
        return st;
    if (f->pack && st == STET_OK)
        st = pack(f, NULL, 0, true);
    if (f->pack)
        f->pack->stop(f);
    mem_free(f->out);
    if (f->standard && fclose(f->standard) != 0 && st == STET_OK)
        st = error_set(STET_EIO, "standard output: %s", strerror(errno));
    if (!f->standard && st == STET_OK)
        st = atomic_commit(&f->file);
    else
        atomic_abort(&f->file);
    mem_free(f);
    return st;
}
