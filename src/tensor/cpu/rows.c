/* tensor/cpu/rows.c - ops that move whole rows or parts of them: gather, concat, slice, and the
 * mean and the largest over the tokens of each text. */
#include <string.h>

#include "base/simd.h"
#include "tensor/host/ranges.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

/* blocks of columns -------------------------------------------------------------------------- */

/* A block of `width` columns copied (or added) from one matrix to another of equally many rows. */
typedef struct block_job {
    const real *from;
    real *to;
    size_t from_ld, to_ld, width;
    bool add;
} block_job;

static SIMD_CLONES void move_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const block_job *job = ctx;
    const size_t width = job->width;
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT from = job->from + i * job->from_ld;
        real *RESTRICT to = job->to + i * job->to_ld;
        if (job->add)
            for (size_t j = 0; j < width; j++)
                to[j] += from[j];
        else
            memcpy(to, from, width * sizeof *to);
    }
}

static void move_block(size_t rows, block_job job)
{
    ranges_run(rows, ranges_rows(job.width), move_rows, &job);
}

static void clear_if_fresh(node *x)
{
    if (grad_is_fresh(x))
        memset(x->grad, 0, shape_count(x->shape) * sizeof *x->grad);
}

stet_status cpu_concat_fwd(tape *t, node *n)
{
    (void)t;
    const size_t total = shape_cols(n->shape);
    for (size_t i = 0, at = 0; i < (size_t)n->n_in; i++) {
        const size_t c = shape_cols(n->in[i]->shape);
        move_block(shape_rows(n->shape),
                   (block_job){n->in[i]->value, n->value + at, c, total, c, false});
        at += c;
    }
    return STET_OK;
}

stet_status cpu_concat_bwd(tape *t, node *n)
{
    (void)t;
    const size_t total = shape_cols(n->shape);
    for (size_t i = 0, at = 0; i < (size_t)n->n_in; i++) {
        node *x = n->in[i];
        const size_t c = shape_cols(x->shape);
        if (x->needs_grad)
            move_block(shape_rows(n->shape),
                       (block_job){n->grad + at, x->grad, total, c, c, !grad_is_fresh(x)});
        at += c;
    }
    return STET_OK;
}

stet_status cpu_slice_fwd(tape *t, node *n)
{
    (void)t;
    const slice_args *args = n->args;
    const real *from = n->in[0]->value + args->first;
    move_block(shape_rows(n->shape),
               (block_job){from, n->value, shape_cols(n->in[0]->shape), args->n, args->n, false});
    return STET_OK;
}

stet_status cpu_slice_bwd(tape *t, node *n)
{
    (void)t;
    const slice_args *args = n->args;
    node *x = n->in[0];
    clear_if_fresh(x);
    move_block(shape_rows(n->shape), (block_job){n->grad, x->grad + args->first, args->n,
                                                 shape_cols(x->shape), args->n, true});
    return STET_OK;
}

/* gather ------------------------------------------------------------------------------------- */

typedef struct gather_job {
    const real *from;
    real *to;
    const gather_args *args;
    size_t c;
} gather_job;

static void gather_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const gather_job *job = ctx;
    for (size_t i = begin; i < end; i++)
        memcpy(job->to + i * job->c, job->from + job->args->at[i] * job->c,
               job->c * sizeof *job->to);
}

/* Every piece adds all rows, but only a strip of their columns: no two pieces meet, and each entry
 * is summed in the order of the index. */
static SIMD_CLONES void scatter_strip(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const gather_job *job = ctx;
    const size_t width = end - begin;
    for (size_t i = 0; i < job->args->n; i++) {
        const real *RESTRICT from = job->from + i * job->c + begin;
        real *RESTRICT to = job->to + job->args->at[i] * job->c + begin;
        for (size_t j = 0; j < width; j++)
            to[j] += from[j];
    }
}

stet_status cpu_gather_fwd(tape *t, node *n)
{
    (void)t;
    const size_t c = shape_cols(n->shape);
    gather_job job = {n->in[0]->value, n->value, n->args, c};
    ranges_run(job.args->n, ranges_rows(c), gather_rows, &job);
    return STET_OK;
}

