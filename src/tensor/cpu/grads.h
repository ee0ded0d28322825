/* tensor/cpu/grads.h - ways in which gradients reach an operand, shared by backward kernels. */
#ifndef TENSOR_CPU_GRADS_H
#define TENSOR_CPU_GRADS_H

#include "tensor/tape.h"

/* x->grad += n->grad, of equal count. */
void grad_add(node *x, const node *n);
/* The same, for an op that is done with n->grad: a fresh x takes the block over instead of copying
 * it. */
void grad_hand_over(node *x, node *n);

/* x->grad (c) += column sums of g (rows, c): pieces of rows in `real`, combined in order in double.
 */
stet_status grad_add_columns(tape *t, node *x, const real *g, size_t rows);
/* x->grad (c) += sum of the rows of partial (pieces, stride), of which the first c columns count.
 */
void grad_add_partials(node *x, const real *partial, size_t pieces, size_t stride);

#endif
