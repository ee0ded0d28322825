/* tensor/cuda/rng.cuh - numbers of base/rng.h's streams, drawn on the GPU: the same bits. */
#ifndef TENSOR_CUDA_RNG_CUH
#define TENSOR_CUDA_RNG_CUH

#include <stdint.h>

#define RNG_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static __device__ uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* rng_stream().key */
static __device__ uint64_t rng_key_of(uint64_t seed, uint64_t purpose, uint64_t index)
{
    uint64_t key = mix64(seed + RNG_GOLDEN);
    key = mix64(key + (purpose + 1) * RNG_GOLDEN);
    return mix64(key + (index + 1) * RNG_GOLDEN);
}

/* Number `counter` of the stream: rng_u64(). */
static __device__ uint64_t rng_number(uint64_t key, uint64_t counter)
{
    return mix64(mix64(key + counter * RNG_GOLDEN) ^ (key << 32 | key >> 32));
}

/* The rest of base/rng.c's streams: the same numbers, up to the last digits of logarithms. */
struct stream {
    uint64_t key, counter;
    __device__ double uniform() /* rng_double() */
    {
        return (double)(rng_number(key, counter++) >> 11) * 0x1p-53;
    }
    __device__ double normal() /* rng_normal() */
    {
        const double u = 1.0 - uniform();
        return sqrt(-2 * log(u)) * cospi(2 * uniform());
    }
    __device__ double gamma(double a) /* rng_gamma() */
    {
        if (!(a > 0))
            return 0;
        if (a == 1)
            return -log(1 - uniform());
        /* Below 1 the host draws for a + 1 first, then what it is multiplied by. */
        const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d);
        double v;
        for (;;) {
            const double x = normal(), t = 1 + c * x;
            v = t * t * t;
            if (t > 0 && log(1 - uniform()) < 0.5 * x * x + d - d * v + d * log(v))
                break;
        }
        return a < 1 ? d * v * pow(1 - uniform(), 1 / a) : d * v;
    }
};

#endif
