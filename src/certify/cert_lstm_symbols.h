/* certify/cert_lstm_symbols.h - a box that remembers where it came from.
 *
 * A box of errors goes through a step by the sizes of the coefficients, and grows where their signs
 * would let it shrink. So each unit's error becomes a symbol, a vector that counts -1 to 1 times,
 * and symbols go through steps like generators. Those that are nearly a box again, or too many, are
 * turned back into one. */
#ifndef CERTIFY_CERT_LSTM_SYMBOLS_H
#define CERTIFY_CERT_LSTM_SYMBOLS_H

#include "base/arena.h"

typedef struct lstm_symbols {
    size_t H, n;
    size_t most;                      /* so many are kept after a step, which adds up to 2H */
    size_t old;                       /* those behind are new: h or c of one unit, no more */
    uint32_t *unit;                   /* (2H) that unit */
    double *h, *c;                    /* (n, H) */
    double *T;                        /* (n, 4H) pre-activations */
    double *hull_T, *hull_c, *hull_h; /* (4H), (H), (H) sums of sizes */
    double *score, *order;            /* (n) */
} lstm_symbols;

lstm_symbols *symbols_new(size_t H, size_t most,
                          arena *a); /* NULL: out of memory; most 0: none, ever */
/* Through a step, station by station; each leaves its hull. Rounding is for the caller. */
void symbols_gates(lstm_symbols *s, const double *ut);
void symbols_cell(lstm_symbols *s, const double *P, const double *F);
void symbols_hidden(lstm_symbols *s, const double *E, const double *G);
/* Some symbols join the box e_h, e_c (H), then all of it becomes symbols. */
void symbols_renew(lstm_symbols *s, double *e_h, double *e_c);

#endif
