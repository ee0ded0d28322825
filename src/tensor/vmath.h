/* tensor/vmath.h - branch-free scalar forms of exp, tanh, sigmoid that vectorise when inlined into a
 * SIMD_CLONES loop: the fused recurrent and sequence kernels use them in place. */
#ifndef TENSOR_VMATH_H
#define TENSOR_VMATH_H

/* Written by the owner of cpu/vec_math.c: static ALWAYS_INLINE real v_exp(real), v_tanh(real), v_sigmoid(real), ... */

#endif
