/* bound/cuda/sets.cu - see sets.cuh. */
#include "bound/cuda/sets.cuh"

/* A block has one word and some columns. */
static __global__ void extremes_kernel(set_view s, float eps, float *table, size_t cols)
{
    const size_t j = (size_t)blockIdx.y * THREADS + threadIdx.x;
    for (size_t i = blockIdx.x; i < s.n_moving && j < cols; i += gridDim.x) {
        const uint32_t v = s.moving[i], end = s.start[v + 1];
        const float own = table[v * cols + j];
        float lo = own, hi = own;
#pragma unroll 4
        for (uint32_t k = s.start[v]; k < end; k++) {
            const float x = table[s.alt[k] * cols + j];
            lo = x < lo ? x : lo;
            hi = x > hi ? x : hi;
        }
        if (eps < 1) {
            lo = own + eps * (lo - own);
            hi = own + eps * (hi - own);
        }
        table[(s.n_rows + i) * cols + j] = lo;
        table[(s.n_rows + s.n_moving + i) * cols + j] = hi;
    }
}

stet_status sets_extremes(cuda_device *d, const set_view *s, double eps, float *table, size_t cols)
{
    const dim3 grid(blocks_for(s->n_moving, 1), (unsigned)((cols + THREADS - 1) / THREADS));
    if (s->n_moving == 0 || cols == 0)
        return STET_OK;
    extremes_kernel<<<grid, THREADS, 0, d->stream>>>(*s, (float)eps, table, cols);
    return cuda_launched(d, "extremes over sets");
}
