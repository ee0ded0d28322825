/* model/ensemble.h - several models that answer as one: their logits are added, and the class with the
 * largest sum is the answer.
 *
 * An ensemble is its first member with a prediction rule (rule.h) that knows the others. It reads as
 * the first member reads: words that this one does not know are unknown to all. The folder is that of
 * the first member, with the others in member-2, member-3, ...
 *
 * Sums are compared exactly, so that nothing is lost to rounding: the margin of the ensemble is the
 * sum of the members' margins, and so is any lower bound of it. */
#ifndef MODEL_ENSEMBLE_H
#define MODEL_ENSEMBLE_H

#include "model/rule.h"

enum { ENSEMBLE_MOST = 64 }; /* members */

typedef struct ensemble {
    size_t n;        /* members, the first among them */
    model **other;   /* (n - 1) */
    uint32_t **row;  /* (n - 1) (n_words): a member's row for each of the first's */
} ensemble;

extern const rule_desc rule_ensemble;

/* NULL: it is none. */
static inline const ensemble *ensemble_of(const model *m)
{
    return m->rule && m->rule->desc == &rule_ensemble ? m->rule->state : NULL;
}

/* Logits (K) of the sum of `n` models' logits (n, K): the largest sum is 0, the others are below it by
 * the difference, rounded, and are 0 only if they are equal. */
void ensemble_add(const float *logits, size_t n, size_t K, float *out);

#endif
