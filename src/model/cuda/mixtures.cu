/* model/cuda/mixtures.cu - the weights of mixtures of words (../device_args.h): Dirichlet distributions, from
 * the streams that the host would draw from. */
#include "tensor/cuda/device.cuh"
#include "tensor/cuda/rng.cuh"
extern "C" {
#include "base/rng.h"
#include "model/device_args.h"
}

/* A block has a text, a thread one copy of a word at a time. */
static __global__ void weights_kernel(mixed_batch b)
{
    for (size_t text = blockIdx.x; text < b.n_texts; text += gridDim.x) {
        const size_t begin = b.first[text], n = b.first[text + 1] - begin;
        for (size_t i = threadIdx.x; i < n * b.stride; i += THREADS) {
            const size_t t = i / b.stride, copy = i % b.stride;
            const uint32_t from = b.slot_at[begin + t], end = b.slot_at[begin + t + 1];
            float *const out = b.weight + copy;
            if (end - from == 1) {
                out[from * b.stride] = 1;
                continue;
            }
            const uint64_t key = rng_key_of(b.seed[text], STREAM_DEFENSE, mixture_stream(copy, t));
            stream s = {key, 0}, again = s;
            double sum = 0;
            for (uint32_t k = from; k < end; k++)
                sum += s.gamma(b.alpha);
            const bool none = !(sum > 0); /* alpha is 0, or nearly: one of them */
            const uint32_t one = none ? from + (uint32_t)(s.uniform() * (end - from)) : end;
            /* Drawn again, not kept: float has no numbers as small as a draw may be. */
            for (uint32_t k = from; k < end; k++)
                out[k * b.stride] = none ? (float)(k == one) : (float)(again.gamma(b.alpha) / sum);
        }
    }
}

extern "C" stet_status cuda_mixture_weights(const mixed_batch *b)
{
    cuda_device *d = cuda_now();
    weights_kernel<<<blocks_for(b->n_texts, 1), THREADS, 0, d->stream>>>(*b);
    return cuda_launched(d, "weights of mixtures");
}
