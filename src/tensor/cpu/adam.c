/* tensor/cpu/adam.c - the optimiser's loops on the CPU: see optim.h. */
#include <math.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/kernels.h"
#include "tensor/optim.h"

enum { PIECE = 1 << 16 }; /* elements a pool piece: fixed, so that bits do not depend on threads */

static void cpu_norm(const param_group *groups, size_t n, const real *grad, double *norm)
{
    double sumsq = 0;
    for (size_t k = 0; k < n; k++)
        sumsq += vec_sumsq(grad + groups[k].first, groups[k].n);
    *norm = sqrt(sumsq);
}

typedef struct adam_job {
    adam_step s;
    real scale; /* of the gradient, from clipping */
} adam_job;

static ALWAYS_INLINE real not_tiny(real x)
{
    return x < OPTIM_TINY && x > -OPTIM_TINY ? 0 : x;
}

SIMD_CLONES
static void adam_range(const adam_job *j, size_t from, size_t to)
{
    real *RESTRICT w = j->s.param, *RESTRICT m = j->s.m, *RESTRICT v = j->s.v;
    const real *RESTRICT grad = j->s.grad;
    const adam_step s = j->s;
    const real scale = j->scale;
    for (size_t i = from; i < to; i++) {
        const real g = grad[i] * scale + s.l2 * w[i];
        m[i] = not_tiny(s.beta1 * m[i] + (1 - s.beta1) * g);
        v[i] = not_tiny(s.beta2 * v[i] + (1 - s.beta2) * g * g);
#ifdef STET_DOUBLE
        const real root = sqrt(v[i]);
#else
        const real root = sqrtf(v[i]);
#endif
        w[i] = not_tiny(w[i] * s.shrink - s.rate * m[i] / (root * s.root_correction + s.eps));
    }
}

static void adam_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const adam_job *j = ctx;
    const size_t end = j->s.first + j->s.n, from = j->s.first + i * PIECE;
    adam_range(j, from, from + PIECE < end ? from + PIECE : end);
}

static void cpu_adam(const adam_step *s)
{
    const double norm = *s->norm;
    adam_job j = {.s = *s, .scale = (real)(s->clip > 0 && norm > s->clip ? s->clip / norm : 1)};
    pool_run((s->n + PIECE - 1) / PIECE, adam_piece, &j);
}

/* ---- rows --------------------------------------------------------------------------------- */

enum { ROWS = 64, STRIP = 64 }; /* rows, or columns, of a piece */

typedef struct add_job {
    const real *from;
    const uint32_t *at;
    size_t n, D;
    real *into;
} add_job;

/* Some columns of all rows: no two pieces meet, and each number is a sum in the order of the rows. */
SIMD_CLONES
static void add_strip(const add_job *j, size_t first, size_t width)
{
    for (size_t i = 0; i < j->n; i++) {
        const real *RESTRICT from = j->from + i * j->D + first;
        real *RESTRICT into = j->into + (j->at ? j->at[i] : i) * j->D + first;
        for (size_t c = 0; c < width; c++)
            into[c] += from[c];
    }
}

static void add_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const add_job *j = ctx;
    const size_t first = i * STRIP, left = j->D - first;
    add_strip(j, first, left < STRIP ? left : STRIP);
}

static void cpu_add_rows(const real *from, const uint32_t *at, size_t n, size_t D, bool apart,
                         real *into)
{
    (void)apart;
    add_job j = {from, at, n, D, into};
    pool_run((D + STRIP - 1) / STRIP, add_piece, &j);
}

typedef struct rows_job {
    const adam_step *s;
    const uint32_t *row;
    size_t D;
} rows_job;

static void rows_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const rows_job *j = ctx;
    for (size_t i = piece * ROWS; i < (piece + 1) * ROWS && i < j->s->n; i++) {
        adam_job one = {.s = *j->s, .scale = 1};
        one.s.param += j->row[i] * j->D;
        one.s.m += j->row[i] * j->D;
        one.s.v += j->row[i] * j->D;
        one.s.grad += i * j->D;
        adam_range(&one, 0, j->D);
    }
}

static void cpu_adam_rows(const adam_step *s, const uint32_t *row, size_t D)
{
    rows_job j = {s, row, D};
    pool_run((s->n + ROWS - 1) / ROWS, rows_piece, &j);
}

const optim_device optim_cpu = {
    .norm = cpu_norm, .adam = cpu_adam, .add_rows = cpu_add_rows, .adam_rows = cpu_adam_rows};
