/* bound/lstm_boxes.h - boxes for the states of an LSTM, which the growth bounds of its cell are
 * taken over:
 *
 *     observed   the states that some texts had, forgetting slowly. Tight, and no promise about
 *                other texts.
 *     invariant  holds every state that any text can reach. A promise, and wide.
 *     local      around one state of one text. */
#ifndef BOUND_LSTM_BOXES_H
#define BOUND_LSTM_BOXES_H

#include "base/arena.h"
#include "bound/gbm_lstm.h"

/* Of h and c before a step. */
typedef struct state_box {
    real *h_lo, *h_hi, *c_lo, *c_hi; /* (H) */
} state_box;

/* States while reading n words, word t being rows[index[t]] (V, D): h, c (n + 1, H) before each
 * word and, last, after all. `reverse` reads from the end. */
stet_status lstm_read(const lstm_weights *w, const real *rows, const uint32_t *index, size_t n,
                      bool reverse, arena *scratch, real *h, real *c);

/* Take in n states (n, H). What is in the box already first draws back by the share `forget` of its
 * width on each side; `first`: nothing is in it yet. */
void box_observe(const state_box *b, size_t H, const real *h, const real *c, size_t n,
                 double forget, bool first);

/* Every state of a text of at most `words` words with vectors in [v_lo, v_hi] (D), started from
 * zero. */
stet_status box_invariant(const lstm_weights *w, const real *v_lo, const real *v_hi, size_t words,
                          arena *scratch, const state_box *b);

/* h and c (H), and everything within `radius` of them; |h| <= 1. */
void box_around(const state_box *b, size_t H, const real *h, const real *c, double radius);

#endif
