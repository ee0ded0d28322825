/* tensor/host/vec_math.c - the vector functions of kernels.h: loops over the forms of vmath.h. */
#include "tensor/kernels.h"

#include "tensor/vmath.h"

/* The clones are static behind a plain function: clang 14 gives the dispatched symbol of a clone a
 * name of its own, which other files could not call. y may be x. */
#define VEC_FUNCTION(name)                                                                         \
    SIMD_CLONES static void name##_loop(const real *x, real *y, size_t n)                          \
    {                                                                                              \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = v_##name(x[i]);                                                                 \
    }                                                                                              \
    void vec_##name(const real *x, real *y, size_t n)                                              \
    {                                                                                              \
        name##_loop(x, y, n);                                                                      \
    }

VEC_FUNCTION(exp)
VEC_FUNCTION(log)
VEC_FUNCTION(tanh)
VEC_FUNCTION(sigmoid)
VEC_FUNCTION(gelu)
VEC_FUNCTION(gelu_grad)
