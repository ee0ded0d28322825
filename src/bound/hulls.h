/* bound/hulls.h - boxes of word vectors: of the whole table, or of one word and its substitutes.
 * The box of a word holds the straight way from its vector to that of every substitute, which is
 * what a growth bound needs. */
#ifndef BOUND_HULLS_H
#define BOUND_HULLS_H

#include "model/model_impl.h"
#include "stet/lexicon.h"

/* The struct is in model/device_args.h. */
stet_status word_sets_make(const stet_subst *s, const stet_vocab *v, word_sets *out);
/* The same for the rows of a model that reads words in pieces: words of one piece and their substitutes of
 * one piece. A piece that begins a longer word has the sets of the word that it is alone. */
stet_status piece_sets_make(const stet_subst *s, const model *m, word_sets *out);
void word_sets_deinit(word_sets *s);

/* lo, hi (D): every vector that a text can hold. */
void table_hull(const model *m, real *lo, real *hi);
/* lo, hi (D): `word` and its substitutes. */
void word_hull(const word_sets *s, const model *m, uint32_t word, real *lo, real *hi);
/* eta (D): mean over the words that can be replaced of how far a substitute can be from the word,
 * by coordinate. Zero where no word can be. */
void mean_deviation(const word_sets *s, const model *m, real *eta);

#endif
