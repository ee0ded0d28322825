/* The fused bidirectional LSTM against plain loops in double, text by text and step by step. In
 * float the errors of some hundred steps do not add up, because the gates forget: values are
 * claimed to 2e-6 of the largest, gradients to 1e-5. */
#include "seq_problem.h"
#include "tensor/host/lstm_step.h"

enum { ROWS, W_IH, W_HH, B_IH, B_HH, REVERSE = 4 };
static const char *const names[] = {"rows",         "w_ih",         "w_hh",
                                    "b_ih",         "b_hh",         "w_ih_reverse",
                                    "w_hh_reverse", "b_ih_reverse", "b_hh_reverse"};

static node *lstm_op(tape *t, node **in, const seq_index *seq)
{
    return op_bilstm(t, in[0], in + 1, seq, NULL);
}

/* One direction of one text, back-propagation through time. State t + 1 follows step t. */
static void reference_direction(const problem *p, size_t b, int dir, double *y, double **grad)
{
    const size_t D = p->shape[ROWS].dim[1], H = p->shape[W_HH].dim[1];
    const size_t len = p->start[b + 1] - p->start[b];
    const int base = dir * REVERSE;
    const real *wi = p->value[base + W_IH], *wh = p->value[base + W_HH];
    double *gate = new_array(len * 4 * H, sizeof *gate);
    double *h = new_array((len + 1) * H, sizeof *h), *c = new_array((len + 1) * H, sizeof *c);
    double *dh = new_array(H, sizeof *dh), *dc = new_array(H, sizeof *dc);
    double *dz = new_array(4 * H, sizeof *dz);

#define WORD(t) (p->row[p->start[b] + (dir ? len - 1 - (t) : (t))])
    for (size_t t = 0; t < len; t++) {
        const real *x = p->value[ROWS] + WORD(t) * D;
        double *z = gate + t * 4 * H;
        for (size_t j = 0; j < 4 * H; j++) {
            z[j] = (double)p->value[base + B_IH][j] + (double)p->value[base + B_HH][j];
            for (size_t d = 0; d < D; d++)
                z[j] += (double)wi[j * D + d] * (double)x[d];
            for (size_t k = 0; k < H; k++)
                z[j] += (double)wh[j * H + k] * h[t * H + k];
            z[j] = j / H == 2 ? tanh(z[j]) : 1 / (1 + exp(-z[j]));
        }
        for (size_t j = 0; j < H; j++) {
            c[(t + 1) * H + j] = z[H + j] * c[t * H + j] + z[j] * z[2 * H + j];
            h[(t + 1) * H + j] = z[3 * H + j] * tanh(c[(t + 1) * H + j]);
        }
    }
    for (size_t j = 0; j < H; j++) {
        y[(b * 2 + (size_t)dir) * H + j] = h[len * H + j];
        dh[j] = (double)p->dy[(b * 2 + (size_t)dir) * H + j];
    }
    for (size_t t = len; t-- > 0;) {
        const double *z = gate + t * 4 * H;
        for (size_t j = 0; j < H; j++) {
            const double i = z[j], f = z[H + j], g = z[2 * H + j], o = z[3 * H + j];
            const double tc = tanh(c[(t + 1) * H + j]);
            const double d = dc[j] + dh[j] * o * (1 - tc * tc);
            dz[j] = d * g * i * (1 - i);
            dz[H + j] = d * c[t * H + j] * f * (1 - f);
            dz[2 * H + j] = d * i * (1 - g * g);
            dz[3 * H + j] = dh[j] * tc * o * (1 - o);
            dc[j] = d * f;
            dh[j] = 0;
        }
        const real *x = p->value[ROWS] + WORD(t) * D;
        double *dx = grad[ROWS] + WORD(t) * D;
        for (size_t j = 0; j < 4 * H; j++) {
            grad[base + B_IH][j] += dz[j];
            grad[base + B_HH][j] += dz[j];
            for (size_t d = 0; d < D; d++) {
                grad[base + W_IH][j * D + d] += dz[j] * (double)x[d];
                dx[d] += dz[j] * (double)wi[j * D + d];
            }
            for (size_t k = 0; k < H; k++) {
                grad[base + W_HH][j * H + k] += dz[j] * h[t * H + k];
                dh[k] += dz[j] * (double)wh[j * H + k];
            }
        }
    }
#undef WORD
    free(gate);
    free(h);
    free(c);
    free(dh);
    free(dc);
    free(dz);
}

static void lstm_reference(const problem *p, double *y, double **grad)
{
    for (size_t b = 0; b < p->seq.n_texts; b++)
        for (int dir = 0; dir < 2; dir++)
            reference_direction(p, b, dir, y, grad);
}

static problem lstm_problem(const uint32_t *lengths, size_t rows, size_t D, size_t H)
{
    rng r = rng_stream(6, STREAM_TEST, D * 1000 + H);
    problem p = {.n_inputs = 9,
                 .name = names,
                 .op = lstm_op,
                 .reference = lstm_reference,
                 .value_tol = sizeof(real) == 4 ? 2e-6 : 1e-13,
                 .grad_tol = sizeof(real) == 4 ? 1e-5 : 1e-13};
    problem_texts(&p, lengths, rows, &r);
    p.shape[ROWS] = shape2(rows, D);
    for (int dir = 0; dir < 2; dir++) {
        shape *s = p.shape + dir * REVERSE;
        s[W_IH] = shape2(4 * H, D);
        s[W_HH] = shape2(4 * H, H);
        s[B_IH] = s[B_HH] = shape1(4 * H);
    }
    p.out = shape2(p.seq.n_texts, 2 * H);
    problem_fill(&p, 0.25, &r);
    return p;
}

