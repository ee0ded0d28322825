/* bound/gbm_ops.h - growth bounds on the tape: the term that training adds to its loss.
 *
 *     node *term = gbm_term(m, t, params, &(gbm_term_args){.of = GBM_OF_LOGITS, .k = {1, 1, 1}},
 * &report); node *loss = op_add(t, op_scale(t, ce, 1 - beta), op_scale(t, term,
 * beta));
 *
 * Gradients flow to every weight that enters the bounds; boxes are constants. */
#ifndef BOUND_GBM_OPS_H
#define BOUND_GBM_OPS_H

#include "bound/gbm_lstm.h"
#include "model/model_impl.h"

typedef enum gbm_of {
    GBM_OF_LAYER,  /* the sum of the layer's M: the paper's */
    GBM_OF_LOGITS, /* the same for the differences of two logits, averaged over pairs of classes */
    GBM_OF_GAIN,   /* bilstm: log(1 + horizon gain) of those differences */
    GBM_OF_RHO     /* bilstm: by how much deviations may grow, max(0, rho - rho0)^2 */
} gbm_of;

/* Parts of M, by what is moved: the input; the state (h of an LSTM, z of S4); the cell. */
enum { GBM_V, GBM_H, GBM_C, GBM_PARTS };

typedef struct gbm_term_args {
    gbm_of of;
    double k[GBM_PARTS]; /* weights of the parts: layer and logits */
    gbm_cell_mode mode;
    /* bilstm: boxes, which are constants */
    node *words;    /* (2, D): lower and upper ends */
    node *state[2]; /* (4, H) of both directions: ends of h, ends of c */
    node *eta;      /* (D) gain: deviation of a word */
    size_t steps;   /* gain: horizon */
    double rho0;    /* rho: what may stand */
} gbm_term_args;

/* Sums of the layer's M by part, of both directions, of all kernel sizes or layers: numbers on the
 * tape. NULL: the model has no such part; all are NULL for gain and rho. */
typedef struct gbm_report {
    node *part[GBM_PARTS];
} gbm_report;
void gbm_report_add(tape *t, gbm_report *r, int part, node *sum);

/* STET_ENOTSUP where the model has no growth bounds, STET_EUSAGE where it has others than these. */
stet_status gbm_supported(const model *m, gbm_of of);

/* A scalar; for a model without such bounds the tape has gbm_supported's answer. What `a` points to
 * must live until the backward pass; the struct itself need not. */
node *gbm_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
               gbm_report *report);

/* How many entries of M the term sums, so that a mean can be made of it; 1 for gain and rho. */
double gbm_entries(const model *m, gbm_of of);

/* omega (features): how strongly the logits' differences read each feature, |w_a - w_b| averaged
 * over pairs of classes. */
node *gbm_head(const model *m, tape *t, node *const *params);

#endif
