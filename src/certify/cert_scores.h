/* certify/cert_scores.h - what word scores (model/word_scores.h) add to the margin of a task: a sum
 * over positions, so that its worst case is exact. A bound of the network that is a sum over positions
 * as well takes the scores in word by word: one word then serves both. Any other adds their worst. */
#ifndef CERTIFY_CERT_SCORES_H
#define CERTIFY_CERT_SCORES_H

#include "certify/certify_impl.h"

/* Scores that are computed from a word's vector, for all words: the real value, and how far a float32
 * evaluation may be from it. */
typedef struct cert_word_scores {
    double *value, *err; /* (n_words, K) */
} cert_word_scores;
/* NULL: they are parameters, read as they are. The model keeps them (cert_score_net.c). */
stet_status cert_word_scores_of(const model *m, const cert_word_scores **out);

typedef struct cert_scores {
    const model *m;
    const cert_word_scores *of;
    const cert_task *t;
    double *lead;    /* (words) what each adds to the margin; NULL: the model has no scores */
    cert_bound sum;  /* of the scores alone */
    double *scratch; /* (n) */
} cert_scores;

/* STET_EFORMAT: a score is not finite, or so large that float32 sums might overflow. */
stet_status cert_scores_check(const model *m);
/* For a task; memory of `a`. Without word scores nothing is done here and nothing added below. */
stet_status cert_scores_open(cert_scores *s, const model *m, const cert_task *t, arena *a);
/* Fill lead and sum for the margin against `other`. */
void cert_scores_against(cert_scores *s, int other);

/* To a bound that is no sum over positions: its margin and slack. */
void cert_scores_add(const cert_scores *s, cert_bound *b);
/* To one that is, before cert_sum_up(): base, slack, and what each word contributes. */
void cert_scores_add_words(const cert_scores *s, cert_bound *b, double *contribution);

/* cert_scores_onnx.c: to an ONNX graph with the input "choice", the output "logits": those of the node
 * `network` and what words add, or, if that is NULL, biases and words. */
stet_status cert_scores_onnx(const model *m, const cert_task *t, const char *network, buf *graph);

#endif
