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

#endif
