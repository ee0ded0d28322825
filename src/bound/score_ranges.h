/* bound/score_ranges.h - the worst case of word scores over substitution sets, on the tape. Exact:
 * words add up, so each position takes its own worst word. */
#ifndef BOUND_SCORE_RANGES_H
#define BOUND_SCORE_RANGES_H

#include "bound/batch_sets.h"

/* (texts of s, K): how far the scores can lift every other class above the true one, 0 for that one.
 * scores (n_rows of s, K); substitutes at `eps` of their distance from the word; `bias` (K) or NULL:
 * its differences are added. `label` is borrowed host memory. */
node *op_score_worst(tape *t, const batch_sets *s, node *scores, node *bias, const int32_t *label,
                     double eps);

#endif
