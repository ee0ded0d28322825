/* bound/worst_case.h - the worst case over substitution sets on the tape: what certified training
 * puts into its loss.
 *
 *     range_features(m, &p, &sets, 1, side);
 *     node *worst = worst_logits(t, side[RANGE_LOWER], side[RANGE_UPPER], fc_w, fc_b, label);
 *     node *loss = op_cross_entropy(t, worst, label);
 *
 * The bounds are computed in round-to-nearest: training may use them, a certificate adds slack. */
#ifndef BOUND_WORST_CASE_H
#define BOUND_WORST_CASE_H

#include "bound/batch_sets.h"

enum { RANGE_VALUE, RANGE_LOWER, RANGE_UPPER, RANGE_SIDES };

/* False, with a message: no ranges are known for this kind of model. */
bool range_supported(const model *m);

/* The features (B, n_features) of the texts as they are, and bounds of those of every text that the
 * sets allow, with substitutes at `eps` of their distance from the word. `s` lives until the
 * backward pass. */
void range_features(const model *m, pass *p, const batch_sets *s, double eps,
                    node *out[RANGE_SIDES]);

/* (B, K): how far above the true class's logit every other can be while features lie between lo and
 * hi (B, F); 0 for the true class. Its cross-entropy is log(1 + sum exp(-worst margin)), for two
 * classes softplus(-worst margin). w (K, F) and b (K) are the last layer's; `label` (B) is
 * borrowed. */
node *worst_logits(tape *t, node *lo, node *hi, node *w, node *b, const int32_t *label);

/* Share of texts whose worst margin is positive. */
double worst_share(const node *worst, const int32_t *label);

#endif
