/* bound/gbm_lstm_ops.h - the growth bounds of one direction of an LSTM on the tape. */
#ifndef BOUND_GBM_LSTM_OPS_H
#define BOUND_GBM_LSTM_OPS_H

#include "bound/gbm_ops.h"

/* The direction's part of gbm_term: w[LSTM_PER_DIRECTION] are its parameters, omega (H) what the
 * logits read of it (NULL for layer and rho), `state` (4, H) its box of states. */
node *gbm_lstm_term(tape *t, node *const *w, node *omega, const gbm_term_args *a, node *state,
                    gbm_report *report);

/* The weights of one direction as an op's first inputs, for kernels. */
lstm_weights gbm_lstm_of(node *const *in);

/* One direction's weights of a bilstm in host memory. */
lstm_weights gbm_lstm_weights(const model *m, int direction);

#endif
