/* tensor/cuda/device.cu - asks the CUDA runtime about the first device. */
#include <cstdio>
#include <cuda_runtime.h>

#include "tensor/cuda/device.h"

extern "C" const char *cuda_device_text(void)
{
    static char text[320];
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n == 0) {
        std::snprintf(text, sizeof text, "none (%s)",
                      e != cudaSuccess ? cudaGetErrorString(e) : "no CUDA device");
        return text;
    }
    cudaDeviceProp p;
    e = cudaGetDeviceProperties(&p, 0);
    if (e != cudaSuccess)
        std::snprintf(text, sizeof text, "none (%s)", cudaGetErrorString(e));
    else
        std::snprintf(text, sizeof text, "%s, %.0f GiB, compute capability %d.%d", p.name,
                      (double)p.totalGlobalMem / (1024.0 * 1024.0 * 1024.0), p.major, p.minor);
    return text;
}

extern "C" void cuda_device_start(void)
{
    cudaSetDevice(0);
    cudaFree(NULL);
    cudaGetLastError();
}
