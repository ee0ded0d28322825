/* Growth bounds of the BiLSTM and S4, boxes of states and the steps of S4's box pass: the GPU against
 * the CPU. Skips where there is no GPU. */
#include "bound/bound_ops.h"
#include "bound/gbm_lstm_ops.h"
#include "bound/lstm_box_ops.h"
#include "bound/s4_gate_norm.h"
#include "bound/s4_ranges.h"
#include "tensor/gpu_case.h"

/* ---- LSTM --------------------------------------------------------------------------------- */

/* Weights in registers, from memory, more columns than threads, in shared memory too. */
static const struct {
    size_t D, H;
} cells[] = {{5, 3}, {300, 64}, {50, 32}, {7, 150}, {40, 128}};
enum { CELLS = sizeof cells / sizeof *cells };

static void cell_weights(gpu_case *c, size_t D, size_t H, node *w[4])
{
    const double by = 2 / sqrt((double)(D + H));
    w[0] = gpu_input(c, shape2(4 * H, D), -by, by);
    w[1] = gpu_input(c, shape2(4 * H, H), -by, by);
    w[2] = gpu_input(c, shape1(4 * H), -0.5, 0.5);
    w[3] = gpu_input(c, shape1(4 * H), -0.5, 0.5);
}

/* `sides` rows of n, each second one above the one before. */
static node *box_of(gpu_case *c, size_t sides, size_t n, double width)
{
    real *x = gpu_numbers(c, sides * n, -0.6, 0.6);
    for (size_t side = 1; side < sides; side += 2)
        for (size_t i = 0; i < n; i++)
            x[side * n + i] = x[(side - 1) * n + i] + (real)(width * rng_double(&c->r));
    return tape_numbers(&c->t, shape2(sides, n), x);
}

/* Of the numbers behind the term those too that have no gradient. */
static node *term(gpu_case *c, int variant, gbm_of of, gbm_cell_mode mode)
{
    const size_t D = cells[variant % CELLS].D, H = cells[variant % CELLS].H;
    node *w[8];
    cell_weights(c, D, H, w);
    cell_weights(c, D, H, w + 4);
    node *omega = of == GBM_OF_GAIN || variant % 2 ? gpu_input(c, shape1(2 * H), 0.1, 1) : NULL;
    const double width = variant < CELLS ? 0.1 : 0.8;
    const gbm_term_args a = {.of = of,
                             .k = {1, 0.7, 1.3},
                             .mode = mode,
                             .words = box_of(c, 2, D, width),
                             .state = {box_of(c, 4, H, width), box_of(c, 4, H, width)},
                             .eta = tape_numbers(&c->t, shape1(D), gpu_numbers(c, D, 0, 0.05)),
                             .steps = variant % CELLS == 0 ? 1 : 20,
                             .rho0 = 0.1};
    gbm_report report = {{NULL}};
    node *y = gbm_lstm_term(&c->t, w, omega, &a, &report);
    for (int p = 0; p < GBM_PARTS; p++)
        y = report.part[p] ? op_add(&c->t, y, op_scale(&c->t, op_sum(&c->t, report.part[p]), 0.3))
                           : y;
    return y;
}

static node *layer(gpu_case *c, int variant)
{
    return term(c, variant, GBM_OF_LAYER, GBM_CELL_BOTH);
}

static node *layer_ia(gpu_case *c, int variant)
{
    return term(c, variant, GBM_OF_LAYER, GBM_CELL_IA);
}

static node *layer_mv(gpu_case *c, int variant)
{
    return term(c, variant, GBM_OF_LAYER, GBM_CELL_MV);
}

static node *gain(gpu_case *c, int variant)
{
    return term(c, variant, GBM_OF_GAIN, GBM_CELL_BOTH);
}

static node *rho(gpu_case *c, int variant)
{
    return term(c, variant, GBM_OF_RHO, GBM_CELL_BOTH);
}

TEST(growth_bounds_of_an_lstm_are_the_cpus)
{
    gpu_check("layer", layer, 2 * CELLS, 5e-5);
}

TEST(so_are_those_by_interval_arithmetic)
{
    gpu_check("layer, interval arithmetic", layer_ia, 2 * CELLS, 5e-5);
}

TEST(so_are_those_by_mean_values)
{
    gpu_check("layer, mean value", layer_mv, 2 * CELLS, 5e-5);
}

TEST(the_gain_of_an_lstm_is_the_cpus)
{
    gpu_check("gain", gain, 2 * CELLS, 1e-4);
}

TEST(the_contraction_of_an_lstm_is_the_cpus)
{
    gpu_check("rho", rho, 2 * CELLS, 2e-4);
}

/* ---- boxes of states ---------------------------------------------------------------------- */

