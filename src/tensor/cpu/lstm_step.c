/* tensor/cpu/lstm_step.c - see lstm_step.h.
 *
 * The kernel keeps a block of R rows x PANEL columns in registers over the whole inner dimension:
 * with R = 6, 24 of AVX-512's 32 registers, two instructions of loading for five of arithmetic. The
 * narrower machines have registers for fewer rows, so R is chosen at run time and all R are
 * compiled. */
#include "tensor/cpu/lstm_step.h"

#include <string.h>

#include "base/simd.h"
#include "tensor/cpu/lanes.h"
#include "tensor/vmath.h"

enum { PANEL = LSTM_PANEL, VECTORS = PANEL / LANES, MAX_ROWS = 6 };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

size_t lstm_padded(size_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

void lstm_pack(size_t H, const real *w_hh, real *u, real *u_back)
{
    const size_t G = lstm_padded(4 * H), P = lstm_padded(H);
    for (size_t j = 0; j < G; j++)
        for (size_t k = 0; k < H; k++)
            u[j / PANEL * H * PANEL + k * PANEL + j % PANEL] = j < 4 * H ? w_hh[j * H + k] : 0;
    for (size_t k = 0; k < P; k++)
        for (size_t j = 0; j < 4 * H; j++)
            u_back[k / PANEL * 4 * H * PANEL + j * PANEL + k % PANEL] = k < H ? w_hh[j * H + k] : 0;
}

/* c (R, PANEL; ldc) += a (R, K) b (K, PANEL; ldb), where element (r, k) of a is a[r * rs + k * ks].
 */
static ALWAYS_INLINE void block(const int R, size_t K, const real *a, size_t rs, size_t ks,
                                const real *b, size_t ldb, real *c, size_t ldc)
{
    lanes acc[MAX_ROWS][VECTORS];
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
    for (int v = 0; v < VECTORS; v++)
        acc[r][v] = *(const lanes *)(c + (size_t)r * ldc + (size_t)v * LANES);
    for (size_t k = 0; k < K; k++) {
        lanes bk[VECTORS];
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            bk[v] = *(const lanes *)(b + k * ldb + (size_t)v * LANES);
        UNROLL
        for (int r = 0; r < R; r++) {
            const real s = a[(size_t)r * rs + k * ks];
            UNROLL
            for (int v = 0; v < VECTORS; v++)
                acc[r][v] += s * bk[v];
        }
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
    for (int v = 0; v < VECTORS; v++)
        *(lanes *)(c + (size_t)r * ldc + (size_t)v * LANES) = acc[r][v];
}

/* The same for any number of rows: blocks of nearly equal height, at most `most`. */
static ALWAYS_INLINE void rows_of_blocks(size_t rows, size_t most, size_t K, const real *a,
                                         size_t rs, size_t ks, const real *b, size_t ldb, real *c,
                                         size_t ldc)
{
    for (size_t left = (rows + most - 1) / most; left; left--) {
        const size_t R = (rows + left - 1) / left;
        switch (R) {
        case 1:
            block(1, K, a, rs, ks, b, ldb, c, ldc);
            break;
        case 2:
            block(2, K, a, rs, ks, b, ldb, c, ldc);
            break;
        case 3:
            block(3, K, a, rs, ks, b, ldb, c, ldc);
            break;
        case 4:
            block(4, K, a, rs, ks, b, ldb, c, ldc);
            break;
        case 5:
            block(5, K, a, rs, ks, b, ldb, c, ldc);
            break;
        default:
            block(6, K, a, rs, ks, b, ldb, c, ldc);
            break;
        }
        rows -= R;
        a += R * rs;
        c += R * ldc;
    }
}

static size_t block_rows(void)
{
#if defined(STET_MULTIVERSION) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vl"))
        return MAX_ROWS;
#endif
    return 1;
}

/* forward ------------------------------------------------------------------------------------ */

SIMD_CLONES static void multiply_forward(const lstm_cell *cell, size_t n, size_t most,
                                         const real *h, real *z)
{
    const size_t H = cell->H;
    for (size_t j = 0; j < cell->G; j += PANEL)
        rows_of_blocks(n, most, H, h, cell->P, 1, cell->u + j * H, PANEL, z + j, cell->G);
}

SIMD_CLONES static void add_bias(size_t n, const real *RESTRICT x, const real *RESTRICT bias,
                                 real *RESTRICT z)
{
    for (size_t j = 0; j < n; j++)
        z[j] = x[j] + bias[j];
}

SIMD_CLONES static void activate(size_t H, real *RESTRICT z, const real *RESTRICT c,
                                 real *RESTRICT h_next, real *RESTRICT c_next)
{
    for (size_t j = 0; j < H; j++) {
        const real i = v_sigmoid(z[j]), f = v_sigmoid(z[H + j]);
        const real g = v_tanh(z[2 * H + j]), o = v_sigmoid(z[3 * H + j]);
        const real cn = f * c[j] + i * g;
        z[j] = i;
        z[H + j] = f;
        z[2 * H + j] = g;
        z[3 * H + j] = o;
        c_next[j] = cn;
        h_next[j] = o * v_tanh(cn);
    }
}

void lstm_step_forward(const lstm_cell *cell, size_t n, bool first, const real *const *x,
                       const real *h, const real *c, real *z, real *const *h_next,
                       real *const *c_next)
{
    for (size_t r = 0; r < n; r++)
        add_bias(cell->G, x[r], cell->bias, z + r * cell->G);
    if (!first)
        multiply_forward(cell, n, block_rows(), h, z);
    for (size_t r = 0; r < n; r++)
        activate(cell->H, z + r * cell->G, c + r * cell->P, h_next[r], c_next[r]);
}

/* backward ----------------------------------------------------------------------------------- */

/* The old c and the gates give the new c again, so it was not kept. */
SIMD_CLONES static void activate_back(size_t H, const real *RESTRICT c, real *RESTRICT z,
                                      const real *RESTRICT dh, real *RESTRICT dc)
{
    for (size_t j = 0; j < H; j++) {
        const real i = z[j], f = z[H + j], g = z[2 * H + j], o = z[3 * H + j];
        const real tc = v_tanh(f * c[j] + i * g);
        const real d = dc[j] + dh[j] * o * (1 - tc * tc);
        z[j] = d * g * i * (1 - i);
        z[H + j] = d * c[j] * f * (1 - f);
        z[2 * H + j] = d * i * (1 - g * g);
        z[3 * H + j] = dh[j] * tc * o * (1 - o);
        dc[j] = d * f;
    }
}

/* One gate at a time, so that its part of the weights stays in the first cache for all rows. */
SIMD_CLONES static void multiply_back(const lstm_cell *cell, size_t n, size_t most, const real *z,
                                      real *dh)
{
    const size_t H = cell->H;
    for (size_t k = 0; k < cell->P; k += PANEL)
        for (size_t j = 0; j < 4 * H; j += H)
            rows_of_blocks(n, most, H, z + j, cell->G, 1, cell->u_back + k * 4 * H + j * PANEL,
                           PANEL, dh + k, cell->P);
}

void lstm_step_backward(const lstm_cell *cell, size_t n, bool first, const real *c, real *z,
                        real *dh, real *dc)
{
    for (size_t r = 0; r < n; r++)
        activate_back(cell->H, c + r * cell->P, z + r * cell->G, dh + r * cell->P,
                      dc + r * cell->P);
    if (first)
        return;
    memset(dh, 0, n * cell->P * sizeof *dh);
    multiply_back(cell, n, block_rows(), z, dh);
}

SIMD_CLONES static void multiply_outer(const lstm_cell *cell, size_t n, size_t most, const real *dz,
                                       const real *h, real *du)
{
    for (size_t k = 0; k < cell->P; k += PANEL)
        rows_of_blocks(4 * cell->H, most, n, dz, 1, cell->G, h + k, cell->P, du + k, cell->P);
}

void lstm_recurrent_gradient(const lstm_cell *cell, size_t n, const real *dz, const real *h,
                             real *du)
{
    multiply_outer(cell, n, block_rows(), dz, h, du);
}
