/* model/word_scores.h - numbers that words have of their own, beside what a network makes of their
 * vectors:
 *
 *     logit_c(x) = f_c(x) + (1 / sqrt(n)) sum over the n words of s[w, c]
 *
 * s (vocabulary, K) is the parameter "scores.weight", zero at first, with a rate of its own. With
 * --score-hidden a small network of the word's vector adds to it, W2 relu(W1 v + b1), so that words
 * that training hardly saw are not left at zero. The worst case of the sum over substitution sets is
 * exact: each position takes its own worst word. Words that read one row each only. */
#ifndef MODEL_WORD_SCORES_H
#define MODEL_WORD_SCORES_H

#include "model/model_impl.h"

static inline bool has_word_scores(const model *m)
{
    return m->scores >= 0;
}

/* Units of the small network, an option of kinds under this name. */
#define SCORE_HIDDEN_OPT(T, f)                                                                     \
    STET_OPT_INT("score-hidden", T, f, "0", 0, 65536, "N",                                         \
                 "with word scores: units of a small network that adds to a word's from its "      \
                 "vector; 0: none")
static inline size_t model_score_hidden(const model *m)
{
    return m->desc->score_hidden ? m->desc->score_hidden(m) : 0;
}

/* Give a model scores of zero; its words are known. STET_ENOTSUP: its words read several rows. */
stet_status word_scores_add(model *m);
/* The small network, for kinds that have it among their own parameters: lay it out, and give the one
 * that starts at parameter `first` its first weights. */
stet_status word_scores_lay(model *m, stet_status (*lay)(model *, const char *, shape, param_kind));
void word_scores_start(const model *m, int first, rng *r);
/* The same for one that word_scores_add() added, if it did. */
void word_scores_begin(const model *m, rng *r);

/* On the tape: the scores (n, K) of n words (host memory) whose vectors are `rows` (n, D); NULL:
 * they are read if the scores need them. */
node *word_scores_rows(const model *m, const pass *p, const uint32_t *word, size_t n, node *rows);
/* (B, K): their sums over the texts of the pass, divided by the root of the length. */
node *word_scores_sum(const model *m, const pass *p);
/* sqrt(length) of every text, `times` times each, in memory of the tape; NULL: out of memory. */
const real *word_scores_roots(tape *t, const seq_index *seq, size_t times);

/* The scores of all words by weights that stay as they are for a while, in memory of `values`:
 * w->scores until the caller sets that to NULL. Each word is multiplied once, where every batch of
 * texts would multiply all its words and substitutes. */
stet_status word_scores_know(const model *m, model_weights *w, arena *mem, store_arena *values);

/* s (vocabulary, K) of fixed weights, everything included: what views and certificates read. In the
 * model after model_ready(). */
stet_status word_scores_compile(model *m);

#endif