static const uint32_t one_word[] = {1, 0}, one_text[] = {40, 0}, short_texts[] = {3, 2, 1, 1, 0};
static const uint32_t equal[] = {7, 7, 7, 7, 7, 7, 7, 7, 0};
static const uint32_t mixed[] = {50, 31, 31, 30, 12, 12, 11, 9, 9, 8, 8,
                                 7,  7,  6,  5,  5,  4,  2,  2, 1, 0};

/* 64 texts of falling length, more than one group of texts whatever its size. */
static const uint32_t *many_texts(void)
{
    static uint32_t lengths[65];
    for (uint32_t i = 0; i < 64; i++)
        lengths[i] = 70 - i - i % 3 / 2;
    return lengths;
}

TEST(values_and_gradients_are_those_of_plain_loops)
{
    const struct {
        const uint32_t *lengths;
        size_t rows, D, H;
    } shapes[] = {
        {one_word, 1, 1, 1},    {one_word, 3, 5, 64},        {one_text, 12, 7, 10},
        {one_text, 30, 33, 64}, {short_texts, 4, 3, 3},      {equal, 20, 16, 16},
        {equal, 9, 17, 100},    {mixed, 90, 11, 33},         {mixed, 60, 300, 64},
        {mixed, 60, 40, 65},    {many_texts(), 150, 21, 24},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p = lstm_problem(shapes[i].lengths, shapes[i].rows, shapes[i].D, shapes[i].H);
        check_reference(&p);
        problem_free(&p);
    }
}

/* On the way back through a long text the gradient shrinks to nothing. Denormal numbers on that way take
 * some processors five times as long. */
TEST(a_gradient_that_has_faded_is_zero)
{
    enum { WORDS = 2000 };
    static const uint32_t length[] = {WORDS, 0};
    problem p = lstm_problem(length, WORDS, 8, 16);
    for (uint32_t i = 0; i < WORDS; i++)
        p.row[i] = i;
    CHECK_OK(problem_run(&p, true, 1));
    size_t zeros = 0;
    for (size_t i = 0; i < WORDS * 8; i++) {
        zeros += p.grad[ROWS][i] == 0;
        CHECK(fpclassify(p.grad[ROWS][i]) != FP_SUBNORMAL);
    }
    CHECK_LE(WORDS * 4, zeros);
    CHECK(p.grad[ROWS][0] != 0 && p.grad[ROWS][WORDS * 8 - 1] != 0); /* where the directions end */
    problem_free(&p);
}

TEST(frozen_inputs_get_no_gradient)
{
    for (int frozen = 0; frozen < 9; frozen++) {
        problem p = lstm_problem(mixed, 30, 12, 20);
        for (int i = 0; i <= frozen; i++) /* the last time only b_hh of the reverse is left */
            p.frozen[i] = i < 8;
        check_reference(&p);
        problem_free(&p);
    }
}

#ifdef STET_DOUBLE
TEST(gradients_are_finite_differences)
{
    problem p = lstm_problem(mixed, 30, 12, 20);
    check_differences(&p, 1e-7);
    problem_free(&p);
}
#endif

TEST(threads_and_recording_do_not_change_a_bit)
{
    problem p = lstm_problem(many_texts(), 150, 60, 64);
    check_same_bits(&p);
    problem_free(&p);
}

TEST(memory_may_run_out_anywhere)
{
    problem p = lstm_problem(mixed, 30, 12, 20);
    check_out_of_memory(&p);
    problem_free(&p);
}

/* A step that only reads ends in the states of one that records, from gates that are open, shut and
 * between; NaN stays NaN. */
TEST(reading_is_the_same_as_recording)
{
    enum { H = 19, N = 7, G = 128, P = 64, STEPS = 40 };
    static real w_hh[4 * H * H], bias[G], u[G * H], u_back[4 * H * P], x[N * G];
    static real h[N * P], c[N * P], z[N * G], gates[N * G], h_read[N * P], c_read[N * P];
    const real *word[N];
    real *h_row[N], *c_row[N];
    rng r = rng_stream(8, STREAM_TEST, 0);
    CHECK_EQ(lstm_padded(4 * H), G);
    CHECK_EQ(lstm_padded(H), P);
    for (size_t i = 0; i < 4 * H * H; i++)
        w_hh[i] = (real)(0.3 * rng_normal(&r));
    lstm_pack(H, w_hh, u, u_back);
    const lstm_cell cell = {H, G, P, bias, u, u_back};
    for (size_t i = 0; i < N; i++)
        word[i] = x + i * G, h_row[i] = h + i * P, c_row[i] = c + i * P;
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < N * G; i++) /* at times far beyond where the exponentials end */
            x[i] = (real)(rng_normal(&r) * (step % 4 == 3 ? 60 : 2));
        lstm_step_forward(&cell, N, false, word, h, c, z, gates, h_row, c_row);
        lstm_step_read(&cell, N, word, h_read, c_read, z);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < H; j++) {
                CHECK_NEAR(h_read[i * P + j], h[i * P + j], 2e-6);
                CHECK_NEAR(c_read[i * P + j], c[i * P + j], 2e-6 * (1 + fabs((double)c[i * P + j])));
            }
    }
    x[3] = (real)NAN;
    lstm_step_read(&cell, N, word, h_read, c_read, z);
    CHECK(isnan(c_read[3]) && isnan(h_read[3]) && !isnan(c_read[4]) && !isnan(h_read[P + 3]));
}
