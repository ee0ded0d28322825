/* tests/tensor/seq_problem.h - a fused sequence op with random inputs, its naive reference in
 * double, and what every such op must satisfy: values and gradients of the reference, finite
 * differences (in the double build), the same bits for any number of threads, with and without
 * recording, on a second walk over the tape, and a clean end when memory runs out. */
#ifndef SEQ_PROBLEM_H
#define SEQ_PROBLEM_H

#include "alloc_fail.h"
#include "tensor/ops.h"
#include "test.h"

enum { MAX_INPUTS = 9 };
typedef struct problem problem;
struct problem {
    int n_inputs;
    const char *const *name;
    shape shape[MAX_INPUTS];
    real *value[MAX_INPUTS], *grad[MAX_INPUTS];
    bool frozen[MAX_INPUTS]; /* no gradient wanted */
    seq_index seq;
    uint32_t *start, *row;
    shape out;
    real *y, *dy; /* the loss is sum(dy * y) */
    node *(*op)(tape *t, node **in, const seq_index *seq);
    /* y and the gradients of all inputs, in double; both come zeroed */
    void (*reference)(const problem *p, double *y, double **grad);
    double value_tol, grad_tol; /* relative to the largest entry of the array compared */
};

static void *new_array(size_t n, size_t size)
{
    void *x = calloc(n, size);
    CHECK(x);
    return x;
}

/* The same numbers in both builds. */
static void fill(real *x, size_t n, rng *r, double spread)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)(spread * rng_normal(r));
}

/* Texts of these lengths (falling, 0 ends them) over `rows` input rows. */
static void problem_texts(problem *p, const uint32_t *length, size_t rows, rng *r)
{
    size_t texts = 0;
    while (length[texts])
        texts++;
    p->start = new_array(texts + 1, sizeof *p->start);
    for (size_t b = 0; b < texts; b++)
        p->start[b + 1] = p->start[b] + length[b];
    p->row = new_array(p->start[texts], sizeof *p->row);
    for (size_t i = 0; i < p->start[texts]; i++)
        p->row[i] = (uint32_t)rng_below(r, rows);
    p->seq = (seq_index){.n_texts = texts,
                         .n_tokens = p->start[texts],
                         .n_rows = rows,
                         .max_len = length[0],
                         .start = p->start,
                         .row = p->row};
}

/* Inputs of the given shapes, result of shape `out`. */
static void problem_fill(problem *p, double spread, rng *r)
{
    for (int i = 0; i < p->n_inputs; i++) {
        const size_t n = shape_count(p->shape[i]);
        p->value[i] = new_array(n, sizeof(real));
        p->grad[i] = new_array(n, sizeof(real));
        fill(p->value[i], n, r, i == 0 ? 1 : spread);
    }
    p->y = new_array(shape_count(p->out), sizeof(real));
    p->dy = new_array(shape_count(p->out), sizeof(real));
    fill(p->dy, shape_count(p->out), r, 1);
}

static void problem_free(problem *p)
{
    for (int i = 0; i < p->n_inputs; i++) {
        free(p->value[i]);
        free(p->grad[i]);
    }
    free(p->start);
    free(p->row);
    free(p->y);
    free(p->dy);
}

/* One pass; the gradients are those of `walks` walks over the same tape. */
static stet_status problem_run(problem *p, bool record, int walks)
{
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, NULL, record);
    node *in[MAX_INPUTS];
    for (int i = 0; i < p->n_inputs; i++) {
        memset(p->grad[i], 0, shape_count(p->shape[i]) * sizeof(real));
        in[i] = tape_input(&t, p->shape[i], p->value[i], p->frozen[i] ? NULL : p->grad[i]);
    }
    node *y = p->op(&t, in, &p->seq);
    if (y)
        memcpy(p->y, y->value, shape_count(p->out) * sizeof(real));
    stet_status st = tape_status(&t);
    if (record && st == STET_OK) {
        node *loss = op_sum(&t, op_mul(&t, y, tape_constant(&t, p->out, p->dy)));
        st = tape_status(&t);
        for (int i = 0; i < walks && st == STET_OK; i++)
            st = tape_backward(&t, loss);
    }
    arena_deinit(&mem);
    return st;
}

