/* verify/ver_scores.h - numbers that words have of their own: they add
 *
 *     (1 / sqrt n) sum over the n positions of s[word, class]
 *
 * to the logits. Where the model has none, every word adds 0.
 *
 * The float32 program adds n numbers in any order, divides, multiplies by a rounded root, and adds the
 * result to the network's logit. Every term passes through at most n + 5 roundings, so that, as with the
 * windows of a CNN, the error belongs to the words: each adds what it adds in real arithmetic, less
 * gamma(n + 5) of its size. */
#ifndef VERIFY_VER_SCORES_H
#define VERIFY_VER_SCORES_H

#include "verify/ver_impl.h"

/* What word i of the open task adds to logit[label] - logit[other] in any float32 evaluation, at least;
 * -INFINITY where it might overflow. */
double ver_score_least(const ver_work *w, size_t i, int label, int other);
/* What the worst word of position p takes from that (<= 0). */
double ver_score_drop(const ver_work *w, size_t p, int label, int other);
/* The sum over the positions at their worst, within the budget. `drop` (n) is scratch. */
double ver_scores_worst(const ver_work *w, int label, int other, double *drop);
/* Of the references, in double, without rounding. */
double ver_scores_margin(const ver_work *w, int label, int other);

/* Makes w->scores ready for the words of the task: a kind's open() begins with it. */
stet_status ver_scores_open(ver_work *w);

#endif
