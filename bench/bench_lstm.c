/* bench/bench_lstm.c - the bidirectional LSTM of one IMDB training step: 300 inputs, 64 units a
 * direction. Work counted is the necessary one: each distinct word projected once, no padding. */
#include "bench.h"

#include <string.h>

#include "imdb_batch.h"
#include "tensor/ops.h"

enum { D = 300, H = 64, INPUTS = 9 };

typedef struct subject {
    arena mem; /* of the step */
    seq_index seq;
    shape shape[INPUTS];
    real *value[INPUTS], *grad[INPUTS];
    real *y, *dy;
    bool backward;
} subject;

static void step(void *ctx)
{
    subject *s = ctx;
    const arena_mark start = arena_save(&s->mem);
    tape t;
    tape_init(&t, &s->mem, NULL, true);
    node *in[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        in[i] = must(tape_input(&t, s->shape[i], s->value[i], s->grad[i]));
    node *y = must(op_bilstm(&t, in[0], in + 1, &s->seq, NULL));
    memcpy(s->y, y->value, shape_count(y->shape) * sizeof(real));
    y->grad = s->dy;
    if (s->backward && cpu_bilstm_bwd(&t, y) != STET_OK)
        must(NULL);
    arena_restore(&s->mem, start);
}

/* The forward direction of one text by plain loops: largest difference. */
static double error_of_text(const subject *s, size_t b)
{
    double h[H] = {0}, c[H] = {0}, z[4 * H], worst = 0;
    for (size_t i = s->seq.start[b]; i < s->seq.start[b + 1]; i++) {
        for (int j = 0; j < 4 * H; j++) {
            z[j] = (double)s->value[3][j] + (double)s->value[4][j];
            for (int d = 0; d < D; d++)
                z[j] += (double)s->value[1][j * D + d] *
                        (double)s->value[0][s->seq.row[i] * D + (size_t)d];
            for (int k = 0; k < H; k++)
                z[j] += (double)s->value[2][j * H + k] * h[k];
        }
        for (int j = 0; j < H; j++) {
            c[j] = c[j] / (1 + exp(-z[H + j])) + tanh(z[2 * H + j]) / (1 + exp(-z[j]));
            h[j] = tanh(c[j]) / (1 + exp(-z[3 * H + j]));
        }
    }
    for (int j = 0; j < H; j++)
        worst = fmax(worst, fabs(h[j] - (double)s->y[b * 2 * H + (size_t)j]));
    return worst;
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "lstm", "bidirectional LSTM of one IMDB training step");
    static subject s;
    arena mem = {0};
    rng r = rng_stream(1, STREAM_BENCH, 0);
    s.seq = imdb_batch(&mem, &r);
    s.shape[0] = shape2(s.seq.n_rows, D);
    for (int i = 1; i < INPUTS; i += 4) {
        s.shape[i] = shape2(4 * H, D);
        s.shape[i + 1] = shape2(4 * H, H);
        s.shape[i + 2] = s.shape[i + 3] = shape1(4 * H);
    }
    for (int i = 0; i < INPUTS; i++) {
        const size_t n = shape_count(s.shape[i]);
        s.value[i] = random_reals(&mem, n, i ? 0.07 : 0.4, &r);
        s.grad[i] = i ? random_reals(&mem, n, 0, &r) : NULL; /* word vectors are frozen */
    }
    s.y = random_reals(&mem, TEXTS * 2 * H, 0, &r);
    s.dy = random_reals(&mem, TEXTS * 2 * H, 0.01, &r);

    step(&s);
    bench_check("shortest text", error_of_text(&s, TEXTS - 1), 1e-5);
    const double project = 2e-9 * (double)s.seq.n_rows * D * 8 * H;
    const double recur = 2e-9 * (double)s.seq.n_tokens * 2 * 4 * H * H;
    if (!bench_json())
        printf("%zu tokens, longest %zu, %zu distinct words\n", s.seq.n_tokens, s.seq.max_len,
               s.seq.n_rows);
    bench_rate("forward", "stet", bench_measure(step, &s), project + recur, "GFLOP/s");
    s.backward = true;
    const bench_time t = bench_measure(step, &s);
    bench_rate("forward and backward", "stet", t, 2 * project + 3 * recur, "GFLOP/s");
    if (!bench_json())
        printf("an epoch of %d such steps: %.2f s\n", BATCHES, BATCHES * t.best);
    arena_deinit(&s.mem);
    arena_deinit(&mem);
    return bench_finish();
}
