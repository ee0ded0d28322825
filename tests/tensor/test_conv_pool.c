/* The fused convolution and max-pool against plain loops in double. In float a response is a sum of
 * D k products, so values are claimed to 2e-6 of the largest; gradients are sums over few windows.
 */
#include "seq_problem.h"

enum { ROWS, WEIGHT, BIAS };
static const char *const names[] = {"rows", "w", "b"};

static node *conv_op(tape *t, node **in, const seq_index *seq)
{
    return op_conv_pool(t, in[ROWS], in[WEIGHT], in[BIAS], seq);
}

/* Every window of every text, zeros beyond the end of a short one. */
static void conv_reference(const problem *p, double *y, double **grad)
{
    const size_t F = p->shape[WEIGHT].dim[0], D = p->shape[WEIGHT].dim[1];
    const size_t k = p->shape[WEIGHT].dim[2];
    const real *x = p->value[ROWS], *w = p->value[WEIGHT];
    for (size_t b = 0; b < p->seq.n_texts; b++) {
        const uint32_t *row = p->row + p->start[b];
        const size_t len = p->start[b + 1] - p->start[b];
        for (size_t f = 0; f < F; f++) {
            double best = -INFINITY;
            size_t at = 0;
            for (size_t t = 0; t == 0 || t + k <= len; t++) {
                double s = (double)p->value[BIAS][f];
                for (size_t l = 0; l < k && t + l < len; l++)
                    for (size_t d = 0; d < D; d++)
                        s += (double)w[(f * D + d) * k + l] * (double)x[row[t + l] * D + d];
                if (s > best) {
                    best = s;
                    at = t;
                }
            }
            y[b * F + f] = fmax(best, 0);
            if (best <= 0)
                continue;
            const double g = (double)p->dy[b * F + f];
            grad[BIAS][f] += g;
            for (size_t l = 0; l < k && at + l < len; l++)
                for (size_t d = 0; d < D; d++) {
                    const size_t wi = (f * D + d) * k + l, xi = row[at + l] * D + d;
                    grad[WEIGHT][wi] += g * (double)x[xi];
                    grad[ROWS][xi] += g * (double)w[wi];
                }
        }
    }
}

static problem conv_problem(const uint32_t *lengths, size_t rows, size_t D, size_t F, size_t k)
{
    rng r = rng_stream(5, STREAM_TEST, D * 1000 + F * 10 + k);
    problem p = {.n_inputs = 3,
                 .name = names,
                 .op = conv_op,
                 .reference = conv_reference,
                 .value_tol = sizeof(real) == 4 ? 2e-6 : 1e-14,
                 .grad_tol = sizeof(real) == 4 ? 2e-6 : 1e-14};
    problem_texts(&p, lengths, rows, &r);
    p.shape[ROWS] = shape2(rows, D);
    p.shape[WEIGHT] = shape3(F, D, k);
    p.shape[BIAS] = shape1(F);
    p.out = shape2(p.seq.n_texts, F);
    problem_fill(&p, 0.3, &r);
    return p;
}

static const uint32_t one_word[] = {1, 0}, short_texts[] = {4, 3, 2, 1, 1, 0};
static const uint32_t equal[] = {9, 9, 9, 9, 9, 9, 9, 0}, mixed[] = {60, 41, 17, 17, 8, 5, 3, 1, 0};

TEST(values_and_gradients_are_those_of_plain_loops)
{
    static const struct {
        const uint32_t *lengths;
        size_t rows, D, F, k;
    } shapes[] = {
        {one_word, 1, 1, 1, 1},  {one_word, 3, 7, 5, 4},  {short_texts, 6, 5, 16, 5},
        {equal, 20, 33, 17, 3},  {equal, 20, 64, 128, 2}, {mixed, 50, 31, 100, 3},
        {mixed, 50, 300, 32, 4}, {mixed, 80, 65, 48, 5},  {mixed, 80, 20, 20, 9},
        {mixed, 10, 3, 130, 60},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p =
            conv_problem(shapes[i].lengths, shapes[i].rows, shapes[i].D, shapes[i].F, shapes[i].k);
        check_reference(&p);
        problem_free(&p);
    }
}

TEST(frozen_inputs_get_no_gradient)
{
    for (int frozen = 0; frozen < 3; frozen++) {
        problem p = conv_problem(mixed, 30, 12, 20, 3);
        p.frozen[frozen] = true;
        check_reference(&p);
        problem_free(&p);
    }
}

TEST(where_no_window_is_positive_the_result_and_the_gradient_are_zero)
{
    problem p = conv_problem(mixed, 30, 12, 20, 3);
    for (size_t f = 0; f < 20; f++)
        p.value[BIAS][f] = -1000;
    CHECK_OK(problem_run(&p, true, 1));
    for (size_t i = 0; i < shape_count(p.out); i++)
        CHECK(p.y[i] == 0);
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < shape_count(p.shape[i]); j++)
            CHECK(p.grad[i][j] == 0);
    problem_free(&p);
}

TEST(a_nan_in_the_weights_is_seen_in_the_result)
{
    problem p = conv_problem(mixed, 30, 12, 20, 3);
    p.value[WEIGHT][0] = NAN;
    CHECK_OK(problem_run(&p, false, 0));
    CHECK(isnan(p.y[0]));
    problem_free(&p);
}

#ifdef STET_DOUBLE
TEST(gradients_are_finite_differences)
{
    problem p = conv_problem(mixed, 30, 12, 20, 4);
    check_differences(&p, 1e-7);
    problem_free(&p);
}
#endif

TEST(threads_and_recording_do_not_change_a_bit)
{
    problem p = conv_problem(mixed, 200, 60, 70, 3);
    check_same_bits(&p);
    problem_free(&p);
}

TEST(memory_may_run_out_anywhere)
{
    problem p = conv_problem(mixed, 30, 12, 20, 3);
    check_out_of_memory(&p);
    problem_free(&p);
}
