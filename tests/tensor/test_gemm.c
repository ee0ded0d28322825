/* Products against plain sums in double, around the sizes where work is cut. */
#include "test.h"

#include "base/rng.h"
#include "base/strmap.h"
#include "tensor/kernels.h"

typedef struct matrices {
    arena mem;
    bool ta, tb;
    size_t m, n, k, lda, ldb, ldc;
    real *a, *b, *c;
} matrices;

static real *random_matrix(arena *mem, size_t rows, size_t ld, rng *r)
{
    real *x = arena_new(mem, real, rows * ld);
    CHECK(x);
    for (size_t i = 0; i < rows * ld; i++)
        x[i] = (real)rng_range(r, -1, 1);
    return x;
}

/* Every matrix is `gap` columns wider than it needs to be. */
static matrices make(bool ta, bool tb, size_t m, size_t n, size_t k, size_t gap)
{
    rng r = rng_stream(5, STREAM_TEST, m * 31 + n * 7 + k);
    matrices x = {.ta = ta, .tb = tb, .m = m, .n = n, .k = k};
    x.lda = (ta ? m : k) + gap;
    x.ldb = (tb ? k : n) + gap;
    x.ldc = n + gap;
    x.a = random_matrix(&x.mem, ta ? k : m, x.lda, &r);
    x.b = random_matrix(&x.mem, tb ? n : k, x.ldb, &r);
    x.c = random_matrix(&x.mem, m, x.ldc, &r);
    return x;
}

static void multiply(matrices *x, real alpha, real beta, bool may_cut_k)
{
    if (may_cut_k)
        CHECK_OK(gemm_long(&x->mem, x->ta, x->tb, x->m, x->n, x->k, alpha, x->a, x->lda, x->b,
                           x->ldb, beta, x->c, x->ldc));
    else
        gemm(x->ta, x->tb, x->m, x->n, x->k, alpha, x->a, x->lda, x->b, x->ldb, beta, x->c, x->ldc);
}

static double exact(const matrices *x, size_t i, size_t j)
{
    double sum = 0;
    for (size_t l = 0; l < x->k; l++)
        sum += (double)x->a[x->ta ? l * x->lda + i : i * x->lda + l] *
               (double)x->b[x->tb ? j * x->ldb + l : l * x->ldb + j];
    return sum;
}

/* All entries of small products, every 37th of large ones; and the gap is left alone. */
static void check_product(bool ta, bool tb, size_t m, size_t n, size_t k, bool may_cut_k)
{
    matrices x = make(ta, tb, m, n, k, 3);
    matrices before = make(ta, tb, m, n, k, 3);
    multiply(&x, (real)0.5, 2, may_cut_k);
    const double tolerance = 1e-6 * sqrt((double)k + 1);
    for (size_t at = 0; at < m * x.ldc; at += m * n * k < 100000 ? 1 : 37) {
        const size_t i = at / x.ldc, j = at % x.ldc;
        const double old = (double)before.c[at];
        CHECK_NEAR(x.c[at], j < n ? 0.5 * exact(&x, i, j) + 2 * old : old, tolerance);
    }
    arena_deinit(&x.mem);
    arena_deinit(&before.mem);
}

TEST(products_are_right_in_all_transpositions)
{
    static const size_t size[][3] = {{1, 1, 1},        {3, 5, 2},       {17, 33, 16},
                                     {64, 256, 64},    {5, 4, 0},       {2000, 150, 450},
                                     {150, 2000, 450}, {300, 260, 1500}};
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int mode = 0; mode < 8; mode++)
            check_product(mode & 1, mode & 2, size[s][0], size[s][1], size[s][2], mode & 4);
}

TEST(a_result_that_is_not_kept_may_be_anything_before)
{
    for (int cut = 0; cut < 2; cut++) {
        matrices x = make(true, false, 300, 260, 1500, 0);
        for (size_t i = 0; i < 300 * 260; i++)
            x.c[i] = NAN;
        multiply(&x, 1, 0, cut);
        for (size_t i = 0; i < 300 * 260; i++)
            CHECK(!isnan(x.c[i]));
        arena_deinit(&x.mem);
    }
}

static uint64_t hash_product(int threads, size_t m, size_t n, size_t k, bool may_cut_k)
{
    stet_set_threads(threads);
    matrices x = make(false, true, m, n, k, 0);
    multiply(&x, 1, 1, may_cut_k);
    const uint64_t h = hash_bytes(x.c, m * n * sizeof *x.c, 0);
    arena_deinit(&x.mem);
    return h;
}

TEST(cuts_do_not_depend_on_the_number_of_threads)
{
    for (int cut = 0; cut < 2; cut++)
        for (int threads = 2; threads <= 5; threads++) {
            CHECK(hash_product(threads, 1500, 200, 500, cut) ==
                  hash_product(1, 1500, 200, 500, cut));
            CHECK(hash_product(threads, 200, 150, 4000, cut) ==
                  hash_product(1, 200, 150, 4000, cut));
        }
}

TEST(vector_sums_are_right_at_every_length)
{
    enum { MAX = 100 };
    real x[MAX], y[MAX], z[MAX];
    rng r = rng_stream(6, STREAM_TEST, 0);
    for (size_t i = 0; i < MAX; i++) {
        x[i] = (real)rng_range(&r, -1, 1);
        y[i] = (real)rng_range(&r, -1, 1);
    }
    double dot = 0, sumsq = 0;
    for (size_t n = 0; n < MAX; n++) {
        CHECK_NEAR(vec_dot(x, y, n), dot, 1e-5);
        CHECK_NEAR(vec_sumsq(x, n), sumsq, 1e-12);
        memcpy(z, y, sizeof z);
        vec_axpy(3, x, z, n);
        for (size_t i = 0; i < MAX; i++)
            CHECK_NEAR(z[i], (double)y[i] + (i < n ? 3 * (double)x[i] : 0), 1e-6);
        dot += (double)x[n] * (double)y[n];
        sumsq += (double)x[n] * (double)x[n];
    }
}
