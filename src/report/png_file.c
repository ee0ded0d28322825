/* report/png_file.c - an RGB image as a PNG file: a header, rows without a filter in one zlib
 * stream, an end (canvas.h). */
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "report/canvas.h"

static void put_u32(buf *out, uint32_t v)
{
    const unsigned char big_endian[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                                         (unsigned char)(v >> 8), (unsigned char)v};
    buf_bytes(out, big_endian, 4);
}

/* Length, type, data, checksum of type and data. */
static void put_chunk(buf *out, const char type[4], const unsigned char *data, size_t n)
{
    const uLong crc = crc32(crc32(0, NULL, 0), (const unsigned char *)type, 4);
    put_u32(out, (uint32_t)n);
    buf_bytes(out, type, 4);
    buf_bytes(out, data, n);
    put_u32(out, (uint32_t)(n ? crc32(crc, data, (uInt)n) : crc));
}

static stet_status compressed(const rgb *pixel, size_t rows, size_t cols, buf *out)
{
    const size_t line = 1 + 3 * cols; /* which filter (none), then the pixels */
    unsigned char *raw = mem_zalloc(rows, line);
    uLongf n = compressBound((uLong)(rows * line));
    unsigned char *packed = raw ? mem_alloc(n, 1) : NULL;
    for (size_t r = 0; packed && r < rows; r++)
        memcpy(raw + r * line + 1, pixel + r * cols, 3 * cols);
    const bool made = packed && compress(packed, &n, raw, (uLong)(rows * line)) == Z_OK;
    if (made)
        put_chunk(out, "IDAT", packed, n);
    mem_free(raw);
    mem_free(packed);
    return made ? STET_OK : error_set(STET_ENOMEM, "out of memory for an image");
}

void png_encode(const rgb *pixel, size_t rows, size_t cols, buf *out)
{
    static const unsigned char kind[5] = {8, 2, 0, 0, 0}; /* 8 bits of red, green, blue */
    buf head = {0};
    put_u32(&head, (uint32_t)cols);
    put_u32(&head, (uint32_t)rows);
    buf_bytes(&head, kind, sizeof kind);
    stet_status st = buf_status(&head);
    if (st == STET_OK) {
        buf_str(out, "\x89PNG\r\n\x1a\n");
        put_chunk(out, "IHDR", (const unsigned char *)head.data, head.n);
        st = compressed(pixel, rows, cols, out);
        put_chunk(out, "IEND", NULL, 0);
    }
    if (st != STET_OK)
        out->status = st;
    buf_deinit(&head);
}
