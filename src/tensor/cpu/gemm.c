/* tensor/cpu/gemm.c - matrix products: OpenBLAS on one thread for a block, our pool for the blocks.
 *
 * OpenBLAS's own threads would cut by their number, and with it change the order of sums. Here the
 * cut depends on the sizes alone. */
#include <cblas.h>
#include <pthread.h>

#include "base/pool.h"
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
    size_t rows, cols; /* of a block */
    size_t across;     /* blocks side by side */
} gemm_job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void gemm_block(void *ctx, size_t i, int worker)
{
    (void)worker;
    const gemm_job *g = ctx;
    const size_t row = i / g->across * g->rows, col = i % g->across * g->cols;
    const size_t m = smaller(g->rows, g->m - row), n = smaller(g->cols, g->n - col);
    gemm_serial(g->ta, g->tb, m, n, g->k, g->alpha, g->a + (g->ta ? row : row * g->lda), g->lda,
                g->b + (g->tb ? col * g->ldb : col), g->ldb, g->beta, g->c + row * g->ldc + col,
                g->ldc);
}

/* Halve the longer side until a block is small work or would be a sliver. Halving keeps the blocks
 * equal, and their number a power of two, which most numbers of threads divide well. */
static void choose_blocks(gemm_job *g)
{
    const double enough = 32e6; /* operations in a block: some 300 microseconds of one core */
    enum { SLIVER = 64, STEP = 16 };
    size_t down = 1, across = 1;
    while (2.0 * (double)g->m * (double)g->n * (double)g->k / (double)(down * across) >
           2 * enough) {
        const size_t rows = g->m / down, cols = g->n / across;
        if (smaller(SLIVER, rows / 2) < SLIVER && smaller(SLIVER, cols / 2) < SLIVER)
            break;
        if (rows >= cols)
            down *= 2;
        else
            across *= 2;
    }
    const size_t rows = (g->m + down - 1) / down, cols = (g->n + across - 1) / across;
    g->rows = (rows + STEP - 1) / STEP * STEP;
    g->cols = (cols + STEP - 1) / STEP * STEP;
    g->across = (g->n + g->cols - 1) / g->cols;
}

void gemm(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a, size_t lda,
          const real *b, size_t ldb, real beta, real *c, size_t ldc)
{
    gemm_job g = {ta, tb, m, n, k, alpha, beta, a, b, c, lda, ldb, ldc, 0, 0, 0};
    choose_blocks(&g);
    const size_t down = (m + g.rows - 1) / g.rows;
    if (down * g.across == 1)
        gemm_serial(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else
        pool_run(down * g.across, gemm_block, &g);
}
