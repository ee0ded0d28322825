/* bench/bench_nearest.c - all-pairs nearest neighbours, k = 8: an eighth of the counter-fitted
 * vocabulary as often as any benchmark, all 65,000 words once. Some rows are compared with brute
 * force in double first. */
#include "bench.h"

#include <math.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "lexicon/nearest.h"

enum { N = 65000, PART = N / 8, DIM = 300, K = 8, FAMILY = 4, CHECKED = 20 };

typedef struct table {
    float *x;
    uint32_t *ids;
    size_t n;
} table;

/* Unit vectors in families of four, as synonyms lie in a counter-fitted space. */
static void fill(float *x)
{
    rng r = rng_stream(1, STREAM_BENCH, 0);
    for (size_t i = 0; i < N; i++) {
        float *row = x + i * DIM;
        const float *head = x + i / FAMILY * FAMILY * DIM;
        double length = 0;
        for (size_t c = 0; c < DIM; c++) {
            const float own = (float)rng_normal(&r);
            row[c] = i % FAMILY ? head[c] + 0.03f * own : own;
            length += (double)row[c] * row[c];
        }
        for (size_t c = 0; c < DIM; c++)
            row[c] /= (float)sqrt(length);
    }
}

static void find(void *ctx)
{
    const table *t = ctx;
    const nearest_options how = {K, STET_L2, INFINITY, false};
    if (nearest_find(t->x, t->n, DIM, &how, t->ids, NULL) != STET_OK)
        t->ids[0] = NEAREST_NONE; /* the check will notice */
}

/* How many of the first rows have a neighbour that brute force does not give. */
static double wrong_rows(const table *t)
{
    double wrong = 0;
    for (size_t i = 0; i < CHECKED; i++) {
        const float *row = t->x + i * DIM;
        const uint32_t last = t->ids[i * K + K - 1];
        const double limit = nearest_value(STET_L2, row, t->x + (size_t)last % t->n * DIM, DIM);
        size_t nearer = 0;
        for (size_t j = 0; j < t->n; j++)
            nearer += j != i && nearest_value(STET_L2, row, t->x + j * DIM, DIM) < limit;
        wrong += last == NEAREST_NONE || nearer != K - 1;
    }
    return wrong;
}

static void report(const char *what, const table *t, bench_time time)
{
    const double pairs = (double)t->n * (double)t->n / 2; /* each product serves both directions */
    bench_rate(what, "stet", time, 2e-9 * pairs * DIM, "GFLOP/s");
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "nearest", "exact nearest neighbours of every word");
    float *x = mem_aligned(N * DIM, sizeof *x);
    uint32_t *ids = mem_alloc(N * K, sizeof *ids);
    if (!x || !ids)
        return 1;
    fill(x);
    table part = {x, ids, PART}, all = {x, ids, N};
    find(&part);
    bench_check("8125 rows", wrong_rows(&part), 0);
    report("8125x300, k=8", &part, bench_measure(find, &part));
    const double start = now();
    find(&all);
    const double seconds = now() - start;
    bench_check("65000 rows", wrong_rows(&all), 0);
    report("65000x300, k=8", &all, (bench_time){seconds, seconds, 1});
    mem_free_aligned(x);
    mem_free(ids);
    return bench_finish();
}
