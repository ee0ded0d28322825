/* stet/words.h - the words of a run: every word that a run meets has an id.
 *
 *     stet_words *w;
 *     if (stet_model_words(m, &w) != STET_OK) ...          // stet/model.h: as the model reads
 *     stet_reading r = {0};
 *     if (stet_words_read(w, text, len, &r) != STET_OK) ...
 *     for (size_t i = 0; i < r.n; i++)
 *         puts(stet_words_word(w, r.ids[i]));
 *     stet_reading_deinit(&r);
 *     stet_words_free(w);
 *
 * The ids of the model's vocabulary come first; then, in the order in which they are met, words that
 * the vocabulary lacks: substitutes and words of texts. Two unknown words are two ids, even where
 * the model reads both as <unk>. Substitution sets, choices, edits, attacks and certificates speak
 * these ids; what the model makes of a word (a row of its table, or several) is its own business.
 *
 * Words are added by one thread at a time. Threads that read texts at the same time take a fork each:
 * it sees the words below it, which must not grow any more, and adds its own. */
#ifndef STET_WORDS_H
#define STET_WORDS_H

#include "stet/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_words stet_words;

/* For a program that reads texts itself: cut by a tokeniser, no vocabulary, no limit of length. */
STET_API stet_status stet_words_new(stet_tokenizer kind, stet_words **out);
/* `w` is borrowed and must not change while the fork lives. */
STET_API stet_status stet_words_fork(const stet_words *w, stet_words **out);
STET_API void stet_words_free(stet_words *w); /* NULL is fine */

STET_API size_t stet_words_size(const stet_words *w);
STET_API stet_status stet_words_add(stet_words *w, const char *word, size_t len, uint32_t *id);
/* UINT32_MAX: not met yet. */
STET_API uint32_t stet_words_find(const stet_words *w, const char *word, size_t len);
STET_API const char *stet_words_word(const stet_words *w, uint32_t id); /* NULL: no such id */
/* Drop the words that were added to `w` itself, those of a text that is done with. */
STET_API void stet_words_forget(stet_words *w);

/* A text as it was read, cut into words once. Reused between calls; {0} is valid. */
typedef struct stet_reading {
    stet_str text;      /* borrowed */
    stet_tokens tokens; /* all its words and where they stand */
    uint32_t *ids;      /* (n) words of the run */
    size_t n, cap;      /* words that count: the first max_len; 0 for an empty text */
} stet_reading;
STET_API stet_status stet_words_read(stet_words *w, const char *text, size_t len,
                                     stet_reading *out);
STET_API void stet_reading_deinit(stet_reading *r);

/* Is `word` read as exactly itself? Not so if the reader would cut it, change its case or compose its
 * accents ("Boring", "mind-numbing", "<unk>"): then no text can hold it, and nothing can be said
 * about it. */
STET_API stet_status stet_words_typed(const stet_words *w, const char *word, size_t len, bool *yes);

#ifdef __cplusplus
}
#endif
#endif
