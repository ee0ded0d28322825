/* certify/cert_lstm_walk.h - between cert_lstm_tube.c, which walks along the text, and
 * cert_lstm_affine.c, which carries the generators beside it. */
#ifndef CERTIFY_CERT_LSTM_WALK_H
#define CERTIFY_CERT_LSTM_WALK_H

#include "certify/cert_lstm.h"

/* Where the walk stands. Before a step the tube has boxes up to h, c of row `step`. */
typedef struct lstm_walk {
    const lstm_text *t;
    lstm_tube *tube;
    size_t step, H;
    double eps;            /* relative rounding of a sum over H terms */
    double *mid, *rad;     /* (4H) */
    double *h_mid, *h_rad; /* (H) */
    ivals x;               /* (4H) what the words of the position may be */
    ivals act, slope;      /* (4H) gates, and their slopes or derivatives */
    ivals dT;              /* (4H) deviations: of the pre-activations, */
    ivals dh, dc;          /* (H) of the state before the step, */
    ivals dc_next;         /* (H) and of the cell after it */
    ivals tau;             /* (H) tanh of the cell after it */
    ivals bt;              /* (H, H) */
    ivals out;             /* (H) */
    struct affine *affine; /* from TUBE_AFFINE on */
} lstm_walk;

/* The generators' own memory, which stays with the tube, and what the walk needs beside them. */
stet_status affine_alloc(lstm_tube *tube, const lstm_text *t, arena *a);
stet_status affine_start(lstm_walk *w, arena *a);
/* The three stations of a step: pre-activations, cell and hidden state become what both the boxes
 * and the generators allow. */
void affine_gates(lstm_walk *w);
void affine_cell(lstm_walk *w);
void affine_hidden(lstm_walk *w);

/* Lines of the step, for cell and hidden state: the middles of the coefficients or, from
 * TUBE_LINEAR on, for each unit what leaves the smaller box. */
void lines_cell(lstm_walk *w);
void lines_hidden(lstm_walk *w);

#endif
