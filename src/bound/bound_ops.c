/* bound/bound_ops.c - the list of this layer's ops. */
#include "bound/bound_ops.h"

#define ROW(name) &name##_op,
const op_desc *const bound_ops[] = {BOUND_OPS(ROW) NULL};
