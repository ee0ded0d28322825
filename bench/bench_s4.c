/* bench/bench_s4.c - what the S4 kernel and convolution cost for one batch of an IMDB epoch (64
 * texts, 256 channels, 32 states), and at which length of text the convolution by spectra overtakes
 * the direct one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench.h"
#include "tensor/cpu/s4_conv.h"
#include "tensor/ops.h"

enum { TEXTS = 64, LONGEST = 512, CHANNELS = 256, STATES = 32, BATCHES = 391, CLASS_TOKENS = 8192 };
enum { A, W, P, B, C, LOG_DT, D, N_PARAMS };

/* Lengths of 64 IMDB reviews at even steps through the sorted training set, cut at 512 words. */
static const uint32_t imdb[TEXTS] = {
    512, 512, 512, 512, 512, 487, 456, 428, 403, 379, 361, 345, 330, 315, 303, 291,
    279, 268, 259, 250, 242, 235, 227, 220, 214, 207, 202, 196, 191, 186, 182, 178,
    173, 170, 166, 162, 158, 155, 152, 149, 146, 144, 141, 138, 136, 134, 131, 129,
    127, 125, 122, 120, 117, 114, 111, 106, 101, 93,  84,  76,  68,  59,  51,  41};

static rng stream;
static uint32_t rows[CLASS_TOKENS + TEXTS * LONGEST]; /* all 0: the ops do not read them */

static void fail(void)
{
    fprintf(stderr, "%s\n", stet_last_error());
    exit(1);
}

static real *random_reals(size_t n, double mean, double spread)
{
    real *x = mem_aligned(n, sizeof *x);
    if (!x)
        fail();
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(mean + spread * rng_normal(&stream));
    return x;
}

/* A layer's nodes over some texts, with gradients as a backward pass would find them. */
typedef struct layer {
    arena mem;
    tape t;
    uint32_t start[CLASS_TOKENS + 1];
    seq_index seq;
    node *k, *y;
} layer;

static void layer_init(layer *l, const uint32_t *lengths, size_t texts)
{
    for (size_t i = 0; i < texts; i++)
        l->start[i + 1] = l->start[i] + lengths[i];
    l->seq = (seq_index){texts, l->start[texts], 1, lengths[0], l->start, rows};
    tape_init(&l->t, &l->mem, true);
    const shape per_state = shape2(CHANNELS, STATES), pair = shape3(CHANNELS, STATES, 2);
    const shape shapes[N_PARAMS] = {per_state,        per_state,       pair, pair, pair,
                                    shape1(CHANNELS), shape1(CHANNELS)};
    const double mean[N_PARAMS] = {-0.7, 30, 0, 0, 0, -4, 0};
    const double spread[N_PARAMS] = {0.1, 20, 0.5, 1, 0.7, 0.7, 1};
    node *in[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++) {
        const size_t n = shape_count(shapes[i]);
        in[i] = tape_input(&l->t, shapes[i], random_reals(n, mean[i], spread[i]),
                           random_reals(n, 0, 0));
    }
    const size_t n = l->seq.n_tokens * CHANNELS;
    node *u = tape_input(&l->t, shape2(l->seq.n_tokens, CHANNELS), random_reals(n, 0, 1),
                         random_reals(n, 0, 0));
    l->k = op_s4_kernel(&l->t, in[A], in[W], in[P], in[B], in[C], in[LOG_DT], l->seq.max_len);
    l->y = op_s4_conv(&l->t, u, l->k, in[D], &l->seq);
    if (tape_status(&l->t) != STET_OK)
        fail();
    l->k->grad = random_reals(shape_count(l->k->shape), 0, 1);
    l->y->grad = random_reals(n, 0, 1);
}

static void layer_free(layer *l)
{
    mem_free_aligned(l->k->grad);
    mem_free_aligned(l->y->grad);
    for (size_t i = 0; i < l->t.n; i++)
        if (l->t.nodes[i]->op == OP_input) {
            mem_free_aligned(l->t.nodes[i]->value);
            mem_free_aligned(l->t.nodes[i]->grad);
        }
    arena_deinit(&l->mem);
    *l = (layer){0};
}

static layer subject;

static void check(stet_status st)
{
    if (st != STET_OK)
        fail();
}

