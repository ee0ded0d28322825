/* defense/near_words.h - rules that vote on copies of a text whose words are drawn from lists of near
 * words: SAFER and Text-CRS. What they have in common; rule_desc and defense_desc take the functions. */
#ifndef DEFENSE_NEAR_WORDS_H
#define DEFENSE_NEAR_WORDS_H

#include "defense/defenses.h"
#include "defense/kept_sets.h"
#include "defense/set_words.h"
#include "defense/votes.h"

typedef struct near_words near_words;
typedef struct near_kind {
    const char *defense, *file; /* its name, and the file of its lists in a model's folder */
    /* One of the n words of a list: k is the k-th of them, 0 the word of the text itself. */
    size_t (*draw)(const near_words *s, rng *r, size_t n);
} near_kind;

/* The state of such a rule; its settings begin with a vote_cfg. */
struct near_words {
    const near_kind *kind;
    kept_sets lists; /* by the numbers of `words` */
    set_words words;
    size_t n_chances; /* what `draw` keeps, if it does */
    double *chance;
};

/* A rule with no lists yet. On failure too, *state is for near_words_end. */
stet_status near_words_begin(const near_kind *kind, const model *m, void **state, near_words **out);
/* Finds the words of the lists that are kept. */
stet_status near_words_bind(near_words *s, const model *m);
stet_status near_words_load(const near_kind *kind, const model *m, const char *dir, void **state);
stet_status near_words_save(const void *state, const char *dir);
void near_words_end(void *state);
const stet_subst *near_words_lists(const void *state); /* rule_desc.lists */

/* What is drawn of a text: `mem` keeps it. */
stet_status near_words_copies(const rule *r, const model *m, const vote_text *t, arena *mem,
                              vote_of *out);
stet_status near_words_predict(const rule *r, const model *m, const stet_corpus *c, float *logits);
/* Training: a drawn copy in place of each text, those that others added included. */
stet_status near_words_batch(void *state, const step_view *v, step_texts *t);

#endif
