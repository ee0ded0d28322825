/* tensor/cuda/gates.cu - dropout, with the masks of the CPU, and the gated linear unit. */
#include "tensor/cuda/device.cuh"
#include "tensor/cuda/rng.cuh"

/* dropout ------------------------------------------------------------------------------------ */

enum { MASK_PIECE = 16384 }; /* entries with one stream: RANGE_ELEMENTS of the CPU */

/* cpu/gates.c: entry i of a piece. */
static __device__ uint32_t mix32(uint32_t x)
{
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
    return x ^ x >> 16;
}

/* A block has a part of a piece, so that its threads make the key once for several entries. The
 * mask costs less to draw again for the gradient than to keep. */
enum { PARTS = 8 };

static __global__ void dropout_kernel(const float *in, float *out, size_t n, uint64_t seed,
                                      uint32_t drop, float scale, bool add)
{
    const size_t piece = blockIdx.x / PARTS, first = piece * MASK_PIECE;
    const uint64_t key = rng_number(rng_key_of(seed, STREAM_DROPOUT, piece), 0);
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    const uint32_t begin = blockIdx.x % PARTS * (MASK_PIECE / PARTS);
    for (uint32_t i = begin + threadIdx.x; i < begin + MASK_PIECE / PARTS; i += THREADS) {
        const size_t at = first + i;
        if (at >= n)
            return;
        const bool keep = mix32(mix32(i * UINT32_C(0x9e3779b9) + low) ^ high) >= drop;
        out[at] = (add ? out[at] : 0) + (keep ? in[at] * scale : 0);
    }
}

static stet_status run_dropout(const node *n, const float *in, float *out, bool add)
{
    const dropout_args *args = (const dropout_args *)n->args;
    const size_t count = shape_count(n->shape), pieces = (count + MASK_PIECE - 1) / MASK_PIECE;
    if (pieces > INT32_MAX / PARTS)
        return error_set(STET_EDEVICE, "dropout: %zu entries are too many for the GPU", count);
    if (count == 0)
        return STET_OK;
    dropout_kernel<<<(unsigned)(pieces * PARTS), THREADS, 0, cuda_now()->stream>>>(
        in, out, count, args->key, (uint32_t)(args->p * 0x1p32), (float)(1 / (1 - args->p)), add);
    return cuda_launched(cuda_now(), "dropout");
}

extern "C" stet_status cuda_dropout_fwd(tape *, node *n)
{
    return run_dropout(n, n->in[0]->value, n->value, false);
}

extern "C" stet_status cuda_dropout_bwd(tape *, node *n)
{
    node *x = n->in[0];
    return run_dropout(n, n->grad, x->grad, !grad_is_fresh(x));
}

/* gated linear unit: y = u sigmoid(v) for x = (u, v) ----------------------------------------- */

static __device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

struct glu_value {
    const float *x;
    size_t c;
    float *y;
    __device__ void operator()(size_t i) const
    {
        const float *u = x + i / c * 2 * c + i % c;
        y[i] = u[0] * sigmoid(u[c]);
    }
};

struct glu_slope {
    const float *x, *dy;
    size_t c;
    float *dx;
    bool fresh;
    __device__ void operator()(size_t i) const
    {
        const size_t at = i / c * 2 * c + i % c;
        const float gate = sigmoid(x[at + c]), d = dy[i] * gate;
        dx[at] = (fresh ? 0 : dx[at]) + d;
        dx[at + c] = (fresh ? 0 : dx[at + c]) + d * x[at] * (1 - gate);
    }
};

extern "C" stet_status cuda_glu_fwd(tape *, node *n)
{
    const glu_value f = {n->in[0]->value, shape_cols(n->shape), n->value};
    return each(cuda_now(), "glu", shape_count(n->shape), f);
}

extern "C" stet_status cuda_glu_bwd(tape *, node *n)
{
    node *x = n->in[0];
    const glu_slope f = {x->value, n->grad, shape_cols(n->shape), x->grad, grad_is_fresh(x)};
    return each(cuda_now(), "glu", shape_count(n->shape), f);
}