static void kernel_forward(void *ctx)
{
    (void)ctx;
    const arena_mark mark = arena_save(&subject.mem);
    check(cpu_s4_kernel_fwd(&subject.t, subject.k));
    arena_restore(&subject.mem, mark); /* the states kept for backward stay where they are */
}

static void kernel_backward(void *ctx)
{
    (void)ctx;
    check(cpu_s4_kernel_bwd(&subject.t, subject.k));
}

static void conv_forward(void *direct_max)
{
    check(s4_conv_forward(&subject.t, subject.y, *(size_t *)direct_max));
}

static void conv_backward(void *direct_max)
{
    check(s4_conv_backward(&subject.t, subject.y, *(size_t *)direct_max));
}

static size_t by_default = S4_DIRECT_MAX, always_direct = SIZE_MAX, never_direct = 0;

/* Largest difference of the two ways, relative to the largest result. */
static double disagreement(void)
{
    const size_t n = shape_count(subject.y->shape);
    double *direct = calloc(n, sizeof *direct), worst = 0, size = 0;
    if (!direct)
        exit(1);
    conv_forward(&always_direct);
    for (size_t i = 0; i < n; i++)
        direct[i] = (double)subject.y->value[i];
    conv_forward(&never_direct);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)subject.y->value[i] - direct[i]));
        size = fmax(size, fabs(direct[i]));
    }
    free(direct);
    return worst / size;
}

static double report(const char *what, const char *how, bench_fn *fn, void *ctx)
{
    const bench_time t = bench_measure(fn, ctx);
    if (bench_json())
        bench_rate(what, how, t, 1, "batches/s");
    else
        printf("%-22s %-12s best %8.3f ms  median %8.3f ms\n", what, how, 1e3 * t.best,
               1e3 * t.median);
    return t.best;
}

static void measure_batch(void)
{
    layer_init(&subject, imdb, TEXTS);
    bench_check("spectra against direct", disagreement(), 4e-6);
    double sum = report("kernel forward", "", kernel_forward, NULL);
    sum += report("kernel backward", "", kernel_backward, NULL);
    sum += report("convolution forward", "", conv_forward, &by_default);
    sum += report("convolution backward", "", conv_backward, &by_default);
    if (!bench_json())
        printf("%-22s %-12s best %8.3f ms, %.2f s an epoch of %d batches\n", "sum", "", 1e3 * sum,
               BATCHES * sum, BATCHES);
    report("convolution forward", "direct", conv_forward, &always_direct);
    report("convolution forward", "spectra", conv_forward, &never_direct);
    report("convolution backward", "direct", conv_backward, &always_direct);
    report("convolution backward", "spectra", conv_backward, &never_direct);
    layer_free(&subject);
}

static void measure_length(uint32_t len)
{
    static uint32_t lengths[CLASS_TOKENS];
    const size_t texts = CLASS_TOKENS / len;
    for (size_t i = 0; i < texts; i++)
        lengths[i] = len;
    layer_init(&subject, lengths, texts);
    bench_fn *const fn[4] = {conv_forward, conv_forward, conv_backward, conv_backward};
    void *const ctx[4] = {&always_direct, &never_direct, &always_direct, &never_direct};
    bench_time t[4];
    bench_measure_each(fn, ctx, 4, t);
    char what[32];
    snprintf(what, sizeof what, "length %u", (unsigned)len);
    if (bench_json()) {
        bench_rate(what, "direct",
                   (bench_time){t[0].best + t[2].best, t[0].median + t[2].median, t[0].samples},
                   (double)(texts * len), "tokens/s");
        bench_rate(what, "spectra",
                   (bench_time){t[1].best + t[3].best, t[1].median + t[3].median, t[0].samples},
                   (double)(texts * len), "tokens/s");
    } else {
        const double us = 1e6 / (double)(texts * len);
        printf("%6u %9.3f %9.3f %9.3f %9.3f\n", (unsigned)len, us * t[0].best, us * t[1].best,
               us * t[2].best, us * t[3].best);
    }
    layer_free(&subject);
}

int main(int argc, char **argv)
{
    static const uint32_t lengths[] = {8, 16, 32, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512};
    bench_start(argc, argv, "s4", "S4 kernel and convolution of one IMDB batch");
    stream = rng_stream(1, STREAM_BENCH, 0);
    measure_batch();
    if (!bench_json())
        printf("\nus a token  forward: direct, spectra  backward: direct, spectra\n");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        measure_length(lengths[i]);
    return bench_finish();
}
