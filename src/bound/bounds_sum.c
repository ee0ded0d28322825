/* bound/bounds_sum.c - the sum model has no network to bound: the worst case of its scores is exact
 * (score_ranges.h), and nothing grows with a vector beside them. */
#include "bound/bounds.h"

const model_bounds bounds_sum = {0};
