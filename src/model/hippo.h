/* model/hippo.h - the HiPPO-LegS matrix, the start of every S4 channel. */
#ifndef MODEL_HIPPO_H
#define MODEL_HIPPO_H

#include "base/error.h"

/* A = V (Lambda - P P^*) V^* in diagonal-plus-low-rank form, with Lambda = -1/2 + i lambda_im. Of
 * each pair of conjugate modes the one with negative lambda_im is kept, in rising order, n_state /
 * 2 in all; p = V^* P and b = V^* B hold (re, im) of each. The phase of a mode is free; it is fixed
 * by a real and positive first entry of its column of V. STET_EUSAGE for an odd or zero n_state. */
stet_status hippo_legs(size_t n_state, double *lambda_im, double *p, double *b);

#endif
