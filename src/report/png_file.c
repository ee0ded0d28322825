/* report/png_file.c - see png_file.h. */
#include "report/png_file.h"

#include <png.h>
#include <setjmp.h>

#include "base/mem.h"

static void on_write(png_structp png, png_bytep data, size_t n)
{
    buf *out = png_get_io_ptr(png);
    buf_bytes(out, data, n);
}

static void on_flush(png_structp png)
{
    (void)png;
}

/* libpng prints its complaints unless told otherwise; here the only one is want of memory. */
static void on_error(png_structp png, png_const_charp message)
{
    (void)message;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t n)
{
    (void)png;
    return mem_alloc(n, 1);
}

static void on_free(png_structp png, png_voidp p)
{
    (void)png;
    mem_free(p);
}

static bool encode(png_structp png, png_infop info, const rgb *pixel, size_t rows, size_t cols,
                   buf *out)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_write_fn(png, out, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)cols, (png_uint_32)rows, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (size_t r = 0; r < rows; r++)
        png_write_row(png, (png_const_bytep)(pixel + r * cols));
    png_write_end(png, NULL);
    return true;
}

void png_encode(const rgb *pixel, size_t rows, size_t cols, buf *out)
{
    png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning,
                                                NULL, on_alloc, on_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || !encode(png, info, pixel, rows, cols, out))
        out->status = error_set(STET_ENOMEM, "out of memory for an image of %zu x %zu", cols, rows);
    png_destroy_write_struct(&png, &info);
}
