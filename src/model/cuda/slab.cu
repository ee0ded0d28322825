/* model/cuda/slab.cu - the rows and words of many batches (../slabs.h).
 *
 * A block has one batch in hand and a table with a place for every word, all zeros:
 *
 *     ids      row[t] = the word of token t; its place gets the largest ~t, which is its first use
 *     numbers  tokens in order, as many at a time as there are threads: those of first uses get the
 *              next slots, so that words stand as on the host; the place of a word gets slot + 1
 *     rows     row[t] = the slot of its word
 *     sets     the same for what may stand in the place of words: those that have no slot yet get
 *              the next ones
 *     clean    the places of all these words are zeros again
 *
 * A slot + 1 is never taken for a ~t: there are fewer than 2^31 tokens and substitutes. What meets in
 * the table is a maximum, so that the order of threads does not show. */
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

/* The words of `use` that have no slot get those from n on. Returns how many there are then, to every
 * thread, behind a barrier. */
static __device__ uint32_t number_words(const uint32_t *use, size_t n_uses, uint32_t *place,
                                        uint32_t *word, uint32_t n)
{
    __shared__ uint32_t uses[SLAB_WARPS]; /* first ones, of each warp */
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (size_t at = 0; at < n_uses; at += SLAB_THREADS) {
        const size_t t = at + threadIdx.x;
        const uint32_t id = t < n_uses ? use[t] : 0;
        const bool first = t < n_uses && place[id] == ~(uint32_t)t;
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

/* Words become the slots that their places name. */
static __device__ void to_slots(uint32_t *use, size_t n, const uint32_t *place)
{
    for (size_t i = threadIdx.x; i < n; i += SLAB_THREADS)
        use[i] = place[use[i]] - 1;
}

/* The sum of x over the threads up to this one; `sum` has that of all warps before the barrier. */
static __device__ uint64_t sum_to_here(uint64_t x, uint64_t *sum)
{
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (uint32_t d = 1; d < WARP; d *= 2) {
        const uint64_t before = __shfl_up_sync(0xffffffffu, x, d);
        x += lane >= d ? before : 0;
    }
    if (lane == WARP - 1)
        sum[warp] = x;
    __syncthreads();
    for (uint32_t w = 0; w < warp; w++)
        x += sum[w];
    return x;
}

/* start, moving and rank of V words. Returns the number of substitutes, and of words that move in the
 * upper half, to every thread, behind a barrier. */
static __device__ uint64_t place_sets(const word_sets &of, const set_rows &r, uint32_t V)
{
    __shared__ uint64_t sum[SLAB_WARPS];
    uint64_t n = 0;
    for (uint32_t at = 0; at < V; at += SLAB_THREADS) {
        const uint32_t v = at + threadIdx.x, w = v < V ? r.word[v] : 0,
                       size = v < V ? of.start[w + 1] - of.start[w] : 0;
        const uint64_t mine = (uint64_t)(size > 0) << 32 | size,
                       before = n + sum_to_here(mine, sum) - mine;
        if (v < V) {
            r.start[v] = (uint32_t)before;
            r.rank[v] = (uint32_t)(before >> 32);
            if (size > 0)
                r.moving[before >> 32] = v;
        }
        for (uint32_t i = 0; i < SLAB_WARPS; i++)
            n += sum[i];
        __syncthreads(); /* `sum` is filled again */
    }
    if (threadIdx.x == 0)
        r.start[V] = (uint32_t)n;
    __syncthreads();
    return n;
}

/* The substitutes as words; the place of one without a slot gets the largest ~i, its first use. */
static __device__ void take_sets(const word_sets &of, const set_rows &r, uint32_t V,
                                 uint32_t *place)
{
    for (uint32_t v = threadIdx.x; v < V; v += SLAB_THREADS) {
        const uint32_t *from = of.word + of.start[r.word[v]];
        for (uint32_t i = r.start[v]; i < r.start[v + 1]; i++) {
            const uint32_t id = *from++, there = place[id];
            r.alt[i] = id;
            if (there == 0 || there > UINT32_MAX / 2)
                atomicMax(&place[id], ~i);
        }
    }
}

static __device__ set_counts number_sets(const word_sets &of, const slab_batch &x, uint32_t V,
                                         uint32_t *place)
{
    const set_rows &r = x.sets;
    const uint64_t sizes = place_sets(of, r, V);
    const uint32_t n_alt = (uint32_t)sizes, n_moving = (uint32_t)(sizes >> 32);
    take_sets(of, r, V, place);
    __syncthreads();
    const uint32_t n = number_words(r.alt, n_alt, place, r.word, V);
    to_slots(r.alt, n_alt, place);
    for (size_t t = threadIdx.x; t < x.n_tokens; t += SLAB_THREADS) {
        const uint32_t v = x.row[t];
        const bool moves = r.start[v + 1] > r.start[v];
        r.lo[t] = moves ? n + r.rank[v] : v;
        r.hi[t] = moves ? n + n_moving + r.rank[v] : v;
    }
    return {n, n_alt, n_moving};
}

static __global__ void __launch_bounds__(SLAB_THREADS)
    slab_kernel(const __grid_constant__ slab_on s)
{
    uint32_t *place = s.slot + (size_t)blockIdx.x * s.n_words;
    for (size_t b = blockIdx.x; b < s.n; b += gridDim.x) {
        const slab_batch x = slab_batch_of(&s, b);
        take_ids(s.from, x, place);
        __syncthreads();
        const uint32_t words = number_words(x.row, x.n_tokens, place, x.word, 0);
        to_slots(x.row, x.n_tokens, place);
        __syncthreads(); /* every row is there, and every place was read */
        set_counts n = {words, 0, 0};
        if (s.sets.start) {
            n = number_sets(s.sets, x, words, place);
            __syncthreads();
        }
        for (uint32_t v = threadIdx.x; v < n.n_rows; v += SLAB_THREADS)
            place[x.word[v]] = 0;
        if (threadIdx.x == 0) {
            uint32_t *count = s.count + b;
            count[SLAB_WORDS * SLAB_BATCHES] = words;
            count[SLAB_ROWS * SLAB_BATCHES] = (uint32_t)n.n_rows;
            count[SLAB_ALT * SLAB_BATCHES] = (uint32_t)n.n_alt;
            count[SLAB_MOVING * SLAB_BATCHES] = (uint32_t)n.n_moving;
        }
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

/* ---- numbers in another order ------------------------------------------------------------- */

struct reorder_entry {
    const uint32_t *x, *from;
    uint32_t *out;
    __device__ void operator()(size_t i) const
    {
        out[i] = x[from[i]];
    }
};

extern "C" stet_status cuda_reorder(const uint32_t *x, const uint32_t *from, size_t n,
                                    uint32_t *out)
{
    return each(cuda_now(), "reordering tokens", n, reorder_entry{x, from, out});
}
