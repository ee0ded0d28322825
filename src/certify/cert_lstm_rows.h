/* certify/cert_lstm_rows.h - the loops of the LSTM's tubes that touch every weight, in double. The
 * rounding of their sums is for the caller to add: a sum of H terms is within (H + 32) 2^-52 of its
 * terms' magnitudes. */
#ifndef CERTIFY_CERT_LSTM_ROWS_H
#define CERTIFY_CERT_LSTM_ROWS_H

#include <stddef.h>

#include "certify/cert_interval.h"

/* c (m, n) = a (m, k) b (k, n). */
void rows_product(size_t m, size_t n, size_t k, const double *a, const double *b, double *c);

/* mid (m, n) = x (m, k) b and rad (m, n) = r (m, k) |b| for b (k, n). A row has the same bits
 * whatever rows are beside it. */
void rows_range(size_t m, size_t n, size_t k, const double *b, const double *x, const double *r,
                double *mid, double *rad);

/* Forward. bt (H, H) becomes the transpose of B = sum of P_q U_q over the gates i f g; out (H) =
 * B d. P (3H), d (H). */
void rows_jacobian(size_t H, const double *ut, ivals P, ivals d, ivals bt, ivals out);
/* out (H) = M d with M = E U_o + G B. */
void rows_through(size_t H, const double *ut, ivals E, ivals G, ivals bt, ivals d, ivals out);

/* Backward. Two enclosures of what reaches the hidden state before the step:
 * one = lam_h^T M + lam_c^T B, two = (lam_h E)^T U_o + kap^T B. All (H). */
typedef struct rows_back {
    ivals P, E, G, lam_h, lam_c, lam_E, kap;
} rows_back;
void rows_adjoint(size_t H, const double *u, const rows_back *x, ivals one, ivals two);

/* Affine forms, with the middles of the coefficients. out (H) = |E U_o + G (sum of P_q U_q)| e. */
void rows_error(size_t H, const double *ut, const double *P, const double *E, const double *G,
                const double *e, double *out);
/* One generator through a step: g = sum of P_q GT_q over i f g + F g, then E GT_o + G c. */
void rows_cell(size_t H, const double *P, const double *F, const double *GT, double *g);
void rows_hidden(size_t H, const double *E, const double *G, const double *GT, const double *c,
                 double *g);
/* lo and hi (width): the least and most of n rows, at least one. */
void rows_hull(size_t n, size_t width, const double *a, double *lo, double *hi);
/* Add to lo and hi the least and most of 0 and n rows, `step` apart. */
void rows_choice(size_t n, size_t width, size_t step, const double *a, double *lo, double *hi);
/* out (width): the sum of |a| over n rows. */
void rows_sizes(size_t n, size_t width, const double *a, double *out);

#endif
