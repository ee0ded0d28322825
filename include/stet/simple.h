/* stet/simple.h - one string, one call: predict it, attack it, certify it, explain it.
 *
 *     stet_model *m;
 *     stet_sets sets;
 *     stet_certified *c;
 *     if (stet_model_load("runs/cnn", &m) != STET_OK || stet_sets_load("words.subst", &sets) != STET_OK ||
 *         stet_text_certify(m, &sets, "a fine film", -1, NULL, &c) != STET_OK)
 *         return fprintf(stderr, "%s\n", stet_last_error()), 1;
 *     puts(c->verdict == STET_CERTIFIED ? "proved" : "open");
 *     stet_result_free(c);
 *     stet_sets_free(&sets);
 *     stet_model_free(m);
 *
 * stet_result_free() releases a result with everything in it; it needs neither the model nor the text
 * any more. On failure *out is NULL. Threads may share model and sets. What a
 * model must prepare for these calls is prepared by the first that needs it, and kept.
 *
 * `label` is the class that should be kept; -1: the model's own answer. Every result has `json`, the
 * same as one JSON object on one line, with the keys that docs/api.md lists. Stable: results may get
 * new fields at their end. */
#ifndef STET_SIMPLE_H
#define STET_SIMPLE_H

#include "stet/attack.h"
#include "stet/certify.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of any of the results below; NULL is fine. */
STET_API void stet_result_free(void *result);

/* A word of the text and what was, or may be, put in its place. */
typedef struct stet_swap {
    size_t position;   /* which word of the text, from 0 */
    size_t start, end; /* its bytes in the text */
    const char *from, *to;
    double drop; /* what it takes from the margin, or may take; attacks do not say: 0 */
} stet_swap;

/* ---- predict ------------------------------------------------------------------------------ */

typedef struct stet_predicted {
    const char *json;
    int label;
    const char *name; /* of that class */
    double probability;
    size_t n_classes;
    const float *prob; /* (n_classes) */
} stet_predicted;
STET_API stet_status stet_text_predict(const stet_model *m, const char *text, stet_predicted **out);
/* Does a BERT read the text to its end? *pieces: 0 where it does, else how many it reads. Models that
 * read words: 0. */
STET_API stet_status stet_text_cut(const stet_model *m, const char *text, size_t len,
                                   size_t *pieces);
/* Many at once, batched and on all threads: probabilities (n, K) and labels (n); either may be NULL.
 * The log says how many a BERT does not read to their end. */
STET_API stet_status stet_texts_predict(const stet_model *m, const char *const *texts, size_t n,
                                        float *prob, int *label);
/* The same on a device ("cpu", "cuda", "auto"; NULL: "cpu"), as results (n), each for
 * stet_result_free(), and nothing in the log. On failure all of them are NULL. */
STET_API stet_status stet_texts_predict_on(const stet_model *m, const char *device,
                                           const char *const *texts, size_t n,
                                           stet_predicted **out);

/* ---- attack ------------------------------------------------------------------------------- */

typedef struct stet_attacked {
    const char *json;     /* the text's line of an attack's log (docs/attacks.md) */
    const char *outcome;  /* "success", "failure", "wrong", "unconfirmed", "timeout" */
    bool flipped;         /* the outcome is "success" */
    int label, answer;    /* the class to be left; the answer to the text that was found */
    double before, after; /* the label's probability */
    const char *text;     /* the flipped text; NULL: none was found */
    size_t n_swaps;
    const stet_swap *swaps; /* (n_swaps) that make it, ascending positions */
    uint64_t queries;
} stet_attacked;
/* `how` gives attack, profile, settings, seed, stop words, tagger and time limit; its model, data and
 * files are ignored. NULL: PWWS with its settings in OpenAttack. */
STET_API stet_status stet_text_attack(const stet_model *m, const stet_sets *sets, const char *text,
                                      int label, const stet_attack_args *how, stet_attacked **out);

/* ---- certify ------------------------------------------------------------------------------ */

typedef struct stet_certified {
    const char *json;
    stet_verdict verdict;
    const char *verdict_name;
    int label, answer; /* the class to be kept; the answer to the text as it stands */
    const char *name;  /* of the answer */
    double probability;
    double clean, margin; /* the margin as it stands; proved for every combination, or -INFINITY */
    size_t budget;        /* substituted words proved harmless (of a model that votes: likely to be);
                             STET_ANY: any number */
    const char *method;   /* of the proof; "none" */
    const char
        *reason; /* why the text is undecided though its budget of time was not spent; NULL */
    size_t changeable, substitutes; /* words that can change, and what may stand there in all */
    const char *text;               /* a flipped text, where one is known; NULL: none is */
    size_t n_swaps;
    const stet_swap *swaps; /* (n_swaps) that make it */
    size_t n_harm;
    const stet_swap *harm; /* (n_harm) each word's worst substitute by the bound, worst first */
    double seconds;
    double confidence; /* of a model that votes: the bounds behind the verdict hold with at least this
                          probability, which is no proof; of any other model 0 */
} stet_certified;
/* `how` NULL: every method and every combination, then a search for a counter-example and splits of
 * the text for 10 seconds, then the largest budget that can be proved. */
STET_API stet_status stet_text_certify(const stet_model *m, const stet_sets *sets, const char *text,
                                       int label, const stet_certify_how *how,
                                       stet_certified **out);

/* ---- explain ------------------------------------------------------------------------------ */

typedef struct stet_explained_word {
    size_t position, start, end;
    const char *word;
    double weight; /* how much the margin falls when the word is read as unknown; may be negative */
    const char *worst; /* the substitute that lowers the margin most, alone; NULL: none does */
    double drop;       /* by how much */
} stet_explained_word;
typedef struct stet_explained {
    const char *json;
    int label; /* the class that is explained */
    const char *name;
    double probability, margin; /* of that class, against the best other one */
    size_t n;
    const stet_explained_word *words; /* (n) in the order of the text */
} stet_explained;
/* Which words carry the answer: exact evaluations of the text with one word changed at a time.
 * `sets` NULL: weights alone. */
STET_API stet_status stet_text_explain(const stet_model *m, const stet_sets *sets, const char *text,
                                       int label, stet_explained **out);

#ifdef __cplusplus
}
#endif
#endif
