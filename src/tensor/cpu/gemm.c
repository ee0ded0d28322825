/* tensor/cpu/gemm.c - matrix products: OpenBLAS on one thread for a block, our pool for the blocks.
 *
 * OpenBLAS's own threads would cut by their number, and with it change the order of sums. Here the
 * cut depends on the sizes alone. */
#include <cblas.h>
#include <math.h>
#include <pthread.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/cpu/ranges.h"
#include "tensor/kernels.h"

#ifdef STET_DOUBLE
#define CBLAS_GEMM cblas_dgemm
#else
#define CBLAS_GEMM cblas_sgemm
#endif

#ifdef STET_HAVE_OPENBLAS
static void one_blas_thread(void)
{
    openblas_set_num_threads(1);
}

const char *blas_name(void)
{
    return openblas_get_config();
}
#else
static void one_blas_thread(void)
{
}

const char *blas_name(void)
{
    return "cblas";
}
#endif

void gemm_serial(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a,
                 size_t lda, const real *b, size_t ldb, real beta, real *c, size_t ldc)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, one_blas_thread);
    CBLAS_GEMM(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
               (blasint)m, (blasint)n, (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, beta, c,
               (blasint)ldc);
}

/* blocks ------------------------------------------------------------------------------------- */

typedef struct gemm_job {
    bool ta, tb;
    size_t m, n, k;
    real alpha, beta;
    const real *a, *b;
    real *c;
    size_t lda, ldb, ldc;
    size_t rows, cols, depth;  /* of a block */
    size_t down, across, deep; /* blocks in each direction */
    real *partial;             /* (deep - 1, m, n): layer 0 goes to c itself */
} gemm_job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static void gemm_block(void *ctx, size_t i, int worker)
{
    (void)worker;
    const gemm_job *g = ctx;
    const size_t layer = i / (g->down * g->across), tile = i % (g->down * g->across);
    const size_t row = tile / g->across * g->rows, col = tile % g->across * g->cols;
    const size_t at = layer * g->depth;
    const size_t m = smaller(g->rows, g->m - row), n = smaller(g->cols, g->n - col);
    const size_t k = smaller(g->depth, g->k - at);
    const real *a = g->a + (g->ta ? at * g->lda + row : row * g->lda + at);
    const real *b = g->b + (g->tb ? col * g->ldb + at : at * g->ldb + col);
    if (layer == 0)
        gemm_serial(g->ta, g->tb, m, n, k, g->alpha, a, g->lda, b, g->ldb, g->beta,
                    g->c + row * g->ldc + col, g->ldc);
    else
        gemm_serial(g->ta, g->tb, m, n, k, g->alpha, a, g->lda, b, g->ldb, 0,
                    g->partial + ((layer - 1) * g->m + row) * g->n + col, g->n);
}

static SIMD_CLONES void add_layers(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const gemm_job *g = ctx;
    for (size_t i = begin; i < end; i++) {
        real *RESTRICT c = g->c + i * g->ldc;
        for (size_t layer = 1; layer < g->deep; layer++) {
            const real *RESTRICT p = g->partial + ((layer - 1) * g->m + i) * g->n;
            for (size_t j = 0; j < g->n; j++)
                c[j] += p[j];
        }
    }
}

/* Double the number of blocks in the direction that costs the least extra traffic, until a block is
 * little work or no direction can be halved. A row of blocks packs b again, a column of blocks
 * packs a again, and a layer of them writes and reads another c. Powers of two keep the blocks
 * equal, and most numbers of threads divide them well. */
static void choose_blocks(gemm_job *g, bool may_cut_k)
{
    const double enough = 80e6; /* operations in a block: about a millisecond of one core */
    enum { MIN_SIDE = 64, MIN_DEPTH = 256, STEP = 16 };
    const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    size_t down = 1, across = 1, deep = 1;
    while (2 * m * n * k / (double)(down * across * deep) > 2 * enough) {
        const double by_rows = g->m / down >= 2 * MIN_SIDE ? k * n * (double)down : INFINITY;
        const double by_cols = g->n / across >= 2 * MIN_SIDE ? m * k * (double)across : INFINITY;
        const double by_depth =
            may_cut_k && g->k / deep >= 2 * MIN_DEPTH ? 2 * m * n * (double)deep : INFINITY;
        const double least = fmin(by_rows, fmin(by_cols, by_depth));
        if (least == INFINITY)
            break;
        else if (least == by_rows)
            down *= 2;
        else if (least == by_cols)
            across *= 2;
        else
            deep *= 2;
    }
    g->rows = divide_up(divide_up(g->m, down), STEP) * STEP;
    g->cols = divide_up(divide_up(g->n, across), STEP) * STEP;
    g->depth = divide_up(divide_up(g->k, deep), STEP) * STEP;
    g->down = divide_up(g->m, g->rows);
    g->across = divide_up(g->n, g->cols);
    g->deep = divide_up(g->k, g->depth);
}

static void run_blocks(gemm_job *g)
{
    const size_t blocks = g->down * g->across * g->deep;
    if (blocks == 1)
        gemm_serial(g->ta, g->tb, g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b, g->ldb, g->beta,
                    g->c, g->ldc);
    else
        pool_run(blocks, gemm_block, g);
    if (g->deep > 1)
        ranges_run(g->m, ranges_rows(g->n * g->deep), add_layers, g);
}

void gemm(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a, size_t lda,
          const real *b, size_t ldb, real beta, real *c, size_t ldc)
{
    gemm_job g = {.ta = ta,
                  .tb = tb,
                  .m = m,
                  .n = n,
                  .k = k,
                  .alpha = alpha,
                  .a = a,
                  .lda = lda,
                  .b = b,
                  .ldb = ldb,
                  .beta = beta,
                  .c = c,
                  .ldc = ldc};
    choose_blocks(&g, false);
    run_blocks(&g);
}

stet_status gemm_long(arena *mem, bool ta, bool tb, size_t m, size_t n, size_t k, real alpha,
                      const real *a, size_t lda, const real *b, size_t ldb, real beta, real *c,
                      size_t ldc)
{
    gemm_job g = {.ta = ta,
                  .tb = tb,
                  .m = m,
                  .n = n,
                  .k = k,
                  .alpha = alpha,
                  .a = a,
                  .lda = lda,
                  .b = b,
                  .ldb = ldb,
                  .beta = beta,
                  .c = c,
                  .ldc = ldc};
    choose_blocks(&g, true);
    const arena_mark mark = arena_save(mem);
    if (g.deep > 1) {
        g.partial = arena_new(mem, real, (g.deep - 1) * m * n);
        if (!g.partial)
            return STET_ENOMEM;
    }
    run_blocks(&g);
    arena_restore(mem, mark);
    return STET_OK;
}
