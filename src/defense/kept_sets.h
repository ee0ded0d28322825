/* defense/kept_sets.h - substitution sets that a rule needs when it answers: a file in the model's
 * folder. */
#ifndef DEFENSE_KEPT_SETS_H
#define DEFENSE_KEPT_SETS_H

#include "bound/hulls.h"

typedef struct kept_sets {
    stet_subst *subst; /* what the folder keeps */
    word_sets words;
} kept_sets;

/* The n words of a word's list, or NULL: it has none. */
typedef const uint32_t *kept_list(const void *ctx, size_t word, size_t *n);

/* On failure, what is there is still to be released. */
stet_status kept_sets_make(const stet_vocab *v, kept_list *list, const void *ctx, kept_sets *out);
/* The same sets, still to be bound. */
stet_status kept_sets_copy(const stet_subst *from, kept_sets *out);
/* v NULL: the words are still to be bound. */
stet_status kept_sets_load(const stet_vocab *v, const char *dir, const char *file, kept_sets *out);
stet_status kept_sets_bind(kept_sets *s, const stet_vocab *v); /* to other words than before */
stet_status kept_sets_bind_rows(kept_sets *s, const model *m); /* to a model's pieces of words */
stet_status kept_sets_save(const kept_sets *s, const char *dir, const char *file);
void kept_sets_deinit(kept_sets *s); /* {0} is fine */

#endif
