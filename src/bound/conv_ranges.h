/* bound/conv_ranges.h - ranges of max-pooled convolutions over substitution sets, on the tape. */
#ifndef BOUND_CONV_RANGES_H
#define BOUND_CONV_RANGES_H

#include "bound/batch_sets.h"
#include "tensor/host/conv_taps.h"

/* One kernel size (gbm.md 6a, steps 1 and 2): of every feature the value for the text as it is, the
 * lower end and the upper end over all texts that the sets allow, as (B, 3 F): values, lower ends,
 * upper ends. All three come from one projection of the rows. The ends of a window are exact; the
 * lower end of its maximum is not, for windows share words. w (F, D, k), b (F) and the meaning of
 * short texts as in op_conv_pool; substitutes at `eps` of their distance from the word. Gradients
 * reach w and b through the winning windows and their extreme words, and the rows of these words. */
node *op_conv_ranges(tape *t, const batch_sets *s, node *w, node *b, double eps, bool runners_up);

/* What the op keeps, for bounds that build on it. */
const conv_windows *conv_ranges_windows(const node *n);

/* Gradient g of a tap's projection of `word`, which stands at eps of its way from v. */
static inline void tap_terms_add_word(const tap_terms *t, size_t list, real g, real eps,
                                      uint32_t word, uint32_t v)
{
    if (word == v || eps == 1) {
        tap_terms_add(t, list, g, word);
        return;
    }
    tap_terms_add(t, list, eps * g, word);
    tap_terms_add(t, list, (1 - eps) * g, v);
}

#endif
