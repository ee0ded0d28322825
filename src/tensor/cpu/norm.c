/* tensor/cpu/norm.c - layer normalisation: y = gamma (x - mean) / sqrt(var + eps) + beta over each
 * row.
 *
 * A row fits the first-level cache, so that each pass over memory does all there is to do with it.
 * Forward keeps mean and 1/sqrt(var + eps) of each row, not the normalised values: recomputing
 * those costs one multiply-add. */
#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "tensor/cpu/grads.h"
#include "tensor/host/lanes.h"
#include "tensor/host/ranges.h"
#include "tensor/op_args.h"

typedef struct row_stats {
    real mean, inv_std;
} row_stats;

typedef struct norm_job {
    node *n;
    row_stats *stats; /* one per row, or NULL when nobody will ask */
    real *partial;    /* backward: (pieces, 2, c), sums for gamma and beta */
    bool fresh;
} norm_job;

static SIMD_CLONES void norm_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const norm_job *job = ctx;
    const node *n = job->n;
    const size_t c = shape_cols(n->shape);
    const real eps = (real)((const layer_norm_args *)n->args)->eps;
    const real *RESTRICT gamma = n->in[1]->value, *RESTRICT beta = n->in[2]->value;
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT x = n->in[0]->value + i * c;
        real *RESTRICT y = n->value + i * c;
        const real mean = lanes_sum(x, c) / (real)c;
        const real inv_std = 1 / (real)sqrt(lanes_spread(x, mean, c) / (real)c + eps);
        for (size_t j = 0; j < c; j++)
            y[j] = (x[j] - mean) * inv_std * gamma[j] + beta[j];
        if (job->stats)
            job->stats[i] = (row_stats){mean, inv_std};
    }
}

stet_status cpu_layer_norm_fwd(tape *t, node *n)
{
    const size_t rows = shape_rows(n->shape);
    norm_job job = {.n = n};
    if (n->needs_grad) {
        n->saved = job.stats = arena_new(t->mem, row_stats, rows);
        if (!job.stats)
            return STET_ENOMEM;
    }
    ranges_run(rows, ranges_rows(shape_cols(n->shape)), norm_rows, &job);
    return STET_OK;
}

/* With h = (x - mean) / std and g = gamma dy: dx = (g - mean(g) - h mean(g h)) / std. */
static ALWAYS_INLINE void row_means(const real *x, const real *dy, const real *gamma, row_stats s,
                                    size_t c, real *mean_g, real *mean_gh)
{
    lanes sum_g = {0}, sum_gh = {0};
    real tail_g = 0, tail_gh = 0;
    size_t j = 0;
    for (; j + LANES <= c; j += LANES) {
        const lanes g = *(const lanes *)(gamma + j) * *(const lanes *)(dy + j);
        sum_g += g;
        sum_gh += g * ((*(const lanes *)(x + j) - s.mean) * s.inv_std);
    }
    for (; j < c; j++) {
        const real g = gamma[j] * dy[j];
        tail_g += g;
        tail_gh += g * ((x[j] - s.mean) * s.inv_std);
    }
    *mean_g = (lanes_fold(&sum_g) + tail_g) / (real)c;
    *mean_gh = (lanes_fold(&sum_gh) + tail_gh) / (real)c;
}

static SIMD_CLONES void norm_input_grad(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const norm_job *job = ctx;
    const node *n = job->n;
    const size_t c = shape_cols(n->shape);
    const bool fresh = job->fresh;
    const real *RESTRICT gamma = n->in[1]->value;
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT x = n->in[0]->value + i * c, *RESTRICT dy = n->grad + i * c;
        real *RESTRICT dx = n->in[0]->grad + i * c;
        const row_stats s = job->stats[i];
        real mean_g, mean_gh;
        row_means(x, dy, gamma, s, c, &mean_g, &mean_gh);
        for (size_t j = 0; j < c; j++) {
            const real h = (x[j] - s.mean) * s.inv_std;
            const real d = (gamma[j] * dy[j] - mean_g - h * mean_gh) * s.inv_std;
            dx[j] = (fresh ? 0 : dx[j]) + d;
        }
    }
}

static SIMD_CLONES void norm_scale_grad(void *ctx, size_t piece, size_t begin, size_t end)
{
    const norm_job *job = ctx;
    const node *n = job->n;
    const size_t c = shape_cols(n->shape);
    real *RESTRICT dgamma = job->partial + 2 * piece * c, *RESTRICT dbeta = dgamma + c;
    memset(dgamma, 0, 2 * c * sizeof *dgamma);
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT x = n->in[0]->value + i * c, *RESTRICT dy = n->grad + i * c;
        const row_stats s = job->stats[i];
        for (size_t j = 0; j < c; j++) {
            dgamma[j] += dy[j] * ((x[j] - s.mean) * s.inv_std);
            dbeta[j] += dy[j];
        }
    }
}

/* Both in turn while the piece is in the cache. */
static void norm_rows_bwd(void *ctx, size_t piece, size_t begin, size_t end)
{
    const norm_job *job = ctx;
    if (job->n->in[0]->needs_grad)
        norm_input_grad(ctx, piece, begin, end);
    if (job->partial)
        norm_scale_grad(ctx, piece, begin, end);
}

stet_status cpu_layer_norm_bwd(tape *t, node *n)
{
    node *x = n->in[0], *gamma = n->in[1], *beta = n->in[2];
    const size_t rows = shape_rows(n->shape), c = shape_cols(n->shape), grain = ranges_rows(c);
    const size_t pieces = ranges_count(rows, grain);
    const arena_mark mark = arena_save(t->mem);
    norm_job job = {.n = n, .stats = n->saved, .fresh = x->needs_grad && grad_is_fresh(x)};
    if (gamma->needs_grad || beta->needs_grad) {
        job.partial = arena_new(t->mem, real, 2 * pieces * c);
        if (!job.partial)
            return STET_ENOMEM;
    }
    if (rows)
        ranges_run(rows, grain, norm_rows_bwd, &job);
    if (gamma->needs_grad)
        grad_add_partials(gamma, job.partial, pieces, 2 * c);
    if (beta->needs_grad)
        grad_add_partials(beta, job.partial + c, pieces, 2 * c);
    arena_restore(t->mem, mark);
    return STET_OK;
}
