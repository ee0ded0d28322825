/* tensor/cuda/blas.cuh - cuBLAS for matmul.cu. */
#ifndef TENSOR_CUDA_BLAS_CUH
#define TENSOR_CUDA_BLAS_CUH

#include "tensor/cuda/device.cuh"

/* The device's handle, made for the first product: what attacks and certificates ask needs none, and it
 * takes a while. store.cu */
stet_status cuda_blas(cuda_device *d, cublasHandle_t *out);

#endif
