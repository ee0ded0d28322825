/* tensor/op_args.h - the typed parameters of ops: what node.args points to. One struct per op that
 * has any, named after it; the tape copies it into the arena, pointers in it stay borrowed. Kernels
 * follow the addresses in the store (`at`); checks and sizes use the host's. */
#ifndef TENSOR_OP_ARGS_H
#define TENSOR_OP_ARGS_H

#include "tensor/tape.h"

/* generic ops */
typedef struct matmul_args {
    bool ta, tb;
} matmul_args;
typedef struct scale_args {
    double by;
} scale_args;
typedef struct mix_args {
    double p, q;
} mix_args;
typedef struct clamp_args {
    double lo, hi;
} clamp_args;
typedef struct gather_args {
    /* (n), each below the number of rows of the input; NULL: the host does not have it */
    const uint32_t *index;
    size_t n;
    const uint32_t *at; /* the index in the store */
    bool permutes;      /* it has every row once */
} gather_args;
typedef struct slice_args {
    size_t first, n; /* columns */
} slice_args;
typedef struct dropout_args {
    double p;
    uint64_t key; /* drawn once from the caller's stream: piece i of the mask has stream (key, i) */
} dropout_args;
typedef struct layer_norm_args {
    double eps;
} layer_norm_args;
typedef struct label_args { /* cross_entropy, bce_logits */
    const int32_t *label;   /* (B) */
    const int32_t *at;      /* in the store */
} label_args;
typedef struct seq_args { /* seq_mean, seq_max, s4_conv */
    const seq_index *seq; /* without `row` where the host does not have it */
    const seq_index *at;  /* its arrays in the store */
} seq_args;
seq_args seq_args_of(tape *t, const seq_index *seq);

typedef struct made_args { /* conv_pool, bilstm, bilstm_states */
    seq_args seq;          /* all that other devices than the CPU read */
    /* Numbers of op_conv_made (from a kernel size's first column on) or op_bilstm_made for the rows,
     * which lie `ld` apart; NULL: not known. Gradients go to the rows all the same. */
    const real *made;
    size_t ld;
} made_args;

/* fused sequence ops */
typedef struct s4_kernel_args {
    size_t len; /* L: columns of the result */
} s4_kernel_args;
typedef struct s4_filters_args {
    size_t rank; /* state spaces of a filter */
} s4_filters_args;
typedef struct attention_args {
    const seq_index *seq;
    const seq_index *at;
    const seq_index *asks, *asks_at; /* the texts of the queries; NULL: those of the keys */
    size_t heads;
    double p;     /* dropout of weights */
    uint64_t key; /* of its mask (attention_mask.h) */
} attention_args;

#endif
