/* report/png_file.h - an RGB image as the bytes of a PNG file. */
#ifndef REPORT_PNG_FILE_H
#define REPORT_PNG_FILE_H

#include "base/buf.h"
#include "report/canvas.h"

/* Appends to `out`; failures are the buffer's. */
void png_encode(const rgb *pixel, size_t rows, size_t cols, buf *out);

#endif
