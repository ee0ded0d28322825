/* The panel kernel at every width this machine has, against plain loops in double. Sums of up to 64
 * products of numbers near 1: an error of 1e-5 in float is far above their rounding. */
#include "test.h"

#include "base/rng.h"
#include "tensor/host/panel.h"

#define KERNEL_FILE "tensor/host/panel_kernel.h"
#include "tensor/host/each_width.h"

enum { MOST_ROWS = 13, MOST_K = 64, LDC = PANEL + 5 };
static const double TOL = sizeof(real) == 4 ? 1e-5 : 1e-13;

static size_t widths(panel_fn **fn)
{
    size_t n = 0;
    fn[n++] = rows_plain;
#if defined(STET_MULTIVERSION) && defined(__x86_64__)
    if (machine_has_avx2())
        fn[n++] = rows_avx2;
    if (machine_has_avx512())
        fn[n++] = rows_avx512;
#endif
    return n;
}

static void fill(real *x, size_t n, rng *r)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (real)rng_range(r, -1, 1);
}

typedef struct operands {
    real a[MOST_K * MOST_K], b[MOST_K * PANEL], x[MOST_ROWS * 2 * PANEL], bias[2 * PANEL];
    real c[MOST_ROWS * LDC];
    const real *gathered[MOST_ROWS];
} operands;

static operands *random_operands(void)
{
    static operands o;
    rng r = rng_stream(9, STREAM_TEST, 0);
    fill(o.a, MOST_K * MOST_K, &r);
    fill(o.b, MOST_K * PANEL, &r);
    fill(o.x, MOST_ROWS * 2 * PANEL, &r);
    fill(o.bias, 2 * PANEL, &r);
    fill(o.c, MOST_ROWS * LDC, &r);
    for (size_t i = 0; i < MOST_ROWS; i++)
        o.gathered[i] = o.x + (MOST_ROWS - 1 - i) * 2 * PANEL;
    return &o;
}

/* Every element of the block, and nothing beside it. */
static void check_block(panel_fn *fn, const operands *o, size_t rows, size_t K, panel_left a,
                        panel_start from)
{
    real c[MOST_ROWS * LDC];
    memcpy(c, o->c, sizeof c);
    fn(rows, K, a, (panel_right){o->b, PANEL}, from, c, LDC);
    for (size_t r = 0; r < MOST_ROWS; r++) {
        for (size_t j = 0; j < LDC; j++) {
            double want = (double)o->c[r * LDC + j];
            if (r < rows && j < PANEL) {
                if (from.x)
                    want = (double)from.x[r][from.col + j] + (double)from.bias[from.col + j];
                else if (from.zero)
                    want = 0;
                for (size_t k = 0; k < K; k++)
                    want +=
                        (double)a.p[r * a.row_step + k * a.col_step] * (double)o->b[k * PANEL + j];
                CHECK_NEAR(c[r * LDC + j], want, TOL);
            } else {
                CHECK(c[r * LDC + j] == o->c[r * LDC + j]);
            }
        }
    }
}

TEST(every_width_computes_what_plain_loops_do)
{
    const operands *o = random_operands();
    const panel_left left[] = {{o->a, MOST_K, 1}, {o->a, 1, MOST_K}};
    const panel_start from[] = {{o->gathered, o->bias, PANEL, false}, {.zero = true}, {0}};
    panel_fn *fn[3];
    for (size_t w = 0, n = widths(fn); w < n; w++)
        for (size_t rows = 1; rows <= MOST_ROWS; rows++)
            for (size_t K = 0; K <= MOST_K; K = K * 3 + 1)
                for (size_t i = 0; i < 6; i++)
                    check_block(fn[w], o, rows, K, left[i % 2], from[i / 2]);
}

TEST(a_row_has_the_same_bits_in_any_company)
{
    const operands *o = random_operands();
    const panel_right b = {o->b, PANEL};
    panel_fn *fn[3];
    for (size_t w = 0, n = widths(fn); w < n; w++) {
        real together[MOST_ROWS * PANEL], alone[PANEL];
        fn[w](MOST_ROWS, MOST_K, (panel_left){o->a, MOST_K, 1}, b, (panel_start){.zero = true},
              together, PANEL);
        for (size_t r = 0; r < MOST_ROWS; r++) {
            fn[w](1, MOST_K, (panel_left){o->a + r * MOST_K, MOST_K, 1}, b,
                  (panel_start){.zero = true}, alone, PANEL);
            CHECK(memcmp(alone, together + r * PANEL, sizeof alone) == 0);
        }
    }
}

TEST(packed_weights_multiply_like_the_weights)
{
    enum { M = 200, N = 70, K = 9 }; /* more than a piece of rows, more than a panel */
    static real a[M * K], w[N * K], panels[2 * PANEL * K], c[M * 2 * PANEL];
    rng r = rng_stream(10, STREAM_TEST, 0);
    fill(a, M * K, &r);
    fill(w, N * K, &r);
    panel_pack(K, 30, w, 1, K, 0, panels); /* b = w^T, in two parts */
    panel_pack(K, N - 30, w + 30 * K, 1, K, 30, panels);
    panel_product(M, panel_padded(N), K, a, K, panels, c, 2 * PANEL);
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j < N; j++) {
            double want = 0;
            for (size_t k = 0; k < K; k++)
                want += (double)a[i * K + k] * (double)w[j * K + k];
            CHECK_NEAR(c[i * 2 * PANEL + j], want, TOL);
        }
    }
}

/* Sums in order, rounded as panel_fuses() says: what a device repeats. */
TEST(every_term_is_rounded_as_it_says)
{
    enum { M = 4, K = 50 };
    static real a[M * K], b[K * PANEL], c[M * PANEL];
    rng r = rng_stream(11, STREAM_TEST, 0);
    if (sizeof(real) != sizeof(float))
        SKIP("no device computes in double");
    fill(a, M * K, &r);
    fill(b, K * PANEL, &r);
    panel_product(M, PANEL, K, a, K, b, c, PANEL);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < PANEL; j++) {
            volatile float sum = 0;
            for (size_t k = 0; k < K; k++) {
                const float x = (float)a[i * K + k], y = (float)b[k * PANEL + j];
                volatile const float term = x * y;
                sum = panel_fuses() ? fmaf(x, y, sum) : sum + term;
            }
            CHECK((float)c[i * PANEL + j] == sum);
        }
}
