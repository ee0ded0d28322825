/* stet/certify.h - prove that no combination of substitutions changes a classifier's answer.
 *
 *     stet_certify_args a = STET_CERTIFY_DEFAULTS;
 *     a.model = m, a.data = test, a.sets = &sets;
 *     stet_certify_result r;
 *     if (stet_certify_run(&a, &r) == STET_OK)
 *         printf("accuracy %.3f, certified %.3f\n", r.clean, r.certified);
 *
 * A certificate says: whatever words of their sets stand at the positions of this text (at most
 * `budget` of them changed), the float32 program that stet_model_predict() runs gives this label,
 * rounding included. docs/certificates.md says what that covers and what it does not.
 *
 * Texts are certified on all threads; results do not depend on their number, except where a time
 * limit ends a text. */
#ifndef STET_CERTIFY_H
#define STET_CERTIFY_H

#include "stet/attack.h"
#include "stet/model.h"
#include "stet/verify.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STET_ANY SIZE_MAX /* as many substituted words as there are positions */

typedef enum stet_verdict {
    STET_WRONG,     /* the classifier is wrong about the text as it stands */
    STET_CERTIFIED, /* proved: the label stands */
    STET_BROKEN,    /* a counter-example is known */
    STET_UNDECIDED,
    STET_LIKELY, /* a model that votes: holds with the stated confidence, which is not a proof */
    STET_VERDICTS
} stet_verdict;
STET_API const char *stet_verdict_name(stet_verdict v); /* "wrong", "certified", ... */

/* How to go about it. */
typedef struct stet_certify_how {
    const char *method; /* stet_certify_methods(), or "auto": from cheap to expensive, stops at the
                           first proof */
    size_t budget;      /* substituted words at most; STET_ANY: no limit */
    bool largest;       /* where that fails, find the largest budget that can be proved */
    bool complete; /* look for a counter-example, then split sets until one or the other is found */
    double time_limit; /* seconds a text may take with `complete`; 0: no limit */
    size_t refine;     /* steps that improve a joint bound */
} stet_certify_how;
#ifdef __cplusplus
#define STET_CERTIFY_HOW STET_DEFAULTS_CXX(stet_certify_how)
#else
#define STET_CERTIFY_HOW                                                                           \
    {                                                                                              \
        .method = "auto", .budget = STET_ANY, .time_limit = 10, .refine = 30                       \
    }
#endif
STET_API void stet_certify_how_init(stet_certify_how *h,
                                    size_t size); /* sizeof(stet_certify_how) */

/* A position and what its worst word may do to the margin, according to the bound. */
typedef struct stet_harm {
    uint32_t pos, word; /* position in the text, the substitute as a word of the run */
    double drop;        /* >= 0: how much of the margin's bound it takes */
} stet_harm;

/* What is known of one text. */
typedef struct stet_certificate {
    stet_verdict verdict;
    int label, answer;  /* the class to be kept, the classifier's answer */
    double confidence;  /* of a model that votes: the bounds behind the verdict hold with at least this
                           probability, which is no proof; of any other model 0 */
    double clean;       /* margin of the text as it stands: label against the best other class */
    double margin;      /* best proved lower bound of the worst margin; -INFINITY: none */
    double slack;       /* share of rounding in it */
    const char *method; /* that gave it; "none" */
    size_t budget;      /* largest number of substituted words proved (of a model that votes: likely
                           to be harmless); STET_ANY, or 0 for none */
    stet_harm *harm;    /* (n_harm) positions that some word does harm at, most harmful first */
    size_t n_harm;
    stet_edit *edits; /* (n_edits) the counter-example of a broken text, ascending positions */
    size_t n_edits;
    size_t branches; /* parts that `complete` bounded */
    double seconds;
    char *reason; /* why the text could not be bounded at all and is undecided; NULL: it could */
    double probability; /* of the answer; not a number where there is none */
} stet_certificate;
STET_API void stet_certificate_deinit(stet_certificate *c);

/* For one text at a time; a model may have several certifiers, one per thread. */
typedef struct stet_certifier stet_certifier;
STET_API stet_status stet_certifier_new(const stet_model *m, const stet_certify_how *how,
                                        stet_certifier **out);
STET_API void stet_certifier_free(stet_certifier *c);
/* The text as it was read (stet_words_read) and what may stand at its positions; without positions,
 * an empty text. On failure *out holds nothing. A text whose numbers are not finite is undecided,
 * with the reason; where the model has no answer to it at all, `answer` is -1. */
STET_API stet_status stet_certify_text(stet_certifier *c, const uint32_t *ids,
                                       const stet_choices *choices, int label,
                                       stet_certificate *out);

