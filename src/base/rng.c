/* base/rng.c - counter-based streams: the n-th number is a hash of (key, n), so streams need no
 * warm-up, cannot run into each other, and are saved as two words. */
#include "base/rng.h"

#include <math.h>

rng rng_stream(uint64_t seed, rng_purpose purpose, uint64_t index)
{
    uint64_t key = rng_mix(seed + RNG_GOLDEN);
    key = rng_mix(key + ((uint64_t)purpose + 1) * RNG_GOLDEN);
    key = rng_mix(key + (index + 1) * RNG_GOLDEN);
    return (rng){key, 0};
}

float rng_float(rng *r)
{
    return (float)(rng_u64(r) >> 40) * 0x1p-24f;
}

/* Rounding may reach hi itself; then the largest number below it is meant. */
double rng_range(rng *r, double lo, double hi)
{
    const double x = lo + (hi - lo) * rng_double(r);
    return x < hi ? x : nextafter(hi, lo);
}

/* Box and Muller's formula, one of its two results: the other would be state beside the counter. */
double rng_normal(rng *r)
{
    const double u = 1.0 - rng_double(r); /* (0, 1]: the logarithm is finite */
    const double angle = 2 * M_PI * rng_double(r);
    return sqrt(-2 * log(u)) * cos(angle);
}

/* Marsaglia and Tsang 2000. */
double rng_gamma(rng *r, double a)
{
    if (!(a > 0))
        return 0;
    if (a == 1) /* the exponential distribution */
        return -log(1 - rng_double(r));
    if (a < 1)
        return rng_gamma(r, a + 1) * pow(1 - rng_double(r), 1 / a);
    const double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = rng_normal(r), t = 1 + c * x, v = t * t * t;
        if (t > 0 && log(1 - rng_double(r)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

void rng_permutation(rng *r, uint32_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)rng_below(r, i);
        const uint32_t swap = p[i - 1];
        p[i - 1] = p[j];
        p[j] = swap;
    }
}

/* Knuth's algorithm S: one pass. */
void rng_sample(rng *r, size_t n, size_t want, size_t *index)
{
    size_t have = 0;
    for (size_t i = 0; have < want; i++)
        if (rng_below(r, n - i) < want - have)
            index[have++] = i;
}

size_t weighted_pick(double u, const double *weight, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += weight[i];
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += weight[i];
        if (sum / total > u)
            return i;
    }
    return n ? n - 1 : 0; /* only for a u outside [0, 1) */
}

size_t rng_pick(rng *r, const double *weight, size_t n)
{
    return weighted_pick(rng_double(r), weight, n);
}
