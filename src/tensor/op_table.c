/* tensor/op_table.c - the op list as a table. The generic kernels of this folder write into fresh
 * gradient blocks; the fused ones scatter into them and want them cleared. */
#include "tensor/tape.h"

#define OP_ROW(op, inputs, fill)                                                                   \
    [OP_##op].name = #op, [OP_##op].n_in = (inputs), [OP_##op].fills = (fill),                     \
    [OP_##op].infer = op_##op##_infer, [OP_##op].forward[DEV_CPU] = cpu_##op##_fwd,                \
    [OP_##op].backward[DEV_CPU] = cpu_##op##_bwd,
#define GENERIC_ROW(op, inputs) OP_ROW(op, inputs, true)
#define FUSED_ROW(op, inputs) OP_ROW(op, inputs, false)

/* A device's kernels may be fewer: its column is filled from a list of its own. */
#ifdef STET_HAVE_CUDA
#define CUDA_COLUMN(op)                                                                            \
    [OP_##op].forward[DEV_CUDA] = cuda_##op##_fwd, [OP_##op].backward[DEV_CUDA] = cuda_##op##_bwd,
#else
#define CUDA_COLUMN(op)
#endif

const op_desc op_table[OP_COUNT] = {OP_LIST_GENERIC(GENERIC_ROW) OP_LIST_FUSED(FUSED_ROW)
                                        OP_LIST_CUDA(CUDA_COLUMN)};

bool op_support(const op_desc *op, device dev)
{
    return op->forward[dev] && (op->constant || op->backward[dev]);
}
