/* lexicon/sets.h - the texts that a run over substitution sets is about. */
#ifndef LEXICON_SETS_H
#define LEXICON_SETS_H

#include "stet/choices.h"

/* A checked copy of index[0..n_index), or, if index is NULL, all texts that the sets speak about:
 * ascending, of this data set, labelled, and known to the sets. Release *out with mem_free. */
stet_status sets_take_texts(const stet_sets *s, const stet_dataset *d, const size_t *index,
                            size_t n_index, size_t **out, size_t *n);

#endif
