/* tensor/cuda/device_none.c - a build without CUDA. */
#include "tensor/cuda/device.h"

const char *cuda_device_text(void)
{
    return "none (built without CUDA)";
}

void cuda_device_start(void)
{
}
