/* tensor/cuda/complex.cuh - complex numbers in double, and S4's channels: a warp has a channel, a lane
 * some of its states. */
#ifndef TENSOR_CUDA_COMPLEX_CUH
#define TENSOR_CUDA_COMPLEX_CUH

#include "tensor/cuda/device.cuh"

struct cplx {
    double re, im;
};

static __device__ inline cplx operator+(cplx x, cplx y)
{
    return cplx{x.re + y.re, x.im + y.im};
}

static __device__ inline cplx operator*(double by, cplx x)
{
    return cplx{by * x.re, by * x.im};
}

static __device__ inline cplx mul(cplx x, cplx y)
{
    return cplx{x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static __device__ inline cplx mul_conj(cplx x, cplx y) /* conj(x) y */
{
    return cplx{x.re * y.re + x.im * y.im, x.re * y.im - x.im * y.re};
}

static __device__ inline cplx conj_of(cplx x)
{
    return cplx{x.re, -x.im};
}

static __device__ inline double re_mul(cplx x, cplx y) /* Re(x y) */
{
    return x.re * y.re - x.im * y.im;
}

static __device__ inline double re_mul_conj(cplx x, cplx y) /* Re(conj(x) y) */
{
    return x.re * y.re + x.im * y.im;
}

static __device__ inline cplx pair(const float *x, size_t at)
{
    return cplx{(double)x[2 * at], (double)x[2 * at + 1]};
}

/* x += d, where a gradient is wanted. */
static __device__ inline void add_pair(float *x, size_t at, cplx d)
{
    if (x) {
        x[2 * at] += (float)d.re;
        x[2 * at + 1] += (float)d.im;
    }
}

static __device__ inline void add_one(float *x, size_t at, double d)
{
    if (x)
        x[at] += (float)d;
}

/* ---- channels ----------------------------------------------------------------------------- */

enum { MAX_STATES = 4 * WARP, CHANNELS = 4 }; /* of a channel; of a block */

static inline stet_status s4_states(const node *n, size_t states)
{
    return states <= MAX_STATES
               ? STET_OK
               : error_set(STET_ENOTSUP, "op %s: %zu states are more than the GPU's %d",
                           n->op->name, states, MAX_STATES);
}

/* Blocks of CHANNELS warps; the kernel's parameter is how many states a lane has. */
#define FOR_STATES(kernel, channels, states, ...)                                                  \
    do {                                                                                           \
        const dim3 block_(WARP, CHANNELS);                                                         \
        const unsigned grid_ = (unsigned)(((channels) + CHANNELS - 1) / CHANNELS);                 \
        cudaStream_t stream_ = cuda_now()->stream;                                                 \
        if ((channels) == 0)                                                                       \
            break;                                                                                 \
        if ((states) <= WARP)                                                                      \
            kernel<1><<<grid_, block_, 0, stream_>>>(__VA_ARGS__);                                 \
        else if ((states) <= 2 * WARP)                                                             \
            kernel<2><<<grid_, block_, 0, stream_>>>(__VA_ARGS__);                                 \
        else                                                                                       \
            kernel<4><<<grid_, block_, 0, stream_>>>(__VA_ARGS__);                                 \
    } while (0)

#endif
