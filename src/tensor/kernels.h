/* tensor/kernels.h - the dense primitives under the ops: products and vector functions.
 * All are deterministic and independent of the thread count. */
#ifndef TENSOR_KERNELS_H
#define TENSOR_KERNELS_H

#include "base/arena.h"
#include "tensor/tensor.h"

/* Before the first product, and after the number of threads has grown: what the products need, or why it cannot be had. */
stet_status gemm_prepare(void);

/* c = alpha op(a) op(b) + beta c; row-major, op(a) is (m, k), op(b) is (k, n); leading dimensions
 * in elements. Cut into fixed blocks that run on the pool, each on one BLAS thread. STET_ENOMEM where
 * BLAS would have no room for a copy of b, which it makes of small ones that are not transposed. */
stet_status gemm(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a,
                 size_t lda, const real *b, size_t ldb, real beta, real *c, size_t ldc);
/* The same where k may be long and c small, as in weight gradients: cuts k too; the parts, added in
 * order, are in `mem` meanwhile. */
stet_status gemm_long(arena *mem, bool ta, bool tb, size_t m, size_t n, size_t k, real alpha,
                      const real *a, size_t lda, const real *b, size_t ldb, real beta, real *c,
                      size_t ldc);
/* The same on the calling thread alone, for use inside pool pieces. */
stet_status gemm_serial(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a,
                        size_t lda, const real *b, size_t ldb, real beta, real *c, size_t ldc);

/* Vector functions, within 2 ulp of the double-precision result (float build); y may be x. NaN
 * stays NaN, overflow saturates as libm. */
void vec_exp(const real *x, real *y, size_t n);
void vec_log(const real *x, real *y, size_t n);
void vec_tanh(const real *x, real *y, size_t n);
void vec_sigmoid(const real *x, real *y, size_t n);
void vec_gelu(const real *x, real *y, size_t n);       /* x Phi(x) */
void vec_gelu_grad(const real *x, real *dy, size_t n); /* Phi(x) + x phi(x) */

/* y += alpha x */
void vec_axpy(real alpha, const real *x, real *y, size_t n);
real vec_dot(const real *x, const real *y, size_t n); /* fixed order of summation */
double vec_sumsq(const real *x, size_t n);

const char *blas_name(void);
const char *simd_level(void); /* "baseline", "avx2", "avx512": what the loader chose */

#endif
