/* certify/cert_s4.h - S4 on sets of words: boxes of every layer, and slopes carried backwards.
 *
 *     u = W v + b;  a layer:  y = K * u,  g = gelu(y),  (a, b) = M g + m,  z = a s(b),
 *                             r = u + z,  u' = gamma C r / sigma + beta;     mean over the text
 *
 * or, with ReLU,  u' = M relu(y) + m  or  u' = relu(y);  or the largest over the text. C: less the mean; D is added to
 * K at lag 0. Boxes hold what float32 makes of any choice of words.
 * The adjoint writes the deviation from the clean text, layer by layer, as exact slopes times the
 * deviation before it:
 *
 *     n' - n* = (C D - n* (w . D)) / sigma',   w = (C r' + C r*) / (H (sigma' + sigma*))
 *     z' - z* = s(b') Da + a* S_b Db,          g' - g* = S_y Dy
 *
 * and transposes them. Where sigma' may be so small that this says less than the norm's box does,
 * the box is taken, and the way back ends there for that position. Rounding is an error at each
 * station, felt as often as the margin feels the station. These errors are those of sums in float32
 * of any order, with a little room in which our own rounding in double, 2^29 times finer, is lost.
 * K itself is the end of a long recurrence: what that may get wrong is K_err (cert_s4_kernel.c).
 * Every such term is a lemma of docs/numerics.md. */
#ifndef CERTIFY_CERT_S4_H
#define CERTIFY_CERT_S4_H

#include "base/arena.h"
#include "certify/cert_encode.h"
#include "certify/cert_interval.h"

/* Weights in double. */
typedef struct s4_layer64 {
    double *K;      /* (lags, H) */
    double *K_err;  /* (lags, H) how far another float32 evaluation may be from K; NULL: 0 */
    double *K_norm; /* (lags, H) length of the first lags of a channel's kernel, l + 1 of them */
    double *K_off;  /* (lags, H) the same of K_err */
    double *mix, *mix_t;  /* (R, H), (H, R) with R rows: 2H, or H with ReLU; NULL in a bare block */
    double *abs, *abs_t;  /* their absolute values */
    double *mix_b;        /* (R) */
    double *row, *col;    /* (R), (H) lengths of rows and columns of mix */
    double *gamma, *beta; /* (H) */
} s4_layer64;

typedef struct s4_net64 {
    size_t D, H, layers, lags; /* lags: of the longest text, or piece of one */
    size_t span;               /* words after which the state space starts anew; 0: never */
    bool relu, bare, max;            /* ReLU; and nothing after it; the largest over the text */
    double *enc_t, *enc_b, *enc_row; /* (D, H), (H), (H) lengths of the encoder's rows */
    s4_layer64 *layer;
    double eps;
} s4_net64;
static inline size_t s4_mixed(const s4_net64 *net) /* R */
{
    return net->relu ? net->H : 2 * net->H;
}
/* Everything that follows from K, mix and enc_t. */
stet_status s4_net64_finish(s4_net64 *net, arena *a);

/* unit: of an operation; act: relative, of GELU and sigmoid. All 0: real arithmetic. */
typedef struct s4_rounding {
    double unit, act;
    bool plain; /* only the steps that the golden vectors know */
} s4_rounding;
extern const s4_rounding s4_float32, s4_exact;

/* An array of ranges: mid +- rad. */
typedef struct s4_range {
    double *mid, *rad;
} s4_range;

#define S4_OUTWARD 0x1p-44 /* relative rounding of a handful of our operations */

static inline ival range_at(s4_range x, size_t i)
{
    return (ival){x.mid[i] - x.rad[i], x.mid[i] + x.rad[i]};
}

static inline void range_put(s4_range x, size_t i, ival v)
{
    x.mid[i] = ival_mid(v);
    x.rad[i] = 0.5 * (v.hi - v.lo) * (1 + S4_OUTWARD) + S4_OUTWARD * fabs(x.mid[i]);
}

static inline s4_range range_from(s4_range x, size_t i)
{
    return (s4_range){x.mid + i, x.rad + i};
}

static inline double range_mag(s4_range x, size_t i)
{
    return fabs(x.mid[i]) + x.rad[i];
}

/* One layer of one text. Clean values, boxes, and the error of each station; all (n, H) but for: */
typedef struct s4_station {
    double *y, *ab, *centred, *norm, *sigma; /* clean; ab (n, R), sigma (n) */
    s4_range box_y, box_b, box_centred;
    double *sigma_lo, *sigma_hi;      /* (n) */
    double *e_y;                      /* (n, H), equal in a piece */
    double *e_g, *e_ab, *e_r, *e_out; /* e_ab (n), e_bias: see s4_mix_error */
    double e_bias;
} s4_station;

/* Added to what rounding is relative to: more than an operation loses that underflows. */
#define S4_TINY 1e-30

/* What float32 may get wrong about a row of a and b at position p. */
static inline double s4_mix_error(const s4_station *s, const s4_layer64 *l, size_t p, size_t row)
{
    return s->e_ab[p] * l->row[row] + s->e_bias * (fabs(l->mix_b[row]) + S4_TINY);
}

typedef struct s4_text {
    const s4_net64 *net;
    s4_rounding rounding;
    size_t n;
    const uint32_t *start; /* (n + 1) */
    double *x;             /* (start[n], H) encoded words */
    double *e_x;           /* (n, H) */
    s4_station *layer;
    double *u;       /* (n, H) clean output of the last layer */
    s4_range out;    /* (n, H) its box */
    double *scratch; /* (8, n, H) */
    bool *cut;       /* (layers, n) where the last way back ended */
    s4_range lam;    /* (n, H) */
} s4_text;

/* Forward: `words` are projected by net.enc_t; their numbers become the text's, the bias added.
 * STET_EFORMAT where numbers are not finite or so large that float32 may overflow. */
stet_status s4_text_read(s4_text *t, const s4_net64 *net, s4_rounding rounding, size_t n,
                         const uint32_t *start, const cert_encoded *words, arena *a);

/* The clean mean over the text, or the largest, and its box, (H) each. */
void s4_pooled(const s4_text *t, double *clean, s4_range box);

/* Backward, for a margin om . pooled (H): for every word k of the text the least it contributes; in
 * *loss what is taken whatever the words; in *slack what rounding may take beside it, that of the
 * mean included. false: the numbers ran away. */
bool s4_adjoint(const s4_text *t, const double *om, double *contribution, double *loss,
                double *slack);

/* The parameters of one layer's state space, as the model stores them, and H, states. */
typedef struct s4_space {
    const float *log_a, *w, *p, *b, *c, *log_dt;
    size_t H, states;
} s4_space;
/* How far K_l of channel h, before D is added, may be from the real one if the recurrence runs in
 * double, for lags 0 .. len - 1: *at + l * *step. INFINITY where nothing is known. */
void s4_kernel_error(const s4_space *s, size_t h, size_t len, double *at, double *step);

/* y (n, H) = K * u on the middles and |K| * rad on the radii; `back` runs against time. */
void s4_convolve(const s4_layer64 *l, size_t n, size_t H, bool back, s4_range u, s4_range y);

/* out (H): the length of each column of the ranges' magnitudes, of n rows. */
void s4_lengths(s4_range x, size_t n, size_t H, double *out);

#endif
