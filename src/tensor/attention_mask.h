/* tensor/attention_mask.h - which attention weights dropout leaves: a function of the op's key, the query,
 * the head and the position of the key, so that forward and backward, and every device, draw the same
 * without keeping it. C and CUDA read this file. */
#ifndef TENSOR_ATTENTION_MASK_H
#define TENSOR_ATTENTION_MASK_H

#include <stdint.h>

#ifdef __CUDACC__
#define MASK_FN static inline __host__ __device__
#else
#define MASK_FN static inline
#endif

/* One number for a query and head; well mixed, since positions are only counted on. */
MASK_FN uint64_t mask_row(uint64_t key, uint64_t query_and_head)
{
    uint64_t x = key + (query_and_head + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Is the weight of key `j` dropped? With a chance of limit / 2^32. */
MASK_FN int mask_drops(uint64_t row, uint32_t j, uint32_t limit)
{
    uint32_t x = (uint32_t)row + j * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15) ^ (uint32_t)(row >> 32)) * 0x846ca68bu;
    return (x ^ (x >> 16)) < limit;
}

MASK_FN uint32_t mask_limit(double p)
{
    return (uint32_t)(p * 4294967296.0);
}

#endif
