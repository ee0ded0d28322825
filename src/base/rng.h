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
uint64_t rng_u64(rng *r);
double rng_double(rng *r);                      /* [0, 1), 53 bits */
float rng_float(rng *r);                        /* [0, 1), 24 bits */
double rng_range(rng *r, double lo, double hi); /* [lo, hi) */
double rng_normal(rng *r);                      /* mean 0, variance 1 */
double rng_gamma(rng *r, double a);             /* mean and variance a; 0 for a <= 0 */
uint64_t rng_below(rng *r, uint64_t n);         /* floor(u * n), u = rng_double */
void rng_permutation(rng *r, uint32_t *p, size_t n);
/* `want` <= n of the numbers below n, ascending, every subset equally likely. */
void rng_sample(rng *r, size_t n, size_t want, size_t *index);
/* Weighted choice as NumPy defines it: the number of entries of cumsum(w)/sum(w) that are <= u.
 * Weights are >= 0 with a positive sum. rng_pick draws u; weighted_pick takes it. */
size_t rng_pick(rng *r, const double *weight, size_t n);
size_t weighted_pick(double u, const double *weight, size_t n);

#endif
