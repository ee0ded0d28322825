/* verify/ver_s4.h - S4 on sets of words, between ver_s4.c (forward) and ver_s4_back.c.
 *
 *     u = W v + b;  a layer:  y = K * u,  g = gelu(y),  (a, b) = M g + m,  z = a s(b),
 *                             r = u + z,  u' = gamma C r / sigma + beta;     mean over the text
 *
 * or, with ReLU,  u' = a = M relu(y) + m  or  u' = relu(y);  or the largest over the text. C: less the mean. Ranges hold what float32 makes of any choice of words; `e` is what a station
 * may get wrong by itself. */
#ifndef VERIFY_VER_S4_H
#define VERIFY_VER_S4_H

#include "verify/ver_interval.h"
#include "verify/ver_scores.h"

static const double VER_OURS = 0x1p-40; /* relative, of a few operations in double */

/* A layer of the open text; (n, H) each unless said. */
typedef struct s4_layer {
    const ver_s4 *p;
    const double *K, *K_off;                     /* (span, H) */
    double *y, *a, *b, *centred, *norm;          /* clean */
    double *sigma;                               /* (n) clean */
    iv *box_y, *box_b, *box_centred, *box_sigma; /* box_sigma (n) */
    double *e_y, *e_g, *e_a, *e_b, *e_r, *e_out;
} s4_layer;

typedef struct s4_state {
    double *x, *e_x; /* (words, H), (n, H) */
    double *u;       /* clean output of the last layer */
    iv *box;         /* its range */
    s4_layer layer[VER_S4_LAYERS];
    bool overflows;
    iv *lam, *lam_a, *lam_b, *lam_y; /* (n, H) */
    double *take, *drop, *size;      /* (words), (n), (H) */
} s4_state;

/* The piece of position p in a text of n words: p is one of *from .. *to - 1. */
static inline void ver_s4_piece(const ver_model *m, size_t n, size_t p, size_t *from, size_t *to)
{
    *from = p / m->span * m->span;
    *to = *from + m->span < n ? *from + m->span : n;
}

double ver_s4_activation(const ver_model *m, double x); /* GELU or ReLU */

/* Margins from the ranges at the end, and back from the margin through the slopes of every station.
 */
double ver_s4_margin(const ver_work *w, int label, int other); /* of the clean text */
double ver_s4_box(const ver_work *w, int label, int other);
stet_status ver_s4_adjoint(ver_work *w, int label, int other, const json_t *witness, double *out);

#endif
