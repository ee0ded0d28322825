/* stet/sweep.h - choosing settings without looking at the test texts, as `stet sweep --blocks` does:
 * hold out blocks of the training texts in turn, train on the rest, measure on the block, and keep the
 * settings that no other beats.
 *
 *     stet_dataset *block, *rest;
 *     if (stet_block_cut(train, 0, 0.1, &block, &rest) != STET_OK) ...
 *     ... clean[i] and certified[i] of settings i, trained on `rest`, measured on `block`
 *     size_t chosen[N], n = stet_frontier(clean, certified, N, chosen);
 *
 * Experimental. */
#ifndef STET_SWEEP_H
#define STET_SWEEP_H

#include "stet/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of every class, in the order of the data, a stretch of the given share (0 to 0.5): block 0 is the
 * last one, 1 the one before, ... Neighbours, who are often about the same thing, are together on one
 * side. Either of the two may be NULL: not wanted. STET_EUSAGE where there is no such block, or where one
 * side would have no text. On failure both are NULL. */
STET_API stet_status stet_block_cut(const stet_dataset *d, size_t block, double share,
                                    stet_dataset **held_out, stet_dataset **rest);

/* Settings that no other equals or beats in both numbers, by rising `clean`, into `chosen` (n); how
 * many. Of equals the first. Settings with a number that is not finite are left out. */
STET_API size_t stet_frontier(const double *clean, const double *certified, size_t n,
                              size_t *chosen);

/* Mean and sample deviation (0 of less than two) of n numbers; not a number without any. */
STET_API void stet_mean_spread(const double *x, size_t n, double *mean, double *spread);

#ifdef __cplusplus
}
#endif
#endif
