/* tests/alloc_fail.h - what happens when memory runs out at any moment.
 *
 *     static stet_status load_and_release(void *path) { ... one complete use ... }
 *     TEST(a_lexicon_survives_every_failed_allocation)
 *     {
 *         CHECK_LE(5, ALLOC_FAIL_LOOP(load_and_release, path));
 *     }
 *
 * The callback is run with allocation 1 failing, then 2, 3, ... until it needs no more than that
 * many. Each number is tried twice: only this allocation fails, and all from it on fail. Every time
 * the callback must return STET_ENOMEM with a message, and must have released everything; at the
 * end it must succeed. The value is the number of allocations of a complete use, so that a test can
 * check that it covered some. Keep the use small: the time grows with the square of that number. */
#ifndef STET_ALLOC_FAIL_H
#define STET_ALLOC_FAIL_H

#include <stddef.h>

#include "stet/status.h"

typedef stet_status alloc_fail_fn(void *ctx);
size_t alloc_fail_loop(const char *file, int line, alloc_fail_fn *fn, void *ctx);
#define ALLOC_FAIL_LOOP(fn, ctx) alloc_fail_loop(__FILE__, __LINE__, fn, ctx)

#endif
