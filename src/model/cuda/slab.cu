/* model/cuda/slab.cu - the rows and words of many batches (../slabs.h).
 *
 * A block has one batch in hand and a table with a place for every word, all zeros:
 *
 *     ids      row[t] = the word of token t; its place gets the largest ~t, which is its first use
 *     numbers  tokens in order, as many at a time as there are threads: those of first uses get the
 *              next slots, so that words stand as on the host; the place of a word gets slot + 1
 *     rows     row[t] = the slot of its word; then the places of these words are zeros again
 *
 * A slot + 1 is never taken for a ~t: there are fewer than 2^31 tokens. What meets in the table is a
 * maximum, so that the order of threads does not show. */
#include "tensor/cuda/device.cuh"
extern "C" {
#include "model/device_args.h"
}

enum { SLAB_THREADS = 1024, SLAB_WARPS = SLAB_THREADS / WARP };

/* A warp a text. */
static __device__ void take_ids(const text_source &from, const slab_batch &x, uint32_t *place)
{
    const uint32_t *start = x.head, *text = start + x.n_texts + 1;
    for (size_t i = threadIdx.x / WARP; i < x.n_texts; i += SLAB_WARPS) {
        const uint64_t first = from.start[text[i]];
        const bool empty = from.start[text[i] + 1] == first;
        const uint32_t begin = start[i], end = start[i + 1];
        for (uint32_t t = begin + threadIdx.x % WARP; t < end; t += WARP) {
            uint32_t id;
            if (from.framed && t == begin)
                id = from.before;
            else if (from.framed && t + 1 == end)
                id = from.after;
            else
                id = empty ? STET_UNK : from.ids[first + (t - begin) - from.framed];
            x.row[t] = id;
            atomicMax(&place[id], ~t);
        }
    }
}

/* Returns how many words there are, to every thread. */
static __device__ uint32_t number_words(const slab_batch &x, uint32_t *place)
{
    __shared__ uint32_t uses[SLAB_WARPS]; /* first ones, of each warp */
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t *word = x.row + x.n_tokens, n = 0;
    for (size_t at = 0; at < x.n_tokens; at += SLAB_THREADS) {
        const size_t t = at + threadIdx.x;
        const uint32_t id = t < x.n_tokens ? x.row[t] : 0;
        const bool first = t < x.n_tokens && place[id] == ~(uint32_t)t;
        const uint32_t all = __ballot_sync(0xffffffffu, first);
        if (lane == 0)
            uses[warp] = (uint32_t)__popc(all);
        __syncthreads();
        uint32_t slot = n + (uint32_t)__popc(all & ((1u << lane) - 1));
        for (uint32_t w = 0; w < SLAB_WARPS; w++) {
            slot += w < warp ? uses[w] : 0;
            n += uses[w];
        }
        if (first) {
            word[slot] = id;
            place[id] = slot + 1;
        }
        __syncthreads(); /* `uses` is filled again */
    }
    return n;
}

static __global__ void __launch_bounds__(SLAB_THREADS)
    slab_kernel(const __grid_constant__ slab_on s)
{
    uint32_t *place = s.slot + (size_t)blockIdx.x * s.n_words;
    for (size_t b = blockIdx.x; b < s.n; b += gridDim.x) {
        const slab_batch x = slab_batch_of(&s, b);
        const uint32_t *word = x.row + x.n_tokens;
        take_ids(s.from, x, place);
        __syncthreads();
        const uint32_t n = number_words(x, place); /* ends with a barrier */
        for (size_t t = threadIdx.x; t < x.n_tokens; t += SLAB_THREADS)
            x.row[t] = place[x.row[t]] - 1;
        __syncthreads(); /* every place is read before it is cleared */
        for (uint32_t v = threadIdx.x; v < n; v += SLAB_THREADS)
            place[word[v]] = 0;
        if (threadIdx.x == 0)
            s.count[b] = n;
        __syncthreads(); /* and cleared before the next batch */
    }
}

extern "C" stet_status cuda_slab(const slab_on *s)
{
    const size_t blocks = s->n < s->n_slots ? s->n : s->n_slots;
    if (blocks == 0)
        return STET_OK;
    slab_kernel<<<(unsigned)blocks, SLAB_THREADS, 0, cuda_now()->stream>>>(*s);
    return cuda_launched(cuda_now(), "assembling batches");
}
