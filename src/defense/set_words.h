/* defense/set_words.h - the words of substitution sets as a rule meets them again in texts, which are
 * rows. */
#ifndef DEFENSE_SET_WORDS_H
#define DEFENSE_SET_WORDS_H

#include "model/rule.h"

/* Of a model with one row per word they are its vocabulary, and a word's row is its id; of another, the
 * words of the sets, with their rows. */
typedef struct set_words {
    const stet_vocab *vocab;
    stet_vocab *own;
    uint32_t *row, *at; /* rows of word w: row[at[w] .. at[w + 1]) */
    size_t longest;     /* rows of a word, at most */
} set_words;

stet_status set_words_make(const model *m, const stet_subst *s, set_words *out);
void set_words_deinit(set_words *w); /* {0} is fine */
/* The word of rows by its number; STET_UNK: none of the sets. */
uint32_t set_word_of(const set_words *w, const model *m, const uint32_t *rows, size_t n);

#endif