/* A text as it was read and what may stand in it; valid while `each` runs. Words of the run that are
 * of no set have their spelling in the reading only. */
typedef struct stet_certified_text {
    const stet_reading *reading;
    const stet_choices *choices;
} stet_certified_text;

typedef struct stet_certify_args {
    size_t size; /* of this struct; 0 counts as what this header says */
    const stet_model *model;
    const stet_dataset *data;
    const size_t *index; /* which of its texts, ascending; NULL: all that the sets speak about */
    size_t n_index;
    const stet_sets *sets; /* of words, or of texts: then only those texts can be certified */
    stet_certify_how how;
    bool harm; /* find the words that do most harm, too: costs a bound more */
    /* Certificates, one JSON line per text (docs/formats.md); NULL: none. Those of a model that
     * votes are statistical and prove nothing. An unfinished file is FILE.part, to which every text
     * is added; a run that was stopped or killed goes on from there and ends in the same bytes.
     * STET_EFORMAT if that is of another run. */
    const char *file;
    /* Folder for the question of every text that is answered right, as ONNX and VNN-LIB for other
     * verifiers (docs/certificates.md); NULL: none. CNNs only. */
    const char *export_dir;
    const char *model_name; /* what the file calls the model: the last part of this path */
    /* Called once for each text, in their order, when its block is done; NULL: nobody listens. */
    void (*each)(void *user, size_t index, const stet_certified_text *t, const stet_certificate *c);
    void *each_user;
    /* The same as one JSON object on one line (docs/api.md): what stet_text_certify() gives. */
    void (*line)(void *user, const char *line);
    void *line_user;
    size_t shard, shards; /* part `shard` (from 1) of `shards` of the texts; 0: all */
    /* Where the model answers, and a CNN's `ibp` is computed: "cpu", "cuda", or "auto", a GPU where there
     * is one. NULL: "cpu". Other bounds are the CPU's. */
    const char *device;
} stet_certify_args;
#ifdef __cplusplus
#define STET_CERTIFY_DEFAULTS STET_DEFAULTS_CXX(stet_certify_args)
#else
#define STET_CERTIFY_DEFAULTS                                                                      \
    {                                                                                              \
        .size = sizeof(stet_certify_args), .how = STET_CERTIFY_HOW                                 \
    }
#endif
STET_API void stet_certify_args_init(stet_certify_args *a,
                                     size_t size); /* sizeof(stet_certify_args) */

enum { STET_MARGIN_BINS = 20 };
typedef struct stet_certify_result {
    size_t n, correct, verdicts[STET_VERDICTS];
    double clean, certified, broken, undecided, likely; /* shares of n */
    double margin_lo, margin_hi; /* range of the histogram: proved margins of correct texts */
    size_t margin_bins[STET_MARGIN_BINS];
    double slack_mean, candidates_mean, attackable_mean;
    double seconds;
    size_t *budget_at_least; /* (n_budget) [r]: right texts for which at least r were proved */
    size_t n_budget;         /* one more than the largest that is not STET_ANY */
    size_t *index;           /* (n) the texts, and */
    stet_verdict *verdict;   /* (n) what became of them */
    char *method;            /* how the proofs were made: "ibp 312, joint 401" */
    size_t unbounded;        /* of the undecided: could not be bounded at all */
    char *reason;            /* of the first of them; NULL: there is none */
    size_t resumed;          /* taken from FILE.part */
    double confidence;       /* of a model that votes: that of each verdict; else 0 */
} stet_certify_result;
STET_API stet_status stet_certify_run(const stet_certify_args *a, stet_certify_result *out);
STET_API void stet_certify_result_deinit(stet_certify_result *r);

/* For stet_attack_args.prover: an attack then leaves the texts that method "auto" proves for any
 * number of substitutions. STET_ENOTSUP where the model has no certificates, or numbers too large
 * for them. */
STET_API stet_status stet_certify_prover(const stet_model *m, stet_prover **out);

/* Methods for a kind of model ("cnn", ...), cheapest first, NULL at the end; NULL: it has none. */
STET_API const char *const *stet_certify_methods(const char *kind);

/* A file of certificates, checked as stet_verify_file() does, and against where its texts should come
 * from: words and labels are those of `data` (stet_model_data), substitutes those of `sets`. Without
 * `data` only the SHA-256 of the sets is compared; either may be NULL. `match` and the sums of `options`
 * are not looked at. */
STET_API stet_status stet_verify_against(const char *path, const char *model_dir,
                                         const stet_dataset *data, const stet_sets *sets,
                                         const stet_verify_options *options, stet_verify_result *r);

#ifdef __cplusplus
}
#endif
#endif
