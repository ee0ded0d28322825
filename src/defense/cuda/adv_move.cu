/* defense/cuda/adv_move.cu - the beginning and a step of a perturbation of word vectors
 * (../embedding_adv.h). A block has a text, a warp a word at a time; norms are in double. */
#include "tensor/cuda/device.cuh"
#include "tensor/cuda/rng.cuh"

extern "C" {
#include "defense/defense_args.h"
}

enum { MOVERS = 1024, MOVER_WARPS = MOVERS / WARP };

struct mover {
    double step, radius;
    int norm;
    const uint32_t *start;
    size_t D;
    const float *delta, *g;
    float *out;
};

/* Squares summed, and the largest magnitude; NaN stays. */
struct norms {
    double sum, most;
    __device__ void take(double x)
    {
        const double at = fabs(x);
        most = at > most || isnan(at) ? at : most;
        sum += at * at;
    }
    __device__ double of(bool largest) const
    {
        return largest ? most : sqrt(sum);
    }
};

static __device__ norms warp_norms(norms x)
{
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
        const double at = __shfl_xor_sync(0xffffffffu, x.most, lane);
        x.most = at > x.most || isnan(at) ? at : x.most;
    }
    return norms{warp_sum(x.sum), x.most};
}

/* The same for all threads of the block. */
static __device__ norms block_norms(norms x)
{
    __shared__ norms part[MOVER_WARPS];
    x = warp_norms(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = x;
    __syncthreads();
    return warp_norms(part[threadIdx.x % WARP]);
}

#define FOR_WORDS(first, end, i)                                                                   \
    for (size_t i = (first) + threadIdx.x / WARP; i < (end); i += MOVER_WARPS)
#define FOR_ENTRIES(D, i, at)                                                                      \
    for (size_t at = (i) * (D) + threadIdx.x % WARP; at < ((i) + 1) * (D); at += WARP)

static __global__ void __launch_bounds__(MOVERS) move_kernel(mover m)
{
    const size_t first = m.start[blockIdx.x], end = m.start[blockIdx.x + 1];
    const bool largest = m.norm == ADV_LINF;
    norms of_g = {0, 0}, of_out = {0, 0};
    if (m.norm != ADV_TOKEN) {
        FOR_WORDS(first, end, i)
        FOR_ENTRIES(m.D, i, at)
        of_g.take((double)m.g[at]);
        of_g = block_norms(of_g);
    }
    FOR_WORDS(first, end, i)
    {
        norms of_word = of_g;
        if (m.norm == ADV_TOKEN) {
            FOR_ENTRIES(m.D, i, at)
            of_word.take((double)m.g[at]);
            of_word = warp_norms(of_word);
        }
        const double by = m.step / fmax(of_word.of(largest), 1e-8);
        FOR_ENTRIES(m.D, i, at)
        {
            const float x = (float)((double)m.delta[at] + by * (double)m.g[at]);
            m.out[at] = x;
            of_out.take((double)x);
        }
    }
    const double R = m.radius, size = block_norms(of_out).of(largest);
    if (!(R > 0) || !(size > R))
        return;
    FOR_WORDS(first, end, i) /* each thread those that it wrote */
    FOR_ENTRIES(m.D, i, at)
    m.out[at] =
        (float)(largest ? fmin(fmax((double)m.out[at], -R), R) : (double)m.out[at] * (R / size));
}

static __global__ void noise_kernel(uint64_t key, float *out, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        out[i] = (float)(2 * ((double)(rng_number(key, i) >> 11) * 0x1p-53) - 1);
}

extern "C" stet_status cuda_adv_noise_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const size_t count = shape_count(n->shape);
    if (count == 0)
        return STET_OK;
    noise_kernel<<<blocks_for(count, THREADS), THREADS, 0, d->stream>>>(
        ((const adv_noise_args *)n->args)->key, n->value, count);
    return cuda_launched(d, n->op->name);
}

static __global__ void __launch_bounds__(MOVERS) begin_kernel(mover m)
{
    const size_t first = m.start[blockIdx.x] * m.D, end = m.start[blockIdx.x + 1] * m.D;
    const double size = m.norm == ADV_LINF ? m.step : m.step / sqrt((double)(end - first));
    for (size_t i = first + threadIdx.x; i < end; i += MOVERS)
        m.out[i] = (float)((double)m.delta[i] * size);
}

