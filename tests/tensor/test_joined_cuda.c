/* Several ops as one (tensor/joined.h) on the GPU against the single ops on the CPU.
 * Skips where there is no GPU. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/joined.h"
#include "tensor/ops.h"

static store *gpu(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    return s;
}

/* ---- kernel sizes of a text CNN ------------------------------------------------------------ */

enum { V = 31, D = 20, TEXTS = 140, LONGEST = 70, MOST = CONV_POOLS_MAX };

typedef struct cnn_case {
    size_t n, F[MOST], k[MOST];
    bool rows_learn, filters_learn;
    size_t texts;
} cnn_case;

static const cnn_case cases[] = {
    {3, {37, 37, 37}, {3, 4, 5}, true, true, 19},
    {3, {100, 100, 100}, {3, 4, 5}, false, true, 64},
    {1, {5}, {1}, true, false, 3},
    {2, {33, 7}, {9, 2}, true, true, TEXTS},
    {MOST, {3, 1, 4, 1, 5, 9, 2, 6}, {1, 2, 3, 4, 5, 6, 7, 64}, true, true, 20},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Falling lengths, down to texts shorter than every kernel. */
static seq_index texts_of(size_t n, rng *r, arena *mem)
{
    uint32_t *start = arena_new(mem, uint32_t, n + 1), *row = arena_new(mem, uint32_t, n * LONGEST);
    CHECK(start && row);
    start[0] = 0;
    for (size_t b = 0; b < n; b++)
        start[b + 1] = start[b] + (uint32_t)(LONGEST - (LONGEST - 1) * b / (n > 1 ? n - 1 : 1));
    for (uint32_t i = 0; i < start[n]; i++)
        row[i] = (uint32_t)rng_below(r, V);
    return (seq_index){n, start[n], V, start[1], start, row};
}

/* Values and gradients of everything that learns, one after the other. */
typedef struct results {
    real x[400000];
    size_t n;
} results;

static void take(results *out, store *s, const real *from, size_t n)
{
    CHECK(out->n + n <= sizeof out->x / sizeof *out->x);
    CHECK_OK(store_download(s, out->x + out->n, from, n * sizeof *from));
    out->n += n;
}

static store_arena values; /* of the pass */

/* An input of random numbers; its gradient holds them already. */
static node *input(tape *t, shape s, bool learns, rng *r, real **grad)
{
    const size_t n = shape_count(s);
    real *x = arena_new(t->mem, real, n), *at = store_arena_alloc(&values, n, sizeof *at);
    *grad = learns ? store_arena_alloc(&values, n, sizeof *at) : NULL;
    CHECK(x && at && (*grad || !learns));
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)rng_range(r, -1, 1);
    store_upload(t->store, at, x, n * sizeof *x);
    if (learns)
        store_upload(t->store, *grad, x, n * sizeof *x);
    return tape_input(t, s, at, *grad);
}

static node *weighted(tape *t, node *y, rng *r)
{
    real *grad;
    return op_sum(t, op_mul(t, y, input(t, y->shape, false, r, &grad)));
}

static void run_cnn(store *s, const cnn_case *c, results *out)
{
    arena mem = {0};
    values = (store_arena){.store = s};
    rng r = rng_stream(5, STREAM_TEST, (uint64_t)(c - cases));
    tape t;
    tape_init(&t, &mem, &values, true);
    const seq_index seq = texts_of(c->texts, &r, &mem);
    real *grad[1 + 2 * MOST];
    node *w[MOST], *b[MOST], *rows = input(&t, shape2(V, D), c->rows_learn, &r, &grad[0]);
    for (size_t i = 0; i < c->n; i++) {
        w[i] = input(&t, shape3(c->F[i], D, c->k[i]), c->filters_learn, &r, &grad[1 + 2 * i]);
        b[i] = input(&t, shape1(c->F[i]), c->filters_learn, &r, &grad[2 + 2 * i]);
    }
    node *y = op_conv_pools(&t, rows, w, b, c->n, &seq, NULL);
    CHECK_OK(tape_status(&t));
    CHECK_OK(tape_backward(&t, weighted(&t, y, &r)));
    out->n = 0;
    take(out, s, y->value, shape_count(y->shape));
    if (c->rows_learn)
        take(out, s, grad[0], V * D);
    for (size_t i = 0; c->filters_learn && i < c->n; i++) {
        take(out, s, grad[1 + 2 * i], shape_count(w[i]->shape));
        take(out, s, grad[2 + 2 * i], c->F[i]);
    }
    store_arena_deinit(&values);
    arena_deinit(&mem);
}

static void compare(const results *cpu, const results *gpu, const results *again, const char *what)
{
    CHECK_EQ(cpu->n, gpu->n);
    for (size_t i = 0; i < cpu->n; i++)
        if (!(fabs((double)gpu->x[i] - (double)cpu->x[i]) <= 2e-5 * (1 + fabs((double)cpu->x[i]))))
            test_fail(__FILE__, __LINE__, "%s: number %zu of %zu is %.9g, on the CPU %.9g", what, i,
                      cpu->n, (double)gpu->x[i], (double)cpu->x[i]);
    CHECK(memcmp(gpu->x, again->x, gpu->n * sizeof *gpu->x) == 0);
}

static results host, first, second;

TEST(all_kernel_sizes_at_once_agree_with_one_by_one)
{
    store *s = gpu();
    for (size_t i = 0; i < CASES; i++) {
        char what[32];
        snprintf(what, sizeof what, "case %zu", i);
        run_cnn(&host_store, &cases[i], &host);
        run_cnn(s, &cases[i], &first);
        run_cnn(s, &cases[i], &second);
        compare(&host, &first, &second, what);
    }
    store_close(s);
}

/* ---- two terms ----------------------------------------------------------------------------- */

static void run_mix(store *s, bool a_learns, bool b_learns, results *out)
{
    enum { N = 700 };
    arena mem = {0};
    values = (store_arena){.store = s};
    rng r = rng_stream(6, STREAM_TEST, 0);
    tape t;
    tape_init(&t, &mem, &values, true);
    real *grad[2];
    node *a = input(&t, shape1(N), a_learns, &r, &grad[0]),
         *b = input(&t, shape1(N), b_learns, &r, &grad[1]);
    node *y = op_mix(&t, a, 0.3, op_scale(&t, b, 2), -1.7); /* b's gradient is the first there */
    y = op_mix(&t, y, 0.5, a, 2);                           /* a's is not */
    y = op_mix(&t, y, 0.25, y, 0.5);
    CHECK_OK(tape_backward(&t, weighted(&t, y, &r)));
    out->n = 0;
    take(out, s, y->value, N);
    for (int i = 0; i < 2; i++)
        if (grad[i])
            take(out, s, grad[i], N);
    store_arena_deinit(&values);
    arena_deinit(&mem);
}

TEST(a_sum_of_two_scaled_terms_agrees_with_single_ops)
{
    store *s = gpu();
    for (int learns = 1; learns < 4; learns++) {
        run_mix(&host_store, learns & 1, learns & 2, &host);
        run_mix(s, learns & 1, learns & 2, &first);
        run_mix(s, learns & 1, learns & 2, &second);
        compare(&host, &first, &second, "mix");
    }
    store_close(s);
}
