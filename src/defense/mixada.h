/* defense/mixada.h - the loss of mixed texts, for tests. */
#ifndef DEFENSE_MIXADA_H
#define DEFENSE_MIXADA_H

#include "defense/defense_impl.h"

/* The divergence between the mixture of the labels of text b and text with[b] (places of the batch),
 * `share` of the first, and the answer to the same mixture of their features: mean over the texts. The
 * last layer is linear, so that answer is the mixture of their logits. */
node *mixed_loss(const step_view *v, double share, const uint32_t *with);

#endif
