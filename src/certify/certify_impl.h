/* certify/certify_impl.h - what a family of bounds is: one for each kind of model. Adding one: a
 * file that defines cert_X for kind X of model/kind_list.h, a test, a page section.
 *
 * A task is a text of which each position holds one word of a set. A bound is a number that the
 * margin logit[label] - logit[other] of the float32 program never goes below, whatever combination
 * is chosen. Most bounds are sums over positions: base + sum of what each position's worst word
 * takes; that form gives budgets, the words that do most harm, and where to split. */
#ifndef CERTIFY_CERTIFY_IMPL_H
#define CERTIFY_CERTIFY_IMPL_H

#include "base/buf.h"
#include "model/kind_list.h"
#include "model/rule.h"
#include "stet/certify.h"

/* Position p holds one of word[start[p]] .. word[start[p + 1] - 1]; the first is the reference: the
 * word of the text, or, in a part of a split text, any word of the part. Sets are not empty; two
 * words that the model reads as the same row (<unk>) are both there. */
typedef struct cert_task {
    size_t n;
    const uint32_t *start; /* (n + 1) */
    const uint32_t *word;
    size_t budget;      /* positions that may leave their reference; STET_ANY: all */
    const bool *unpaid; /* (n) a change here does not count; NULL: every change counts */
    int label;
} cert_task;

/* What a bound says. The arrays have room for n entries and are filled where the method has the
 * form of a sum (`additive`). Then, for a task without a budget, margin = base - sum of drop. */
typedef struct cert_bound {
    double margin; /* the bound, rounding included; -INFINITY: nothing could be proved */
    double slack;  /* what rounding took: margin + slack is the bound in real arithmetic */
    bool additive;
    double base;
    double *drop;    /* (n) >= 0: what the worst word of the position takes */
    uint32_t *worst; /* (n) that word: index into the position's set, 0 for the reference */
} cert_bound;

struct answers;
/* An empty one is that of a kind without certificates. */
typedef struct cert_family {
    const char *const *methods; /* names, cheapest first, NULL at the end */
    size_t n_auto; /* "auto" tries the first so many, the others are for comparison; 0: all */
    size_t dear; /* from this method on bounds cost more than an evaluation of the text; 0: none */
    bool exact;    /* bounds are margins of texts but for rounding: nothing is won by splitting */
    /* The family of this model instead, by its settings; NULL, or NULL from it: this one. */
    const struct cert_family *(*of_model)(const model *m);
    /* What all threads share, read-only: weights in double, norms, projections. `m` is ready for views. */
    stet_status (*prepare)(const model *m, void **shared);
    void (*shared_free)(void *shared);
    /* One thread's memory, reused from text to text. */
    stet_status (*work_new)(const void *shared, void **work);
    void (*work_free)(void *work);
    /* From now on a device computes what it can. Returns how many of the first methods have most of
     * their work there where no budget limits it; NULL: it cannot compute anything. */
    size_t (*use)(void *work, struct answers *on);
    /* Take up a task, which stays valid until the next one; what methods and classes have in common
     * is computed here or when first asked for. STET_EFORMAT where numbers are not finite. */
    stet_status (*open)(void *work, const cert_task *t);
    /* The bound of methods[method] against class `other`, with at most `refine` steps of improvement
     * where the method has such. */
    stet_status (*bound)(void *work, size_t method, int other, size_t refine, cert_bound *out);
    /* What a checker needs beside model, text and sets to follow the bound just computed, as JSON
     * (a new reference); NULL: nothing. */
    struct json_t *(*witness)(const void *work, size_t method, int other);
    /* Append the network of a task to an ONNX graph (onnx.h): input "choice" (1, words of the
     * positions that have more than one), output "logits" (1, K). NULL: it has no such form. */
    stet_status (*onnx)(const model *m, const cert_task *t, buf *graph);
} cert_family;

#define CERT_DECLARE(kind) extern const cert_family cert_##kind;
MODEL_KINDS(CERT_DECLARE)
#undef CERT_DECLARE
extern const cert_family *const cert_families[]; /* in the order of model_descs, NULL at the end */
extern const cert_family cert_ensemble;          /* of models that answer together */

/* Parameter `id` in double, in memory of `a`; NULL: out of memory. */
double *cert_param(const model *m, int id, arena *a);

/* The bound as a sum, from its base and what every word of the task adds at least to the margin
 * (references: nothing): drop, worst and margin. `scratch` holds n numbers. */
void cert_sum_up(cert_bound *b, const cert_task *t, const double *contribution, double *scratch);

/* base - the `budget` largest drops of positions whose change counts - all drops of the others. */
double cert_within_budget(const cert_bound *b, const cert_task *t, size_t budget, double *scratch);

#endif
