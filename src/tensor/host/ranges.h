/* tensor/host/ranges.h - large loops in fixed pieces on the pool. The cuts depend on the sizes
 * alone, so that sums combined in the order of the pieces have the same bits for any number of
 * threads. */
#ifndef TENSOR_HOST_RANGES_H
#define TENSOR_HOST_RANGES_H

#include <stddef.h>

typedef void range_fn(void *ctx, size_t piece, size_t begin, size_t end);

/* fn for [0, n) cut into pieces of `grain`; one piece runs in place. */
void ranges_run(size_t n, size_t grain, range_fn *fn, void *ctx);
size_t ranges_count(size_t n, size_t grain); /* pieces of such a cut */
/* Rows of `cols` elements in one piece: some microseconds of work on data that fits a core's cache.
 */
size_t ranges_rows(size_t cols);

enum { RANGE_ELEMENTS = 16384 }; /* a piece of an elementwise loop */

#endif
