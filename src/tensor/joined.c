/* tensor/joined.c - see joined.h. */
#include "tensor/joined.h"

#include "tensor/ops.h"

const op_desc conv_pools_op = {
    .name = "conv_pools",
    .n_in = -1,
    .fills = true,
    .infer = op_conv_pool_infer,
    .forward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_conv_pools_fwd)},
    .backward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_conv_pools_bwd)},
};

const op_desc mix_op = {
    .name = "mix",
    .n_in = 2,
    .fills = true,
    .infer = op_mix_infer,
    .forward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_mix_fwd)},
    .backward = {[DEV_CPU] = NULL, CUDA_KERNEL(cuda_mix_bwd)},
};

bool tape_runs(const tape *t, const op_desc *op)
{
    return op->forward[t->store->desc->kernels] != NULL;
}

node *op_mix(tape *t, node *a, double p, node *b, double q)
{
    if (a == b || !tape_runs(t, &mix_op))
        return op_add(t, op_scale(t, a, p), op_scale(t, b, q));
    return tape_push(t, &mix_op, (node *[]){a, b}, 2, &(mix_args){p, q}, sizeof(mix_args));
}

node *op_conv_pools(tape *t, node *rows, node *const *w, node *const *b, size_t n,
                    const seq_index *seq)
{
    node *in[1 + 2 * CONV_POOLS_MAX] = {rows};
    if (n > CONV_POOLS_MAX) {
        tape_fail(t, error_set(STET_EINTERNAL, "conv_pools: %zu kernel sizes", n));
        return NULL;
    }
    if (!tape_runs(t, &conv_pools_op)) {
        for (size_t i = 0; i < n; i++)
            in[i] = op_conv_pool(t, rows, w[i], b[i], seq);
        return op_concat(t, in, (int)n);
    }
    for (size_t i = 0; i < n; i++) {
        in[1 + 2 * i] = w[i];
        in[2 + 2 * i] = b[i];
    }
    const seq_args args = {seq, tape_seq(t, seq)};
    return tape_push(t, &conv_pools_op, in, (int)(1 + 2 * n), &args, sizeof args);
}
