/* lexicon/sets.h - the texts that a run over substitution sets is about, and words of sets that no
 * text can hold. */
#ifndef LEXICON_SETS_H
#define LEXICON_SETS_H

#include "stet/choices.h"
#include "text/words.h"

/* A checked copy of index[0..n_index), or, if index is NULL, all texts that the sets speak about:
 * ascending, of this data set, labelled, and known to the sets; of them part `shard` (from 1) of
 * `shards`, texts n (shard - 1) / shards up to n shard / shards; 0: all. Release *out with mem_free. */
stet_status sets_take_texts(const stet_sets *s, const stet_dataset *d, const size_t *index,
                            size_t n_index, size_t shard, size_t shards, size_t **out, size_t *n);

/* stet_sets_bind for one text that was read with `w`: of sets of words only what this text needs, which
 * takes microseconds instead of milliseconds. Good for this text alone. */
stet_status sets_bind_text(const stet_sets *s, stet_words *w, const stet_reading *r,
                           stet_bound **out);

/* Words of sets as a reader sees them; {0} to begin with. */
typedef struct odd_words {
    size_t seen, n;         /* words; those that are not read as themselves */
    const char *example[2]; /* the first of them, borrowed */
    stet_tokens scratch;
} odd_words;
stet_status odd_words_see(odd_words *o, const word_reader *r, const char *word, bool *typed);
void odd_words_tell(const odd_words *o); /* a warning, if there are any */
void odd_words_deinit(odd_words *o);

/* The set without words that are not read as themselves, after a warning: *own, or `s` itself if all
 * are (then *own is NULL). For those who need the set before there is a model. */
stet_status subst_typed(const stet_subst *s, const word_reader *r, stet_subst **own);

#endif
