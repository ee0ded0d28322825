/* stet/choices.h - which words may stand at each position of one text, as a model reads them.
 *
 *     stet_sets sets;
 *     if (stet_sets_load("jia.subst", &sets) != STET_OK) ...
 *     stet_choices c = {0};
 *     if (stet_sets_choices(&sets, text, len, vocab, &tokens, max_len, &c) != STET_OK) ...
 *     for (uint32_t k = c.start[i]; k < c.start[i + 1]; k++)
 *         ... c.word[k] may stand at position i
 *
 * Attacks, defences and certificates that are compared use this one object. A substitute that the
 * model's vocabulary lacks is read as <unk>, exactly as the model would read it; substitutes that
 * read as the word in place, or as one already listed, are left out because they change nothing. */
#ifndef STET_CHOICES_H
#define STET_CHOICES_H

#include "stet/lexicon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reused between calls; {0} is valid. */
typedef struct stet_choices {
    size_t n;          /* positions: tokens that the model reads */
    uint32_t *start;   /* (n + 1) */
    uint32_t *word;    /* (start[n]) vocabulary ids, in the order of the set */
    const char **text; /* (start[n]) the substitutes as words, borrowed from the set */
    size_t cap_n, cap;
} stet_choices;

/* Position i of the first min(tokens->n, max_len) tokens may take the words of S(token i). */
STET_API stet_status stet_choices_of(const stet_subst *s, const stet_vocab *v,
                                     const stet_tokens *tokens, size_t max_len, stet_choices *out);
/* The same from the per-position sets of text i of `s`. `text` is the original that `tokens` were
 * cut from; where its tokens and the words of text i differ, the word stays. */
STET_API stet_status stet_choices_of_text(const stet_subst_texts *s, size_t i, const char *text,
                                          size_t len, const stet_vocab *v,
                                          const stet_tokens *tokens, size_t max_len,
                                          stet_choices *out);
STET_API void stet_choices_deinit(stet_choices *c);

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
/* Add every substitute (of sets of words: every word) to a vocabulary in the making. */
STET_API stet_status stet_sets_count(const stet_sets *s, stet_counter *c);

/* What commands take for --limit: a seeded sample of at most `limit` (0: all) of the texts that the
 * sets speak about: of sets of words, that of stet_dataset_sample; of sets of texts, from the texts
 * of `d` that are among them, each once. Ascending. `index` holds stet_dataset_size(d) entries. */
STET_API stet_status stet_sets_sample(const stet_sets *s, const stet_dataset *d, size_t limit,
                                      uint64_t seed, size_t *index, size_t *n);
/* Of `tokens`, cut from `text`. A text that the sets do not speak about has no choices. */
STET_API stet_status stet_sets_choices(const stet_sets *s, const char *text, size_t len,
                                       const stet_vocab *v, const stet_tokens *tokens,
                                       size_t max_len, stet_choices *out);
/* Looked up anew: may `word` stand for token i? */
STET_API stet_status stet_sets_allow(const stet_sets *s, const char *text, size_t len,
                                     const stet_tokens *tokens, size_t i, const char *word,
                                     bool *out);

#ifdef __cplusplus
}
#endif
#endif
