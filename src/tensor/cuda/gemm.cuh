/* tensor/cuda/gemm.cuh - products of factors that are rounded already. */
#ifndef TENSOR_CUDA_GEMM_CUH
#define TENSOR_CUDA_GEMM_CUH

#include <cuda_bf16.h>

#include "tensor/cuda/device.cuh"

/* c (m, n) = op(a) op(b) + beta c as cuda_gemm does; m, n and k are not 0, and lda and ldb are multiples
 * of eight, as tensor cores read them. */
stet_status cuda_gemm_bf16(cuda_device *d, bool ta, bool tb, size_t m, size_t n, size_t k,
                           const __nv_bfloat16 *a, size_t lda, const __nv_bfloat16 *b, size_t ldb,
                           float beta, float *c);

#endif
