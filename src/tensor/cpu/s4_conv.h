/* tensor/cpu/s4_conv.h - the two ways to convolve, for tests and benchmarks. */
#ifndef TENSOR_CPU_S4_CONV_H
#define TENSOR_CPU_S4_CONV_H

#include "tensor/ops.h"

/* The op with another limit: 0 takes the spectra for every text, SIZE_MAX for none. */
stet_status s4_conv_forward(tape *t, node *n, size_t direct_max);
stet_status s4_conv_backward(tape *t, node *n, size_t direct_max);

#endif
