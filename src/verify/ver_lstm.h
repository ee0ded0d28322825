/* verify/ver_lstm.h - a text as one direction of an LSTM reads it, and tubes around its states.
 *
 * Clean: every position holds its reference, computed in double. A tube encloses, at every step,
 * what float32 makes of any choice of words, and the coefficients with which deviations from the
 * clean text go on:
 *
 *     DT_q = x_s - x_0 + U_q Dh + [e_T],      q = i, f, g, o
 *     Dc'  = P_i DT_i + P_f DT_f + P_g DT_g + F Dc + [e_c]
 *     Dh'  = E DT_o + G Dc' + [e_h]
 *
 * e_T, e_c, e_h are what one step of the float32 program may get wrong (and what double gets wrong
 * about the clean text, which is far less). Each level adds to the one before, except that
 * VER_DERIVATIVE takes the coefficients from derivatives over the boxes, the others from slopes,
 * and VER_LINEAR goes on with the best line through each activation where that leaves less. */
#ifndef VERIFY_VER_LSTM_H
#define VERIFY_VER_LSTM_H

#include "verify/ver_activation.h"

enum { GATE_I, GATE_F, GATE_G, GATE_O, GATES };
typedef enum ver_level {
    VER_BOX,
    VER_DERIVATIVE,
    VER_SLOPE,
    VER_AFFINE,
    VER_LINEAR,
    VER_LEVELS
} ver_level;

typedef struct ver_read {
    const ver_lstm *p;
    const ver_task *t;
    size_t n, H, D;
    bool reverse, overflows; /* overflows: float32 might, nothing is claimed */
    double *x;               /* (words, 4H) projected words */
    double *T, *gate;        /* (n, 4H) clean, by step */
    double *h, *c;           /* (n + 1, H) clean states before each step, and at the end */
    double *e_T;             /* (n, 4H) */
} ver_read;

/* Generators: what a word at a position adds to the deviations, in the order of the task's words;
 * those of references stay 0. Symbols: each is -1 to 1 times a vector. The deviation lies in m +
 * the generators' sum over positions + the sum of symbols +- e. */
typedef struct ver_affine {
    double *h, *c, *T;             /* (words, H), (words, H), (words, 4H) */
    double *sym_h, *sym_c, *sym_T; /* (symbols, H), (symbols, H), (symbols, 4H) */
    size_t symbols;
    double *m_h, *m_c, *m_T; /* (H), (H), (4H) */
    double *e_h, *e_c;       /* (H) */
    double *lo, *hi, *size,
        *hull;        /* (4H) scratch: range of the generators' sum, rounding, symbols */
    double *rest, *B; /* (H), (H, H) scratch */
    bool *plain;      /* (H) the cell comes as a box */
} ver_affine;

/* Every step with numbers for coefficients: Dc' = sum of P_q DT_q + F Dc + k_c +- d_c,
 * Dh' = E DT_o + G Dc' + k_h +- d_h. */
typedef struct ver_lines {
    double *P;                                 /* (n, 3H) */
    double *F, *k_c, *d_c, *E, *G, *k_h, *d_h; /* (n, H) */
} ver_lines;

typedef struct ver_tube {
    ver_level level;
    iv *P, *E, *G, *F; /* (n, 3H), (n, H) each */
    double *e_c;       /* (n, H) */
    double e_h;
    iv *T, *slope, *act, *dT; /* (4H) of the step in work */
    iv *h, *c, *c_next;       /* (H) states: at the end, those after the last step */
    iv *h_at, *c_at;          /* (n + 1, H) states before each step, and at the end */
    double *far_T;            /* (n, 4H) largest deviations */
    ver_affine a;             /* these two from VER_AFFINE on */
    ver_lines lines;
} ver_tube;

size_t ver_place(const ver_read *r, size_t step); /* position read at a step */
stet_status ver_read_text(ver_read *r, const ver_model *m, const ver_task *t, bool reverse,
                          arena *a);
stet_status ver_tube_build(const ver_read *r, ver_level level, arena *a, ver_tube *out);

/* What a margin feels of a direction: the sum over units of om_i Dh_i, unit i after at[i] words, or
 * not at all where the text has fewer; after each of them where `at` is NULL. */
typedef struct ver_aim {
    const double *om;
    const size_t *at;
} ver_aim;
static inline double ver_feels(const ver_aim *a, size_t state, size_t i)
{
    return !a->at || a->at[i] == state ? a->om[i] : 0;
}

/* ver_lines.c: a step's lines, and the way back along them: what each word adds at least to what is
 * felt, added to take (words), and what is lost beside it. It may end at the box of any state, unless
 * `all` words are to be told apart. INFINITY: nothing is proved. */
stet_status ver_lines_new(const ver_read *r, arena *a, ver_lines *out);
void ver_lines_cell(const ver_read *r, ver_tube *t, size_t step);
void ver_lines_hidden(const ver_read *r, ver_tube *t, size_t step);
stet_status ver_lines_back(const ver_read *r, const ver_tube *t, const ver_aim *aim, bool all,
                           arena *a, double *take, double *loss);

/* ver_affine.c: the generators' part of a step, after the boxes' part. */
stet_status ver_affine_new(const ver_read *r, arena *a, ver_affine *out);
void ver_affine_gates(const ver_read *r, ver_tube *t, size_t step);
void ver_affine_cell(const ver_read *r, ver_tube *t, size_t step);
void ver_affine_hidden(const ver_read *r, ver_tube *t, size_t step);

#endif
