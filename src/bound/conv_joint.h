/* bound/conv_joint.h - the joint linear bound of a CNN's margins over substitution sets, on the
 * tape.
 *
 * Interval bounds let every feature choose its own worst words. Here all features of a text answer
 * to one choice (gbm.md 6a, step 3): each is replaced by a linear bound in one window's response,
 * the bounds are added up by position, and every position takes the word that is worst for the
 * sum. The result is never below the interval bound. */
#ifndef BOUND_CONV_JOINT_H
#define BOUND_CONV_JOINT_H

#include "bound/conv_ranges.h"
#include "model/cnn.h"

_Static_assert(JOINT_MAX_KERNELS == (int)CNN_MAX_KERNELS, "every kernel size has ranges");

/* As worst_logits: (B, K), how far above the true class's logit every other can be; 0 for the true
 * class. conv: w and b of each kernel size. Gradients are exact: through the windows and words that
 * are chosen, and through the ends that decide the slopes. */
node *op_conv_joint(tape *t, const joint_args *a, node *const *conv, node *fc_w, node *fc_b);

#endif
