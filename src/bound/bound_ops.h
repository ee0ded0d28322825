/* bound/bound_ops.h - the ops of this layer: descriptors as those of tensor/op_list.h, defined
 * beside their kernels. The list feeds `stet info` and the tests. */
#ifndef BOUND_BOUND_OPS_H
#define BOUND_BOUND_OPS_H

#include "tensor/tape.h"

#define BOUND_OPS(OP)                                                                              \
    OP(gbm_head)                                                                                   \
    OP(gbm_conv)                                                                                   \
    OP(gbm_lstm_rows)                                                                              \
    OP(gbm_lstm_gain)                                                                              \
    OP(gbm_lstm_rho)                                                                               \
    OP(gbm_s4)                                                                                     \
    OP(conv_ranges)                                                                                \
    OP(conv_joint)                                                                                 \
    OP(bilstm_ranges)                                                                              \
    OP(bilstm_states_ranges)                                                                       \
    OP(s4_encoder_ranges)                                                                          \
    OP(s4_magnitude)                                                                               \
    OP(gelu_box)                                                                                   \
    OP(s4_gate_norm)                                                                               \
    OP(worst_logits)                                                                               \
    OP(score_worst)                                                                                \
    OP(worst_share)                                                                                \
    OP(rows_hull)                                                                                  \
    OP(lstm_observed)                                                                              \
    OP(lstm_around)                                                                                \
    OP(lstm_invariant)

#define BOUND_OP_DECLARE(name)                                                                     \
    extern const op_desc name##_op;                                                                \
    op_kernel cuda_##name##_fwd, cuda_##name##_bwd;
BOUND_OPS(BOUND_OP_DECLARE)
#undef BOUND_OP_DECLARE

extern const op_desc *const bound_ops[]; /* NULL at the end */

/* Several of them as one, for devices that have it: see tensor/joined.h. */
extern const op_desc gbm_convs_op, gbm_lstms_op;
op_kernel cuda_gbm_convs_fwd, cuda_gbm_convs_bwd, cuda_gbm_lstms_fwd, cuda_gbm_lstms_bwd;

#endif
