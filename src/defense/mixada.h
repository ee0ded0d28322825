/* defense/mixada.h - mixtures of two texts of a batch: their logits, and their loss. */
#ifndef DEFENSE_MIXADA_H
#define DEFENSE_MIXADA_H

#include "defense/defense_impl.h"

/* Of x with n rows: `share` of row b, the rest of row with[b]. */
node *mixed_rows(tape *t, node *x, size_t n, double share, const uint32_t *with);

/* tmix.c: the logits (B, K) of the step's texts, mixed so after their first `below` layers. `with` is a
 * permutation; the model has model_desc.layers. */
node *tmix_logits(const step_view *v, size_t below, double share, const uint32_t *with);

/* The divergence between the mixture of the labels of text b and text with[b] (places of the batch) and
 * the logits z (B, K): mean over the texts. */
node *mixed_loss(const step_view *v, node *z, double share, const uint32_t *with);

#endif
