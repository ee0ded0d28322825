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

/* 0, 1, 2, ... up to n, kept for the next time; NULL: a failure. */
static const uint32_t *numbers(cuda_device *d, size_t n)
{
    if (d->numbers && n <= d->n_numbers)
        return d->numbers;
    store *s = d->scratch.store;
    const size_t room = 2 * n + THREADS;
    uint32_t *more = static_cast<uint32_t *>(store_alloc(s, room, sizeof *more));
    if (!more)
        return NULL;
    if (each(d, "numbering", room, own_number{more}) != STET_OK) {
        store_release(s, more);
        return NULL;
    }
    store_release(s, d->numbers);
    d->numbers = more;
    d->n_numbers = room;
    return more;
}

/* A radix sort keeps the order of equal keys. */
stet_status cuda_sort(scratch *mem, const uint32_t *key, size_t n, size_t most, sorted_keys *out)
{
    cuda_device *d = mem->d;
    if (n > INT32_MAX)
        return error_set(STET_EDEVICE, "%zu terms of a gradient are more than the GPU sorts", n);
    int bits = 1;
    while (bits < 32 && most >> bits)
        bits++;
    const uint32_t *place = numbers(d, n);
    if (!place)
        return d->status == STET_OK ? STET_ENOMEM : d->status;
    uint32_t *sorted = mem->take<uint32_t>(2 * n), *from = sorted + n;
    size_t bytes = 0;
    cub::DeviceRadixSort::SortPairs(NULL, bytes, key, sorted, place, from, (int)n, 0, bits,
                                    d->stream);
    char *space = sorted ? mem->take<char>(bytes) : NULL;
    if (!space)
        return STET_ENOMEM;
    const cudaError_t e = cub::DeviceRadixSort::SortPairs(space, bytes, key, sorted, place, from,
                                                          (int)n, 0, bits, d->stream);
    *out = sorted_keys{sorted, from};
    return e == cudaSuccess ? STET_OK : cuda_failed(d, "sorting", cudaGetErrorString(e));
}
