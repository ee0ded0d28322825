/* bound/inspect.c - see stet/bound.h: one matrix for every model, and the constants that follow
 * from it. */
#include "stet/bound.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/mem.h"
#include "bound/bounds.h"

/* ---- memory ------------------------------------------------------------------------------- */

stet_status matrix_init(stet_gbm *g, const model *m, const matrix_shape *s)
{
    snprintf(g->kind, sizeof g->kind, "%s", m->desc->name);
    g->rows = s->rows;
    g->group = s->group;
    g->map = s->map;
    for (int part = 0; part < STET_GBM_PARTS; part++)
        g->part_end[part] = g->cols += s->cols[part];
    size_t cells;
    if (!size_mul(g->rows, g->cols, &cells))
        return error_set(STET_ENOMEM, "growth bound matrix of %zu x %zu is too large", g->rows,
                         g->cols);
    g->m = mem_zalloc(cells, sizeof *g->m);
    g->row_sum = mem_zalloc(g->rows, sizeof *g->row_sum);
    g->col_sum = mem_zalloc(g->cols, sizeof *g->col_sum);
    return g->m && g->row_sum && g->col_sum ? STET_OK : STET_ENOMEM;
}

void stet_gbm_deinit(stet_gbm *g)
{
    mem_free(g->m);
    mem_free(g->row_sum);
    mem_free(g->col_sum);
    *g = (stet_gbm){0};
}

stet_status matrix_logit_sum(const model *m, const real *words, const real *states, double *out)
{
    arena mem = {0};
    tape t;
    node **params;
    gbm_report report;
    tape_init(&t, &mem, NULL, false);
    stet_status st = model_nodes(m, &t, NULL, &params);
    if (st == STET_OK) {
        gbm_term_args a = {.of = GBM_OF_LOGITS, .k = {1, 1, 1}};
        if (words) {
            const size_t H = bounds_of(m)->states->units(m);
            a.words = tape_numbers(&t, shape2(2, m->dim), words);
            for (size_t d = 0; d < 2; d++)
                a.state[d] = tape_numbers(&t, shape2(4, H), states + d * 4 * H);
        }
        node *y = gbm_term(m, &t, params, &a, &report);
        st = tape_read(&t, &y, 1, out);
    }
    arena_deinit(&mem);
    return st;
}

/* ---- constants ---------------------------------------------------------------------------- */

/* The largest singular value of rows [from, from + n) by power iteration on M^T M; from below, to
 * about 1e-9. */
static stet_status norm2(const stet_gbm *g, size_t from, size_t n, double *out)
{
    enum { STEPS = 1000 };
    double *x = mem_alloc(2 * g->cols + n, sizeof *x);
    if (!x)
        return STET_ENOMEM;
    double *next = x + g->cols, *y = next + g->cols, last = 0;
    for (size_t c = 0; c < g->cols; c++)
        x[c] = 1 / sqrt((double)g->cols);
    *out = 0;
    for (int k = 0; k < STEPS; k++) {
        double size = 0;
        memset(next, 0, g->cols * sizeof *next);
        for (size_t r = 0; r < n; r++) {
            const float *row = g->m + (from + r) * g->cols;
            y[r] = 0;
            for (size_t c = 0; c < g->cols; c++)
                y[r] += (double)row[c] * x[c];
            for (size_t c = 0; c < g->cols; c++)
                next[c] += (double)row[c] * y[r];
        }
        for (size_t c = 0; c < g->cols; c++)
            size += next[c] * next[c];
        size = sqrt(size); /* |M^T M x| grows towards the square of the norm */
        *out = sqrt(size);
        if (!(size > 0) || !isfinite(size) || fabs(size - last) < 1e-13 * size)
            break;
        last = size;
        for (size_t c = 0; c < g->cols; c++)
            x[c] = next[c] / size;
    }
    mem_free(x);
    return STET_OK;
}

static double max2(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* Column sums and norms belong to one map. */
static stet_status constants(stet_gbm *g)
{
    const size_t map = g->map;
    double *col = mem_alloc(g->cols, sizeof *col);
    if (!col)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    for (size_t from = 0; st == STET_OK && from < g->rows; from += map) {
        memset(col, 0, g->cols * sizeof *col);
        for (size_t r = from; r < from + map; r++)
            for (size_t c = 0; c < g->cols; c++) {
                const double v = (double)g->m[r * g->cols + c];
                const int part = c < g->part_end[0]   ? STET_GBM_INPUT
                                 : c < g->part_end[1] ? STET_GBM_STATE
                                                      : STET_GBM_CELL;
                g->by_part[part] += v;
                g->row_sum[r] += v;
                g->col_sum[c] += v;
                col[c] += v;
                g->lipschitz.one_inf = max2(g->lipschitz.one_inf, v);
            }
        for (size_t r = from; r < from + map; r++)
            g->lipschitz.inf_inf = max2(g->lipschitz.inf_inf, g->row_sum[r]);
        for (size_t c = 0; c < g->cols; c++)
            g->lipschitz.one_one = max2(g->lipschitz.one_one, col[c]);
        double norm = 0;
        st = norm2(g, from, map, &norm);
        g->lipschitz.two_two = max2(g->lipschitz.two_two, norm);
    }
    mem_free(col);
    g->sum = g->by_part[STET_GBM_INPUT] + g->by_part[STET_GBM_STATE] + g->by_part[STET_GBM_CELL];
    return st;
}

void stet_gbm_options_init(stet_gbm_options *a, size_t size)
{
    const stet_gbm_options defaults = STET_GBM_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

bool stet_gbm_known(const char *kind)
{
    return bounds_named(kind)->matrix != NULL;
}

stet_status stet_gbm_of(const stet_model *m, const stet_gbm_options *given, stet_gbm *out)
{
    stet_gbm_options own = STET_GBM_DEFAULTS, *how = &own;
    *out = (stet_gbm){0};
    TRY(ARGS_TAKE(how, given));
    m = model_reading(m);
    const model_bounds *b = bounds_of(m);
    if (!b->matrix)
        return error_set(STET_ENOTSUP, "no growth bounds are known for a %s", m->desc->name);
    stet_status st = b->matrix(m, how, out);
    if (st == STET_OK)
        st = constants(out);
    if (st != STET_OK)
        stet_gbm_deinit(out);
    return st;
}

/* ---- names -------------------------------------------------------------------------------- */

const char *stet_gbm_row_name(const stet_gbm *g, size_t row, char *out, size_t size)
{
    bounds_named(g->kind)->row_name(g, row, out, size);
    return out;
}

const char *stet_gbm_col_name(const stet_gbm *g, size_t col, char *out, size_t size)
{
    bounds_named(g->kind)->col_name(g, col, out, size);
    return out;
}
