/* bound/gbm_lstm_ops.h - the growth bounds of one direction of an LSTM on the tape. */
#ifndef BOUND_GBM_LSTM_OPS_H
#define BOUND_GBM_LSTM_OPS_H

#include "bound/gbm_ops.h"

/* The direction's part of gbm_term: w[LSTM_PER_DIRECTION] are its parameters, omega (H) what the
 * logits read of it (NULL for layer and rho). `box` lives until the backward pass. */
node *gbm_lstm_term(tape *t, node *const *w, node *omega, const gbm_term_args *a,
                    const lstm_boxes *box, gbm_report *report);

/* One direction's weights of a bilstm, as its bounds want them. */
lstm_weights gbm_lstm_weights(const model *m, int direction);

#endif
