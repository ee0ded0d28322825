/* bound/lstm_box_ops.h - boxes for the states of an LSTM (lstm_boxes.h) as ops: they follow the
 * weights where those live. A box of states is (4, H), lower and upper ends of h and of c before a
 * step; a box of words is (2, D). Results are constants: no gradient goes through a box. */
#ifndef BOUND_LSTM_BOX_OPS_H
#define BOUND_LSTM_BOX_OPS_H

#include "bound/lstm_boxes.h"
#include "tensor/ops.h"

/* Words to read: rows[index[i]] (V, D), i < n; `reverse` reads from the end. */
typedef struct box_words {
    node *rows;
    const uint32_t *index; /* (n), the host's */
    size_t n;
    bool reverse;
} box_words;

/* w: w_ih, w_hh, b_ih, b_hh of one direction. */
/* `box`, drawn back by `forget` of its width, and the states before each word; `first`: those
 * alone. */
node *op_lstm_observed(tape *t, node *const w[4], const box_words *x, node *box, double forget,
                       bool first);
/* Every state of a text of at most `len` words with vectors in `words`. */
node *op_lstm_invariant(tape *t, node *const w[4], node *words, size_t len);
/* The state after the words, and everything within `radius` of it. */
node *op_lstm_around(tape *t, node *const w[4], const box_words *x, double radius);

/* The box (2, D) of the rows from `first` on: for words whose vectors learn. */
node *op_rows_hull(tape *t, node *rows, size_t first);

/* The same memory as a state_box, for kernels. */
static inline state_box box_in(real *x, size_t H)
{
    return (state_box){x, x + H, x + 2 * H, x + 3 * H};
}

#endif
