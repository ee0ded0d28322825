/* tensor/cpu/reduce.c - sums in double, whatever `real` is. */
#include "base/simd.h"
#include "tensor/host/lanes.h"
#include "tensor/host/ranges.h"
#include "tensor/tape.h"

typedef struct sum_job {
    const real *x;
    size_t c;
    double *total; /* one per piece */
    real *row;     /* one per row */
} sum_job;

static SIMD_CLONES void sum_piece(void *ctx, size_t piece, size_t begin, size_t end)
{
    const sum_job *job = ctx;
    job->total[piece] = wide_sum(job->x + begin, end - begin);
}

stet_status cpu_sum_fwd(tape *t, node *n)
{
    const size_t count = shape_count(n->in[0]->shape);
    const size_t pieces = ranges_count(count, RANGE_ELEMENTS);
    const arena_mark mark = arena_save(t->mem);
    sum_job job = {.x = n->in[0]->value, .total = arena_new(t->mem, double, pieces)};
    if (!job.total)
        return STET_ENOMEM;
    if (count)
        ranges_run(count, RANGE_ELEMENTS, sum_piece, &job);
    double total = 0;
    for (size_t i = 0; i < pieces; i++)
        total += job.total[i];
    n->value[0] = (real)total;
    arena_restore(t->mem, mark);
    return STET_OK;
}

static SIMD_CLONES void sum_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const sum_job *job = ctx;
    for (size_t i = begin; i < end; i++)
        job->row[i] = (real)wide_sum(job->x + i * job->c, job->c);
}

stet_status cpu_row_sum_fwd(tape *t, node *n)
{
    (void)t;
    const size_t c = shape_cols(n->in[0]->shape);
    sum_job job = {.x = n->in[0]->value, .c = c, .row = n->value};
    ranges_run(shape_rows(n->in[0]->shape), ranges_rows(c), sum_rows, &job);
    return STET_OK;
}

/* Both spread their gradient: entry (i, j) gets g[i * step]. */
typedef struct spread_job {
    const real *g;
    size_t step, c;
    real *dx;
    bool fresh;
} spread_job;

static SIMD_CLONES void spread_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const spread_job *job = ctx;
    const size_t c = job->c;
    const bool fresh = job->fresh;
    for (size_t i = begin; i < end; i++) {
        const real g = job->g[i * job->step];
        real *RESTRICT dx = job->dx + i * c;
        for (size_t j = 0; j < c; j++)
            dx[j] = (fresh ? 0 : dx[j]) + g;
    }
}

static stet_status spread(node *n, size_t step)
{
    node *x = n->in[0];
    const size_t c = shape_cols(x->shape);
    ranges_run(shape_rows(x->shape), ranges_rows(c), spread_rows,
               &(spread_job){n->grad, step, c, x->grad, grad_is_fresh(x)});
    return STET_OK;
}

stet_status cpu_sum_bwd(tape *t, node *n)
{
    (void)t;
    return spread(n, 0);
}

stet_status cpu_row_sum_bwd(tape *t, node *n)
{
    (void)t;
    return spread(n, 1);
}
