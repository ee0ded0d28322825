/* defense/tavat.h - TA-VAT: a perturbation of word vectors in two parts, one of the text and one of each
 * of its words, which goes on from text to text. */
#ifndef DEFENSE_TAVAT_H
#define DEFENSE_TAVAT_H

#include "defense/embedding_adv.h"

typedef struct tavat_state {
    adv_state adv; /* first: what climbs finds the rest behind it */
    real *table;   /* (n_words, D) what words have gathered, in host memory */
    size_t n_words, dim;
    /* of this step, (T, D) both */
    node *of_text, *of_words;
} tavat_state;

/* (T, 2 D): the two parts after a step along g. That of the text moves by its norm over the text, that of
 * a word by its own; then words shrink by their norm over the text's largest, and both parts to the ball
 * of `radius` if their sum is outside. */
node *tavat_move(tape *t, const adv_cfg *c, const seq_index *seq, node *of_text, node *of_words,
                 node *g);

/* The words' part of a batch that is spread: their rows of the table, all over the norm of all. */
stet_status tavat_begin(const tavat_state *s, const step_view *v, node **out);
/* The step's pass from these beginnings; the table has gathered the words' part then. */
node *tavat_forward(tavat_state *s, const step_view *v, const batch *own, node *of_text,
                    node *of_words);

#endif
