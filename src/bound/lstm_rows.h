/* bound/lstm_rows.h - the loops along the rows of an LSTM's weights: everything in gbm_lstm.c that
 * is not O(units). A row is one unit's weights over v or over h; all its gates are walked together.
 */
#ifndef BOUND_LSTM_ROWS_H
#define BOUND_LSTM_ROWS_H

#include "bound/interval.h"

enum { GI, GF, GG, GO, GATES }; /* i f g o */

/* A unit's row over one of the two inputs, with what is kept along it. */
typedef struct segment {
    const real *w[GATES], *centre, *radius;
    size_t n;
    real *j_lo, *j_hi; /* range of dc'_i / dx_j */
} segment;

/* w.centre and |w|.radius: centre and radius of the pre-activation. */
void row_range(const real *w, const segment *s, real out[2]);

/* J = sum of w_q [P_q] over the gates i f g, kept in the segment; returns |J|.radius. */
real row_jacobian(const segment *s, const iv P[GO]);

/* m[j]: the larger end of w_o [E] + [G] [J]; jhat[j] = |J|. Either may be NULL. */
void row_entries(const segment *s, iv E, iv G, real *m, real *jhat);

/* How a row's entries enter the loss: k + K[j] times m[j], Khat[j] times |J|. K and Khat may be
 * NULL. */
typedef struct row_weights {
    real k;
    const real *K, *Khat;
} row_weights;

/* The weighted sum; `m` (n) is scratch, *plain receives the sum of the m[j]. */
real row_value(const segment *s, iv E, iv G, const row_weights *k, real *m, double *plain);

/* What a row sends back to [E] and [G]. */
typedef struct row_sums {
    iv E, G;
} row_sums;

/* Through the entries: into dw_o, and into the adjoints of J, which also get mv_ radius[j] times
 * the slope of |J| (the mean-value radius of the cell). All three are written, not added to. */
row_sums row_entries_back(const segment *s, iv E, iv G, const row_weights *k, real mv_, real *dw_o,
                          real *j_lo_, real *j_hi_);
/* Through J, for one of the gates i f g: dw is written, the adjoint of [P] returned. */
iv row_jacobian_back(const real *w, size_t n, iv P, const real *j_lo_, const real *j_hi_, real *dw);
/* Through the range, whose centre has the adjoint dm and whose radius dr: out += scale (dw + ...).
 */
void row_range_back(const real *w, const segment *s, real dm, real dr, const real *dw, real scale,
                    real *out);

#endif
