/* bound/conv_ranges.h - ranges of max-pooled convolutions over substitution sets, on the tape. */
#ifndef BOUND_CONV_RANGES_H
#define BOUND_CONV_RANGES_H

#include "bound/batch_sets.h"

/* One kernel size (gbm.md 6a, steps 1 and 2): of every feature the value for the text as it is, the
 * lower end and the upper end over all texts that the sets allow, as (B, 3 F): values, lower ends,
 * upper ends. All three come from one projection of the rows. The ends of a window are exact; the
 * lower end of its maximum is not, for windows share words. w (F, D, k), b (F) and the meaning of
 * short texts as in op_conv_pool; substitutes at `eps` of their distance from the word. Gradients
 * reach w and b through the winning windows and their extreme words; vectors are constants. */
node *op_conv_ranges(tape *t, const batch_sets *s, node *w, node *b, double eps);

#endif
