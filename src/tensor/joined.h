/* tensor/joined.h - several ops as one, for devices on which a launch costs more than its work. The
 * functions of ops.h push them where the device has a kernel, and the ops they stand for elsewhere:
 * nothing is computed twice over, and the host's numbers are those of the single ops. */
#ifndef TENSOR_JOINED_H
#define TENSOR_JOINED_H

#include "tensor/op_args.h"

enum { CONV_POOLS_MAX = 8 }; /* kernel sizes of one conv_pools */

#define JOINED_OPS(OP)                                                                             \
    OP(conv_pools) /* rows, then filters and bias of each size; seq_args */                        \
    OP(mix)

#define JOINED_DECLARE(name)                                                                       \
    extern const op_desc name##_op;                                                                \
    op_kernel cuda_##name##_fwd, cuda_##name##_bwd;
JOINED_OPS(JOINED_DECLARE)
#undef JOINED_DECLARE

/* op_conv_made: each kernel size has its columns, padded. */
size_t conv_made_cols(struct shape filters);
struct shape conv_made_shape(size_t rows, node *const *filters, size_t n);
stet_status conv_made_infer(const node *n, struct shape *out);
stet_status bilstm_made_infer(const node *n, struct shape *out);
extern const op_desc conv_made_op, bilstm_made_op;
op_kernel cpu_conv_made_fwd, cpu_bilstm_made_fwd;

stet_status op_mix_infer(const node *n, struct shape *out); /* infer.c */

/* Does the tape's device have kernels for it? */
bool tape_runs(const tape *t, const op_desc *op);

#endif
