/* bound/s4_gate_norm.h - ranges of an S4 layer's second half, on the tape. */
#ifndef BOUND_S4_GATE_NORM_H
#define BOUND_S4_GATE_NORM_H

#include "tensor/ops.h"

/* LayerNorm(u + GLU(x)) for u (n, H) and x (n, 2 H) given by centre and radius; the result by
 * centre and radius too: (n, 2 H), centres first. gbm.md 6c. */
node *op_s4_gate_norm(tape *t, node *x, node *x_radius, node *u, node *u_radius, node *gamma,
                      node *beta, double eps);

#endif
