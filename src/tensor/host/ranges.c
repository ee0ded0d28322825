/* tensor/host/ranges.c - see ranges.h. */
#include "tensor/host/ranges.h"

#include "base/pool.h"

typedef struct cut {
    size_t n, grain;
    range_fn *fn;
    void *ctx;
} cut;

static void run_piece(void *ctx, size_t i, int worker)
{
    const cut *c = ctx;
    (void)worker;
    const size_t begin = i * c->grain, left = c->n - begin;
    c->fn(c->ctx, i, begin, begin + (left < c->grain ? left : c->grain));
}

size_t ranges_count(size_t n, size_t grain)
{
    return n / grain + (n % grain != 0);
}

size_t ranges_rows(size_t cols)
{
    return cols < RANGE_ELEMENTS ? RANGE_ELEMENTS / (cols ? cols : 1) : 1;
}

void ranges_run(size_t n, size_t grain, range_fn *fn, void *ctx)
{
    if (n <= grain) /* not through the pool: fn may have loops of its own for it */
        fn(ctx, 0, 0, n);
    else
        pool_run(ranges_count(n, grain), run_piece, &(cut){n, grain, fn, ctx});
}
