/* bound/gbm_s4.h - the growth bound matrix of one step of an S4 channel.
 *
 *     z_t = Abar z_{t-1} + Bbar u_t,   y_t = 2 Re(C.z_t) + d u_t        (bilinear step, half state)
 *
 * is linear, so its growth bounds hold everywhere: |dy_t / du_t| = |g|, and a change dz of mode m
 * of the state before the step moves y_t by at most 2 |q_m| |dz|, where q is the row C Abar.
 * Channels do not mix here, so all other entries are zero. The bilinear step comes from Woodbury's
 * formula in O(n) for a channel; docs/gbm.md derives it. */
#ifndef BOUND_GBM_S4_H
#define BOUND_GBM_S4_H

#include "base/arena.h"
#include "tensor/tensor.h"

/* Lambda = -exp(a) - i w; P, B, C as (re, im); step exp(log_dt). H channels with n stored modes. */
typedef struct s4_weights {
    size_t H, n;
    const real *a, *w;     /* (H, n) */
    const real *p, *b, *c; /* (H, n, 2) */
    const real *log_dt;    /* (H) */
    const real *d;         /* (H) */
} s4_weights;

/* Added to; a pointer may be NULL. */
typedef struct s4_grads {
    real *a, *w, *p, *b, *c, *log_dt, *d;
} s4_grads;

/* input (H) = |g|, state (H, n) = 2 |q|. Weights that are not finite give bounds of infinity. */
stet_status gbm_s4(const s4_weights *w, arena *scratch, real *input, real *state);

/* row (H, 2): |g| and the sum of 2 |q| over the modes, of each channel. */
stet_status gbm_s4_rows(const s4_weights *w, arena *scratch, real *row);
/* The gradient of sum row_ . row, added to `grad`. */
stet_status gbm_s4_rows_back(const s4_weights *w, const real *row_, arena *scratch,
                             const s4_grads *grad);

#endif
