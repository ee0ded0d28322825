/* certify/cert_lstm.h - tubes around the states of an LSTM, and what they prove about a margin.
 *
 * Each position of a text holds one word of a set. A tube holds, before every word, a box in which
 * hidden state and cell of the float32 program lie, whatever words were chosen, and the
 * coefficients of the exact identity that carries the deviation from the clean text,
 *
 *     DT_q = x_s - x_0 + U_q Dh                               q = i f g o
 *     Dc'  = P_f DT_f + P_i DT_i + P_g DT_g + F Dc
 *     Dh'  = E DT_o + G Dc'
 *
 * as intervals. Levels, each at least as tight as intervals alone:
 *
 *     TUBE_BOX     interval arithmetic; boxes without coefficients
 *     TUBE_IBP     the same boxes, and slopes between clean and actual value
 *     TUBE_GBM     + derivatives over the boxes (mean value theorem): the growth bounds
 *     TUBE_SLOPE   + slopes between clean and actual value; F is the clean forget gate
 *     TUBE_AFFINE  + deviations as sums over positions of vectors that depend on the word chosen
 *                  (generators), plus a small box e: what cancels along time is seen to cancel
 *     TUBE_LINEAR  the same from the best line through each activation in place of the middle
 *                  of its slopes, which leaves a fraction of the box
 *
 * Rounding: the program's states obey the recurrence up to an error at each step (lstm_rounding).
 * It is part of every box, and of e; backwards (cert_lstm_adjoint) it counts as often as the margin
 * feels it. The clean states are computed in double; what they lack is far below that error and is
 * covered by it. */
#ifndef CERTIFY_CERT_LSTM_H
#define CERTIFY_CERT_LSTM_H

#include "base/arena.h"
#include "bound/lstm_rows.h"
#include "certify/cert_encode.h"
#include "certify/cert_interval.h"
#include "model/bilstm.h"

/* One direction's weights, for gates i f g o one after the other. */
typedef struct lstm_cell64 {
    size_t D, H;
    double *wt;     /* (D, 4H) input weights, transposed */
    double *u, *ut; /* (4H, H) recurrent weights and (H, 4H) transposed */
    double *b;      /* (4H) both biases together */
    /* of each row of the weights (4H): */
    double *w_norm;        /* length of the input weights */
    double *u_sum, *u_max; /* sum and largest of |u| */
    double *b_sum;         /* |b_ih| + |b_hh| */
} lstm_cell64;

/* From nn.LSTM's layout, in memory of `a`; STET_EFORMAT where a weight is not finite. */
stet_status lstm_cell64_init(lstm_cell64 *c, size_t D, size_t H, const double *w_ih,
                             const double *w_hh, const double *b_ih, const double *b_hh, arena *a);

/* How far the program strays in one step: `unit` relative for an operation, `act` absolute for an
 * activation, `jump` for a state that was taken to be the clean one. All 0: real arithmetic. */
typedef struct lstm_rounding {
    double unit, act, jump;
} lstm_rounding;
extern const lstm_rounding lstm_float32, lstm_exact;

/* A text as one direction reads it; position p may take words start[p] .. start[p + 1] - 1, the
 * first is the reference. */
typedef struct lstm_text {
    const lstm_cell64 *cell;
    lstm_rounding rounding;
    bool reverse;
    size_t n;
    const uint32_t *start; /* (n + 1) */
    const double *x;       /* (start[n], 4H) projected words */
    double *length;        /* (n) of the longest vector that may stand there */
    /* by step, that is in the order of reading: */
    double *T, *gate; /* (n, 4H) clean pre-activations and gates */
    double *h, *c;    /* (n + 1, H) clean states before each word, and after all */
    double *tau;      /* (n, H) tanh of the cell after each word */
    double *e_T;      /* (n, 4H) how far the program's pre-activations may stray in a step */
} lstm_text;

/* x is set; lengths (start[n]) of all words are borrowed for the call. Memory of `a`.
 * STET_EFORMAT where numbers are not finite, or so large that float32 may overflow. */
stet_status lstm_text_open(lstm_text *t, const double *lengths, arena *a);
/* Read texts of one cell that were opened, longest first, side by side: the weights are walked once
 * a step for all of them. Scratch is on top of `a` and given back. */
stet_status lstm_texts_read(lstm_text *const *t, size_t count, arena *a);
/* How many of them have a word at this step. */
static inline size_t lstm_reach(lstm_text *const *t, size_t count, size_t step)
{
    while (count > 0 && t[count - 1]->n <= step)
        count--;
    return count;
}
static inline size_t lstm_place(const lstm_text *t, size_t step)
{
    return t->reverse ? t->n - 1 - step : step;
}

typedef enum tube_level {
    TUBE_BOX,
    TUBE_IBP,
    TUBE_GBM,
    TUBE_SLOPE,
    TUBE_AFFINE,
    TUBE_LINEAR,
    TUBE_LEVELS
} tube_level;

/* What the last words left of the generators: one a substitute, those of a position together. */
typedef struct lstm_generators {
    size_t n, groups;
    uint32_t *first;   /* (groups + 1) */
    uint32_t *pos;     /* (groups) whose substitutes, all but the reference, in order */
    double *h, *c;     /* (n, H) */
    double *m_h, *m_c; /* (H) what is added whatever the words */
    double *e_h, *e_c; /* (H) the box */
    double *r_h, *r_c; /* (H) share of rounding in it */
} lstm_generators;

