/* bench/bench_gemm.c - GFLOP/s of matrix products at the sizes of the models, beside plain OpenBLAS
 * with all threads. The last cases are the recurrent sizes, where one core works alone and the
 * weights may be transposed beforehand: there libxsmm, if the build found it, is measured too. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LIBXSMM
#include <libxsmm.h>
#endif

#include "base/mem.h"
#include "base/rng.h"
#include "bench.h"
#include "tensor/host/lstm_step.h"
#include "tensor/kernels.h"

typedef struct product {
    const char *name;
    bool ta, tb;
    size_t m, k, n;
    real *a, *b, *c;
} product;

/* m x k times k x n; the first as the models have their weights, (n, k). */
static product cases[] = {
    {"3500x300x512", false, true, 3500, 300, 512, NULL, NULL, NULL},
    {"3500x300x1536", false, true, 3500, 300, 1536, NULL, NULL, NULL},
    {"14000x256x512", false, true, 14000, 256, 512, NULL, NULL, NULL},
    {"512x3500x300 gradient", true, false, 512, 3500, 300, NULL, NULL, NULL},
    {"512x14000x256 gradient", true, false, 512, 14000, 256, NULL, NULL, NULL},
};

static product recurrent[] = {
    {"64x64x256", false, false, 64, 64, 256, NULL, NULL, NULL},
    {"32x64x256", false, false, 32, 64, 256, NULL, NULL, NULL},
    {"16x64x256", false, false, 16, 64, 256, NULL, NULL, NULL},
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

static double prepare(product *p, rng *r)
{
    p->a = random_matrix(r, p->m * p->k);
    p->b = random_matrix(r, p->k * p->n);
    p->c = random_matrix(r, p->m * p->n);
    run_stet(p);
    bench_check(p->name, worst_error(p, r), 1e-6);
    return 2e-9 * (double)p->m * (double)p->k * (double)p->n;
}

static void release(product *p)
{
    mem_free_aligned(p->a);
    mem_free_aligned(p->b);
    mem_free_aligned(p->c);
}

static void measure(product *p, rng *r)
{
    const double gflop = prepare(p, r);
    bench_rate(p->name, "stet", bench_measure(run_stet, p), gflop, "GFLOP/s");
    openblas_set_num_threads(stet_threads());
    bench_rate(p->name, "OpenBLAS, all threads", bench_measure(run_openblas, p), gflop, "GFLOP/s");
    openblas_set_num_threads(1);
    bench_rate(p->name, "OpenBLAS, one thread", bench_measure(run_openblas, p), gflop, "GFLOP/s");
    release(p);
}

#ifdef HAVE_LIBXSMM
typedef struct xsmm_product {
    const product *p;
    libxsmm_smmfunction kernel;
} xsmm_product;

/* Its matrices are column-major: the transposed product. */
static void run_libxsmm(void *ctx)
{
    const xsmm_product *x = ctx;
    x->kernel(x->p->b, x->p->a, x->p->c);
}

static void measure_libxsmm(const product *p, double gflop, rng *r)
{
    const float one = 1, zero = 0;
    xsmm_product x = {p, libxsmm_smmdispatch((int)p->n, (int)p->m, (int)p->k, NULL, NULL, NULL,
                                             &one, &zero, NULL, NULL)};
    if (!x.kernel)
        return;
    run_libxsmm(&x);
    bench_check(p->name, worst_error(p, r), 1e-6);
    bench_rate(p->name, "libxsmm", bench_measure(run_libxsmm, &x), gflop, "GFLOP/s");
}
#else
static void measure_libxsmm(const product *p, double gflop, rng *r)
{
    (void)p, (void)gflop, (void)r;
}
#endif

/* The LSTM's own kernel on a product of that size: du (4H, H) += dz (n, 4H)^T h (n, H). */
typedef struct lstm_product {
    lstm_cell cell;
    size_t n;
    real *dz, *h, *du;
} lstm_product;

static void run_lstm(void *ctx)
{
    const lstm_product *l = ctx;
    lstm_recurrent_gradient(l->cell.H, l->n, l->dz, l->cell.G, l->h, l->cell.P, l->du);
}

static void measure_lstm(const product *p, double gflop, rng *r)
{
    lstm_product l = {.cell = {.H = p->k, .G = lstm_padded(p->n), .P = lstm_padded(p->k)},
                      .n = p->m};
    const size_t size = p->n * l.cell.P;
    l.dz = random_matrix(r, l.n * l.cell.G);
    l.h = random_matrix(r, l.n * l.cell.P);
    l.du = random_matrix(r, size);
    memset(l.du, 0, size * sizeof *l.du);
    run_lstm(&l);
    const product same = {p->name, true, false, p->n, l.n, p->k, l.dz, l.h, l.du};
    bench_check(p->name, worst_error(&same, r), 1e-6);
    bench_rate(p->name, "stet, LSTM kernel", bench_measure(run_lstm, &l), gflop, "GFLOP/s");
    mem_free_aligned(l.dz);
    mem_free_aligned(l.h);
    mem_free_aligned(l.du);
}

static void measure_recurrent(product *p, rng *r)
{
    product as_given = *p;
    as_given.tb = true;
    const double gflop = prepare(&as_given, r);
    bench_rate(p->name, "OpenBLAS, w (n, k)", bench_measure(run_openblas, &as_given), gflop,
               "GFLOP/s");
    release(&as_given);
    prepare(p, r);
    bench_rate(p->name, "OpenBLAS, w (k, n)", bench_measure(run_openblas, p), gflop, "GFLOP/s");
    measure_libxsmm(p, gflop, r);
    measure_lstm(p, gflop, r);
    release(p);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "gemm", "matrix products at the sizes of the models");
    rng r = rng_stream(1, STREAM_BENCH, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        measure(&cases[i], &r);
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++)
        measure_recurrent(&recurrent[i], &r);
    arena_deinit(&scratch);
    return bench_finish();
}