static void check_near(const char *what, const real *x, const double *want, size_t n, double tol,
                       double factor)
{
    double largest = 1e-30;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(factor * want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)x[i] - factor * want[i]) <= tol * largest))
            test_fail(__FILE__, __LINE__, "%s[%zu] is %.9g, the reference %.9g, tolerance %g", what,
                      i, (double)x[i], factor * want[i], tol * largest);
}

static void check_reference(problem *p)
{
    const size_t n_out = shape_count(p->out);
    double *y = new_array(n_out, sizeof *y), *grad[MAX_INPUTS];
    for (int i = 0; i < p->n_inputs; i++)
        grad[i] = new_array(shape_count(p->shape[i]), sizeof **grad);
    p->reference(p, y, grad);
    for (int walks = 1; walks <= 2; walks++) {
        CHECK_OK(problem_run(p, true, walks));
        check_near("y", p->y, y, n_out, p->value_tol, 1);
        for (int i = 0; i < p->n_inputs; i++)
            check_near(p->name[i], p->grad[i], grad[i], shape_count(p->shape[i]), p->grad_tol,
                       p->frozen[i] ? 0 : walks);
    }
    for (int i = 0; i < p->n_inputs; i++)
        free(grad[i]);
    free(y);
}

static void copy_grads(const problem *p, real **grad)
{
    for (int i = 0; i < p->n_inputs; i++) {
        const size_t n = shape_count(p->shape[i]);
        grad[i] = new_array(n, sizeof **grad);
        memcpy(grad[i], p->grad[i], n * sizeof **grad);
    }
}

static UNUSED double problem_loss(problem *p)
{
    CHECK_OK(problem_run(p, false, 0));
    double loss = 0;
    for (size_t i = 0; i < shape_count(p->out); i++)
        loss += (double)p->y[i] * (double)p->dy[i];
    return loss;
}

/* Central differences at some entries of every input; the double build only. */
static UNUSED void check_differences(problem *p, double tol)
{
    const double eps = 1e-5;
    real *grad[MAX_INPUTS]; /* problem_run clears the problem's own */
    CHECK_OK(problem_run(p, true, 1));
    copy_grads(p, grad);
    rng r = rng_stream(3, STREAM_TEST, 0);
    for (int i = 0; i < p->n_inputs; i++) {
        const size_t n = shape_count(p->shape[i]);
        for (int trial = 0; trial < 12; trial++) {
            const size_t at = rng_below(&r, n);
            const real x = p->value[i][at];
            const double g = (double)grad[i][at];
            p->value[i][at] = (real)((double)x + eps);
            const double up = problem_loss(p);
            p->value[i][at] = (real)((double)x - eps);
            const double down = problem_loss(p);
            p->value[i][at] = x;
            if (!(fabs((up - down) / (2 * eps) - g) <= tol * (1 + fabs(g))))
                test_fail(__FILE__, __LINE__, "d %s[%zu] is %.9g, differences give %.9g",
                          p->name[i], at, g, (up - down) / (2 * eps));
        }
        free(grad[i]);
    }
}

/* The same bits with 1, 2 and 5 threads, and the same values where nothing is recorded. */
static void check_same_bits(problem *p)
{
    const size_t n_out = shape_count(p->out);
    real *y = new_array(n_out, sizeof *y), *grad[MAX_INPUTS];
    stet_set_threads(1);
    CHECK_OK(problem_run(p, true, 1));
    memcpy(y, p->y, n_out * sizeof *y);
    copy_grads(p, grad);
    for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        stet_set_threads(threads);
        CHECK_OK(problem_run(p, true, 1));
        CHECK(memcmp(y, p->y, n_out * sizeof *y) == 0);
        for (int i = 0; i < p->n_inputs; i++)
            CHECK(memcmp(grad[i], p->grad[i], shape_count(p->shape[i]) * sizeof **grad) == 0);
        CHECK_OK(problem_run(p, false, 0));
        CHECK(memcmp(y, p->y, n_out * sizeof *y) == 0);
    }
    for (int i = 0; i < p->n_inputs; i++)
        free(grad[i]);
    free(y);
}

static stet_status run_once(void *ctx)
{
    return problem_run(ctx, true, 2);
}

static void check_out_of_memory(problem *p)
{
    CHECK_LE(1, ALLOC_FAIL_LOOP(run_once, p));
}

#endif
