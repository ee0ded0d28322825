/* tensor/op_table.c - the op list as a table. The generic kernels of this folder write into fresh
 * gradient blocks; the fused ones scatter into them and want them cleared. */
#include "tensor/tape.h"

#ifdef STET_HAVE_CUDA
#define CUDA_FN(f) f
#else
#define CUDA_FN(f) NULL
#endif

#define OP_ROW(op, inputs, fill)                                                                   \
    [OP_##op] = {.name = #op,                                                                      \
                 .n_in = inputs,                                                                   \
                 .fills = fill,                                                                    \
                 .infer = op_##op##_infer,                                                         \
                 .forward = {cpu_##op##_fwd, CUDA_FN(cuda_##op##_fwd)},                            \
                 .backward = {cpu_##op##_bwd, CUDA_FN(cuda_##op##_bwd)}},
#define GENERIC_ROW(op, inputs) OP_ROW(op, inputs, true)
#define FUSED_ROW(op, inputs) OP_ROW(op, inputs, false)

const op_desc op_table[OP_COUNT] = {OP_LIST_GENERIC(GENERIC_ROW) OP_LIST_FUSED(FUSED_ROW)};

bool op_support(const op_desc *op, device dev)
{
    return op->forward[dev] && (op->constant || op->backward[dev]);
}
