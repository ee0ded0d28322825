/* base/codec.c - gzip, xz and zstd behind one shape.
 *
 * All three accept several compressed files in a row, as their own tools do, take their memory from
 * base/mem.h, and refuse data that asks for a lot of it (xz: MEMORY_LIMIT; zstd: windows above
 * 128 MiB; gzip never does). */
#define ZSTD_STATIC_LINKING_ONLY /* for the allocator argument */
#include "base/codec.h"

#include <lzma.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/buffer_size.h"
#include "base/mem.h"

enum { MEMORY_LIMIT = BUFFER_SIZE(256 << 20, 1 << 20), WINDOW_LOG = BUFFER_SIZE(27, 20) };

typedef struct codec_io {
    const unsigned char *in;
    size_t in_n;
    unsigned char *out;
    size_t out_n;
    bool in_end;
} codec_io; /* both ranges shrink from the front as bytes are used */

typedef struct codec_desc {
    const char *name;
    unsigned char magic[CODEC_MAGIC_MAX];
    size_t magic_n;
    stet_status (*start)(codec *c);
    stet_status (*step)(codec *c, codec_io *io);
    void (*stop)(codec *c);
} codec_desc;

struct codec {
    const codec_desc *desc;
    bool complete; /* between two compressed files, or after the last */
    union {
        z_stream gz;
        lzma_stream xz;
        ZSTD_DStream *zst;
    } u;
};

static stet_status corrupt(const codec *c, const char *why)
{
    return error_set(STET_EFORMAT, "damaged %s data (%s)", c->desc->name, why);
}

/* gzip */

static void *gz_alloc(void *opaque, unsigned count, unsigned size)
{
    (void)opaque;
    return mem_alloc(count, size);
}

