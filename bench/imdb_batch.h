/* bench/imdb_batch.h - a random batch with the statistics of IMDB at 64 texts: log-normal lengths
 * cut at 512, on average 215 words; words by Zipf's law, of which some 3,200 are distinct. */
#ifndef IMDB_BATCH_H
#define IMDB_BATCH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/rng.h"
#include "tensor/tensor.h"

enum { TEXTS = 64, LONGEST = 512, BATCHES = 391, WORDS = 9000 }; /* BATCHES: of an epoch */

static inline void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "%s\n", stet_last_error());
        exit(1);
    }
    return p;
}

static inline real *random_reals(arena *mem, size_t n, double spread, rng *r)
{
    real *x = must(arena_new(mem, real, n));
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(spread * rng_normal(r));
    return x;
}

static inline int falling(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Rows are numbered in the order in which their words appear. */
static inline seq_index imdb_batch(arena *mem, rng *r)
{
    uint32_t *start = must(arena_znew(mem, uint32_t, TEXTS + 1));
    uint32_t *row = must(arena_new(mem, uint32_t, TEXTS * LONGEST));
    uint32_t *known = must(arena_znew(mem, uint32_t, WORDS)); /* row + 1 of a word */
    uint32_t len[TEXTS];
    for (size_t b = 0; b < TEXTS; b++)
        len[b] = (uint32_t)fmin(LONGEST, 10 + 170 * exp(0.62 * rng_normal(r)));
    qsort(len, TEXTS, sizeof *len, falling);
    for (size_t b = 0; b < TEXTS; b++)
        start[b + 1] = start[b] + len[b];
    uint32_t rows = 0;
    for (size_t i = 0; i < start[TEXTS]; i++) {
        const size_t word =
            (size_t)(exp(rng_double(r) * log(WORDS)) - 1); /* density 1/(word + 1) */
        if (!known[word])
            known[word] = ++rows;
        row[i] = known[word] - 1;
    }
    return (seq_index){TEXTS, start[TEXTS], rows, len[0], start, row};
}

#endif
