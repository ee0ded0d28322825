/* model/word_scores.h - numbers that words have of their own, beside what a network makes of their
 * vectors:
 *
 *     logit_c(x) = f_c(x) + (1 / sqrt(n)) sum over the n words of s[w, c]
 *
 * s (vocabulary, K) is the parameter "scores.weight", zero at first, with a rate of its own; a kind
 * may add scores that it computes from the vector (model_desc.word_scores). The worst case of the sum
 * over substitution sets is exact: each position takes its own worst word. Words that read one row
 * each only. */
#ifndef MODEL_WORD_SCORES_H
#define MODEL_WORD_SCORES_H

#include "model/model_impl.h"

static inline bool has_word_scores(const model *m)
{
    return m->scores >= 0;
}

/* Give a model scores of zero; its words are known. STET_ENOTSUP: its words read several rows. */
stet_status word_scores_add(model *m);

/* On the tape: the scores (n, K) of n words (host memory) whose vectors are `rows` (n, D). */
node *word_scores_rows(const model *m, const pass *p, const uint32_t *word, size_t n, node *rows);
/* (B, K): their sums over the texts of the pass, divided by the root of the length. */
node *word_scores_sum(const model *m, const pass *p);
/* sqrt(length) of every text, `times` times each, in memory of the tape; NULL: out of memory. */
const real *word_scores_roots(tape *t, const seq_index *seq, size_t times);

/* s (vocabulary, K) of fixed weights, everything included: what views and certificates read. In the
 * model after model_ready(). */
stet_status word_scores_compile(model *m);

#endif
