/* bench/bench.h - timing, the same way in every program of this folder.
 *
 *     int main(int argc, char **argv)
 *     {
 *         bench_start(argc, argv, "gemm", "matrix products beside plain OpenBLAS");
 *         bench_check("3500x300x512", worst_error(...), 1e-5);       // the answer before the time
 *         const bench_time t = bench_measure(run_product, &product);
 *         bench_rate("3500x300x512", "stet", t, flops * 1e-9, "GFLOP/s");
 *         return bench_finish();
 *     }
 *
 * Options of every program: --json (one object a line), --samples N (default 25), --threads N,
 * --cpu-time (with one thread, on a busy machine).
 * The first lines name the machine, the compiler and the commit. */
#ifndef STET_BENCH_H
#define STET_BENCH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_time {
    double best, median; /* seconds of one call */
    size_t samples;
} bench_time;

typedef void bench_fn(void *ctx);

void bench_start(int argc, char **argv, const char *name, const char *question);
/* Ends the program with a message when the answer is off. */
void bench_check(const char *what, double error, double tolerance);
/* Warm-up first (dropped); a sample is as many calls as take about a millisecond. */
bench_time bench_measure(bench_fn *fn, void *ctx);
/* Samples of several candidates taken in turn, so that a disturbance meets all alike. */
void bench_measure_each(bench_fn *const *fn, void *const *ctx, size_t n, bench_time *out);
/* One line: `work` units of work are done by one call. */
void bench_rate(const char *what, const char *who, bench_time t, double work, const char *unit);
bool bench_json(void); /* tables for people are not wanted */
int bench_finish(void);

#endif
