/* certify/cert_cnn.h - bounds of the text CNN.
 *
 *     a_{t,f} = b_f + sum over l of W[f,:,l] . v_{t+l},   y_f = max(0, max over t of a_{t,f}),
 *     margin = be + sum over f of om_f y_f,               om, be: differences of two rows of fc
 *
 * Everything here is said of a neighbour of the model: its window sums are exact sums of the float
 * projections of cnn_words.c. Both the real function and every float32 evaluation of
 * it stay within cnn_work.err of the neighbour, feature by feature; that is where rounding enters,
 * once (cnn_slack). Sums of ours in float widen the ranges by cnn_work.pad. */
#ifndef CERTIFY_CERT_CNN_H
#define CERTIFY_CERT_CNN_H

#include <semaphore.h>

#include "certify/cert_kept.h"
#include "certify/cert_scores.h"
#include "model/answers.h"
#include "model/cnn.h"

/* What all threads share. */
typedef struct cnn_shared {
    const model *m;
    const cnn_compiled *c;
    size_t features, longest; /* of all kernels; the widest */
    real *norm;               /* (n_words) length of a word's vector */
    real *reach;   /* (width) the length of each W[f,:,l], in the order of the projections */
    real *size_of; /* (D, width) |W|, in the order of the projections */
    const real *fc, *fc_bias; /* (classes, features), (classes) */
    /* Of a layer before the last, (dense, features) and (dense), and fc is (classes, dense); 0: none */
    size_t dense;
    const real *dense_weight, *dense_bias;
    cert_kept *hulls;         /* ranges of sets that were met before */
    sem_t *cores;             /* taken while a text of a device keeps one busy for long */
} cnn_shared;

/* cert_cnn_hulls.c. Bytes of an entry of s->hulls. */
size_t cnn_hull_size(const cnn_shared *s);
/* (2, width): the least and the greatest projections of n words; in `room`, or kept. */
const real *cnn_hull(const cnn_shared *s, const uint32_t *set, size_t n, real *room);

/* The ranges of one kernel's windows, widened by our own rounding. */
typedef struct cnn_ranges {
    size_t n;      /* windows */
    real *lo, *hi; /* (n, F) */
} cnn_ranges;

/* At rounding: cert_cnn_tight.c. */
typedef enum cnn_look { CNN_FROM_AFAR, CNN_CLOSER, CNN_CLOSEST } cnn_look;

/* A unit of the layer before the last: its range in any float32 evaluation, and how much of each end
 * is rounding. */
typedef struct cnn_unit {
    double lo, hi, error;
} cnn_unit;

typedef struct cnn_joint cnn_joint;
typedef struct cnn_work {
    const cnn_shared *s;
    arena mem;
    const cert_task *t;
    bool limited; /* the budget is smaller than the number of positions that it concerns */
    cnn_look looked; /* how err was found */
    answers *on;  /* who computes the ranges of features; NULL: we do */
    bool windows; /* r is there */
    cnn_ranges r[CNN_MAX_KERNELS];
    real *pad;        /* (features) */
    double *err;      /* (features) */
    double *err_all;  /* (features) the same from afar, which holds for every window */
    double *lo, *hi;  /* (features) the range of y_f */
    cnn_unit *unit;   /* (dense) where `units` says that they are there */
    bool units;
    cnn_joint *joint; /* cert_cnn_joint.h */
    cert_scores scores; /* against the class in work */
} cnn_work;

/* The weights of a feature in a margin, and how features are numbered. */
static inline double cnn_weight(const cnn_work *w, int other, size_t f)
{
    const real *fc = w->s->fc;
    const size_t n = w->s->features;
    return (double)fc[(size_t)w->t->label * n + f] - (double)fc[(size_t)other * n + f];
}
static inline const real *cnn_tap(const cnn_compiled *c, uint32_t word, size_t kernel, size_t l)
{
    return c->word + word * c->width + c->first[kernel] + l * c->filters;
}
static inline const real *cnn_bias(const cnn_work *w, size_t kernel)
{
    return model_value(w->s->m, (int)(2 * kernel + 1));
}

/* Relative error of n roundings to nearest in float; roundings of a window sum. */
double cnn_gamma(size_t n);
size_t cnn_roundings(size_t dim, size_t k);
/* How far a window sum whose terms' absolute values add up to `size` may be from the neighbour's. */
double cnn_window_error(const cnn_work *w, size_t kernel, double size);

/* cert_cnn_tight.c: w->err by the next look, from the task's own words; it needs w->r. And the share
 * of the present slack that further looks may gain, at most. */
stet_status cnn_look_closer(cnn_work *w);
double cnn_still_to_gain(const cnn_work *w);

/* cert_cnn_windows.c: w->r, w->lo, w->hi for the task; once is enough. */
stet_status cnn_windows(cnn_work *w);
/* With these words: the largest window sum of each feature, and the first window that has it. */
stet_status cnn_winners(cnn_work *w, const uint32_t *ids, real *top, uint32_t *at);

void cnn_keep_larger(real *y, const real *x, size_t n); /* y = max(x, y); they do not overlap */
/* The sum of the `keep` largest of n numbers >= 0, whose order may change. */
double cnn_sum_of_largest(double *x, size_t n, size_t keep);

/* What rounding may take from the margin: features, head and the doubles of `terms` additions whose
 * absolute values add up to `size`. */
double cnn_slack(const cnn_work *w, int other, double size, size_t terms);
double cnn_bias_margin(const cnn_work *w, int other); /* be */

stet_status cnn_onnx(const model *m, const cert_task *t, buf *graph); /* cert_cnn_onnx.c */

/* cert_cnn_dense.c: of models with a layer before the last. */
stet_status cnn_dense_measure(const cnn_shared *s, double feature, double largest, double *unit);
stet_status cnn_dense_ibp(cnn_work *w, int other, cert_bound *out);

/* Bounds by name. */
stet_status cnn_ibp(cnn_work *w, int other, cert_bound *out);
stet_status cnn_gbm(cnn_work *w, int other, cert_bound *out); /* cert_cnn_gbm.c */
stet_status cnn_gbm_window(cnn_work *w, int other, cert_bound *out);
stet_status cnn_gbm_prepare(cnn_shared *s);

#endif
