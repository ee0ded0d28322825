/* defense/defense_args.h - what kernels of this layer's ops read beside their operands (node.args), and
 * the kernels of cuda/, which reads this header as C++. Arrays are in the tape's store unless they
 * are said to be the host's. */
#ifndef DEFENSE_DEFENSE_ARGS_H
#define DEFENSE_DEFENSE_ARGS_H

#include "tensor/tape.h"

/* adv_move */
typedef enum adv_norm {
    ADV_L2,   /* of all words of a text together */
    ADV_LINF, /* its largest entry */
    ADV_TOKEN /* steps of each word alone; start and ball as ADV_L2 */
} adv_norm;

typedef struct adv_move_args {
    double step, radius; /* radius 0: none; adv_begin has its size in `step` */
    int norm;
    const seq_index *at;
} adv_move_args;

/* adv_noise: uniform in [-1, 1), entry i being number i of the stream `key` (base/rng.h) */
typedef struct adv_noise_args {
    shape s;
    uint64_t key;
} adv_noise_args;

/* The slots of a batch: see ascc.h. A point is what a position reads, or several positions. */
typedef struct hulls {
    const uint32_t *word;  /* (n_rows) whose vectors are in slots: the batch's words come first */
    const uint32_t *first; /* (n_words + 1) */
    const uint32_t *row;   /* (first[..]) rows of a word's slots */
    const uint32_t *of;    /* (n_points) which of the batch's words a point stands for */
    const uint32_t *start; /* (n_points + 1) slots of a point */
    size_t n_tokens, n_words, n_rows, n_points, n_slots;
} hulls;

/* A slot's column in the state (n_slots, HULL_STATE) of the search: its number, Adam's two moments,
 * the last gradient. */
enum { HULL_W, HULL_M, HULL_V, HULL_GRAD, HULL_STATE };

/* hull_points, hull_step */
typedef struct hull_args {
    hulls at; /* in the store, `word` the host's */
    double rate, alpha;
    int64_t k;
} hull_args;

/* hull_climb */
typedef struct climb_args {
    hulls at; /* in the store, `word` the host's */
    double step, scale;
} climb_args;

op_kernel cuda_adv_noise_fwd, cuda_adv_begin_fwd, cuda_adv_move_fwd, cuda_tavat_move_fwd;
op_kernel cuda_hull_climb_fwd, cuda_hull_points_fwd, cuda_hull_points_bwd, cuda_hull_step_fwd;

#endif
