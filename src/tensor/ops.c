/* tensor/ops.c - the ops as functions: collect operands and arguments, push. */
#include "tensor/ops.h"

#include "tensor/op_args.h"

#define PUSH(t, op, args, ...)                                                                     \
    tape_push((t), &op_table[OP_##op], (node *[]){__VA_ARGS__},                                    \
              (int)(sizeof((node *[]){__VA_ARGS__}) / sizeof(node *)), (args), sizeof *(args))
#define PUSH_PLAIN(t, op, ...)                                                                     \
    tape_push((t), &op_table[OP_##op], (node *[]){__VA_ARGS__},                                    \
              (int)(sizeof((node *[]){__VA_ARGS__}) / sizeof(node *)), NULL, 0)

#define UNARY(name)                                                                                \
    node *op_##name(tape *t, node *x)                                                              \
    {                                                                                              \
        return PUSH_PLAIN(t, name, x);                                                             \
    }
#define BINARY(name)                                                                               \
    node *op_##name(tape *t, node *a, node *b)                                                     \
    {                                                                                              \
        return PUSH_PLAIN(t, name, a, b);                                                          \
    }

node *op_matmul(tape *t, node *a, bool ta, node *b, bool tb)
{
    return PUSH(t, matmul, (&(matmul_args){ta, tb}), a, b);
}

BINARY(add_bias)

node *op_linear(tape *t, node *x, node *w, node *b)
{
    return PUSH_PLAIN(t, linear, x, w, b);
}

BINARY(add)
BINARY(sub)
BINARY(mul)

node *op_scale(tape *t, node *x, double by)
{
    return PUSH(t, scale, (&(scale_args){by}), x);
}

UNARY(relu)
UNARY(tanh)
UNARY(sigmoid)
UNARY(gelu)
UNARY(exp)
UNARY(log)
UNARY(abs)
BINARY(min)
BINARY(max)

node *op_clamp(tape *t, node *x, double lo, double hi)
{
    return PUSH(t, clamp, (&(clamp_args){lo, hi}), x);
}

UNARY(sum)
UNARY(row_sum)

static node *gather(tape *t, node *x, const uint32_t *index, size_t n, bool permutes)
{
    const uint32_t *at = tape_twin(t, index, n * sizeof *index);
    if (tape_is_name(t, index))
        index = NULL; /* nothing to check */
    return PUSH(t, gather, (&(gather_args){index, n, at, permutes}), x);
}

node *op_gather(tape *t, node *x, const uint32_t *index, size_t n)
{
    return gather(t, x, index, n, false);
}

node *op_permute(tape *t, node *x, const uint32_t *index, size_t n)
{
    return gather(t, x, index, n, true);
}

node *op_concat(tape *t, node *const *x, int n)
{
    return tape_push(t, &op_table[OP_concat], x, n, NULL, 0);
}

node *op_slice(tape *t, node *x, size_t first_col, size_t n_cols)
{
    return PUSH(t, slice, (&(slice_args){first_col, n_cols}), x);
}

seq_args seq_args_of(tape *t, const seq_index *seq)
{
    const seq_args both = {seq, tape_seq(t, seq)};
    if (!tape_is_name(t, seq->row))
        return both;
    seq_index *own = arena_new(t->mem, seq_index, 1);
    if (!own) {
        tape_fail(t, STET_ENOMEM);
        return both;
    }
    *own = *seq;
    own->row = NULL;
    return (seq_args){own, both.at};
}

node *op_seq_mean(tape *t, node *x, const seq_index *seq)
{
    const seq_args args = seq_args_of(t, seq);
    return PUSH(t, seq_mean, &args, x);
}

node *op_seq_max(tape *t, node *x, const seq_index *seq)
{
    const seq_args args = seq_args_of(t, seq);
    return PUSH(t, seq_max, &args, x);
}

node *op_dropout(tape *t, node *x, double p, rng *stream)
{
    return PUSH(t, dropout, (&(dropout_args){p, rng_u64(stream)}), x);
}

node *op_layer_norm(tape *t, node *x, node *gamma, node *beta, double eps)
{
    return PUSH(t, layer_norm, (&(layer_norm_args){eps}), x, gamma, beta);
}

UNARY(glu)
UNARY(log_softmax)

static const int32_t *label_twin(tape *t, const node *logits, const int32_t *label)
{
    return logits ? tape_twin(t, label, shape_rows(logits->shape) * sizeof *label) : NULL;
}

node *op_cross_entropy(tape *t, node *logits, const int32_t *label)
{
    return PUSH(t, cross_entropy, (&(label_args){label, label_twin(t, logits, label)}), logits);
}

node *op_bce_logits(tape *t, node *logit, const int32_t *label)
{
    return PUSH(t, bce_logits, (&(label_args){label, label_twin(t, logit, label)}), logit);
}

BINARY(kl)

node *op_conv_pool(tape *t, node *rows, node *w, node *b, const seq_index *seq)
{
    return PUSH(t, conv_pool, (&(made_args){.seq = seq_args_of(t, seq)}), rows, w, b);
}

static made_args lstm_args(tape *t, const seq_index *seq, const node *made)
{
    return (made_args){seq_args_of(t, seq),
                       made ? made->value : NULL,
                       made ? shape_cols(made->shape) : 0};
}

node *op_bilstm(tape *t, node *rows, node *const w[8], const seq_index *seq, const node *made)
{
    const made_args args = lstm_args(t, seq, made);
    return PUSH(t, bilstm, &args, rows, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
}

node *op_bilstm_states(tape *t, node *rows, node *const w[8], const seq_index *seq,
                       const node *made)
{
    const made_args args = lstm_args(t, seq, made);
    return PUSH(t, bilstm_states, &args, rows, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
}

node *op_s4_kernel(tape *t, node *a, node *w, node *p, node *b, node *c, node *log_dt, size_t len)
{
    return PUSH(t, s4_kernel, (&(s4_kernel_args){len}), a, w, p, b, c, log_dt);
}

node *op_s4_conv(tape *t, node *u, node *k, node *d, const seq_index *seq)
{
    const seq_args args = seq_args_of(t, seq);
    return PUSH(t, s4_conv, &args, u, k, d);
}

node *op_s4_filters(tape *t, node *enc, node *k, node *d, size_t rank)
{
    return PUSH(t, s4_filters, (&(s4_filters_args){rank}), enc, k, d);
}

node *op_attention(tape *t, node *q, node *kv, size_t heads, const seq_index *seq,
                   const seq_index *asks, double p, rng *stream)
{
    const seq_args texts = seq_args_of(t, seq);
    const attention_args args = {texts.seq,
                                 texts.at,
                                 asks,
                                 asks ? tape_seq(t, asks) : NULL,
                                 heads,
                                 p,
                                 p > 0 ? rng_u64(stream) : 0};
    return PUSH(t, attention, &args, q, kv);
}
