/* bench/bench.c - see bench.h. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stet/option.h"

enum { MIN_SAMPLES = 20, MAX_SAMPLES = 1000, MAX_CANDIDATES = 8, LINE = 256 };
static const double SAMPLE_S = 1e-3, WARM_UP_S = 0.05;

typedef struct bench_cfg {
    bool json, help, cpu_time;
    int64_t samples, threads;
} bench_cfg;

static const stet_opt options[] = {
    STET_OPT_FLAG("json", bench_cfg, json, "one JSON object a line"),
    STET_OPT_INT("samples", bench_cfg, samples, "25", MIN_SAMPLES, MAX_SAMPLES, "N",
                 "samples of each case"),
    STET_OPT_INT("threads", bench_cfg, threads, "0", 0, 512, "N",
                 "worker threads; 0: one per core"),
    STET_OPT_FLAG("cpu-time", bench_cfg, cpu_time,
                  "processor time of all threads instead of time passed: for busy machines"),
    STET_OPT_FLAG("help", bench_cfg, help, "this text"),
    STET_OPT_END,
};

static struct {
    bench_cfg cfg;
    const char *name;
    char machine[LINE], commit[LINE];
} bench;

/* The first line of a stream, without its end; "unknown" if there is none. */
static void first_line(FILE *f, char *out)
{
    if (!f || !fgets(out, LINE, f))
        snprintf(out, LINE, "unknown");
    out[strcspn(out, "\n")] = '\0';
}

static void find_machine(void)
{
    char line[LINE];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(bench.machine, LINE, "unknown");
    while (f && fgets(line, LINE, f))
        if (strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(bench.machine, LINE, "%s", strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

static void find_commit(void)
{
    FILE *f = popen("git -C '" STET_SOURCE_DIR "' describe --always --dirty 2>/dev/null", "r");
    first_line(f, bench.commit);
    if (f)
        pclose(f);
}

void bench_start(int argc, char **argv, const char *name, const char *question)
{
    stet_rest rest;
    bench.name = name;
    if (stet_opt_parse(options, &bench.cfg, argc - 1, argv + 1, &rest) != STET_OK || rest.n) {
        fprintf(stderr, "%s: %s\n", argv[0], rest.n ? "takes no arguments" : stet_last_error());
        exit(2);
    }
    char *help = NULL;
    if (bench.cfg.help && stet_opt_help(options, &help) == STET_OK) {
        printf("%s: %s\n%s", name, question, help);
        stet_free(help);
        exit(0);
    }
    stet_set_threads((int)bench.cfg.threads);
    find_machine();
    find_commit();
    if (!bench.cfg.json)
        printf("%s: %s\nmachine %s, %d threads\ncompiler %s\ncommit %s\n\n", name, question,
               bench.machine, stet_threads(), __VERSION__, bench.commit);
}

bool bench_json(void)
{
    return bench.cfg.json;
}

void bench_check(const char *what, double error, double tolerance)
{
    if (error <= tolerance)
        return;
    fprintf(stderr, "%s: %s: the answer is off by %g, more than %g\n", bench.name, what, error,
            tolerance);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(bench.cfg.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_calls(bench_fn *fn, void *ctx, size_t calls)
{
    const double start = now();
    for (size_t i = 0; i < calls; i++)
        fn(ctx);
    return (now() - start) / (double)calls;
}

/* Runs for a while and returns how many calls make one sample. */
static size_t warm_up(bench_fn *fn, void *ctx)
{
    const double start = now();
    double best = time_calls(fn, ctx, 1);
    while (now() - start < WARM_UP_S) {
        const double t = time_calls(fn, ctx, 1);
        best = t < best ? t : best;
    }
    return best >= SAMPLE_S ? 1 : (size_t)(SAMPLE_S / (best + 1e-9)) + 1;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_measure_each(bench_fn *const *fn, void *const *ctx, size_t n, bench_time *out)
{
    static double sample[MAX_CANDIDATES][MAX_SAMPLES];
    size_t calls[MAX_CANDIDATES];
    const size_t samples = (size_t)bench.cfg.samples;
    if (n > MAX_CANDIDATES)
        abort();
    for (size_t c = 0; c < n; c++)
        calls[c] = warm_up(fn[c], ctx[c]);
    for (size_t s = 0; s < samples; s++)
        for (size_t c = 0; c < n; c++)
            sample[c][s] = time_calls(fn[c], ctx[c], calls[c]);
    for (size_t c = 0; c < n; c++) {
        qsort(sample[c], samples, sizeof **sample, compare);
        out[c] = (bench_time){sample[c][0], sample[c][samples / 2], samples};
    }
}

bench_time bench_measure(bench_fn *fn, void *ctx)
{
    bench_time t;
    bench_measure_each(&fn, &ctx, 1, &t);
    return t;
}

void bench_rate(const char *what, const char *who, bench_time t, double work, const char *unit)
{
    if (bench.cfg.json)
        printf("{\"schema\":1,\"bench\":\"%s\",\"case\":\"%s\",\"who\":\"%s\",\"unit\":\"%s\","
               "\"best\":%.6g,\"median\":%.6g,\"best_s\":%.6g,\"median_s\":%.6g,\"samples\":%zu,"
               "\"threads\":%d,\"clock\":\"%s\",\"machine\":\"%s\",\"compiler\":\"%s\",\"commit\":"
               "\"%s\"}\n",
               bench.name, what, who, unit, work / t.best, work / t.median, t.best, t.median,
               t.samples, stet_threads(), bench.cfg.cpu_time ? "cpu" : "wall", bench.machine,
               __VERSION__, bench.commit);
    else
        printf("%-24s %-20s best %9.3f  median %9.3f %s\n", what, who, work / t.best,
               work / t.median, unit);
    fflush(stdout);
}

int bench_finish(void)
{
    return fflush(stdout) == 0 ? 0 : 1;
}
