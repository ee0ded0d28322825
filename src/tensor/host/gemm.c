/* tensor/host/gemm.c - matrix products: OpenBLAS on one thread for a block, our pool for the blocks.
 *
 * OpenBLAS's own threads would cut by their number, and with it change the order of sums. Here the
 * cut depends on the sizes alone. */
#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "tensor/host/ranges.h"
#include "tensor/kernels.h"

#ifdef STET_DOUBLE
#define CBLAS_GEMM cblas_dgemm
#else
#define CBLAS_GEMM cblas_sgemm
#endif

#ifdef STET_HAVE_OPENBLAS
/* Each product that runs takes a buffer of this size. OpenBLAS keeps a buffer once it has it, but where it gets none it
 * tries for ever. So we take one for each thread beforehand, and give up if that fails. */
enum { BLAS_BUFFER = 129 << 20 };
void *blas_memory_alloc(int unused); /* OpenBLAS exports these two without a header */
void blas_memory_free(void *buffer);

static bool room_for_buffer(void)
{
    void *p = mmap(NULL, BLAS_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && munmap(p, BLAS_BUFFER) == 0;
}

/* All at once: a buffer that was given back would be handed out again. */
static stet_status take_buffers(void **buffer, int n)
{
    int got = 0;
    while (got < n && room_for_buffer())
        buffer[got++] = blas_memory_alloc(0);
    for (int i = 0; i < got; i++)
        blas_memory_free(buffer[i]);
    return got == n ? STET_OK
                    : error_set(STET_ENOMEM,
                                "out of memory: matrix products need 128 MB of address space for "
                                "each of %d threads; use fewer threads",
                                n);
}

stet_status gemm_prepare(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int prepared; /* for this number of threads */
    const int n = stet_threads();
    stet_status st = STET_OK;
    pthread_mutex_lock(&lock);
    if (n > 1 && openblas_get_parallel() == 0) {
        st = error_set(STET_ENOTSUP,
                       "%s: this build of OpenBLAS must not be called from several threads: use "
                       "its pthread build (libopenblas0-pthread) or one thread",
                       openblas_get_config());
    } else if (n > prepared) {
        openblas_set_num_threads(1);
        void **buffer = mem_alloc((size_t)n, sizeof *buffer);
        st = buffer ? take_buffers(buffer, n) : STET_ENOMEM;
        mem_free(buffer);
        if (st == STET_OK)
            prepared = n;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static void one_blas_thread(void)
{
    openblas_set_num_threads(1);
}

const char *blas_name(void)
{
    return openblas_get_config();
}

/* For a small product of matrices that are not transposed, OpenBLAS 0.3.21 copies up to 15 columns of b
 * into memory that it takes without looking whether it got any. Nobody else can do more than to try
 * just before: 15 ns, of 200 ns and more. With the C library's allocator, which is OpenBLAS's. */
static bool room_to_pack(bool ta, bool tb, size_t m, size_t n, size_t k)
{
    if (ta || tb || (double)m * (double)n * (double)k > 1e6)
        return true;
    void *volatile p = malloc(16 * k * sizeof(real) + 1); /* volatile: or the pair is left out */
    free(p);
    return p != NULL;
}
#else
static void one_blas_thread(void)
{
}

stet_status gemm_prepare(void)
{
    return STET_OK;
}

const char *blas_name(void)
{
    return "cblas";
}

static bool room_to_pack(bool ta, bool tb, size_t m, size_t n, size_t k)
{
    (void)ta, (void)tb, (void)m, (void)n, (void)k;
    return true;
}
#endif

static stet_status no_room(void)
{
    return error_set(STET_ENOMEM, "out of memory for a matrix product");
}

stet_status gemm_serial(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a,
                        size_t lda, const real *b, size_t ldb, real beta, real *c, size_t ldc)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, one_blas_thread);
    if (!room_to_pack(ta, tb, m, n, k))
        return no_room();
    CBLAS_GEMM(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
               (blasint)m, (blasint)n, (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, beta, c,
               (blasint)ldc);
    return STET_OK;
}

/* blocks ------------------------------------------------------------------------------------- */

/* Blocks of rows x cols of the result and depth of the inner size; how many in each direction. */
typedef struct cuts {
    size_t rows, cols, depth;
    size_t down, across, deep;
} cuts;

typedef struct gemm_job {
    bool ta, tb;
    size_t m, n, k;
    real alpha;
    const real *a;
    size_t lda;
    const real *b;
    size_t ldb;
    real beta;
    real *c;
    size_t ldc;
    cuts cut;
    real *partial; /* (deep - 1, m, n): layer 0 goes to c itself */
    atomic_bool failed;
} gemm_job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* A whole number of vectors, never 0. */
static size_t block_size(size_t total, size_t blocks)
{
    enum { STEP = 16 };
    const size_t size = divide_up(divide_up(total, blocks), STEP) * STEP;
    return size ? size : STEP;
}

static void gemm_block(void *ctx, size_t i, int worker)
{
    (void)worker;
    gemm_job *g = ctx;
    const cuts *cut = &g->cut;
    const size_t layer = i / (cut->down * cut->across), tile = i % (cut->down * cut->across);
    const size_t row = tile / cut->across * cut->rows, col = tile % cut->across * cut->cols;
    const size_t at = layer * cut->depth;
    const size_t m = smaller(cut->rows, g->m - row), n = smaller(cut->cols, g->n - col);
    const size_t k = smaller(cut->depth, g->k - at);
    const real *a = g->a + (g->ta ? at * g->lda + row : row * g->lda + at);
    const real *b = g->b + (g->tb ? col * g->ldb + at : at * g->ldb + col);
    const bool first = layer == 0;
    real *c = first ? g->c + row * g->ldc + col
                    : g->partial + ((layer - 1) * g->m + row) * g->n + col;
    if (gemm_serial(g->ta, g->tb, m, n, k, g->alpha, a, g->lda, b, g->ldb, first ? g->beta : 0, c,
                    first ? g->ldc : g->n) != STET_OK)
        atomic_store(&g->failed, true);
}

static SIMD_CLONES void add_layers(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const gemm_job *g = ctx;
    for (size_t i = begin; i < end; i++) {
        real *RESTRICT c = g->c + i * g->ldc;
        for (size_t layer = 1; layer < g->cut.deep; layer++) {
            const real *RESTRICT p = g->partial + ((layer - 1) * g->m + i) * g->n;
            for (size_t j = 0; j < g->n; j++)
                c[j] += p[j];
        }
    }
}

/* Double the number of blocks in the direction that costs the least extra traffic, until a block is
 * little work or no direction can be halved. A row of blocks packs b again, a column of blocks
 * packs a again (measured to hurt four times as much), and a layer of them writes and reads another
 * c. Powers of two keep the blocks equal, and most numbers of threads divide them well. */
static cuts choose_cuts(size_t m, size_t n, size_t k, bool may_cut_k)
{
    const double most = 220e6; /* operations in a block: about two milliseconds of one core */
    enum { MIN_SIDE = 64, MIN_DEPTH = 256 };
    const double a_size = (double)m * (double)k, b_size = (double)k * (double)n;
    const double c_size = (double)m * (double)n, work = 2 * c_size * (double)k;
    size_t down = 1, across = 1, deep = 1;
    while (work / (double)(down * across * deep) > most) {
        const bool halve_k = may_cut_k && k / deep >= 2 * MIN_DEPTH;
        const double by_rows = m / down >= 2 * MIN_SIDE ? b_size * (double)down : INFINITY;
        const double by_cols = n / across >= 2 * MIN_SIDE ? 4 * a_size * (double)across : INFINITY;
        const double by_depth = halve_k ? 2 * c_size * (double)deep : INFINITY;
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
    cuts cut = {block_size(m, down), block_size(n, across), block_size(k, deep), 0, 0, 0};
    cut.down = divide_up(m, cut.rows);
    cut.across = divide_up(n, cut.cols);
    cut.deep = k ? divide_up(k, cut.depth) : 1; /* c still has to be scaled */
    return cut;
}

static stet_status run_blocks(gemm_job *g)
{
    const size_t blocks = g->cut.down * g->cut.across * g->cut.deep;
    if (blocks == 1)
        gemm_block(g, 0, 0);
    else
        pool_run(blocks, gemm_block, g);
    if (g->cut.deep > 1)
        ranges_run(g->m, ranges_rows(g->n * g->cut.deep), add_layers, g);
    return atomic_load(&g->failed) ? no_room() : STET_OK;
}

stet_status gemm(bool ta, bool tb, size_t m, size_t n, size_t k, real alpha, const real *a,
                 size_t lda, const real *b, size_t ldb, real beta, real *c, size_t ldc)
{
    const cuts cut = choose_cuts(m, n, k, false);
    return run_blocks(
        &(gemm_job){ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, cut, NULL, false});
}

stet_status gemm_long(arena *mem, bool ta, bool tb, size_t m, size_t n, size_t k, real alpha,
                      const real *a, size_t lda, const real *b, size_t ldb, real beta, real *c,
                      size_t ldc)
{
    const cuts cut = choose_cuts(m, n, k, true);
    const arena_mark mark = arena_save(mem);
    real *partial = NULL;
    if (cut.deep > 1) {
        partial = arena_new(mem, real, (cut.deep - 1) * m * n);
        if (!partial)
            return STET_ENOMEM;
    }
    const stet_status st = run_blocks(
        &(gemm_job){ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, cut, partial, false});
    arena_restore(mem, mark);
    return st;
}