extern "C" stet_status cuda_adv_begin_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const adv_move_args *a = (const adv_move_args *)n->args;
    const mover m = {a->step,         a->radius, a->norm, a->at->start, shape_cols(n->shape),
                     n->in[0]->value, nullptr,   n->value};
    if (a->at->n_texts == 0)
        return STET_OK;
    begin_kernel<<<(unsigned)a->at->n_texts, MOVERS, 0, d->stream>>>(m);
    return cuda_launched(d, n->op->name);
}

extern "C" stet_status cuda_adv_move_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const adv_move_args *a = (const adv_move_args *)n->args;
    const mover m = {a->step,         a->radius,       a->norm, a->at->start, shape_cols(n->shape),
                     n->in[0]->value, n->in[1]->value, n->value};
    if (a->at->n_texts == 0)
        return STET_OK;
    move_kernel<<<(unsigned)a->at->n_texts, MOVERS, 0, d->stream>>>(m);
    return cuda_launched(d, n->op->name);
}

/* The same in two parts, side by side in `out` (T, 2 D): see ../tavat.h. */
struct pair_mover {
    double step, radius;
    const uint32_t *start;
    size_t D;
    const float *of_text, *of_words, *g;
    float *out;
};

static __device__ double word_norm(const float *x, size_t D)
{
    norms n = {0, 0};
    for (size_t d = threadIdx.x % WARP; d < D; d += WARP)
        n.take((double)x[d]);
    return warp_norms(n).of(false);
}

static __global__ void __launch_bounds__(MOVERS) pair_kernel(pair_mover m)
{
    const size_t first = m.start[blockIdx.x], end = m.start[blockIdx.x + 1], D = m.D;
    norms of_g = {0, 0}, largest = {0, 0}, both = {0, 0};
    FOR_WORDS(first, end, i)
    FOR_ENTRIES(D, i, at)
    of_g.take((double)m.g[at]);
    const double by = m.step / fmax(block_norms(of_g).of(false), 1e-8);
    FOR_WORDS(first, end, i)
    {
        const double by_word = m.step / fmax(word_norm(m.g + i * D, D), 1e-8);
        FOR_ENTRIES(D, i, at)
        {
            float *to = m.out + at + i * D;
            to[0] = (float)((double)m.of_text[at] + by * (double)m.g[at]);
            to[D] = (float)((double)m.of_words[at] + by_word * (double)m.g[at]);
        }
        __syncwarp();
        largest.take(word_norm(m.out + (2 * i + 1) * D, D));
    }
    const double most = fmax(block_norms(largest).of(true), 1e-30);
    FOR_WORDS(first, end, i)
    {
        const double share = word_norm(m.out + (2 * i + 1) * D, D) / most;
        __syncwarp();
        FOR_ENTRIES(D, i, at)
        {
            float *to = m.out + at + i * D;
            to[D] = (float)((double)to[D] * share);
            both.take((double)to[0] + (double)to[D]);
        }
    }
    const double size = block_norms(both).of(false);
    if (!(m.radius > 0) || !(size > m.radius))
        return;
    FOR_WORDS(first, end, i)
    FOR_ENTRIES(D, i, at)
    {
        float *to = m.out + at + i * D;
        to[0] = (float)((double)to[0] * (m.radius / size));
        to[D] = (float)((double)to[D] * (m.radius / size));
    }
}

extern "C" stet_status cuda_tavat_move_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const adv_move_args *a = (const adv_move_args *)n->args;
    const pair_mover m = {a->step,
                          a->radius,
                          a->at->start,
                          shape_cols(n->shape) / 2,
                          n->in[0]->value,
                          n->in[1]->value,
                          n->in[2]->value,
                          n->value};
    if (a->at->n_texts == 0)
        return STET_OK;
    pair_kernel<<<(unsigned)a->at->n_texts, MOVERS, 0, d->stream>>>(m);
    return cuda_launched(d, n->op->name);
}
