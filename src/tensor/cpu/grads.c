/* tensor/cpu/grads.c - see grads.h. */
#include "tensor/cpu/grads.h"

#include <string.h>

#include "base/simd.h"
#include "tensor/host/ranges.h"

typedef struct copy_job {
    const real *from;
    real *to;
    bool fresh;
} copy_job;

static SIMD_CLONES void add_range(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const copy_job *j = ctx;
    const real *RESTRICT from = j->from;
    real *RESTRICT to = j->to;
    if (j->fresh)
        memcpy(to + begin, from + begin, (end - begin) * sizeof *to);
    else
        for (size_t i = begin; i < end; i++)
            to[i] += from[i];
}

void grad_add(node *x, const node *n)
{
    copy_job job = {n->grad, x->grad, grad_is_fresh(x)};
    ranges_run(shape_count(x->shape), RANGE_ELEMENTS, add_range, &job);
}

void grad_hand_over(node *x, node *n)
{
    if (grad_is_fresh(x))
        x->grad = n->grad;
    else
        grad_add(x, n);
}

/* Column sums of pieces of rows: partial (pieces, c). */
typedef struct column_job {
    const real *g;
    size_t c;
    real *partial;
} column_job;

static SIMD_CLONES void column_piece(void *ctx, size_t piece, size_t begin, size_t end)
{
    const column_job *job = ctx;
    const size_t c = job->c;
    real *RESTRICT sum = job->partial + piece * c;
    memset(sum, 0, c * sizeof *sum);
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT g = job->g + i * c;
        for (size_t j = 0; j < c; j++)
            sum[j] += g[j];
    }
}

stet_status grad_add_columns(tape *t, node *x, const real *g, size_t rows)
{
    const size_t c = shape_count(x->shape), grain = ranges_rows(c);
    const size_t pieces = ranges_count(rows, grain);
    const arena_mark mark = arena_save(t->mem);
    column_job job = {g, c, arena_new(t->mem, real, pieces * c)};
    if (!job.partial)
        return STET_ENOMEM;
    if (rows)
        ranges_run(rows, grain, column_piece, &job);
    grad_add_partials(x, job.partial, pieces, c);
    arena_restore(t->mem, mark);
    return STET_OK;
}

void grad_add_partials(node *x, const real *partial, size_t pieces, size_t stride)
{
    const size_t c = shape_count(x->shape);
    const bool fresh = grad_is_fresh(x);
    for (size_t j = 0; j < c; j++) {
        double sum = 0;
        for (size_t p = 0; p < pieces; p++)
            sum += (double)partial[p * stride + j];
        x->grad[j] = (fresh ? 0 : x->grad[j]) + (real)sum;
    }
}
