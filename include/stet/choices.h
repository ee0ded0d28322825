/* stet/choices.h - which words may stand at each position of one text.
 *
 *     stet_sets sets;
 *     stet_words *words;
 *     stet_bound *bound;
 *     if (stet_sets_load("jia.subst", &sets) != STET_OK || stet_model_words(m, &words) != STET_OK ||
 *         stet_sets_bind(&sets, words, &bound) != STET_OK) ...
 *     stet_reading r = {0};
 *     stet_choices c = {0};
 *     if (stet_words_read(words, text, len, &r) != STET_OK ||
 *         stet_bound_choices(bound, words, &r, &c) != STET_OK) ...
 *     for (uint32_t k = c.start[i]; k < c.start[i + 1]; k++)
 *         ... c.word[k] may stand at position i
 *
 * Attacks, defences and certificates that are compared use this one object. Binding takes every word
 * of the sets through the reader once. What no text can hold as one word is left out, and a warning
 * says how much that was: so every choice is a string that a person can type. A substitute that the
 * model's vocabulary lacks stays a word of its own, though the model may read it as <unk>. */
#ifndef STET_CHOICES_H
#define STET_CHOICES_H

#include "stet/lexicon.h"
#include "stet/words.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reused between calls; {0} is valid. */
typedef struct stet_choices {
    size_t n;          /* positions: tokens that the model reads */
    uint32_t *start;   /* (n + 1) */
    uint32_t *word;    /* (start[n]) words of the run, in the order of the set */
    const char **text; /* (start[n]) the same as strings, borrowed from the set */
    const stet_words *words; /* whose ids they are; NULL: ids of the model's vocabulary */
    size_t cap_n, cap;
} stet_choices;
STET_API void stet_choices_deinit(stet_choices *c);
STET_API size_t stet_choices_changeable(const stet_choices *c); /* positions with substitutes */

/* ---- sets of words or of texts ------------------------------------------------------------ */

/* Exactly one of the two. Never changes, so threads may share it. */
typedef struct stet_sets {
    stet_subst *words;
    stet_subst_texts *texts; /* speaks about these texts only */
} stet_sets;

/* Whatever stet_subst_load or stet_subst_texts_load takes; on failure *out is {0}. */
STET_API stet_status stet_sets_load(const char *path, stet_sets *out);
STET_API void stet_sets_free(stet_sets *s); /* both; {0} is fine */
STET_API uint64_t stet_sets_fingerprint(const stet_sets *s);
/* SHA-256 of the sets as text (docs/formats.md): the same relation gives the same digits. */
STET_API void stet_sets_sha256(const stet_sets *s, char out[65]);

/* What commands take for --limit: a seeded sample of at most `limit` (0: all) of the texts that the
 * sets speak about: of sets of words, that of stet_dataset_sample; of sets of texts, from the texts
 * of `d` that are among them, each once. Ascending. `index` holds stet_dataset_size(d) entries. */
STET_API stet_status stet_sets_sample(const stet_sets *s, const stet_dataset *d, size_t limit,
                                      uint64_t seed, size_t *index, size_t *n);
/* Part `shard` (from 1) of `shards` of n texts: those from *from up to, not including, *to, which are
 * n (shard - 1) / shards and n shard / shards. 0 of 0: all. STET_EUSAGE if there is no such part. */
STET_API stet_status stet_shard(size_t n, size_t shard, size_t shards, size_t *from, size_t *to);
/* Looked up anew: may `word` stand for token i? */
STET_API stet_status stet_sets_allow(const stet_sets *s, const char *text, size_t len,
                                     const stet_tokens *tokens, size_t i, const char *word,
                                     bool *out);

/* ---- sets as one run reads them ----------------------------------------------------------- */

typedef struct stet_bound stet_bound;
/* Every word of the sets becomes a word of the run, except those that are not read as themselves
 * (stet_words_typed). `s` is borrowed. */
STET_API stet_status stet_sets_bind(const stet_sets *s, stet_words *w, stet_bound **out);
STET_API void stet_bound_free(stet_bound *b); /* NULL is fine */
STET_API size_t stet_bound_left_out(const stet_bound *b); /* words that are not read as themselves */
/* Do sets of words know this one, if only as a substitute? Of sets of texts: no. */
STET_API bool stet_bound_lists(const stet_bound *b, uint32_t id);
/* Of a text read with `w`: the words that the sets were bound to, or a fork of them. A text that the
 * sets do not speak about has no choices. */
STET_API stet_status stet_bound_choices(const stet_bound *b, const stet_words *w,
                                        const stet_reading *r, stet_choices *out);

#ifdef __cplusplus
}
#endif
#endif