enum { READ_ROWS = 30, READ_WORDS = 40 };

static node *reading(gpu_case *c, int variant, bool observed)
{
    const size_t D = cells[variant % CELLS].D, H = cells[variant % CELLS].H;
    node *w[4];
    cell_weights(c, D, H, w);
    uint32_t *index = arena_new(c->mem, uint32_t, READ_WORDS);
    CHECK(index);
    for (int i = 0; i < READ_WORDS; i++)
        index[i] = (uint32_t)rng_below(&c->r, READ_ROWS);
    const box_words x = {gpu_input(c, shape2(READ_ROWS, D), -1, 1), index,
                         observed || variant % CELLS ? READ_WORDS : 0, variant >= CELLS};
    return observed ? op_lstm_observed(&c->t, w, &x, box_of(c, 4, H, 0.3), 0.1, variant % 2 == 1)
                    : op_lstm_around(&c->t, w, &x, 0.05);
}

static node *observed(gpu_case *c, int variant)
{
    return reading(c, variant, true);
}

static node *around(gpu_case *c, int variant)
{
    return reading(c, variant, false);
}

static node *invariant(gpu_case *c, int variant)
{
    const size_t D = cells[variant % CELLS].D, H = cells[variant % CELLS].H;
    node *w[4];
    cell_weights(c, D, H, w);
    return op_lstm_invariant(&c->t, w, box_of(c, 2, D, 0.3), variant < CELLS ? 1 : 200);
}

TEST(observed_states_are_the_cpus)
{
    gpu_check("observed", observed, 2 * CELLS, 1e-5);
}

TEST(boxes_around_a_state_are_the_cpus)
{
    gpu_check("around", around, 2 * CELLS, 1e-5);
}

TEST(states_that_no_text_leaves_are_the_cpus)
{
    gpu_check("invariant", invariant, 2 * CELLS, 1e-5);
}

/* ---- S4 ----------------------------------------------------------------------------------- */

static node *s4_term(gpu_case *c, int variant)
{
    static const size_t states[] = {3, 32, 50, 100};
    const size_t H = variant % 2 ? 9 : 64, n = states[variant % 4];
    node *in[] = {gpu_input(c, shape2(H, n), -1, 0.5),  gpu_input(c, shape2(H, n), -3, 3),
                  gpu_input(c, shape3(H, n, 2), -1, 1), gpu_input(c, shape3(H, n, 2), -1, 1),
                  gpu_input(c, shape3(H, n, 2), -1, 1), gpu_input(c, shape1(H), -4, -1),
                  gpu_input(c, shape1(H), -1, 1)};
    return tape_push(&c->t, &gbm_s4_op, in, 7, NULL, 0);
}

static node *magnitude(gpu_case *c, int variant)
{
    const size_t H = 17, L = variant ? 130 : 1;
    node *in[] = {gpu_input(c, shape2(H, L), -1, 1), gpu_input(c, shape1(H), -1, 1)};
    return tape_push(&c->t, &s4_magnitude_op, in, 2, NULL, 0);
}

static node *gelu_box(gpu_case *c, int variant)
{
    const shape s = shape2(37, 45);
    node *centre = gpu_input(c, s, -3, 3);
    return op_gelu_box(&c->t, centre, gpu_input(c, s, 0, variant ? 2 : 0.01));
}

static node *gate_norm(gpu_case *c, int variant)
{
    static const size_t channels[] = {2, 7, 64, 300};
    const size_t n = 41, H = channels[variant % 4];
    const double width = variant < 4 ? 0.05 : 1;
    node *x = gpu_input(c, shape2(n, 2 * H), -2, 2),
         *x_radius = gpu_input(c, shape2(n, 2 * H), 0, width),
         *u = gpu_input(c, shape2(n, H), -2, 2), *u_radius = gpu_input(c, shape2(n, H), 0, width),
         *gamma = gpu_input(c, shape1(H), -1, 1);
    return op_s4_gate_norm(&c->t, x, x_radius, u, u_radius, gamma, gpu_input(c, shape1(H), -1, 1),
                           1e-5);
}

TEST(growth_bounds_of_s4_are_the_cpus)
{
    gpu_check("gbm_s4", s4_term, 4, 2e-5);
}

TEST(magnitudes_of_s4s_kernels_are_the_cpus)
{
    gpu_check("s4_magnitude", magnitude, 2, 1e-6);
}

TEST(boxes_through_gelu_are_the_cpus)
{
    gpu_check("gelu_box", gelu_box, 2, 1e-5);
}

TEST(boxes_through_gate_and_norm_are_the_cpus)
{
    gpu_check("s4_gate_norm", gate_norm, 8, 1e-4);
}
