/* tensor/cpu/lstm_step.c - see lstm_step.h.
 *
 * The kernel keeps a block of R rows x PANEL columns in registers over the whole inner dimension:
 * with R = 6, 24 of AVX-512's 32 registers, two instructions of loading for five of arithmetic. The
 * narrower machines have registers for fewer rows, so R is chosen at run time and all R are
 * compiled. */
#include "tensor/cpu/lstm_step.h"

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

/* What a block starts from: gathered rows and a bias, zero, or what c holds. */
typedef struct start {
    const real *const *x;
    const real *bias;
    bool zero;
} start;

static ALWAYS_INLINE lanes *at(real *row, int v)
{
    return (lanes *)(row + (size_t)v * LANES);
}

static ALWAYS_INLINE const lanes *at_const(const real *row, int v)
{
    return (const lanes *)(row + (size_t)v * LANES);
}

/* c (R, PANEL; ldc) = start + a (R, K) b (K, PANEL; ldb); element (r, k) of a is a[r * rs + k *
 * ks].
 */
static ALWAYS_INLINE void block(const int R, size_t K, const real *a, size_t rs, size_t ks,
                                const real *b, size_t ldb, start from, size_t col, real *c,
                                size_t ldc)
{
    lanes acc[MAX_ROWS][VECTORS];
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            if (from.x)
                acc[r][v] = *at_const(from.x[r] + col, v) + *at_const(from.bias + col, v);
            else if (from.zero)
                acc[r][v] = (lanes){0};
            else
                acc[r][v] = *at(c + (size_t)r * ldc, v);
        }
    }
    for (size_t k = 0; k < K; k++) {
        lanes bk[VECTORS];
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            bk[v] = *at_const(b + k * ldb, v);
        UNROLL
        for (int r = 0; r < R; r++) {
            const real s = a[(size_t)r * rs + k * ks];
            UNROLL
            for (int v = 0; v < VECTORS; v++)
                acc[r][v] += s * bk[v];
        }
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            *at(c + (size_t)r * ldc, v) = acc[r][v];
    }
}

/* The same for any number of rows: blocks of nearly equal height, at most `most`. */
static ALWAYS_INLINE void blocks(size_t rows, size_t most, size_t K, const real *a, size_t rs,
                                 size_t ks, const real *b, size_t ldb, start from, size_t col,
                                 real *c, size_t ldc)
{
#define BLOCK(R)                                                                                   \
    case R:                                                                                        \
        block(R, K, a, rs, ks, b, ldb, from, col, c, ldc);                                         \
        break;
    for (size_t left = (rows + most - 1) / most; left; left--) {
        const size_t R = (rows + left - 1) / left;
        switch (R) {
            BLOCK(1)
            BLOCK(2)
            BLOCK(3)
            BLOCK(4)
            BLOCK(5)
            BLOCK(6)
        }
        rows -= R;
        a += R * rs;
        c += R * ldc;
        from.x += from.x ? R : 0;
    }
#undef BLOCK
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

static ALWAYS_INLINE void activate(size_t H, const real *RESTRICT z, const real *RESTRICT c,
                                   real *RESTRICT gates, real *RESTRICT h_next,
                                   real *RESTRICT c_next)
{
    for (size_t j = 0; j < H; j++) {
        const real i = v_sigmoid(z[j]), f = v_sigmoid(z[H + j]);
        const real g = v_tanh(z[2 * H + j]), o = v_sigmoid(z[3 * H + j]);
        const real cn = f * c[j] + i * g;
        gates[j] = i;
        gates[H + j] = f;
        gates[2 * H + j] = g;
        gates[3 * H + j] = o;
        c_next[j] = cn;
        h_next[j] = o * v_tanh(cn);
    }
}

SIMD_CLONES static void step_forward(const lstm_cell *cell, size_t n, size_t most, bool first,
                                     const real *const *x, const real *h, const real *c, real *z,
                                     real *gates, real *const *h_next, real *const *c_next)
{
    const size_t H = cell->H, G = cell->G, P = cell->P;
    for (size_t j = 0; j < G; j += PANEL)
        blocks(n, most, first ? 0 : H, h, P, 1, cell->u + j * H, PANEL,
               (start){x, cell->bias, false}, j, z + j, G);
    for (size_t r = 0; r < n; r++)
        activate(H, z + r * G, c + r * P, gates + r * G, h_next[r], c_next[r]);
}

void lstm_step_forward(const lstm_cell *cell, size_t n, bool first, const real *const *x,
                       const real *h, const real *c, real *z, real *gates, real *const *h_next,
                       real *const *c_next)
{
    step_forward(cell, n, block_rows(), first, x, h, c, z, gates, h_next, c_next);
}

/* backward ----------------------------------------------------------------------------------- */

/* The old c and the gates give the new c again, so it was not kept. */
static ALWAYS_INLINE void activate_back(size_t H, const real *RESTRICT gates,
                                        const real *RESTRICT c, const real *RESTRICT dh,
                                        real *RESTRICT dc, real *RESTRICT dz)
{
    for (size_t j = 0; j < H; j++) {
        const real i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
        const real tc = v_tanh(f * c[j] + i * g);
        const real d = dc[j] + dh[j] * o * (1 - tc * tc);
        dz[j] = d * g * i * (1 - i);
        dz[H + j] = d * c[j] * f * (1 - f);
        dz[2 * H + j] = d * i * (1 - g * g);
        dz[3 * H + j] = dh[j] * tc * o * (1 - o);
        dc[j] = d * f;
    }
}

SIMD_CLONES static void step_backward(const lstm_cell *cell, size_t n, size_t most, bool first,
                                      const real *gates, const real *c, real *dh, real *dc,
                                      real *dz)
{
    const size_t H = cell->H, G = cell->G, P = cell->P;
    for (size_t r = 0; r < n; r++)
        activate_back(H, gates + r * G, c + r * P, dh + r * P, dc + r * P, dz + r * G);
    if (first)
        return;
    /* one gate at a time: its part of the weights stays in the first cache for all rows */
    for (size_t k = 0; k < P; k += PANEL) {
        const real *u = cell->u_back + k * 4 * H;
        blocks(n, most, H, dz, G, 1, u, PANEL, (start){.zero = true}, 0, dh + k, P);
        for (size_t j = H; j < 4 * H; j += H)
            blocks(n, most, H, dz + j, G, 1, u + j * PANEL, PANEL, (start){0}, 0, dh + k, P);
    }
}

void lstm_step_backward(const lstm_cell *cell, size_t n, bool first, const real *gates,
                        const real *c, real *dh, real *dc, real *dz)
{
    step_backward(cell, n, block_rows(), first, gates, c, dh, dc, dz);
}

SIMD_CLONES static void outer_products(const lstm_cell *cell, size_t n, size_t most, const real *dz,
                                       const real *h, real *du)
{
    for (size_t k = 0; k < cell->P; k += PANEL)
        blocks(4 * cell->H, most, n, dz, 1, cell->G, h + k, cell->P, (start){0}, 0, du + k,
               cell->P);
}

void lstm_recurrent_gradient(const lstm_cell *cell, size_t n, const real *dz, const real *h,
                             real *du)
{
    outer_products(cell, n, block_rows(), dz, h, du);
}
