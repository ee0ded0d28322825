/* bench/bench_cuda.c - kernels of the GPU beside their floors: bytes over the bandwidth of a copy, or
 * operations over the rate of a large product, both measured here first; and the LSTM, whose floor is
 * steps times latency; and bounds beside what they bound. Values were compared with the CPU's by
 * test_cuda, test_bound_cuda and test_gbm_cuda. */
#include "bench.h"

#include <string.h>

#include "bound/batch_sets.h"
#include "bound/gbm_lstm_ops.h"
#include "bound/lstm_ranges.h"
#include "bound/s4_gate_norm.h"
#include "bound/s4_ranges.h"
#include "imdb_batch.h"
#include "tensor/ops.h"
#include "tensor/optim.h"

enum { D = 300, F = 100, H = 64, SIDE = 4096, REPEAT = 20 };
static const size_t LARGE = (size_t)1 << 27; /* entries: several times any cache */

typedef struct subject {
    store_arena values;
    arena mem;
    seq_index seq;
    const uint32_t *start, *alt; /* substitution sets of the batch's words */
    int n;
    shape shape[9];
    real *value[9], *grad[9], *y;
    bool backward;
    node *(*apply)(tape *t, node *const *in, const seq_index *seq);
    optim optim;
} subject;

static const subject *sets_of; /* whose sets the bounds read */

static void check(stet_status st)
{
    if (st != STET_OK)
        must(NULL);
}

static void wait(subject *s)
{
    real x;
    check(store_download(s->values.store, &x, s->value[0], sizeof x));
}

static void copy(void *ctx)
{
    subject *s = ctx;
    for (int i = 0; i < REPEAT; i++)
        store_copy(s->values.store, s->value[1], s->value[0], LARGE * sizeof(real));
    wait(s);
}

/* REPEAT passes, one wait. */
static void passes(void *ctx)
{
    subject *s = ctx;
    for (int k = 0; k < REPEAT; k++) {
        const arena_mark start = arena_save(&s->mem);
        const store_mark vstart = store_arena_save(&s->values);
        tape t;
        tape_init(&t, &s->mem, &s->values, s->backward);
        node *in[9];
        for (int i = 0; i < s->n; i++)
            in[i] = tape_input(&t, s->shape[i], s->value[i], s->grad[i]);
        node *y = s->apply(&t, in, &s->seq);
        if (s->backward)
            check(tape_backward(&t, op_sum(&t, y)));
        check(tape_status(&t));
        store_arena_restore(&s->values, vstart);
        arena_restore(&s->mem, start);
    }
    wait(s);
}

static void adam(void *ctx)
{
    subject *s = ctx;
    for (int k = 0; k < REPEAT; k++)
        check(optim_step(&s->optim, &(param_group){0, LARGE, 1e-3, 0}, 1, s->value[0], s->grad[0]));
    wait(s);
}

static node *apply_add(tape *t, node *const *in, const seq_index *seq)
{
    (void)seq;
    return op_add(t, in[0], in[1]);
}

static node *apply_gelu(tape *t, node *const *in, const seq_index *seq)
{
    (void)seq;
    return op_gelu(t, in[0]);
}

static node *apply_matmul(tape *t, node *const *in, const seq_index *seq)
{
    (void)seq;
    return op_matmul(t, in[0], false, in[1], true);
}

static node *apply_conv(tape *t, node *const *in, const seq_index *seq)
{
    return op_conv_pool(t, in[0], in[1], in[2], seq);
}

static node *apply_lstm(tape *t, node *const *in, const seq_index *seq)
{
    return op_bilstm(t, in[0], in + 1, seq, NULL);
}

static node *apply_s4(tape *t, node *const *in, const seq_index *seq)
{
    node *k = op_s4_kernel(t, in[1], in[2], in[3], in[4], in[5], in[6], seq->max_len);
    return op_s4_conv(t, in[0], k, in[7], seq);
}

static node *apply_attention(tape *t, node *const *in, const seq_index *seq)
{
    return op_attention(t, in[0], in[1], 12, seq, NULL, 0, NULL);
}

/* Every other word has SET substitutes; there are as many rows of them as words. */
enum { SET = 4 };

