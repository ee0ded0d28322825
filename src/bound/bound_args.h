/* bound/bound_args.h - what kernels of this layer's ops read beside their operands: node.args and, where
 * other ops look at it, node.saved. As tensor/op_args.h, for kernels of every device: cuda/ reads this
 * header as C++. Arrays are in the tape's store unless they are said to be the host's. */
#ifndef BOUND_BOUND_ARGS_H
#define BOUND_BOUND_ARGS_H

#include "tensor/tape.h"

/* See batch_sets.h. */
typedef struct batch_sets {
    const seq_index *seq; /* of the batch, the host's */
    node *rows;           /* (n_rows, D); NULL: scores alone read them, and make them */
    /* The host's, or names (batch.twin) */
    const uint32_t *word;                /* (n_rows) their words */
    const uint32_t *token_lo, *token_hi; /* (T) lo_row and hi_row */
    size_t n_rows, n_moving, n_alt; /* n_alt = start[V] */
    /* for kernels, in the tape's store */
    const seq_index *at;             /* seq */
    const uint32_t *start;           /* (V + 1) */
    const uint32_t *alt;             /* (start[V]) */
    const uint32_t *moving;          /* (n_moving) words that have substitutes */
    const uint32_t *lo_row, *hi_row; /* (T) by token */
} batch_sets;

/* gbm_convs: the growth bounds of n convolutions and what follows them. node.saved is the sum of all
 * entries of M, a number in the store. */
typedef struct gbm_convs_args {
    size_t n;  /* operands that are filters; one more is omega (features) */
    double by; /* the result is this times the sum of omega M */
} gbm_convs_args;

/* bilstm_ranges, bilstm_states_ranges, s4_encoder_ranges */
typedef struct set_ranges_args {
    const batch_sets *s;
    double eps;
} set_ranges_args;

/* conv_ranges, whose rows of (B, RANGE_SIDES F) are values, lower ends, upper ends. */
enum { RANGE_VALUE, RANGE_LOWER, RANGE_UPPER, RANGE_SIDES };

typedef struct conv_ranges_args {
    const batch_sets *s;
    double eps;
    bool runners_up;
} conv_ranges_args;

/* What the op keeps, for bounds that build on it. Windows are named by their first position. */
typedef struct conv_windows {
    size_t cols;
    real *table; /* (n_rows + 2 n_moving, cols): column l F + f is tap l of filter f */
    uint32_t
        *won;   /* (B, RANGE_SIDES, F): where the value, the lower and the upper end are reached */
    real *next; /* (B, F): the best upper end of all other windows, or NULL: not wanted. Bias */
    uint32_t *next_at; /* and ReLU are still to come. */
} conv_windows;

/* conv_joint */
enum { JOINT_MAX_KERNELS = 8 };
typedef struct joint_args {
    const batch_sets *s;
    double eps;
    size_t n;
    const node
        *ranges[JOINT_MAX_KERNELS]; /* (n) op_conv_ranges of each kernel size, with runners-up */
    const node *mask;               /* (B, features) dropout's factors, or NULL */
    const int32_t *label;           /* (B) */
} joint_args;

/* worst_logits, worst_share */
typedef struct worst_label_args {
    const int32_t *at; /* (B) labels */
} worst_label_args;

typedef struct score_worst_args {
    const batch_sets *s;
    const int32_t *label; /* (B) */
    double eps;
} score_worst_args;

/* gbm_lstm_rows, gbm_lstm_gain, gbm_lstm_rho: see gbm_ops.h. gbm_lstms: both directions, and what
 * follows their rows; node.saved begins with the sums of Mv, Mh, Mc, numbers in the store. */
typedef struct gbm_lstm_args {
    double k_v, k_h, k_c;
    int mode; /* gbm_cell_mode */
    size_t steps;
    double rho0;
} gbm_lstm_args;

/* lstm_observed, lstm_around */
typedef struct lstm_read_args {
    const uint32_t *at; /* (n) rows of the words */
    size_t n;
    bool reverse, first;
    double by; /* how much to forget, or the radius */
} lstm_read_args;

#endif
