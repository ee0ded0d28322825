/* lexicon/morph.h - base forms of English words by WordNet's rules (morphy(7WN)). */
#ifndef LEXICON_MORPH_H
#define LEXICON_MORPH_H

#include "lexicon/wn_file.h"
#include "stet/lexicon.h"

/* Longer words have no base forms: WordNet's longest entry has 71 bytes. */
enum { MORPH_WORD_MAX = 255 };

/* Called for each candidate; whether it is a word is for the receiver to look up. */
typedef stet_status morph_visit(void *ctx, const char *form, size_t len);

/* The candidates of a lower-case word as a `pos`, each of 1 to MORPH_WORD_MAX bytes, in this order:
 * the word itself, then its base forms in the exception list, or, when it is not listed there, what
 * the rules of detachment make of it. A form may come twice. */
stet_status morph_forms(const wn_file *exceptions, stet_pos pos, const char *word, size_t len,
                        morph_visit *visit, void *ctx);

#endif
