/* verify/ver_impl.h - the checker's own model, task and arithmetic. Nothing here comes from model/,
 * bound/ or certify/: what they would get wrong is not repeated.
 *
 * Arithmetic: double, and every result is moved outward by a bound of its own rounding. */
#ifndef VERIFY_VER_IMPL_H
#define VERIFY_VER_IMPL_H

#include <math.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strmap.h"
#include "stet/verify.h"

/* ---- arithmetic --------------------------------------------------------------------------- */

/* Float32 sums of terms that stay below VER_OVERFLOWS in all do not overflow; what underflow loses,
 * VER_TINY makes up for. */
static const double VER_OVERFLOWS = 0x1p104, VER_TINY = 1e-30;

/* n roundings of relative size u multiply a sum's magnitude by at most this (Higham, lemma 3.1). */
static inline double ver_gamma(double n, double u)
{
    return n * u < 0.5 ? n * u / (1 - n * u) * (1 + 0x1p-50) : INFINITY;
}
static inline double ver_gamma32(size_t n)
{
    return ver_gamma((double)n, 0x1p-24);
}
static inline double ver_gamma64(size_t n)
{
    return ver_gamma((double)n, 0x1p-53);
}
/* At least one step below / above: |x| 2^-52 is no less than the distance to the next double. */
static inline double ver_down(double x)
{
    return x - fabs(x) * 0x1p-52 - 1e-300;
}
static inline double ver_up(double x)
{
    return x + fabs(x) * 0x1p-52 + 1e-300;
}

/* A sum that knows how wrong it may be: terms are added, with what each may be wrong by. */
typedef struct ver_sum {
    double value, size, error;
    size_t n;
} ver_sum;
static inline void ver_add(ver_sum *s, double x, double error)
{
    s->value += x;
    s->size += fabs(x);
    s->error += error;
    s->n++;
}
static inline double ver_error(const ver_sum *s) /* of the value */
{
    return (s->error + ver_gamma64(s->n + 4) * s->size) * (1 + ver_gamma64(s->n + 4)) + 1e-300;
}
static inline double ver_lower(const ver_sum *s)
{
    return ver_down(s->value - ver_error(s));
}

/* ---- model -------------------------------------------------------------------------------- */

enum { VER_CNN_KERNELS = 16, VER_S4_LAYERS = 8, VER_MEMBERS = 64 };
enum { VER_UNK = 1 }; /* line 1 of vocab.txt, from 0 */

typedef struct ver_lstm { /* one direction: gates i, f, g, o below each other */
    const float *w_ih, *w_hh, *b_ih, *b_hh;
} ver_lstm;
typedef struct ver_s4 { /* one layer; complex numbers as pairs */
    const float *log_a, *w, *p, *b, *c, *log_dt, *d, *mix_w, *mix_b, *norm_w, *norm_b;
} ver_s4;

/* Does the model's tokeniser read this string as one word, and as itself? */
typedef bool ver_reader(const char *word);
stet_status ver_reader_find(const char *tokenizer, ver_reader **out);

typedef struct ver_model {
    arena mem;
    strmap vocab;
    ver_reader *reads;
    const struct ver_kind *kind;
    size_t dim, classes, max_len, n_words;
    size_t span; /* words after which a recurrence starts anew: max_len where it never does */
    const float *table; /* (n_words, dim) */
    size_t features;
    const float *fc_w, *fc_b; /* (classes, features), (classes); fc_w NULL without features */
    char sha_config[SHA256_HEX], sha_weights[SHA256_HEX], sha_vocabulary[SHA256_HEX];
    size_t kernels, filters, k[VER_CNN_KERNELS];
    const float *conv_w[VER_CNN_KERNELS], *conv_b[VER_CNN_KERNELS]; /* (filters, dim, k) */
    const float *dense_w, *dense_b; /* (features, kernels * filters) before the last layer; or NULL */
    size_t hidden;
    enum { VER_LAST, VER_LARGEST, VER_MEAN } pool; /* what the last layer sees of a text */
    ver_lstm lstm[2];
    size_t channels, states, layers; /* states: stored ones, half the state size */
    bool relu;                       /* S4: ReLU and a linear map, no gate, residual or norm */
    bool bare;                       /* S4: and no linear map */
    const float *enc_w, *enc_b;
    ver_s4 s4[VER_S4_LAYERS];
    const float *scores;                      /* (n_words, classes) of words; NULL: none */
    size_t word_units;                        /* of the sum model's small network; 0: none */
    const float *word_w1, *word_b1, *word_w2; /* (units, dim), (units), (classes, units) */
    const char *class_names;                  /* as the list in config.json has them */
    struct ver_model *member; /* (n_members) of an ensemble, the first a view of this one; or NULL */
    size_t n_members;
    uint32_t **row; /* (n_members) (n_words): a member's row for each word; not of the first */
    struct ver_votes *votes; /* of a model that answers by votes (ver_votes.h); NULL: it does not */
} ver_model;

stet_status ver_model_load(const char *dir, ver_model *out); /* on failure *out holds nothing */
void ver_model_deinit(ver_model *m);
/* Make an ensemble of a model just read, whose config.json has this "rule". */
stet_status ver_ensemble_load(const json_t *rule, const char *dir, ver_model *m);

/* ---- tasks and bounds --------------------------------------------------------------------- */

#define VER_ANY SIZE_MAX
/* Position p holds one of word[start[p]] .. word[start[p + 1] - 1], the first being the reference.
 * At most `budget` of the positions that are not `unpaid` leave their reference. */
typedef struct ver_task {
    size_t n;
    const uint32_t *start, *word;
    size_t budget;
    const bool *unpaid; /* (n) */
} ver_task;

typedef struct ver_work {
    const ver_model *m;
    arena mem; /* of the open task */
    const ver_task *t;
    void *state;
    arena keep; /* of the kind, over all tasks */
    void *kept;
    arena words; /* of ver_scores.c, over all tasks */
    struct ver_word_scores *scores;
    struct ver_work *member; /* (n_members) of an ensemble, or NULL */
    size_t n_members;
    bool want_exact; /* of claims: bounds in exact arithmetic, where the kind has them; */
    bool exact;      /* of the claim at work; */
    bool is_exact;   /* the last bound is one */
} ver_work;

void ver_work_deinit(ver_work *w); /* its memory */

/* How a kind of model is bounded. */
typedef struct ver_kind {
    const char *name;
    const char *const *methods; /* that a claim may name, NULL at the end */
    const char *value;          /* the one for a text without choices: its margin, less rounding */
    stet_status (*open)(ver_work *w);
    /* A number that logit[label] - logit[other] of no float32 evaluation goes below, as tight as
     * `method` promises; `witness` may be NULL. STET_EFORMAT: the witness is no good, message set.
     */
    stet_status (*bound)(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out);
    /* logit[label] - logit[other] of the references, computed in double. */
    double (*margin)(const ver_work *w, int label, int other);
} ver_kind;
extern const ver_kind ver_sum_kind, ver_cnn, ver_cnn_dense, ver_bilstm, ver_s4_kind, ver_s4cnn, ver_ensemble;

/* Sum of what positions take from a bound (drop[p] <= 0) if at most t->budget of those that count
 * may change: the lowest ones, and all that are unpaid. Positions are the n that begin with `from`.
 * Reorders `drop`. */
double ver_within_budget(const ver_task *t, size_t from, double *drop, size_t n);

/* Rounding of the last linear layer in float32, for features of at most `size`: both logits.
 * INFINITY where one might overflow. */
double ver_head_error(const ver_model *m, int label, int other, const double *size);

#endif
