/* defense/textcrs.h - the staircase noise of Text-CRS. */
#ifndef DEFENSE_TEXTCRS_H
#define DEFENSE_TEXTCRS_H

#include <stddef.h>

#include "base/rng.h"

/* A rank of 0 to n - 1; k has a chance that is proportional to exp(-5 k / scale). */
size_t crs_rank(rng *r, double scale, size_t n);

#endif