stet_status cpu_gather_bwd(tape *t, node *n)
{
    (void)t;
    enum { STRIP = 64 };
    node *x = n->in[0];
    clear_if_fresh(x);
    gather_job job = {n->grad, x->grad, n->args, shape_cols(n->shape)};
    ranges_run(job.c, STRIP, scatter_strip, &job);
    return STET_OK;
}

/* mean over each text ------------------------------------------------------------------------ */

typedef struct mean_job {
    node *n;
    const seq_index *seq;
    bool fresh;
} mean_job;

static SIMD_CLONES void mean_texts(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const mean_job *job = ctx;
    const uint32_t *start = job->seq->start;
    const size_t c = shape_cols(job->n->shape);
    for (size_t b = begin; b < end; b++) {
        real *RESTRICT y = job->n->value + b * c;
        memset(y, 0, c * sizeof *y);
        for (size_t i = start[b]; i < start[b + 1]; i++) {
            const real *RESTRICT x = job->n->in[0]->value + i * c;
            for (size_t j = 0; j < c; j++)
                y[j] += x[j];
        }
        const real share = 1 / (real)(start[b + 1] - start[b]);
        for (size_t j = 0; j < c; j++)
            y[j] *= share;
    }
}

static SIMD_CLONES void spread_texts(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const mean_job *job = ctx;
    const uint32_t *start = job->seq->start;
    const size_t c = shape_cols(job->n->shape);
    const bool fresh = job->fresh;
    for (size_t b = begin; b < end; b++) {
        const real *RESTRICT dy = job->n->grad + b * c;
        const real share = 1 / (real)(start[b + 1] - start[b]);
        for (size_t i = start[b]; i < start[b + 1]; i++) {
            real *RESTRICT dx = job->n->in[0]->grad + i * c;
            for (size_t j = 0; j < c; j++)
                dx[j] = (fresh ? 0 : dx[j]) + share * dy[j];
        }
    }
}

stet_status cpu_seq_mean_fwd(tape *t, node *n)
{
    (void)t;
    mean_job job = {n, ((const seq_args *)n->args)->at, false};
    ranges_run(job.seq->n_texts, 1, mean_texts, &job);
    return STET_OK;
}

stet_status cpu_seq_mean_bwd(tape *t, node *n)
{
    (void)t;
    mean_job job = {n, ((const seq_args *)n->args)->at, grad_is_fresh(n->in[0])};
    ranges_run(job.seq->n_texts, 1, spread_texts, &job);
    return STET_OK;
}

/* largest of each text ----------------------------------------------------------------------- */

typedef struct max_job {
    node *n;
    const seq_index *seq;
    uint32_t *from; /* (B, c): where it stands */
} max_job;

static SIMD_CLONES void max_texts(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const max_job *job = ctx;
    const uint32_t *start = job->seq->start;
    const size_t c = shape_cols(job->n->shape);
    for (size_t b = begin; b < end; b++) {
        real *RESTRICT y = job->n->value + b * c;
        uint32_t *RESTRICT from = job->from + b * c;
        for (size_t i = start[b]; i < start[b + 1]; i++) {
            const real *RESTRICT x = job->n->in[0]->value + i * c;
            const bool first = i == start[b];
            for (size_t j = 0; j < c; j++) {
                const bool more = first || x[j] > y[j] || x[j] != x[j]; /* NaN stays NaN */
                y[j] = more ? x[j] : y[j];
                from[j] = more ? (uint32_t)i : from[j];
            }
        }
    }
}

stet_status cpu_seq_max_fwd(tape *t, node *n)
{
    max_job job = {n, ((const seq_args *)n->args)->at, NULL};
    n->saved = job.from = arena_new(t->mem, uint32_t, shape_count(n->shape));
    if (!job.from)
        return STET_ENOMEM;
    ranges_run(job.seq->n_texts, 1, max_texts, &job);
    return STET_OK;
}

stet_status cpu_seq_max_bwd(tape *t, node *n)
{
    (void)t;
    node *x = n->in[0];
    const uint32_t *from = n->saved;
    const size_t c = shape_cols(n->shape), count = shape_count(n->shape);
    if (grad_is_fresh(x))
        memset(x->grad, 0, shape_count(x->shape) * sizeof *x->grad);
    for (size_t i = 0; i < count; i++)
        x->grad[from[i] * c + i % c] += n->grad[i];
    return STET_OK;
}
