/* base/rng.h - random streams derived from (seed, purpose, index), so that no result depends on
 * thread count or order of work. A stream is counter based: its state is (key, counter) and can be
 * saved and restored exactly. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef enum rng_purpose {
    STREAM_TEST,
    STREAM_INIT,
    STREAM_SHUFFLE,
    STREAM_DROPOUT,
    STREAM_SPLIT,
    STREAM_SAMPLE,
    STREAM_ATTACK,
    STREAM_EMBED,
    STREAM_CORPUS,
    STREAM_DEFENSE,
    STREAM_BENCH
} rng_purpose;

typedef struct rng {
    uint64_t key, counter;
} rng;

rng rng_stream(uint64_t seed, rng_purpose purpose, uint64_t index);

#define RNG_GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio: odd, bits well spread */

/* A bijection of 64 bits in which every input bit reaches every output bit. */
static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* One round would make all streams windows of the same sequence; the key enters again between two
 * rounds, so two streams that meet in one value part in the next. Here, so that a loop computes
 * several draws at once: none waits for the one before it. */
static inline uint64_t rng_u64(rng *r)
{
    const uint64_t x = rng_mix(r->key + r->counter++ * RNG_GOLDEN);
    return rng_mix(x ^ (r->key << 32 | r->key >> 32));
}

/* [0, 1), 53 bits */
static inline double rng_double(rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

/* floor(u * n), u = rng_double */
static inline uint64_t rng_below(rng *r, uint64_t n)
{
    const double x = rng_double(r) * (double)n;
    const uint64_t i = x < 0x1p64 ? (uint64_t)x : UINT64_MAX;
    return i < n || n == 0 ? i : n - 1; /* rounding matters only for n beyond 2^53 */
}

float rng_float(rng *r);                        /* [0, 1), 24 bits */
double rng_range(rng *r, double lo, double hi); /* [lo, hi) */
double rng_normal(rng *r);                      /* mean 0, variance 1 */
double rng_gamma(rng *r, double a);             /* mean and variance a; 0 for a <= 0 */
void rng_permutation(rng *r, uint32_t *p, size_t n);
/* `want` <= n of the numbers below n, ascending, every subset equally likely. */
void rng_sample(rng *r, size_t n, size_t want, size_t *index);
/* Weighted choice as NumPy defines it: the number of entries of cumsum(w)/sum(w) that are <= u.
 * Weights are >= 0 with a positive sum. rng_pick draws u; weighted_pick takes it. */
size_t rng_pick(rng *r, const double *weight, size_t n);
size_t weighted_pick(double u, const double *weight, size_t n);

#endif
