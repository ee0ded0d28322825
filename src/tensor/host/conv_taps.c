/* tensor/host/conv_taps.c - see conv_taps.h. */
#include "tensor/host/conv_taps.h"

#include <math.h>

#include "base/pool.h"
#include "base/simd.h"

/* Filters and columns of the input in a piece. */
enum { FILTERS = 16, COLUMNS = 64 };

#define KERNEL_FILE "tensor/host/conv_pool_kernel.h"
#include "tensor/host/each_width.h"

pool_kernel *conv_pool_kernel(void)
{
    return FOR_MACHINE(pool);
}

top_kernel *conv_top_kernel(void)
{
    return FOR_MACHINE(top);
}

joined_kernel *conv_joined_kernel(void)
{
    return FOR_MACHINE(top_joined);
}

mixed_kernel *conv_mixed_kernel(void)
{
    return FOR_MACHINE(top_mixed);
}

pool_two_kernel *conv_pool_two_kernel(void)
{
    return FOR_MACHINE(pool_two);
}

static size_t filter_groups(const conv_filters *c)
{
    return (c->F + FILTERS - 1) / FILTERS;
}

static size_t column_blocks(const conv_filters *c)
{
    return (c->D + COLUMNS - 1) / COLUMNS;
}

/* projection --------------------------------------------------------------------------------- */

typedef struct packing {
    const conv_filters *c;
    real *panels;
} packing;

/* A piece is one tap of FILTERS filters. */
static void pack_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const packing *p = ctx;
    const conv_filters *c = p->c;
    const size_t l = i % c->k, f = i / c->k * FILTERS;
    panel_pack(c->D, c->F - f < FILTERS ? c->F - f : FILTERS, c->w + f * c->D * c->k + l, c->k,
               c->D * c->k, l * c->F + f, p->panels);
}

size_t conv_cols(const conv_filters *c)
{
    return panel_padded(c->k * c->F);
}

stet_status conv_project(const conv_filters *c, const real *rows, size_t n, arena *mem, real *p,
                         size_t ld)
{
    const size_t cols = conv_cols(c);
    const arena_mark scratch = arena_save(mem);
    packing job = {c, arena_znew(mem, real, c->D * cols)};
    if (!job.panels)
        return STET_ENOMEM;
    pool_run(c->k * filter_groups(c), pack_piece, &job);
    panel_product(n, cols, c->D, rows, c->D, job.panels, p, ld);
    arena_restore(mem, scratch);
    return STET_OK;
}

/* gradients ---------------------------------------------------------------------------------- */

stet_status tap_terms_make(const conv_filters *c, size_t cap, arena *mem, tap_terms *out)
{
    *out = (tap_terms){cap, arena_new(mem, tap_term, c->F * c->k * cap),
                       arena_znew(mem, uint32_t, c->F * c->k)};
    return out->term && out->n ? STET_OK : STET_ENOMEM;
}

typedef struct grad_job {
    const conv_filters *c;
    const tap_terms *t;
    const real *rows;
    real *dw, *drows;
    real *taps; /* (k, F, D): w by tap */
} grad_job;

/* sum (n_cols) = the terms of a list, from column d of the rows on. */
static ALWAYS_INLINE void sum_terms(const grad_job *j, size_t list, size_t d, size_t n_cols,
                                    real *RESTRICT sum)
{
    const tap_term *term = j->t->term + list * j->t->cap;
    for (size_t i = 0; i < n_cols; i++)
        sum[i] = 0;
    for (size_t n = 0; n < j->t->n[list]; n++) {
        const real g = term[n].g;
        const real *RESTRICT x = j->rows + term[n].row * j->c->D + d;
        for (size_t i = 0; i < n_cols; i++)
            sum[i] += g * x[i];
    }
}

/* Some columns of the weights of some filters. So few columns of the input, for all its rows, stay
 * in a core's cache while the filters pass. */
SIMD_CLONES static void weight_gradient(const grad_job *j, size_t first, size_t end, size_t d)
{
    const conv_filters *c = j->c;
    const size_t n_cols = c->D - d < COLUMNS ? c->D - d : COLUMNS;
    for (size_t f = first; f < end; f++) {
        real *dw = j->dw + (f * c->D + d) * c->k;
        for (size_t l = 0; l < c->k; l++) {
            real sum[COLUMNS];
            if (n_cols == COLUMNS)
                sum_terms(j, f * c->k + l, d, COLUMNS, sum);
            else
                sum_terms(j, f * c->k + l, d, n_cols, sum);
            for (size_t i = 0; i < n_cols; i++)
                dw[i * c->k + l] += sum[i];
        }
    }
}

static void weight_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const grad_job *j = ctx;
    const size_t groups = filter_groups(j->c), first = i % groups * FILTERS;
    weight_gradient(j, first, first + FILTERS < j->c->F ? first + FILTERS : j->c->F,
                    i / groups * COLUMNS);
}

void conv_weight_gradient(const conv_filters *c, const tap_terms *t, const real *rows, real *dw)
{
    grad_job j = {.c = c, .t = t, .rows = rows, .dw = dw};
    pool_run(column_blocks(c) * filter_groups(c), weight_piece, &j);
}

static void tap_piece(void *ctx, size_t f, int worker)
{
    (void)worker;
    const grad_job *j = ctx;
    const conv_filters *c = j->c;
    for (size_t l = 0; l < c->k; l++)
        for (size_t d = 0; d < c->D; d++)
            j->taps[(l * c->F + f) * c->D + d] = c->w[(f * c->D + d) * c->k + l];
}

/* Some columns of the input's gradient: pieces share no element. */
SIMD_CLONES static void rows_gradient(const grad_job *j, size_t d)
{
    const conv_filters *c = j->c;
    const size_t n_cols = c->D - d < COLUMNS ? c->D - d : COLUMNS;
    for (size_t list = 0; list < c->F * c->k; list++) {
        const tap_term *term = j->t->term + list * j->t->cap;
        const real *RESTRICT tap = j->taps + (list % c->k * c->F + list / c->k) * c->D + d;
        for (size_t n = 0; n < j->t->n[list]; n++) {
            real *RESTRICT dx = j->drows + term[n].row * c->D + d;
            for (size_t i = 0; i < n_cols; i++)
                dx[i] += term[n].g * tap[i];
        }
    }
}

static void rows_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    rows_gradient(ctx, i * COLUMNS);
}

stet_status conv_rows_gradient(const conv_filters *c, const tap_terms *t, arena *mem, real *drows)
{
    const arena_mark scratch = arena_save(mem);
    grad_job j = {.c = c, .t = t, .drows = drows};
    j.taps = arena_new(mem, real, c->k * c->F * c->D);
    if (!j.taps)
        return STET_ENOMEM;
    pool_run(c->F, tap_piece, &j);
    pool_run(column_blocks(c), rows_piece, &j);
    arena_restore(mem, scratch);
    return STET_OK;
}