static void make_sets(subject *s, rng *r, arena *mem)
{
    const uint32_t V = (uint32_t)s->seq.n_rows;
    uint32_t *start = must(arena_new(mem, uint32_t, V + 1)),
             *alt = must(arena_new(mem, uint32_t, V / 2 * SET));
    for (uint32_t v = 0; v <= V; v++)
        start[v] = v / 2 * SET;
    for (uint32_t k = 0; k < start[V]; k++)
        alt[k] = V + (uint32_t)rng_below(r, V);
    s->start = start;
    s->alt = alt;
}

static node *apply_lstm_ranges(tape *t, node *const *in, const seq_index *seq)
{
    const size_t V = seq->n_rows, n = sets_of->start[V];
    batch_sets *s = must(arena_new(t->mem, batch_sets, 1));
    *s = (batch_sets){.seq = seq,
                      .rows = in[8],
                      .n_rows = 2 * V,
                      .n_alt = n,
                      .at = tape_seq(t, seq),
                      .start = tape_twin(t, sets_of->start, (V + 1) * sizeof *s->start),
                      .alt = tape_twin(t, sets_of->alt, n * sizeof *s->alt)};
    return op_bilstm_ranges(t, s, in, 1);
}

/* Numbers of [-0.1, 0.1) are boxes around 0 whose radii are magnitudes. */
static node *apply_s4_boxes(tape *t, node *const *in, const seq_index *seq)
{
    (void)seq;
    node *y = op_gelu_box(t, in[0], op_abs(t, in[1]));
    return op_s4_gate_norm(t, y, op_abs(t, y), in[2], op_abs(t, in[3]), in[4], in[5], 1e-5);
}

static node *apply_gbm(tape *t, node *const *in, const seq_index *seq)
{
    (void)seq;
    static real words[2 * D], states[4 * H]; /* lower and upper ends */
    for (size_t i = 0; i < 2 * D; i++)
        words[i] = (real)(i < D ? -0.5 : 0.5);
    for (size_t i = 0; i < 4 * H; i++)
        states[i] = (real)(i / H % 2 ? 0.5 : -0.5);
    gbm_report report = {{NULL}};
    node *state = tape_numbers(t, shape2(4, H), states);
    const gbm_term_args a = {.of = GBM_OF_LAYER,
                             .k = {1, 1, 1},
                             .words = tape_numbers(t, shape2(2, D), words),
                             .state = {state, state}};
    return gbm_lstm_term(t, in, NULL, &a, &report);
}

/* Operands of these shapes with random numbers of [-0.1, 0.1). */
static void operands(subject *s, const shape *shapes, int n)
{
    store *at = s->values.store;
    rng r = rng_stream(2, STREAM_BENCH, 0);
    arena mem = {0};
    s->n = n;
    for (int i = 0; i < n; i++) {
        const size_t count = shape_count(shapes[i]);
        real *x = must(arena_new(&mem, real, count));
        for (size_t k = 0; k < count; k++)
            x[k] = (real)(0.2 * (rng_float(&r) - 0.5f));
        s->shape[i] = shapes[i];
        s->value[i] = must(store_alloc(at, count, sizeof *x));
        s->grad[i] = must(store_alloc(at, count, sizeof *x));
        store_upload(at, s->value[i], x, count * sizeof *x);
        store_clear(at, s->grad[i], count * sizeof *x);
    }
    arena_deinit(&mem);
}

static void release(subject *s)
{
    for (int i = 0; i < s->n; i++) {
        store_release(s->values.store, s->value[i]);
        store_release(s->values.store, s->grad[i]);
    }
}

static bench_time each_of(bench_time t)
{
    return (bench_time){t.best / REPEAT, t.median / REPEAT, t.samples};
}

static void measure(subject *s, const char *what, double work, const char *unit)
{
    bench_rate(what, "cuda", each_of(bench_measure(passes, s)), work, unit);
}

static void memory_bound(subject *s)
{
    const double gb = (double)LARGE * sizeof(real) * 1e-9;
    operands(s, (const shape[]){shape1(LARGE), shape1(LARGE)}, 2);
    bench_rate("copy", "cuda", each_of(bench_measure(copy, s)), 2 * gb, "GB/s");
    s->apply = apply_add;
    measure(s, "add", 3 * gb, "GB/s");
    s->apply = apply_gelu;
    measure(s, "gelu", 2 * gb, "GB/s");
    check(optim_init(&s->optim, &(optim_options)OPTIM_DEFAULTS, s->values.store, LARGE));
    bench_rate("adam and the norm", "cuda", each_of(bench_measure(adam, s)), 8 * gb, "GB/s");
    optim_deinit(&s->optim);
    release(s);
}