static void gz_release(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

static stet_status gz_start(codec *c)
{
    c->u.gz = (z_stream){.zalloc = gz_alloc, .zfree = gz_release};
    return inflateInit2(&c->u.gz, 16 + MAX_WBITS) == Z_OK ? STET_OK : STET_ENOMEM;
}

static stet_status gz_step(codec *c, codec_io *io)
{
    z_stream *const z = &c->u.gz;
    if (c->complete && io->in_n > 0) { /* another file follows */
        inflateReset(z);
        c->complete = false;
    }
    z->next_in = (unsigned char *)(uintptr_t)io->in;
    z->avail_in = io->in_n < UINT32_MAX ? (unsigned)io->in_n : UINT32_MAX;
    z->next_out = io->out;
    z->avail_out = io->out_n < UINT32_MAX ? (unsigned)io->out_n : UINT32_MAX;
    const int rc = c->complete ? Z_STREAM_END : inflate(z, Z_NO_FLUSH);
    io->in_n -= (size_t)(z->next_in - io->in);
    io->in = z->next_in;
    io->out_n -= (size_t)(z->next_out - io->out);
    io->out = z->next_out;
    if (rc == Z_STREAM_END)
        c->complete = true;
    else if (rc == Z_MEM_ERROR)
        return STET_ENOMEM;
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return corrupt(c, z->msg ? z->msg : "needs a dictionary");
    return STET_OK;
}

static void gz_stop(codec *c)
{
    inflateEnd(&c->u.gz);
}

/* xz */

static void *xz_alloc(void *opaque, size_t count, size_t size)
{
    (void)opaque;
    return mem_alloc(count, size);
}

static void xz_release(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

static stet_status xz_start(codec *c)
{
    static const lzma_allocator allocator = {xz_alloc, xz_release, NULL};
    c->u.xz = (lzma_stream)LZMA_STREAM_INIT;
    c->u.xz.allocator = &allocator;
    return lzma_stream_decoder(&c->u.xz, MEMORY_LIMIT, LZMA_CONCATENATED) == LZMA_OK ? STET_OK
                                                                                     : STET_ENOMEM;
}

static stet_status xz_step(codec *c, codec_io *io)
{
    lzma_stream *const z = &c->u.xz;
    z->next_in = io->in;
    z->avail_in = io->in_n;
    z->next_out = io->out;
    z->avail_out = io->out_n;
    const lzma_ret rc = lzma_code(z, io->in_end ? LZMA_FINISH : LZMA_RUN);
    io->in = z->next_in;
    io->in_n = z->avail_in;
    io->out = z->next_out;
    io->out_n = z->avail_out;
    switch (rc) {
    case LZMA_STREAM_END:
        c->complete = true;
        return STET_OK;
    case LZMA_OK:
    case LZMA_BUF_ERROR: /* no progress possible with this input */
        return STET_OK;
    case LZMA_MEM_ERROR:
        return STET_ENOMEM;
    case LZMA_MEMLIMIT_ERROR:
        return corrupt(c, "asks for too much memory");
    case LZMA_OPTIONS_ERROR:
        return corrupt(c, "unknown options");
    case LZMA_FORMAT_ERROR:
        return corrupt(c, "unknown data follows");
    default:
        return corrupt(c, "checksum or structure");
    }
}

static void xz_stop(codec *c)
{
    lzma_end(&c->u.xz);
}

/* zstd */

static void *zst_alloc(void *opaque, size_t size)
{
    (void)opaque;
    return mem_alloc(1, size);
}

static void zst_release(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

static stet_status zst_start(codec *c)
{
    c->u.zst = ZSTD_createDStream_advanced((ZSTD_customMem){zst_alloc, zst_release, NULL});
    if (!c->u.zst)
        return STET_ENOMEM;
    (void)ZSTD_DCtx_setParameter(c->u.zst, ZSTD_d_windowLogMax, WINDOW_LOG); /* in range */
    return STET_OK;
}

static stet_status zst_step(codec *c, codec_io *io)
{
    ZSTD_inBuffer in = {io->in, io->in_n, 0};
    ZSTD_outBuffer out = {io->out, io->out_n, 0};
    if (c->complete && in.size == 0)
        return STET_OK;
    const size_t rc = ZSTD_decompressStream(c->u.zst, &out, &in);
    io->in += in.pos;
    io->in_n -= in.pos;
    io->out += out.pos;
    io->out_n -= out.pos;
    if (!ZSTD_isError(rc)) {
        c->complete = rc == 0;
        return STET_OK;
    }
    return ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation
               ? STET_ENOMEM
               : corrupt(c, ZSTD_getErrorName(rc));
}

static void zst_stop(codec *c)
{
    ZSTD_freeDStream(c->u.zst);
}

static const codec_desc codecs[] = {
    {"gzip", {0x1f, 0x8b}, 2, gz_start, gz_step, gz_stop},
    {"xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6, xz_start, xz_step, xz_stop},
    {"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4, zst_start, zst_step, zst_stop},
};

stet_status codec_new(const unsigned char *head, size_t n, codec **out)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        const codec_desc *d = &codecs[i];
        if (n < d->magic_n || memcmp(head, d->magic, d->magic_n) != 0)
            continue;
        codec *c = mem_zalloc(1, sizeof *c);
        if (!c)
            return STET_ENOMEM;
        c->desc = d;
        if (d->start(c) != STET_OK) {
            mem_free(c);
            return STET_ENOMEM;
        }
        *out = c;
        return STET_OK;
    }
    return STET_OK;
}

stet_status codec_decode(codec *c, const unsigned char *in, size_t in_n, size_t *used, char *out,
                         size_t out_n, size_t *made, bool in_end, bool *done)
{
    codec_io io = {in, in_n, (unsigned char *)out, out_n, in_end};
    TRY(c->desc->step(c, &io));
    *used = in_n - io.in_n;
    *made = out_n - io.out_n;
    *done = in_end && c->complete && io.in_n == 0;
    if (in_end && !*done && *used == 0 && *made == 0)
        return error_set(STET_EFORMAT, "truncated %s data", c->desc->name);
    return STET_OK;
}

void codec_free(codec *c)
{
    if (!c)
        return;
    c->desc->stop(c);
    mem_free(c);
}
