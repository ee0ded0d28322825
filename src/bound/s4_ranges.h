/* bound/s4_ranges.h - ranges of an S4 classifier's features over substitution sets, on the tape. */
#ifndef BOUND_S4_RANGES_H
#define BOUND_S4_RANGES_H

#include "bound/batch_sets.h"

/* The box pass of gbm.md 6c for the texts of `s`: lower and upper ends (B, H) of the features, all
 * layers. Gradients reach all weights. */
void s4_ranges(const model *m, pass *p, const batch_sets *s, double eps, node **lo, node **hi);

/* GELU of a box (n, H) given by centre and radius, as (n, 2 H): centres, then radii. Exact. */
node *op_gelu_box(tape *t, node *centre, node *radius);

#endif
