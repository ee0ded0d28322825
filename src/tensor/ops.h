/* tensor/ops.h - the ops as functions. Each checks its operands' shapes, runs, and records itself.
 * Index arrays and seq_index structs are borrowed and must live until the backward pass. */
#ifndef TENSOR_OPS_H
#define TENSOR_OPS_H

#include "tensor/tape.h"

/* matrices */
node *op_matmul(tape *t, node *a, bool ta, node *b, bool tb); /* a or a^T times b or b^T */
node *op_add_bias(tape *t, node *x, node *b);                 /* (n, c) + (c) */
node *op_linear(tape *t, node *x, node *w, node *b);          /* x w^T + b, PyTorch's nn.Linear */

/* elementwise; two operands have equal shapes */
node *op_add(tape *t, node *a, node *b);
node *op_sub(tape *t, node *a, node *b);
node *op_mul(tape *t, node *a, node *b);
node *op_scale(tape *t, node *x, double by);
node *op_mix(tape *t, node *a, double p, node *b, double q); /* p a + q b */
node *op_relu(tape *t, node *x);
node *op_tanh(tape *t, node *x);
node *op_sigmoid(tape *t, node *x);
node *op_gelu(tape *t, node *x); /* exact: x Phi(x) */
node *op_exp(tape *t, node *x);
node *op_log(tape *t, node *x);
node *op_abs(tape *t, node *x);          /* derivative 0 at 0 */
node *op_min(tape *t, node *a, node *b); /* ties: a */
node *op_max(tape *t, node *a, node *b); /* ties: a */
node *op_clamp(tape *t, node *x, double lo, double hi);

/* reductions */
node *op_sum(tape *t, node *x);     /* () */
node *op_row_sum(tape *t, node *x); /* (n, c) -> (n) */

/* rows */
node *op_gather(tape *t, node *x, const uint32_t *index,
                size_t n); /* rows of x; backward is scatter-add, in order */
node *op_permute(tape *t, node *x, const uint32_t *index,
                 size_t n); /* the same where the index has every row of x once: no order to keep */
node *op_concat(tape *t, node *const *x, int n); /* along columns */
node *op_slice(tape *t, node *x, size_t first_col, size_t n_cols);
node *op_seq_mean(tape *t, node *x,
                  const seq_index *seq); /* (T, c) -> (B, c): mean over each text */
node *op_seq_max(tape *t, node *x,
                 const seq_index *seq); /* the largest of each text; ties: the first */

/* networks */
node *op_dropout(tape *t, node *x, double p, rng *stream); /* kept entries scaled by 1/(1-p) */
node *op_layer_norm(tape *t, node *x, node *gamma, node *beta, double eps);
node *op_glu(tape *t, node *x); /* (n, 2c) -> (n, c): first half times sigmoid of second */

/* losses: means over rows */
node *op_log_softmax(tape *t, node *x);
node *op_cross_entropy(tape *t, node *logits, const int32_t *label); /* (B, K) -> () */
node *op_bce_logits(tape *t, node *logit, const int32_t *label);     /* (B, 1), labels 0/1 -> () */
node *op_kl(tape *t, node *log_p, node *log_q); /* mean over rows of sum p (log p - log q) */

/* fused sequence ops ------------------------------------------------------------------------- */

/* One kernel size of a text CNN: every input row projected once per tap, window sums gathered,
 * ReLU, max over time. rows (V, D), w (F, D, k) and b (F) as nn.Conv1d; result (B, F). Texts
 * shorter than k are continued with zero vectors. Backward touches only the winning windows. */
node *op_conv_pool(tape *t, node *rows, node *w, node *b, const seq_index *seq);
/* Some kernel sizes one after the other: op_concat of conv_pool of each. `made` (NULL: not known) is
 * op_conv_made of the rows, whose values are then not read. */
node *op_conv_pools(tape *t, node *rows, node *const *w, node *const *b, size_t n,
                    const seq_index *seq, const node *made);
/* What these make of rows (n, D) first: their products with all filters, (n, C), a constant. It is
 * linear, so that of a mixture is the mixture of these. NULL on devices that have no such step. */
node *op_conv_made(tape *t, node *rows, node *const *w, size_t n);

/* Both directions of one LSTM layer, started from zero states, over the true length of each text;
 * result (B, 2H): the last state of the forward direction, then of the backward direction. Weights
 * as nn.LSTM: w_ih (4H, D), w_hh (4H, H), b_ih, b_hh (4H), gates i f g o; w[0..3] forward, w[4..7]
 * reverse. `made` (NULL: not known) is op_bilstm_made of the rows, whose values are then not read. */
node *op_bilstm(tape *t, node *rows, node *const w[8], const seq_index *seq, const node *made);
/* The same with the states of both directions after every token, (T, 2H). */
node *op_bilstm_states(tape *t, node *rows, node *const w[8], const seq_index *seq,
                       const node *made);
/* As op_conv_made: products of rows with the gates of both directions. */
node *op_bilstm_made(tape *t, node *rows, node *const w[8]);

/* The convolution kernels of an S4 layer (gbm.md 5): a, w (H, n) with Lambda = -exp(a) - i w; P, B,
 * C (H, n, 2) as (re, im); log_dt (H); result K (H, L). */
node *op_s4_kernel(tape *t, node *a, node *w, node *p, node *b, node *c, node *log_dt, size_t len);
/* y = K * u + d u, causal, each text by itself: u (T, H), K (H, L), d (H); L >= seq->max_len. Texts
 * of up to S4_DIRECT_MAX words are summed term by term, longer ones go by spectra (bench_s4) of blocks
 * of S4_BLOCK words, which round differently: certificates ask. */
enum { S4_DIRECT_MAX = 96, S4_BLOCK = 64 };
node *op_s4_conv(tape *t, node *u, node *k, node *d, const seq_index *seq);

/* The filters of a convolution, each the sum of `rank` state spaces that read one direction of the
 * vectors: enc (F rank, D), K (F rank, L), d (F rank); result w (F, D, L) as nn.Conv1d,
 *
 *     w[f, :, L - 1 - l] = sum over the h of f of (K[h, l] + d[h] where l = 0) enc[h, :]
 *
 * so that the last word of a window is the one that the state spaces have just read. */
node *op_s4_filters(tape *t, node *enc, node *k, node *d, size_t rank);

/* Attention of several heads: softmax(q k^T / sqrt(H / heads)) v, each text by itself, over its true
 * length. kv (T, 2H) has keys, then values. Without `asks` q is (T, H), or (B, H) where only the first
 * token of each text asks; with it q has the rows that `asks` gives the same texts, in any number. The
 * result has q's shape. With p > 0, weights
 * are dropped with that chance and the others scaled by 1/(1-p). Memory grows with the length of
 * texts, not with its square. */
node *op_attention(tape *t, node *q, node *kv, size_t heads, const seq_index *seq,
                   const seq_index *asks, double p, rng *stream);

#endif
