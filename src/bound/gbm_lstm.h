/* bound/gbm_lstm.h - the growth bound matrix of an LSTM cell: bounds on every partial derivative of
 * the next hidden state and cell with respect to input v, hidden state h and cell c, over boxes of
 * the three.
 *
 *     |dh'_i / dv_j| <= Mv_ij     |dh'_i / dh_j| <= Mh_ij     |dh'_i / dc_i| <= Mc_i
 *     |dc'_i / dv_j| <= Ahat_ij   |dc'_i / dh_j| <= Bhat_ij   |dc'_i / dc_i| <= f+_i
 *
 * Everything about unit i depends on row i of the weights alone, so units are computed one by one,
 * on all threads, in time proportional to the number of weights. docs/gbm.md derives the formulas.
 */
#ifndef BOUND_GBM_LSTM_H
#define BOUND_GBM_LSTM_H

#include "base/arena.h"
#include "tensor/tensor.h"

/* One direction of an LSTM, as nn.LSTM stores it: rows q * H + i for gates q = i f g o. */
typedef struct lstm_weights {
    size_t D, H;
    const real *w_ih;        /* (4H, D) */
    const real *w_hh;        /* (4H, H) */
    const real *b_ih, *b_hh; /* (4H) */
} lstm_weights;

/* The boxes: lo <= hi in every coordinate. C is the box of the previous cell. */
typedef struct lstm_boxes {
    const real *v_lo, *v_hi; /* (D) */
    const real *h_lo, *h_hi; /* (H) */
    const real *c_lo, *c_hi; /* (H) */
} lstm_boxes;

/* How the range of the next cell is enclosed: interval arithmetic, mean-value form, or both
 * intersected. */
typedef enum gbm_cell_mode { GBM_CELL_BOTH, GBM_CELL_IA, GBM_CELL_MV } gbm_cell_mode;

/* Any pointer may be NULL: that part is not wanted. */
typedef struct lstm_gbm {
    real *mv;                        /* (H, D) */
    real *mh;                        /* (H, H) */
    real *mc;                        /* (H): the diagonal */
    real *ahat;                      /* (H, D) */
    real *bhat;                      /* (H, H) */
    real *fmax;                      /* (H): f+ */
    real *h_lo, *h_hi, *c_lo, *c_hi; /* (H): enclosure of the next state */
    real *mv_tight, *mh_tight;       /* (H, D), (H, H): sharper and dearer, see lstm_tight.h */
} lstm_gbm;

/* Weights of the entries in a scalar loss: k plus the matrix, where one is given. */
typedef struct lstm_gbm_loss {
    real kv, kh, kc;
    const real *Kv, *Kh, *Kc;          /* (H, D), (H, H), (H), or NULL */
    const real *Kahat, *Kbhat, *Kfmax; /* (H, D), (H, H), (H), or NULL */
} lstm_gbm_loss;

typedef struct lstm_grads {
    real *w_ih, *w_hh, *b_ih, *b_hh; /* added to */
} lstm_grads;

/* STET_EUSAGE when a box is upside down or holds NaN; a cell with weights that are not finite gives
 * bounds of infinity. */
stet_status gbm_lstm(const lstm_weights *w, const lstm_boxes *x, gbm_cell_mode mode,
                     const lstm_gbm *out);

/* The weighted sum of all entries and, where `grad` is given, its true gradient with respect to the
 * weights, boxes held fixed, times `scale`. `by_unit` (H) receives what each unit contributes to
 * the sum, `by_part` (3) the plain sums of Mv, Mh and Mc; either may be NULL. */
stet_status gbm_lstm_sum(const lstm_weights *w, const lstm_boxes *x, gbm_cell_mode mode,
                         const lstm_gbm_loss *loss, real scale, const lstm_grads *grad,
                         arena *scratch, real *value, real *by_unit, double by_part[3]);

#endif
