/* tensor/cpu/custom.c - the op that brings its own kernels. */
#include "tensor/op_args.h"

stet_status cpu_custom_fwd(tape *t, node *n)
{
    return ((const custom_args *)n->args)->forward(t, n);
}

stet_status cpu_custom_bwd(tape *t, node *n)
{
    return ((const custom_args *)n->args)->backward(t, n);
}
