/* tests/tensor/gpu_case.h - a graph of ops built on the CPU and twice on the GPU: results and gradients
 * agree, and those of the GPU are the same bits both times. Skips where there is no GPU.
 *
 *     static node *build(gpu_case *c, int variant) { return op_relu(&c->t, gpu_input(c, ...)); }
 *     gpu_check("relu", build, 3, 1e-5);
 */
#ifndef TESTS_GPU_CASE_H
#define TESTS_GPU_CASE_H

#include "base/rng.h"
#include "tensor/ops.h"
#include "test.h"

enum { GPU_INPUTS = 16 };

typedef real gpu_number(real x);

typedef struct gpu_case {
    store *s;
    arena *mem;
    tape t;
    rng r; /* the same numbers on both devices */
    gpu_number *as; /* what is made of each of them; NULL: nothing */
    int n;
    node *in[GPU_INPUTS];
} gpu_case;

typedef node *gpu_graph(gpu_case *c, int variant);

static inline real *gpu_numbers(gpu_case *c, size_t n, double lo, double hi)
{
    real *x = arena_new(c->mem, real, n + 1);
    CHECK(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)rng_range(&c->r, lo, hi);
    for (size_t i = 0; c->as && i < n; i++)
        x[i] = c->as(x[i]);
    return x;
}

/* An operand whose gradient is compared; it begins with the operand's own numbers. */
static inline node *gpu_given(gpu_case *c, shape s, const real *x)
{
    const size_t n = shape_count(s);
    real *at = store_alloc(c->s, n, sizeof *at), *grad = store_alloc(c->s, n, sizeof *grad);
    CHECK(at && grad && c->n < GPU_INPUTS);
    store_upload(c->s, at, x, n * sizeof *x);
    store_upload(c->s, grad, x, n * sizeof *x);
    return c->in[c->n++] = tape_input(&c->t, s, at, grad);
}

static inline node *gpu_input(gpu_case *c, shape s, double lo, double hi)
{
    return gpu_given(c, s, gpu_numbers(c, shape_count(s), lo, hi));
}

typedef struct gpu_results {
    real *x;
    size_t n;
} gpu_results;

static inline void gpu_take(gpu_results *r, gpu_case *c, const real *from, size_t n)
{
    real *x = arena_new(c->mem, real, r->n + n + 1);
    CHECK(x);
    if (r->n)
        memcpy(x, r->x, r->n * sizeof *x);
    CHECK_OK(store_download(c->s, x + r->n, from, n * sizeof *x));
    r->x = x;
    r->n += n;
}

static inline gpu_results gpu_run(gpu_graph *build, int variant, gpu_number *as,
                                  store_arena *values, arena *mem)
{
    gpu_case c = {.s = values ? values->store : &host_store,
                  .mem = mem,
                  .r = rng_stream(19, STREAM_TEST, (uint64_t)variant),
                  .as = as};
    gpu_results out = {0};
    tape_init(&c.t, mem, values, true);
    node *y = build(&c, variant);
    CHECK_OK(tape_status(&c.t));
    if (y->needs_grad) { /* entries count differently */
        const real *w = gpu_numbers(&c, shape_count(y->shape), -1, 1);
        CHECK_OK(
            tape_backward(&c.t, op_sum(&c.t, op_mul(&c.t, y, tape_numbers(&c.t, y->shape, w)))));
    }
    gpu_take(&out, &c, y->value, shape_count(y->shape));
    for (int i = 0; i < c.n; i++) {
        gpu_take(&out, &c, c.in[i]->grad, shape_count(c.in[i]->shape));
        store_release(c.s, c.in[i]->value);
        store_release(c.s, c.in[i]->grad);
    }
    return out;
}

static inline store *gpu_store(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    return s;
}

/* How many entries differ by more than `tolerance` times their scale, or 1 + |x| without; the first is
 * told. */
static inline int gpu_differences(const char *name, int variant, gpu_results cpu, gpu_results got,
                                  const real *scale, double tolerance)
{
    int wrong = 0;
    double most = 0;
    for (size_t i = 0; i < cpu.n; i++) {
        const double of = scale ? (double)scale[i] : 1 + fabs((double)cpu.x[i]),
                     off = fabs((double)got.x[i] - (double)cpu.x[i]), by = off == 0 ? 0 : off / of;
        most = fmax(most, by);
        if (!(by <= tolerance) && wrong++ == 0)
            fprintf(stderr, "  %s, variant %d: number %zu of %zu is %.9g, on the CPU %.9g\n", name,
                    variant, i, cpu.n, (double)got.x[i], (double)cpu.x[i]);
    }
    if (wrong)
        fprintf(stderr, "  %s, variant %d: %d of %zu differ, by %.2g at most\n", name, variant,
                wrong, cpu.n, most);
    return wrong;
}

static inline real gpu_magnitude(real x)
{
    return x < 0 ? -x : x;
}

typedef struct gpu_how {
    double tolerance;
    const char *precision; /* NULL: as the store is opened */
    gpu_number *as;
    bool of_terms; /* what may differ grows with the sum of the terms' magnitudes, which a graph of
                      products computes if its numbers are magnitudes */
} gpu_how;

static inline void gpu_check_how(const char *name, gpu_graph *build, int variants, gpu_how how)
{
    store_arena values = {.store = gpu_store()};
    int wrong = 0;
    CHECK_OK(store_set_precision(values.store, how.precision));
    for (int variant = 0; variant < variants; variant++) {
        arena mem = {0};
        const store_mark start = store_arena_save(&values);
        const gpu_results cpu = gpu_run(build, variant, how.as, NULL, &mem),
                          got = gpu_run(build, variant, how.as, &values, &mem),
                          again = gpu_run(build, variant, how.as, &values, &mem);
        const real *scale =
            how.of_terms ? gpu_run(build, variant, gpu_magnitude, NULL, &mem).x : NULL;
        CHECK_EQ(cpu.n, got.n);
        wrong += gpu_differences(name, variant, cpu, got, scale, how.tolerance);
        if (memcmp(got.x, again.x, got.n * sizeof *got.x) != 0)
            test_fail(__FILE__, __LINE__, "%s, variant %d: other bits the second time", name,
                      variant);
        store_arena_restore(&values, start);
        arena_deinit(&mem);
    }
    CHECK_EQ(wrong, 0);
    store_arena_deinit(&values);
    store_close(values.store);
}

static inline void gpu_check(const char *name, gpu_graph *build, int variants, double tolerance)
{
    gpu_check_how(name, build, variants, (gpu_how){.tolerance = tolerance});
}

#endif
