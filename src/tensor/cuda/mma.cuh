/* tensor/cuda/mma.cuh - products of small tiles on tensor cores: bf16 factors, float sums.
 *
 * A warp multiplies A (16, 16) by B (16, 8). Lane l has g = l / 4 and t = l % 4:
 *
 *     A: a[0] is row g, columns 2t and 2t + 1; a[1] row g + 8; a[2] and a[3] the same eight columns on
 *     B: b[0] is rows 2t and 2t + 1 of column g; b[1] eight rows on
 *     sums (16, 8): c[0], c[1] are row g, columns 2t and 2t + 1; c[2], c[3] row g + 8
 *
 * so the sums of two neighbouring tiles are, rounded, an A of the next product. */
#ifndef TENSOR_CUDA_MMA_CUH
#define TENSOR_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <stdint.h>

/* Two numbers as bf16, the first in the lower half. */
static __device__ inline uint32_t bf16_pair(float x, float y)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t *>(&both);
}

static __device__ inline void mma_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four tiles of 8 by 8 from shared memory: lane l gives the address of row l % 8 of tile l / 8, at a
 * multiple of 16 bytes, and gets of each tile row g, columns 2t and 2t + 1. */
static __device__ inline void load_tiles(const __nv_bfloat16 *row, uint32_t out[4])
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at));
}

/* The same of the tiles transposed. */
static __device__ inline void load_tiles_turned(const __nv_bfloat16 *row, uint32_t out[4])
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at));
}

#endif
