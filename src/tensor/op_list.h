/* tensor/op_list.h - one line an op: name, number of inputs (-1: any). The list makes the ids, the
 * op table, its part of `stet info` and the test matrix; the linker then names each
 * function still to be written: op_X_infer, cpu_X_fwd, cpu_X_bwd. */
#ifndef TENSOR_OP_LIST_H
#define TENSOR_OP_LIST_H

/* generic ops: cpu/elementwise.c cpu/matmul.c cpu/reduce.c cpu/rows.c cpu/loss.c cpu/norm.c */
#define OP_LIST_GENERIC(OP)                                                                        \
    OP(matmul, 2)                                                                                  \
    OP(add_bias, 2)                                                                                \
    OP(linear, 3)                                                                                  \
    OP(add, 2)                                                                                     \
    OP(sub, 2)                                                                                     \
    OP(mul, 2)                                                                                     \
    OP(scale, 1)                                                                                   \
    OP(relu, 1)                                                                                    \
    OP(tanh, 1)                                                                                    \
    OP(sigmoid, 1)                                                                                 \
    OP(gelu, 1)                                                                                    \
    OP(exp, 1)                                                                                     \
    OP(log, 1)                                                                                     \
    OP(abs, 1)                                                                                     \
    OP(min, 2)                                                                                     \
    OP(max, 2)                                                                                     \
    OP(clamp, 1)                                                                                   \
    OP(sum, 1)                                                                                     \
    OP(row_sum, 1)                                                                                 \
    OP(gather, 1)                                                                                  \
    OP(concat, -1)                                                                                 \
    OP(slice, 1)                                                                                   \
    OP(dropout, 1)                                                                                 \
    OP(layer_norm, 3)                                                                              \
    OP(glu, 1)                                                                                     \
    OP(log_softmax, 1)                                                                             \
    OP(cross_entropy, 1)                                                                           \
    OP(bce_logits, 1)                                                                              \
    OP(kl, 2)                                                                                      \
    OP(seq_mean, 1)                                                                                \
    OP(seq_max, 1)

/* fused sequence ops: cpu/conv_pool.c cpu/lstm.c cpu/s4_kernel.c cpu/s4_conv.c
 * cpu/s4_filters.c cpu/attention.c */
#define OP_LIST_FUSED(OP)                                                                          \
    OP(conv_pool, 3)                                                                               \
    OP(bilstm, 9)                                                                                  \
    OP(bilstm_states, 9)                                                                           \
    OP(s4_kernel, 6)                                                                               \
    OP(s4_conv, 3)                                                                                 \
    OP(s4_filters, 3)                                                                              \
    OP(attention, 2)

#define OP_LIST(OP) OP_LIST_GENERIC(OP) OP_LIST_FUSED(OP)

/* those with kernels in cuda/ (cuda_X_fwd, cuda_X_bwd); the others answer STET_ENOTSUP there */
#define OP_LIST_CUDA(OP)                                                                           \
    OP(matmul)                                                                                     \
    OP(add_bias) OP(linear) OP(add) OP(sub) OP(mul) OP(scale) OP(relu) OP(tanh) OP(sigmoid)        \
        OP(gelu) OP(exp) OP(log) OP(abs) OP(min) OP(max) OP(clamp) OP(sum) OP(row_sum) OP(gather)  \
            OP(concat) OP(slice) OP(dropout) OP(layer_norm) OP(glu) OP(log_softmax)                \
                OP(cross_entropy) OP(bce_logits) OP(kl) OP(seq_mean) OP(seq_max) OP(conv_pool)     \
                    OP(bilstm) OP(bilstm_states) OP(s4_kernel) OP(s4_conv) OP(s4_filters)          \
                        OP(attention)

#endif
