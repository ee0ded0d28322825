/* text/embed.h - the GloVe objective on given co-occurrence counts. */
#ifndef TEXT_EMBED_H
#define TEXT_EMBED_H

#include "text/cooccur.h"

/* Train on `x` (whose blocks are shuffled in passing) and write word + context vectors of the ids
 * 0 .. n_words-1 to `out` (n_words, how->dim). `loss` is NULL or receives the mean loss of each
 * epoch. */
stet_status glove_train(cooc *x, size_t n_words, const stet_embed_options *how, float *out,
                        double *loss);

#endif
