/* bound/worst_case.h - the worst case over substitution sets on the tape: what certified training
 * puts into its loss.
 *
 *     worst_forward(m, &p, &(worst_args){.s = &sets, .label = label, .eps = 1}, &logits, &worst);
 *     node *loss = op_cross_entropy(t, worst, label);
 *
 * The bounds are computed in round-to-nearest: training may use them, a certificate adds slack. */
#ifndef BOUND_WORST_CASE_H
#define BOUND_WORST_CASE_H

#include "bound/conv_ranges.h"

typedef struct worst_args {
    const batch_sets *s;  /* the texts to bound: those of the pass, or some of them */
    const int32_t *label; /* theirs */
    double eps;           /* substitutes at this part of their distance from the word */
    bool joint;           /* cnn: the joint bound (conv_joint.h) instead of intervals */
} worst_args;

/* STET_EUSAGE where such bounds are not known for this kind of model. */
stet_status worst_supported(const model *m, bool joint);

/* logits (B, K) of the texts of the pass, as model_forward gives them; worst (texts of s, K): how
 * far above the true class's logit every other can be for any text that the sets allow, 0 for the
 * true class. The cross-entropy of `worst` is log(1 + sum exp(-worst margin)), for two classes
 * softplus(-worst margin). Dropout has one mask for both if the texts are the same. What `a` points
 * to lives until the backward pass. */
void worst_forward(const model *m, pass *p, const worst_args *a, node **logits, node **worst);

/* Share of texts whose worst margin is positive: a number to report, without a gradient. */
node *worst_share(tape *t, node *worst, const int32_t *label);

/* ---- its parts ---------------------------------------------------------------------------- */

/* Dropout as the pass has it, with a mask that depends on `from` and the shape alone: ends of ranges
 * and values get the same one. Leaves the stream behind it. */
node *worst_drop(pass *p, node *x, const rng *from);

/* The features (B, n_features) of the texts of s as they are, and bounds of those of every text
 * that the sets allow. The texts of s are those of the pass. */
void range_features(const model *m, pass *p, const batch_sets *s, double eps,
                    node *out[RANGE_SIDES]);

/* The worst logits while features lie between lo and hi (B, F). w (K, F) and b (K) are the last
 * layer's; `label` (B) is borrowed. */
node *worst_logits(tape *t, node *lo, node *hi, node *w, node *b, const int32_t *label);

#endif
