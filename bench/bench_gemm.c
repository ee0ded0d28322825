/* bench/bench_gemm.c - GFLOP/s of matrix products at the sizes of the models, beside plain OpenBLAS
 * with all threads. The last cases are the recurrent sizes, where one core works alone. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench.h"
#include "tensor/kernels.h"

typedef struct product {
    const char *name;
    bool ta, tb;
    size_t m, k, n;
    real *a, *b, *c;
} product;

/* m x k times k x n */
static product cases[] = {
    {"3500x300x512", false, true, 3500, 300, 512, NULL, NULL, NULL},
    {"3500x300x1536", false, true, 3500, 300, 1536, NULL, NULL, NULL},
    {"14000x256x512", false, true, 14000, 256, 512, NULL, NULL, NULL},
    {"512x3500x300 gradient", true, false, 512, 3500, 300, NULL, NULL, NULL},
    {"512x14000x256 gradient", true, false, 512, 14000, 256, NULL, NULL, NULL},
    {"64x64x256", false, true, 64, 64, 256, NULL, NULL, NULL},
    {"32x64x256", false, true, 32, 64, 256, NULL, NULL, NULL},
    {"16x64x256", false, true, 16, 64, 256, NULL, NULL, NULL},
};

static arena scratch;

static size_t lda(const product *p)
{
    return p->ta ? p->m : p->k;
}

static size_t ldb(const product *p)
{
    return p->tb ? p->k : p->n;
}

static void run_stet(void *ctx)
{
    const product *p = ctx;
    gemm_long(&scratch, p->ta, p->tb, p->m, p->n, p->k, 1, p->a, lda(p), p->b, ldb(p), 0, p->c,
              p->n);
}

static void run_openblas(void *ctx)
{
    const product *p = ctx;
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans,
                (int)p->m, (int)p->n, (int)p->k, 1, p->a, (int)lda(p), p->b, (int)ldb(p), 0, p->c,
                (int)p->n);
}

static real *random_matrix(rng *r, size_t count)
{
    real *x = mem_aligned(count, sizeof *x);
    if (!x) {
        fprintf(stderr, "%s\n", stet_last_error());
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        x[i] = (real)rng_range(r, -1, 1);
    return x;
}

/* Worst error of a sample of entries, relative to sum |a||b| of the entry. */
static double worst_error(const product *p, rng *r)
{
    double worst = 0;
    for (int trial = 0; trial < 2000; trial++) {
        const size_t i = rng_below(r, p->m), j = rng_below(r, p->n);
        double sum = 0, size = 0;
        for (size_t l = 0; l < p->k; l++) {
            const double a = (double)p->a[p->ta ? l * p->m + i : i * p->k + l];
            const double b = (double)p->b[p->tb ? j * p->k + l : l * p->n + j];
            sum += a * b;
            size += fabs(a * b);
        }
        worst = fmax(worst, fabs((double)p->c[i * p->n + j] - sum) / size);
    }
    return worst;
}

static void measure(product *p, rng *r)
{
    p->a = random_matrix(r, p->m * p->k);
    p->b = random_matrix(r, p->k * p->n);
    p->c = random_matrix(r, p->m * p->n);
    run_stet(p);
    bench_check(p->name, worst_error(p, r), 1e-6);

    const double gflop = 2e-9 * (double)p->m * (double)p->k * (double)p->n;
    bench_rate(p->name, "stet", bench_measure(run_stet, p), gflop, "GFLOP/s");
    openblas_set_num_threads(stet_threads());
    bench_rate(p->name, "OpenBLAS, all threads", bench_measure(run_openblas, p), gflop, "GFLOP/s");
    openblas_set_num_threads(1);
    bench_rate(p->name, "OpenBLAS, one thread", bench_measure(run_openblas, p), gflop, "GFLOP/s");
    mem_free_aligned(p->a);
    mem_free_aligned(p->b);
    mem_free_aligned(p->c);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "gemm", "matrix products at the sizes of the models");
    rng r = rng_stream(1, STREAM_BENCH, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        measure(&cases[i], &r);
    arena_deinit(&scratch);
    return bench_finish();
}
