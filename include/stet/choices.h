/* stet/choices.h - which words may stand at each position of one text, as a model reads them.
 *
 * Attacks, defences and certificates that are compared use this one object. A substitute that the model's
 * vocabulary lacks is read as <unk>, exactly as the model would read it; substitutes that read as the word
 * in place, or as one already listed, are left out because they change nothing. */
#ifndef STET_CHOICES_H
#define STET_CHOICES_H

#include "stet/lexicon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reused between calls; {0} is valid. */
typedef struct stet_choices {
    size_t n;           /* positions: tokens that the model reads */
    uint32_t *start;    /* (n + 1) */
    uint32_t *word;     /* (start[n]) vocabulary ids, in the order of the set */
    const char **text;  /* (start[n]) the substitutes as words, borrowed from the set */
    size_t cap_n, cap;
} stet_choices;

/* Position i of the first min(tokens->n, max_len) tokens may take the words of S(token i). */
STET_API stet_status stet_choices_of(const stet_subst *s, const stet_vocab *v, const stet_tokens *tokens, size_t max_len,
                                     stet_choices *out);
/* The same from the per-position sets of text i of `s`, whose tokens are its words separated by spaces. */
STET_API stet_status stet_choices_of_text(const stet_subst_texts *s, size_t i, const stet_vocab *v, const stet_tokens *tokens,
                                          size_t max_len, stet_choices *out);
STET_API void stet_choices_deinit(stet_choices *c);

#ifdef __cplusplus
}
#endif
#endif
