/* bench/bench_s4.c - what the S4 kernel and convolution take for one batch of an IMDB epoch (64
 * texts, 256 channels, 32 states), and from which length of text the spectra overtake the direct
 * sum. */
#include "bench.h"

#include "imdb_batch.h"
#include "tensor/cpu/s4_conv.h"
#include "tensor/ops.h"

enum { CHANNELS = 256, STATES = 32, CLASS_TOKENS = 8192 };
enum { A, W, P, B, C, LOG_DT, D, N_PARAMS };

/* The nodes of a layer, with gradients as a backward pass would find them. */
typedef struct layer {
    arena mem;
    tape t;
    seq_index seq;
    node *k, *y;
} layer;

static node *random_input(layer *l, shape s, double mean, double spread, rng *r)
{
    const size_t n = shape_count(s);
    real *x = random_reals(&l->mem, n, spread, r);
    for (size_t i = 0; i < n; i++)
        x[i] += (real)mean;
    return must(tape_input(&l->t, s, x, must(arena_znew(&l->mem, real, n))));
}

static void layer_init(layer *l, seq_index seq, rng *r)
{
    const shape per_state = shape2(CHANNELS, STATES), pair = shape3(CHANNELS, STATES, 2);
    const shape shapes[N_PARAMS] = {per_state,        per_state,       pair, pair, pair,
                                    shape1(CHANNELS), shape1(CHANNELS)};
    const double mean[N_PARAMS] = {-0.7, 30, 0, 0, 0, -4, 0};
    const double spread[N_PARAMS] = {0.1, 20, 0.5, 1, 0.7, 0.7, 1};
    node *in[N_PARAMS];
    tape_init(&l->t, &l->mem, NULL, true);
    l->seq = seq;
    for (int i = 0; i < N_PARAMS; i++)
        in[i] = random_input(l, shapes[i], mean[i], spread[i], r);
    node *u = random_input(l, shape2(seq.n_tokens, CHANNELS), 0, 1, r);
    l->k = must(op_s4_kernel(&l->t, in[A], in[W], in[P], in[B], in[C], in[LOG_DT], seq.max_len));
    l->y = must(op_s4_conv(&l->t, u, l->k, in[D], &l->seq));
    l->k->grad = random_reals(&l->mem, shape_count(l->k->shape), 1, r);
    l->y->grad = random_reals(&l->mem, shape_count(l->y->shape), 1, r);
}

static layer subject;

static void check(stet_status st)
{
    if (st != STET_OK)
        must(NULL);
}

static void kernel_forward(void *ctx)
{
    (void)ctx;
    void *saved = subject.k->saved; /* each call makes its own, which goes with the mark */
    const arena_mark mark = arena_save(&subject.mem);
    check(cpu_s4_kernel_fwd(&subject.t, subject.k));
    arena_restore(&subject.mem, mark);
    subject.k->saved = saved;
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

static void conv_both(void *direct_max)
{
    conv_forward(direct_max);
    conv_backward(direct_max);
}

static size_t as_shipped = S4_DIRECT_MAX, always_direct = SIZE_MAX, never_direct = 0;

/* Largest difference of the two ways, relative to the largest result. */
static double disagreement(void)
{
    const size_t n = shape_count(subject.y->shape);
    const arena_mark mark = arena_save(&subject.mem);
    real *direct = must(arena_new(&subject.mem, real, n));
    double worst = 0, size = 0;
    conv_forward(&always_direct);
    for (size_t i = 0; i < n; i++)
        direct[i] = subject.y->value[i];
    conv_forward(&never_direct);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)subject.y->value[i] - (double)direct[i]));
        size = fmax(size, fabs((double)direct[i]));
    }
    arena_restore(&subject.mem, mark);
    return worst / size;
}

static double report(const char *what, const char *how, bench_fn *fn, void *ctx)
{
    const bench_time t = bench_measure(fn, ctx);
    bench_rate(what, how, t, 1, "batches/s");
    return t.best;
}

static void measure_batch(rng *r)
{
    layer_init(&subject, imdb_batch(&subject.mem, r), r);
    bench_check("spectra against direct", disagreement(), 4e-6);
    double sum = report("kernel forward", "", kernel_forward, NULL);
    sum += report("kernel backward", "", kernel_backward, NULL);
    sum += report("convolution forward", "", conv_forward, &as_shipped);
    sum += report("convolution backward", "", conv_backward, &as_shipped);
    if (!bench_json())
        printf("%zu tokens: %.2f ms a batch, %.2f s an epoch of %d\n", subject.seq.n_tokens,
               1e3 * sum, BATCHES * sum, BATCHES);
    report("convolution forward", "direct", conv_forward, &always_direct);
    report("convolution forward", "spectra", conv_forward, &never_direct);
    report("convolution backward", "direct", conv_backward, &always_direct);
    report("convolution backward", "spectra", conv_backward, &never_direct);
    arena_deinit(&subject.mem);
}

static void measure_length(uint32_t len, rng *r)
{
    const uint32_t texts = CLASS_TOKENS / len;
    uint32_t *start = must(arena_new(&subject.mem, uint32_t, texts + 1));
    uint32_t *row = must(arena_znew(&subject.mem, uint32_t, CLASS_TOKENS));
    for (uint32_t i = 0; i <= texts; i++)
        start[i] = i * len;
    layer_init(&subject, (seq_index){texts, texts * len, 1, len, start, row}, r);
    bench_fn *const fn[2] = {conv_both, conv_both};
    void *const ctx[2] = {&always_direct, &never_direct};
    bench_time t[2];
    bench_measure_each(fn, ctx, 2, t);
    char what[32];
    snprintf(what, sizeof what, "length %u", (unsigned)len);
    bench_rate(what, "direct", t[0], 1e-6 * texts * len, "million tokens/s");
    bench_rate(what, "spectra", t[1], 1e-6 * texts * len, "million tokens/s");
    arena_deinit(&subject.mem);
}

int main(int argc, char **argv)
{
    static const uint32_t lengths[] = {8, 16, 32, 48, 56, 64, 80, 96, 128, 192, 256, 512};
    bench_start(argc, argv, "s4", "S4 kernel and convolution of one IMDB batch");
    rng r = rng_stream(1, STREAM_BENCH, 0);
    measure_batch(&r);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        measure_length(lengths[i], &r);
    return bench_finish();
}
