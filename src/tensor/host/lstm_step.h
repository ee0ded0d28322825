/* tensor/host/lstm_step.h - one time step of an LSTM for a few texts at once, forward and backward.
 *
 * The recurrent products are small (some texts x 4H x H) and many; they run on the kernel of
 * panel.h, for which the weights are packed once a pass. Row widths are rounded up to whole panels:
 * 4H to G, H to P. What is beyond 4H or H has no meaning. */
#ifndef TENSOR_HOST_LSTM_STEP_H
#define TENSOR_HOST_LSTM_STEP_H

#include "tensor/tensor.h"

/* One direction's recurrent weights. */
typedef struct lstm_cell {
    size_t H, G, P;
    const real *bias;   /* (G): b_ih + b_hh */
    const real *u;      /* (G / PANEL, H, PANEL): w_hh^T in panels */
    const real *u_back; /* (P / PANEL, 4H, PANEL): w_hh in panels */
} lstm_cell;

size_t lstm_padded(size_t n); /* n rounded up to whole panels */
/* w_hh (4H, H) into the two packed forms; padding is 0. */
void lstm_pack(size_t H, const real *w_hh, real *u, real *u_back);

/* Texts r < n advance by one token whose projected inputs are x[r] (G). From the old state h, c (n,
 * P) come the gates i f g o after their activations, gates (n, G), and the new state c_next[r],
 * h_next[r] (H). z (n, G) is scratch and may be `gates`. `first`: h is zero and not read. */
void lstm_step_forward(const lstm_cell *cell, size_t n, bool first, const real *const *x,
                       const real *h, const real *c, real *z, real *gates, real *const *h_next,
                       real *const *c_next);

/* The same in place, without gates, for callers that only read: states h, c (n, P). Its activations
 * take two thirds of the time; they are right to some 1e-7, those above to two units in the last
 * place. */
void lstm_step_read(const lstm_cell *cell, size_t n, const real *const *x, real *h, real *c,
                    real *z);

/* The way back: from the gates and c as above, and dh, dc (n, P), the gradients of the new state,
 * to dz (n, G), the gradients of what went into the gates, and those of the old state (dh only if
 * !first). */
void lstm_step_backward(const lstm_cell *cell, size_t n, bool first, const real *gates,
                        const real *c, real *dh, real *dc, real *dz);

/* du (4H, P) += dz^T h over n rows of 4H and of P numbers, which lie dz_step and h_step apart. */
void lstm_recurrent_gradient(size_t H, size_t n, const real *dz, size_t dz_step, const real *h,
                             size_t h_step, real *du);

#endif
