/* report/ticks.h - round numbers along an axis. */
#ifndef REPORT_TICKS_H
#define REPORT_TICKS_H

#include "stet/plot.h"

enum { MAX_TICKS = 24, TICK_TEXT = 24 };
typedef struct ticks {
    size_t n;
    double at[MAX_TICKS];
    char text[MAX_TICKS][TICK_TEXT];
} ticks;

/* About `want` ticks within [lo, hi], lo < hi; on a logarithmic scale powers of ten, or 1 2 5 where
 * there are few. */
void ticks_make(double lo, double hi, stet_scale scale, int want, ticks *out);

#endif
