/* The steps of S4's box pass, each by itself: the whole pass is too loose to show a mistake in one.
 */
#include "bound/s4_ranges.h"

#include "bound/bound_ops.h"
#include "bound/s4_gate_norm.h"
#include "test.h"

enum { ROWS = 20, H = 6, SAMPLES = 400 };
static const double slack = sizeof(real) == 4 ? 1e-5 : 1e-12;

typedef struct values {
    real centre[ROWS * 2 * H], radius[ROWS * 2 * H];
} values;

static void draw(values *v, rng *r, double width)
{
    for (size_t i = 0; i < ROWS * 2 * H; i++) {
        v->centre[i] = (real)(1.5 * rng_normal(r));
        v->radius[i] = (real)(width * rng_double(r));
    }
}

static double within(const values *v, size_t i, double at) /* at: -1 .. 1 */
{
    return (double)v->centre[i] + at * (double)v->radius[i];
}

static double gelu(double x)
{
    return x * 0.5 * erfc(-x / sqrt(2));
}

TEST(ranges_of_gelu_are_exact)
{
    rng r = rng_stream(41, STREAM_TEST, 0);
    for (double width = 0.01; width < 5; width *= 3) {
        values v;
        arena mem = {0};
        tape t;
        draw(&v, &r, width);
        tape_init(&t, &mem, NULL, false);
        const node *y = op_gelu_box(&t, tape_constant(&t, shape2(ROWS, H), v.centre),
                                    tape_constant(&t, shape2(ROWS, H), v.radius));
        CHECK_OK(tape_status(&t));
        for (size_t i = 0; i < ROWS * H; i++) {
            const real *row = y->value + i / H * 2 * H + i % H;
            double least = INFINITY, most = -INFINITY;
            for (int n = 0; n <= SAMPLES; n++) {
                const double x = gelu(within(&v, i, 2.0 * n / SAMPLES - 1));
                least = fmin(least, x), most = fmax(most, x);
            }
            CHECK_LE(row[0] - row[H], least + slack);
            CHECK_LE(most, row[0] + row[H] + slack);
            CHECK_NEAR(row[0] - row[H], least, 1e-4 * width + slack);
            CHECK_NEAR(row[0] + row[H], most, 1e-4 * width + slack);
        }
        arena_deinit(&mem);
    }
}

/* A kernel (0.5, -0.25, 0.125) on centres 1, 0, 2 and radii 0.1, 0.2, 0.3; then with a part of its first
 * number as the way around it (d), which its size has to count in. */
TEST(a_box_goes_through_a_kernel_by_hand)
{
    enum { L = 3 };
    static const real kernel[2][L] = {{0.5, -0.25, 0.125}, {(real)-0.3, -0.25, 0.125}},
                      around[2] = {0, (real)0.8}, centre[L] = {1, 0, 2},
                      radius[L] = {(real)0.1, (real)0.2, (real)0.3}, none = 0;
    static const double out[L] = {0.5, -0.25, 1.125}, size[L] = {0.05, 0.125, 0.2125};
    const uint32_t start[] = {0, L}, row[] = {0, 1, 2};
    const seq_index seq = {1, L, L, L, start, row};
    for (int i = 0; i < 2; i++) {
        arena mem = {0};
        tape t;
        tape_init(&t, &mem, NULL, false);
        node *k[] = {tape_constant(&t, shape2(1, L), kernel[i]),
                     tape_constant(&t, shape1(1), &around[i])};
        node *sizes = tape_push(&t, &s4_magnitude_op, k, 2, NULL, 0);
        const node *y = op_s4_conv(&t, tape_constant(&t, shape2(L, 1), centre), k[0], k[1], &seq),
                   *half = op_s4_conv(&t, tape_constant(&t, shape2(L, 1), radius), sizes,
                                      tape_constant(&t, shape1(1), &none), &seq);
        CHECK_OK(tape_status(&t));
        for (size_t l = 0; l < L; l++) {
            CHECK_NEAR(y->value[l], out[l], 1e-6);
            CHECK_NEAR(half->value[l], size[l], 1e-6);
        }
        arena_deinit(&mem);
    }
}

/* LayerNorm(u + GLU(x)) of one row, in double. */
static void plain_row(const double *x, const double *u, const real *gamma, const real *beta,
                      double *y)
{
    double mean = 0, var = 0;
    for (size_t j = 0; j < H; j++) {
        y[j] = u[j] + x[j] / (1 + exp(-x[H + j]));
        mean += y[j] / H;
    }
    for (size_t j = 0; j < H; j++)
        var += (y[j] - mean) * (y[j] - mean) / H;
    for (size_t j = 0; j < H; j++)
        y[j] = (y[j] - mean) / sqrt(var + 1e-5) * (double)gamma[j] + (double)beta[j];
}

TEST(gate_and_norm_stay_in_their_range)
{
    rng r = rng_stream(42, STREAM_TEST, 0);
    double fullest = 0;
    for (double width = 0.001; width < 3; width *= 4) {
        values x, u;
        real gamma[H], beta[H];
        arena mem = {0};
        tape t;
        draw(&x, &r, width);
        draw(&u, &r, width);
        for (size_t j = 0; j < H; j++)
            gamma[j] = (real)rng_normal(&r), beta[j] = (real)rng_normal(&r);
        tape_init(&t, &mem, NULL, false);
        const node *y = op_s4_gate_norm(&t, tape_constant(&t, shape2(ROWS, 2 * H), x.centre),
                                        tape_constant(&t, shape2(ROWS, 2 * H), x.radius),
                                        tape_constant(&t, shape2(ROWS, H), u.centre),
                                        tape_constant(&t, shape2(ROWS, H), u.radius),
                                        tape_constant(&t, shape1(H), gamma),
                                        tape_constant(&t, shape1(H), beta), 1e-5);
        CHECK_OK(tape_status(&t));
        for (size_t i = 0; i < ROWS; i++)
            for (int n = 0; n < SAMPLES; n++) {
                double a[2 * H], b[H], out[H];
                for (size_t j = 0; j < 2 * H; j++) /* corners and points between */
                    a[j] = within(&x, i * 2 * H + j,
                                  n % 2 ? rng_range(&r, -1, 1) : rng_below(&r, 2) * 2.0 - 1);
                for (size_t j = 0; j < H; j++)
                    b[j] = within(&u, i * H + j,
                                  n % 2 ? rng_range(&r, -1, 1) : rng_below(&r, 2) * 2.0 - 1);
                plain_row(a, b, gamma, beta, out);
                for (size_t j = 0; j < H; j++) {
                    const double centre = (double)y->value[i * 2 * H + j],
                                 radius = (double)y->value[i * 2 * H + H + j];
                    CHECK_LE(fabs(out[j] - centre), radius + slack * (1 + fabs(centre)));
                    fullest = fmax(fullest, fabs(out[j] - centre) / (radius + slack));
                }
            }
        arena_deinit(&mem);
    }
    fprintf(stderr, "  samples fill %.2f of a range\n", fullest);
    CHECK(fullest > 0.5); /* it is a range, not the line */
}