/* Forward, then both ways. */
static void both(subject *s, const char *what, double forward, double all, const char *unit)
{
    char name[64];
    for (int b = 0; b < 2; b++) {
        s->backward = b;
        snprintf(name, sizeof name, "%s%s", what, b ? ", both ways" : "");
        measure(s, name, b ? all : forward, unit);
    }
    s->backward = false;
    release(s);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "cuda", "kernels of the GPU beside their floors");
    static subject s;
    if (store_open("cuda", &s.values.store) != STET_OK) {
        fprintf(stderr, "%s\n", stet_last_error());
        return 77;
    }
    arena mem = {0};
    rng r = rng_stream(1, STREAM_BENCH, 0);
    s.seq = imdb_batch(&mem, &r);
    const size_t V = s.seq.n_rows, T = s.seq.n_tokens, L = s.seq.max_len, N = 32;
    memory_bound(&s);

    operands(&s, (const shape[]){shape2(SIDE, SIDE), shape2(SIDE, SIDE)}, 2);
    s.apply = apply_matmul;
    both(&s, "product of 4096 x 4096", 2e-12 * SIDE * SIDE * SIDE, 6e-12 * SIDE * SIDE * SIDE,
         "TFLOP/s");

    const double conv = 2e-12 * (double)V * D * 4 * F;
    operands(&s, (const shape[]){shape2(V, D), shape3(F, D, 4), shape1(F)}, 3);
    s.apply = apply_conv;
    both(&s, "conv_pool, 100 filters of 4 words, IMDB batch", conv, conv, "TFLOP/s of the product");

    const shape w_ih = shape2(4 * H, D), w_hh = shape2(4 * H, H), b = shape1(4 * H);
    operands(&s, (const shape[]){shape2(V, D), w_ih, w_hh, b, b, w_ih, w_hh, b, b}, 9);
    s.apply = apply_lstm;
    both(&s, "BiLSTM of 64 units, IMDB batch", (double)L * 1e-6, 2 * (double)L * 1e-6,
         "million steps/s");

    operands(&s,
             (const shape[]){shape2(T, H), shape2(H, N), shape2(H, N), shape3(H, N, 2),
                             shape3(H, N, 2), shape3(H, N, 2), shape1(H), shape1(H)},
             8);
    s.apply = apply_s4;
    both(&s, "S4 kernel and convolution, 64 channels, IMDB batch", (double)L * 1e-6,
         2 * (double)L * 1e-6, "million steps/s");

    operands(&s, (const shape[]){w_ih, w_hh, b, b, w_ih, w_hh, b, b, shape2(2 * V, D)}, 9);
    make_sets(&s, &r, &mem);
    sets_of = &s;
    s.apply = apply_lstm_ranges;
    both(&s, "ranges of that BiLSTM", (double)L * 1e-6, 2 * (double)L * 1e-6, "million steps/s");

    operands(&s,
             (const shape[]){shape2(T, H), shape2(T, H), shape2(T, H), shape2(T, H), shape1(H),
                             shape1(H)},
             6);
    s.apply = apply_s4_boxes;
    both(&s, "boxes through S4's GELU, gate and norm", (double)T * 1e-6, 2 * (double)T * 1e-6,
         "million words/s");

    operands(&s, (const shape[]){w_ih, w_hh, b, b, w_ih, w_hh, b, b}, 8);
    s.apply = apply_gbm;
    both(&s, "growth bounds of that BiLSTM", 1e-3, 1e-3, "thousand/s");

    double pairs = 0; /* of queries and keys */
    for (size_t k = 0; k < s.seq.n_texts; k++) {
        const double len = (double)(s.seq.start[k + 1] - s.seq.start[k]);
        pairs += len * len;
    }
    for (size_t width = 384; width <= 768; width *= 2) {
        char name[64];
        const double flop = 4e-12 * pairs * (double)width;
        snprintf(name, sizeof name, "attention, 12 heads, width %zu, IMDB batch", width);
        operands(&s, (const shape[]){shape2(T, width), shape2(T, 2 * width)}, 2);
        s.apply = apply_attention;
        both(&s, name, flop, 3.5 * flop, "TFLOP/s");
    }
    store_arena_deinit(&s.values);
    store_close(s.values.store);
    arena_deinit(&mem);
    arena_deinit(&s.mem);
    return bench_finish();
}
