/* bound/gbm_cnn.h - the growth bound matrix of a convolution over words with max-pooling:
 *
 *     y_f = max over t of phi(b_f + sum over l of w[f, :, l] . v_{t+l}),   phi ReLU or tanh
 *     |dy_f / dv_{p,c}| <= max over the taps l that can meet word p of |w[f, c, l]|
 *
 * The bound is attained, needs no boxes and forgets only which window wins. The compact form takes
 * the largest entry over all positions p: that of any word at least k - 1 places from both ends. */
#ifndef BOUND_GBM_CNN_H
#define BOUND_GBM_CNN_H

#include "tensor/tensor.h"

/* One kernel size, as nn.Conv1d stores it. */
typedef struct conv_weights {
    size_t F, D, k;
    const real *w; /* (F, D, k) */
} conv_weights;

/* m (F, D): the compact form. A weight that is not finite gives a bound of infinity. */
void gbm_conv(const conv_weights *w, real *m);
/* dw (F, D, k) += m_ . dm / dw: the sign of the first tap of greatest modulus. `m` as gbm_conv gave
 * it. */
void gbm_conv_back(const conv_weights *w, const real *m, const real *m_, real *dw);

/* m (F, N, D): exact, for texts of N words. STET_EUSAGE when N < k: such texts are padded first. */
stet_status gbm_conv_full(const conv_weights *w, size_t N, real *m);

#endif