/* Each step as lines: Dc' = sum of P_q DT_q + F Dc + k_c +- d_c, Dh' = E DT_o + G Dc' + k_h +- d_h.
 */
typedef struct lstm_lines {
    double *P;                                 /* (n, 3H) */
    double *F, *k_c, *d_c, *E, *G, *k_h, *d_h; /* (n, H) */
} lstm_lines;

typedef struct lstm_tube {
    tube_level level;
    ivals T;             /* (n, 4H) */
    ivals h, c;          /* (n + 1, H) before each word, and after all */
    ivals P;             /* (n, 3H): gates i f g */
    ivals E, G, F;       /* (n, H) */
    double *e_c;         /* (n, H) how far the program's cell may stray in a step */
    double e_h;          /* and its hidden state */
    lstm_generators gen; /* from TUBE_AFFINE on */
    lstm_lines lines;
} lstm_tube;

/* Around texts that were read, side by side as there; at most LSTM_ABREAST. Memory of `a`; scratch is
 * on top of it and given back. */
enum { LSTM_ABREAST = 8 };
stet_status lstm_tubes_build(lstm_tube *const *tube, lstm_text *const *t, size_t count,
                             tube_level level, arena *a);

/* ---- what a tube proves ------------------------------------------------------------------- */

/* What the margin feels of a direction's states: the sum over units of lam_i Dh_i, of unit i after
 * so many words; lam as intervals because a head may have its own slopes. */
typedef struct lstm_aim {
    ivals lam;          /* (H) */
    const uint32_t *at; /* (H) 1 .. n, or beyond: not felt; NULL: after each word */
    double *below;      /* (n + 1) what all that is felt before state s may take, by the boxes */
} lstm_aim;
static inline ival aim_at(const lstm_aim *a, size_t state, size_t i)
{
    return !a->at || a->at[i] == state ? ival_at(a->lam, i) : (ival){0, 0};
}

/* Adds for every word k of the text (start[n]) the least it can contribute, and gives in *slack what
 * rounding may take. `scratch` holds 12 H numbers. false: the numbers ran away, nothing is proved. */
bool lstm_adjoint(const lstm_tube *tube, const lstm_text *t, const lstm_aim *aim,
                  double *contribution, double *slack, double *scratch);
/* The same with lines in place of intervals: *box is what leaving the lines may take, rounding
 * included, less what the lines add whatever the words. The way back ends where the box of the
 * state is the better answer. `scratch` holds 12 H + start[n] numbers. */
bool lstm_back_lines(const lstm_tube *tube, const lstm_text *t, const lstm_aim *aim, bool all,
                     double *contribution, double *box, double *slack, double *scratch);
/* From the generators, for lam after the last word. TUBE_AFFINE only: later tubes have symbols
 * beside them. */
void lstm_affine(const lstm_tube *tube, const lstm_text *t, ivals lam, double *contribution,
                 double *box, double *slack);

/* ---- both directions ---------------------------------------------------------------------- */

/* Words that are read together, with the tubes that were asked for so far. */
typedef struct lstm_piece {
    size_t first_word; /* start[] of its first word; its own starts at 0 */
    lstm_text text[2];
    lstm_tube tube[TUBE_LEVELS][2];
} lstm_piece;

/* A text read both ways, all of it or in pieces of `span` words. States 1 .. n of a unit are those
 * after 1, 2, ... words of the first piece, then of the second, and so on. */
typedef struct lstm_pair {
    size_t H, n, span, pieces;
    const uint32_t *start;
    lstm_piece *piece;
    bool built[TUBE_LEVELS];
    arena *mem;
    double *contribution; /* (start[n]) */
    ivals lam;            /* (2H) */
    double *scratch;      /* (12H + start[n]) */
    uint32_t *at;         /* (2H) where the margin feels each unit */
    uint32_t *here;       /* (H) the same in a piece */
    double *below;        /* (n + 1) */
} lstm_pair;

/* span 0: all n words together. `words` are projected by each direction's cell.wt and stay with the
 * caller; the rest lives in `a`, as do the tubes. */
stet_status lstm_pair_open(lstm_pair *x, const lstm_cell64 cell[2], lstm_rounding rounding,
                           size_t n, size_t span, const uint32_t *start,
                           const cert_encoded words[2], arena *a);
stet_status lstm_pair_build(lstm_pair *x, tube_level level); /* once */

/* The margin of one class over another: om . y + bias, where y is made of the states of both
 * directions: the last ones, or their ReLU, or the largest or the mean of each unit. */
typedef struct lstm_head {
    const double *om; /* (2H) */
    double bias;
    bool relu;          /* of the last states */
    const double *size; /* (2H) |weights| of both classes, whose rounding counts: NULL for none */
    double bias_size;
    bilstm_pool pool;
} lstm_head;

/* A lower bound of the margin: base - sum over positions of drop. Boxes have no drops. */
typedef struct lstm_margin {
    double base;  /* rounding taken off */
    double slack; /* what that was */
} lstm_margin;

typedef enum lstm_form { FORM_ADJOINT, FORM_AFFINE, FORM_LINES, FORM_WORDS, FORMS } lstm_form;
/* `level` is built. -INFINITY in base: nothing could be proved. */
lstm_margin lstm_box_margin(const lstm_pair *x, tube_level level, const lstm_head *head);
/* What each word contributes at least is left in x->contribution. FORM_AFFINE is for last states. */
lstm_margin lstm_sum_margin(lstm_pair *x, tube_level level, lstm_form form, const lstm_head *head);

#endif
