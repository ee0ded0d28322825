/* defense/textcrs.h - the staircase noise of Text-CRS. */
#ifndef DEFENSE_TEXTCRS_H
#define DEFENSE_TEXTCRS_H

#include <stddef.h>

#include "base/rng.h"

/* Rank k has a chance that is proportional to exp(-5 k / scale): upto[k] is that of 0 to k, of all that
 * there are without an end. */
void crs_chances(double scale, size_t n, double *upto);
/* A rank of 0 to n - 1. */
size_t crs_rank(rng *r, const double *upto, size_t n);

#endif
