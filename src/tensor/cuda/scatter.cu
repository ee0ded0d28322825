/* tensor/cuda/scatter.cu - terms brought to where they meet, in their order. */
#include <cub/device/device_radix_sort.cuh>

#include "tensor/cuda/device.cuh"

struct own_number {
    uint32_t *to;
    __device__ void operator()(size_t i) const
    {
        to[i] = (uint32_t)i;
    }
};

/* A radix sort keeps the order of equal keys. */
stet_status cuda_sort(scratch *mem, const uint32_t *key, size_t n, size_t most, sorted_keys *out)
{
    cuda_device *d = mem->d;
    if (n > INT32_MAX)
        return error_set(STET_EDEVICE, "%zu terms of a gradient are more than the GPU sorts", n);
    int bits = 1;
    while (bits < 32 && most >> bits)
        bits++;
    uint32_t *place = mem->take<uint32_t>(3 * n), *sorted = place + n, *from = place + 2 * n;
    size_t bytes = 0;
    cub::DeviceRadixSort::SortPairs(NULL, bytes, key, sorted, place, from, (int)n, 0, bits,
                                    d->stream);
    char *space = place ? mem->take<char>(bytes) : NULL;
    if (!space)
        return STET_ENOMEM;
    TRY(each(d, "numbering", n, own_number{place}));
    const cudaError_t e = cub::DeviceRadixSort::SortPairs(space, bytes, key, sorted, place, from,
                                                          (int)n, 0, bits, d->stream);
    *out = sorted_keys{sorted, from};
    return e == cudaSuccess ? STET_OK : cuda_failed(d, "sorting", cudaGetErrorString(e));
}
