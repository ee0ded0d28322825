/* verify/ver_exact_words.h - a bound that is a number and a sum over positions, in exact arithmetic:
 * what the words add, their scores among it, each position at its worst and within the budget. */
#ifndef VERIFY_VER_EXACT_WORDS_H
#define VERIFY_VER_EXACT_WORDS_H

#include "verify/ver_exact_number.h"

typedef struct exact_words {
    const ver_work *w;
    const ver_task *t;
    int label, other;
    size_t n;   /* words of the task */
    mpq_t sum;  /* what does not depend on words */
    mpq_t *of;  /* (n) what each adds, at least */
    mpq_t q, r; /* scratch */
} exact_words;

/* All inside exact_run. */
void exact_words_init(exact_words *x, const ver_work *w, int label, int other);
void exact_words_scores(exact_words *x); /* add what float32 makes of the words' scores, at least */
void exact_words_worst(exact_words *x);  /* onto the sum, the worst choice of words */

#endif
