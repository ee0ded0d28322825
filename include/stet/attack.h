/* stet/attack.h - swap words for their substitutes until the classifier changes its mind.
 *
 *     stet_attack_args a = STET_ATTACK_DEFAULTS;
 *     a.model = m, a.data = test, a.sets = &sets, a.attack = "pwws";
 *     stet_attack_result r;
 *     if (stet_attack_run(&a, &r) == STET_OK)
 *         printf("accuracy %.3f, under attack %.3f\n", r.clean, r.aua);
 *
 * Texts are attacked on all threads; each has its own random stream (seed, index), so results
 * depend neither on the number of threads nor on where an interrupted run was resumed.
 * docs/attacks.md describes attacks, profiles and files. */
#ifndef STET_ATTACK_H
#define STET_ATTACK_H

#include "stet/choices.h"
#include "stet/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Another measure of how alike two texts are, from -1 to 1: words a[0..n) against b[0..n), words of
 * the run `w`. Called from any thread. */
typedef double stet_similarity_fn(void *user, const stet_words *w, const uint32_t *a,
                                  const uint32_t *b, size_t n);

/* Any classifier as the victim: the class probabilities (n, n_classes) of n texts, row by row, each row
 * summing to 1. Called with the questions of all texts under attack at once, which are as many as the
 * job has threads (stet_job_set_threads: more than cores, so that calls are large), from any thread, one
 * call at a time. A text whose call fails even when it asks by itself has no answer (outcome "error",
 * with the message of stet_set_error()) and the run goes on with the next one; STET_EINTR ends the
 * run. */
typedef stet_status stet_victim_fn(void *user, const char *const *texts, size_t n, size_t n_classes,
                                   double *prob);

/* Knows of some texts that nothing can flip. Any number of threads ask, each with its number
 * `worker` < stet_threads(), or on a GPU < 512: `ids` and `choices` as stet_certify_text() takes them. *out: no
 * combination of the choices gives another class than `label`, by a sound proof. A proof that is
 * cheap is sought first, before the search; `hard` asks again for all that is worth trying, after
 * the first look did not flip the text. */
typedef struct stet_prover {
    stet_status (*proved)(struct stet_prover *p, size_t worker, const uint32_t *ids,
                          const stet_choices *choices, int label, bool hard, bool *out);
    void (*free)(struct stet_prover *p);
} stet_prover;

typedef struct stet_attack_args {
    size_t size; /* of this struct; 0 counts as what this header says */
    /* The classifier: a model, a program that speaks the protocol of docs/attacks.md, or a function
     * (`victim`, below); exactly one. */
    const stet_model *model;
    const char *command;
    double timeout;           /* seconds a program may take for one answer */
    stet_tokenizer tokenizer; /* for a program or a function; a model has its own */

    const stet_dataset *data; /* labelled, classes in the model's order */
    const size_t *index; /* which of its texts, ascending; NULL: all that the sets speak about */
    size_t n_index;
    const stet_sets *sets;     /* of words, or of texts: then only those texts can be attacked */
    const char *stop;          /* words that stay: a file, one per line, or "builtin"; NULL: none */
    const stet_tagger *tagger; /* for constraints on parts of speech; NULL: there are none */
    stet_similarity_fn *similarity; /* replaces the built-in one; NULL: none given */
    void *similarity_user;

    const char *attack;          /* stet_attack_name() */
    const char *profile;         /* "openattack", "textattack", "gbm-paper" or "original" */
    const char *const *settings; /* "name=value", NULL at the end, on top of the profile; or NULL */
    uint64_t seed;
    double time_limit; /* seconds a text may take, after which it has no result; 0: no limit */

    const char
        *log; /* journal, one JSON line per text; finished texts in it are not attacked again.
                         NULL: none */
    const char *html; /* page with the changed words marked; NULL: none */

    /* Called once for each text, in their order, as soon as it and those before it are done, with
     * its line of the log (docs/attacks.md); on the calling thread. NULL: nobody listens. */
    void (*each)(void *user, const char *line);
    void *each_user;

    stet_victim_fn *victim; /* in place of a model or a program; NULL: none */
    void *victim_user;
    const char *victim_name; /* what the log calls it: two functions of one name are one victim */
    /* Part `shard` (from 1) of `shards` of the texts, so that several processes share them; 0: all.
     * The logs of all parts, one after the other, are the log of the whole. */
    size_t shard, shards;
    /* Makes a prover for the model, so that an attack may leave texts that are proved
     * (stet_certify_prover of stet/certify.h; STET_ENOTSUP: there are no proofs). Only attacks that
     * say so in their settings ask (proofs, greedy-proofs). NULL: every text is searched to the end. */
    stet_status (*prover)(const stet_model *m, stet_prover **out);
    size_t victim_batch; /* texts in one call of `victim` at most; 0: any number */
    /* Where a model answers: "cpu", "cuda", or "auto", a GPU where there is one. NULL: "cpu". There are
     * more texts in work on a GPU than threads. What flips a text is confirmed on the CPU, or, where a
     * text is a whole pass (BERT, rules), by itself on the GPU. "cuda:bf16" and "cuda:tf32" round the
     * factors of matrix products. */
    const char *device;
} stet_attack_args;
#ifdef __cplusplus
#define STET_ATTACK_DEFAULTS STET_DEFAULTS_CXX(stet_attack_args)
#else
#define STET_ATTACK_DEFAULTS                                                                       \
    {                                                                                              \
        .size = sizeof(stet_attack_args), .timeout = 30, .attack = "pwws",                         \
        .profile = "openattack", .seed = 1                                                         \
    }
