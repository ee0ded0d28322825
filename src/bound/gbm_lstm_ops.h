/* bound/gbm_lstm_ops.h - the growth bounds of a BiLSTM on the tape. */
#ifndef BOUND_GBM_LSTM_OPS_H
#define BOUND_GBM_LSTM_OPS_H

#include "bound/gbm_ops.h"

/* The BiLSTM's gbm_term: w[2 LSTM_PER_DIRECTION] are the parameters of both directions, omega (2 H)
 * what the logits read of them (NULL for layer and rho). */
node *gbm_lstm_term(tape *t, node *const *w, node *omega, const gbm_term_args *a,
                    gbm_report *report);

/* The weights of one direction as an op's first inputs, for kernels. */
lstm_weights gbm_lstm_of(node *const *in);

/* One direction's weights of a bilstm in host memory. */
lstm_weights gbm_lstm_weights(const model *m, int direction);

#endif
