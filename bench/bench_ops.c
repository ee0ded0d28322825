/* bench/bench_ops.c - the generic ops at the size of an S4 layer (14,000 tokens, 256 channels):
 * entries per second, forward and backward, and what moving the same bytes alone would take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench.h"
#include "tensor/ops.h"

enum { TOKENS = 14000, CHANNELS = 256, MAX_IN = 3 };

typedef struct subject {
    const char *name;
    tape *t;
    node *n;
} subject;

static void fail(void)
{
    fprintf(stderr, "bench_ops: %s\n", stet_last_error());
    exit(1);
}

static void run(subject *s, op_kernel *kernel)
{
    const arena_mark mark = arena_save(s->t->mem);
    if (kernel(s->t, s->n) != STET_OK)
        fail();
    arena_restore(s->t->mem, mark);
}

static void run_forward(void *ctx)
{
    subject *s = ctx;
    void *saved = s->n->saved;
    run(s, s->n->op->forward[DEV_CPU]);
    s->n->saved = saved; /* what the recorded pass kept is still in the arena */
}

/* As the tape does it for a chain of ops: every operand's gradient block is new. */
static void run_backward(void *ctx)
{
    subject *s = ctx;
    real *grad[MAX_IN];
    for (int i = 0; i < s->n->n_in; i++) {
        grad[i] = s->n->in[i]->grad;
        s->n->in[i]->grad_fresh = s->n->in[i]->needs_grad;
    }
    run(s, s->n->op->backward[DEV_CPU]);
    for (int i = 0; i < s->n->n_in; i++)
        s->n->in[i]->grad = grad[i]; /* it may have been handed over */
}

static void copy(void *ctx)
{
    const subject *s = ctx;
    memcpy(s->n->value, s->n->in[0]->value, shape_count(s->n->shape) * sizeof(real));
}

static node *leaf(tape *t, shape s, rng *r)
{
    real *value = arena_new(t->mem, real, shape_count(s));
    real *grad = arena_znew(t->mem, real, shape_count(s));
    if (!value || !grad)
        fail();
    for (size_t i = 0; i < shape_count(s); i++)
        value[i] = (real)rng_range(r, -3, 3);
    return tape_input(t, s, value, grad);
}

static void measure(const char *name, tape *t, node *n)
{
    if (!n)
        fail();
    n->grad = arena_new(t->mem, real, shape_count(n->shape));
    if (!n->grad)
        fail();
    for (size_t i = 0; i < shape_count(n->shape); i++)
        n->grad[i] = n->value[i];
    subject s = {name, t, n};
    const double entries =
        1e-9 * (double)shape_count(n->op == &op_table[OP_sum] ? n->in[0]->shape : n->shape);
    bench_rate(name, "forward", bench_measure(run_forward, &s), entries, "Gentries/s");
    bench_rate(name, "backward", bench_measure(run_backward, &s), entries, "Gentries/s");
}

/* A few rows against the definition. */
static void check_layer_norm(const node *n)
{
    double worst = 0;
    for (size_t i = 0; i < TOKENS; i += 1000) {
        const real *x = n->in[0]->value + i * CHANNELS;
        double mean = 0, var = 0;
        for (int j = 0; j < CHANNELS; j++)
            mean += (double)x[j] / CHANNELS;
        for (int j = 0; j < CHANNELS; j++)
            var += ((double)x[j] - mean) * ((double)x[j] - mean) / CHANNELS;
        for (int j = 0; j < CHANNELS; j++) {
            const double h = ((double)x[j] - mean) / sqrt(var + 1e-5);
            const double y = h * (double)n->in[1]->value[j] + (double)n->in[2]->value[j];
            worst = fmax(worst, fabs(y - (double)n->value[i * CHANNELS + (size_t)j]));
        }
    }
    bench_check("layer_norm", worst, 1e-5);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "ops", "generic ops at the size of an S4 layer");
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, true);
    rng r = rng_stream(1, STREAM_BENCH, 0), stream = rng_stream(1, STREAM_DROPOUT, 0);
    node *x = leaf(&t, shape2(TOKENS, CHANNELS), &r), *y = leaf(&t, shape2(TOKENS, CHANNELS), &r);
    node *wide = leaf(&t, shape2(TOKENS, 2 * CHANNELS), &r);
    node *gamma = leaf(&t, shape1(CHANNELS), &r), *beta = leaf(&t, shape1(CHANNELS), &r);

    node *norm = op_layer_norm(&t, x, gamma, beta, 1e-5);
    subject plain = {"memcpy", &t, op_relu(&t, x)};
    if (!norm || !plain.n)
        fail();
    check_layer_norm(norm);
    bench_rate("memcpy", "one thread", bench_measure(copy, &plain), 1e-9 * TOKENS * CHANNELS,
               "Gentries/s");
    measure("layer_norm", &t, norm);
    measure("glu", &t, op_glu(&t, wide));
    measure("dropout", &t, op_dropout(&t, x, 0.1, &stream));
    measure("gelu", &t, op_gelu(&t, x));
    measure("tanh", &t, op_tanh(&t, x));
    measure("relu", &t, plain.n);
    measure("add", &t, op_add(&t, x, y));
    measure("mul", &t, op_mul(&t, x, y));
    measure("add_bias", &t, op_add_bias(&t, x, beta));
    measure("sum", &t, op_sum(&t, x));
    arena_deinit(&mem);
    return bench_finish();
}
