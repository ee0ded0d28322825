/* text/outfile.h - a file that is written atomically and compressed as its name asks: .gz, .xz,
 * .zst, anything else plain; "-" is standard output.
 *
 *     outfile *f;
 *     TRY(outfile_open(path, &f));
 *     stet_status st = outfile_write(f, data, n);
 *     return outfile_close(f, st);       commits if st is STET_OK, else leaves nothing behind */
#ifndef TEXT_OUTFILE_H
#define TEXT_OUTFILE_H

#include "base/error.h"

typedef struct outfile outfile;

stet_status outfile_open(const char *path, outfile **out);
stet_status outfile_write(outfile *f, const void *data, size_t n);
stet_status outfile_close(outfile *f, stet_status st); /* passes a failure on */

/* `n` without a compression suffix: strlen("x.tsv.xz") becomes strlen("x.tsv"). */
size_t outfile_stem(const char *path, size_t n);

#endif
