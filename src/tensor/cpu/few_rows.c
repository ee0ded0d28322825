/* tensor/cpu/few_rows.c - see few_rows.h. */
#include "tensor/cpu/few_rows.h"

#include <string.h>

#include "base/simd.h"
#include "tensor/host/ranges.h"

/* ---- finding ------------------------------------------------------------------------------ */

typedef struct find_job {
    const real *g;
    size_t c;
    bool *live;
} find_job;

/* In blocks without a branch, so that rows of zeros are read at full speed. NaN is not zero. */
static ALWAYS_INLINE bool is_live(const real *x, size_t n)
{
    enum { BLOCK = 32 };
    size_t j = 0;
    for (; j + BLOCK <= n; j += BLOCK) {
        int other = 0;
        for (size_t i = 0; i < BLOCK; i++)
            other |= x[j + i] != 0;
        if (other)
            return true;
    }
    for (; j < n; j++)
        if (x[j] != 0)
            return true;
    return false;
}

static SIMD_CLONES void find_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const find_job *j = ctx;
    for (size_t i = begin; i < end; i++)
        j->live[i] = is_live(j->g + i * j->c, j->c);
}

stet_status few_rows_find(arena *mem, const real *g, size_t rows, size_t c, few_rows *out)
{
    *out = (few_rows){0};
    find_job job = {g, c, arena_new(mem, bool, rows)};
    const size_t most = rows - (rows + 2) / 3;
    uint32_t *row = arena_new(mem, uint32_t, most);
    if (!job.live || !row)
        return STET_ENOMEM;
    if (rows)
        ranges_run(rows, ranges_rows(c), find_rows, &job);
    size_t n = 0;
    for (size_t i = 0; i < rows; i++) {
        if (!job.live[i])
            continue;
        if (n == most)
            return STET_OK;
        row[n++] = (uint32_t)i;
    }
    *out = (few_rows){true, n, row};
    return STET_OK;
}

/* ---- moving ------------------------------------------------------------------------------- */

typedef struct move_job {
    const few_rows *f;
    const real *from;
    real *to;
    size_t c;
} move_job;

static void take_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const move_job *j = ctx;
    for (size_t i = begin; i < end; i++)
        memcpy(j->to + i * j->c, j->from + j->f->row[i] * j->c, j->c * sizeof *j->to);
}

real *few_rows_take(arena *mem, const few_rows *f, const real *x, size_t c)
{
    move_job job = {f, x, arena_new(mem, real, f->n * c), c};
    if (job.to && f->n)
        ranges_run(f->n, ranges_rows(c), take_rows, &job);
    return job.to;
}

static SIMD_CLONES void add_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const move_job *j = ctx;
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT from = j->from + i * j->c;
        real *RESTRICT to = j->to + j->f->row[i] * j->c;
        for (size_t k = 0; k < j->c; k++)
            to[k] += from[k];
    }
}

/* Rows begin .. end of the result. */
static void fill_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const move_job *j = ctx;
    const few_rows *f = j->f;
    size_t i = 0, above = f->n; /* the first of f that is not before `begin` */
    while (i < above) {
        const size_t mid = (i + above) / 2;
        if (f->row[mid] < begin)
            i = mid + 1;
        else
            above = mid;
    }
    for (size_t r = begin; r < end; r++)
        if (i < f->n && f->row[i] == r)
            memcpy(j->to + r * j->c, j->from + i++ * j->c, j->c * sizeof *j->to);
        else
            memset(j->to + r * j->c, 0, j->c * sizeof *j->to);
}

void few_rows_put(const few_rows *f, const real *from, size_t rows, size_t c, bool fresh, real *x)
{
    move_job job = {f, from, x, c};
    if (fresh)
        ranges_run(rows, ranges_rows(c), fill_rows, &job);
    else if (f->n)
        ranges_run(f->n, ranges_rows(c), add_rows, &job);
}
