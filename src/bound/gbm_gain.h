/* bound/gbm_gain.h - what the one-step bounds of an LSTM cell become over many steps.
 *
 * With z = (|dh|, |dc|) the deviation of the state and eta that of the input, each step obeys
 *
 *     z_t <= Mb z_{t-1} + Nb eta,   Mb = [Mh  diag Mc; Bhat  diag f+],   Nb = [Mv; Ahat]
 *
 * as long as the states stay in the boxes of the bounds. The horizon gain is the bound that this
 * gives, after so many steps from z_0 = 0, for the change of omega.h. The contraction factor is the
 * spectral radius of Mb: below 1 deviations die out. Both come with their gradient, which enters
 * that of the cell's bounds as weights of their entries. */
#ifndef BOUND_GBM_GAIN_H
#define BOUND_GBM_GAIN_H

#include "bound/gbm_lstm.h"

typedef struct lstm_cell_bounds {
    const lstm_weights *w;
    const lstm_boxes *x;
    gbm_cell_mode mode;
} lstm_cell_bounds;

/* gain = omega.(z_T)_h for T steps with input deviation eta (D) each; omega (H) >= 0. `z` (H)
 * receives (z_T)_h, which is d gain / d omega. Where `grad` is given, the gradient of log(1 + gain)
 * (`log_scale`) or of the gain itself is added to it: the gain grows exponentially when the factor
 * is above 1. */
stet_status gbm_lstm_gain(const lstm_cell_bounds *b, const real *eta, const real *omega,
                          size_t steps, bool log_scale, const lstm_grads *grad, arena *scratch,
                          double *gain, double *z);

/* rho: the contraction factor by power iteration, from below; its gradient, times `scale`. */
stet_status gbm_lstm_rho(const lstm_cell_bounds *b, real scale, const lstm_grads *grad,
                         arena *scratch, double *rho);

#endif
