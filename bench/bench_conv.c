/* bench/bench_conv.c - the three convolutions of a TextCNN in one IMDB training step: 300 inputs,
 * kernels 3, 4, 5 of 128 filters. Work counted is the necessary one: each distinct word projected
 * on each tap once, window sums, and the gradient of the winning windows. */
#include "bench.h"

#include <string.h>

#include "imdb_batch.h"
#include "tensor/ops.h"

enum { D = 300, F = 128, KERNELS = 3 };
static const size_t width[KERNELS] = {3, 4, 5};

typedef struct subject {
    arena mem; /* of the step */
    seq_index seq;
    real *rows;
    real *w[KERNELS], *b[KERNELS], *dw[KERNELS], *db[KERNELS], *y[KERNELS];
    real *dy; /* (B, F), the same for all */
    bool backward;
} subject;

static void step(void *ctx)
{
    subject *s = ctx;
    const arena_mark start = arena_save(&s->mem);
    tape t;
    tape_init(&t, &s->mem, NULL, true);
    node *rows = must(tape_constant(&t, shape2(s->seq.n_rows, D), s->rows));
    for (int i = 0; i < KERNELS; i++) {
        node *w = must(tape_input(&t, shape3(F, D, width[i]), s->w[i], s->dw[i]));
        node *b = must(tape_input(&t, shape1(F), s->b[i], s->db[i]));
        node *y = must(op_conv_pool(&t, rows, w, b, &s->seq));
        memcpy(s->y[i], y->value, shape_count(y->shape) * sizeof(real));
        y->grad = s->dy;
        if (s->backward && cpu_conv_pool_bwd(&t, y) != STET_OK)
            must(NULL);
    }
    arena_restore(&s->mem, start);
}

/* One text by plain loops: largest difference. */
static double error_of_text(const subject *s, size_t text, int i)
{
    const size_t k = width[i], end = s->seq.start[text + 1];
    double worst = 0;
    for (size_t f = 0; f < F; f++) {
        double best = 0;
        for (size_t t = s->seq.start[text]; t + k <= end; t++) {
            double sum = (double)s->b[i][f];
            for (size_t l = 0; l < k; l++)
                for (size_t d = 0; d < D; d++)
                    sum += (double)s->w[i][(f * D + d) * k + l] *
                           (double)s->rows[s->seq.row[t + l] * D + d];
            best = fmax(best, sum);
        }
        worst = fmax(worst, fabs(best - (double)s->y[i][text * F + f]));
    }
    return worst;
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "conv", "convolutions and max-pooling of one IMDB training step");
    static subject s;
    arena mem = {0};
    rng r = rng_stream(1, STREAM_BENCH, 0);
    s.seq = imdb_batch(&mem, &r);
    s.rows = random_reals(&mem, s.seq.n_rows * D, 0.4, &r);
    s.dy = random_reals(&mem, TEXTS * F, 0.01, &r);
    double taps = 0;
    for (int i = 0; i < KERNELS; i++) {
        const size_t n = F * D * width[i];
        s.w[i] = random_reals(&mem, n, 0.03, &r);
        s.b[i] = random_reals(&mem, F, 0.03, &r);
        s.dw[i] = random_reals(&mem, n, 0, &r);
        s.db[i] = random_reals(&mem, F, 0, &r);
        s.y[i] = random_reals(&mem, TEXTS * F, 0, &r);
        taps += (double)width[i];
    }
    step(&s);
    for (int i = 0; i < KERNELS; i++)
        bench_check("shortest text", error_of_text(&s, TEXTS - 1, i), 1e-5);
    const double project = 2e-9 * (double)s.seq.n_rows * D * F * taps;
    const double windows = 1e-9 * (double)s.seq.n_tokens * F * taps;
    const double winners = 2e-9 * TEXTS * F * taps * D;
    if (!bench_json())
        printf("%zu tokens, longest %zu, %zu distinct words\n", s.seq.n_tokens, s.seq.max_len,
               s.seq.n_rows);
    bench_rate("forward", "stet", bench_measure(step, &s), project + windows, "GFLOP/s");
    s.backward = true;
    const bench_time t = bench_measure(step, &s);
    bench_rate("forward and backward", "stet", t, project + windows + winners, "GFLOP/s");
    if (!bench_json())
        printf("an epoch of %d such steps: %.2f s\n", BATCHES, BATCHES * t.best);
    arena_deinit(&s.mem);
    arena_deinit(&mem);
    return bench_finish();
}