#endif
STET_API void stet_attack_args_init(stet_attack_args *a,
                                    size_t size); /* sizeof(stet_attack_args) */

typedef struct stet_attack_result {
    size_t n, correct, succeeded,
        errors;                      /* texts; correct before; flipped; victim failed on them */
    size_t unconfirmed;              /* flipped by rounding alone: counted as not flipped */
    size_t decided;                  /* exhaustive: texts whose every variant was seen */
    size_t timeouts;                 /* took longer than allowed: in no other number */
    size_t resumed;                  /* taken from the log */
    double clean, aua, success_rate; /* correct/n, (correct - succeeded)/n, succeeded/correct */
    double queries_mean;             /* over attacked texts, as the frameworks count them */
    double evaluations_mean;         /* variants really computed, over attacked texts */
    double queries_success_mean, queries_failure_mean;
    double changed_mean;    /* share of words changed, over successes */
    double candidates_mean; /* per word that can be attacked, over all texts */
    double attackable_mean; /* words of a text that can be attacked */
    double seconds;         /* of the search */
    size_t proved;          /* left because a proof says that nothing flips them */
    /* How often the model was asked again about every text as the attack left it, each time with
     * other draws; 0: it draws nothing. aua_redrawn: the share of these answers that are correct;
     * flips_stay: of those about flipped texts, the share that is still wrong; untouched_wrong: the
     * same for these texts before the attack, to compare with; both NAN where there are none. Flips
     * whose text is read otherwise than the attack meant ("reread": false) are left out. */
    size_t redraws;
    double aua_redrawn, flips_stay, untouched_wrong;
} stet_attack_result;

/* STET_EUSAGE for what does not fit together, STET_EFORMAT for a log of other settings,
 * STET_EINTERNAL if a reported success does not stand up to a full evaluation. On STET_EINTR the
 * log holds what was finished. */
STET_API stet_status stet_attack_run(const stet_attack_args *a, stet_attack_result *out);

/* The settings that profile and `settings` come to, as JSON, and what of the profile this program
 * does not have, as one sentence ("" if nothing). New strings for stet_free(); either may be NULL.
 */
STET_API stet_status stet_attack_settings(const char *attack, const char *profile,
                                          const char *const *settings, char **json, char **missing);

/* Attacks by name, with their options; those of stet_attack_common_options() are for every attack.
 */
STET_API size_t stet_attacks(void);
STET_API const char *stet_attack_name(size_t i);
STET_API const char *stet_attack_summary(size_t i);
STET_API const stet_opt *stet_attack_options(size_t i);
STET_API const stet_opt *stet_attack_common_options(void);
STET_API const char *const *stet_attack_profiles(void); /* NULL at the end */

#ifdef __cplusplus
}
#endif
#endif
