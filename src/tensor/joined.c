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

const op_desc conv_made_op = {
    .name = "conv_made",
    .n_in = -1,
    .constant = true,
    .infer = conv_made_infer,
    .forward = {[DEV_CPU] = cpu_conv_made_fwd},
};

node *op_conv_made(tape *t, node *rows, node *const *w, size_t n)
{
    node *in[1 + CONV_POOLS_MAX] = {rows};
    if (n > CONV_POOLS_MAX || !tape_runs(t, &conv_made_op))
        return NULL;
    for (size_t i = 0; i < n; i++)
        in[1 + i] = w[i];
    return tape_push(t, &conv_made_op, in, (int)(1 + n), NULL, 0);
}

const op_desc bilstm_made_op = {
    .name = "bilstm_made",
    .n_in = 3,
    .constant = true,
    .infer = bilstm_made_infer,
    .forward = {[DEV_CPU] = cpu_bilstm_made_fwd},
};

node *op_bilstm_made(tape *t, node *rows, node *const w[8])
{
    if (!tape_runs(t, &bilstm_made_op))
        return NULL;
    return tape_push(t, &bilstm_made_op, (node *[]){rows, w[0], w[4]}, 3, NULL, 0);
}

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
                    const seq_index *seq, const node *made)
{
    node *in[1 + 2 * CONV_POOLS_MAX] = {rows};
    if (n > CONV_POOLS_MAX) {
        tape_fail(t, error_set(STET_EINTERNAL, "conv_pools: %zu kernel sizes", n));
        return NULL;
    }
    if (!tape_runs(t, &conv_pools_op)) {
        made_args args = {seq_args_of(t, seq), NULL, made ? shape_cols(made->shape) : 0};
        const real *from = made ? made->value : NULL;
        for (size_t i = 0; i < n; i++) {
            args.made = from;
            in[i] = tape_push(t, &op_table[OP_conv_pool], (node *[]){rows, w[i], b[i]}, 3, &args,
                              sizeof args);
            from = made ? from + conv_made_cols(w[i]->shape) : NULL;
        }
        return op_concat(t, in, (int)n);
    }
    for (size_t i = 0; i < n; i++) {
        in[1 + 2 * i] = w[i];
        in[2 + 2 * i] = b[i];
    }
    const seq_args args = seq_args_of(t, seq);
    return tape_push(t, &conv_pools_op, in, (int)(1 + 2 * n), &args, sizeof args);
}
