/* tensor/cpu/panel.h - products with weights that many rows meet: the weights are packed once, the
 * rows are read as they lie.
 *
 * A matrix b (k, n) is packed as panels of PANEL columns: (n / PANEL, k, PANEL), n padded. The
 * kernel keeps a block of some rows x one panel of the result in registers over the whole inner
 * dimension: with AVX-512 6 rows, 24 of the 32 registers, one load for 2.4 multiply-adds. A general
 * product would pack the rows as well; at the inner sizes here (64 to a few hundred) that costs
 * more than it brings (bench_gemm).
 *
 * Each element is a sum over k in order, whatever the block: a row's result has the same bits in
 * any company. */
#ifndef TENSOR_CPU_PANEL_H
#define TENSOR_CPU_PANEL_H

#include "base/simd.h"
#include "tensor/cpu/lanes.h"
#include "tensor/tensor.h"

enum { PANEL = 64 };

size_t panel_padded(size_t n); /* n rounded up to whole panels */
/* Put b (k, n), whose element (i, j) is b[i * row_step + j * col_step], into columns first .. first
 * + n of `panels`. Columns that nobody packs must be zeroed or ignored. */
void panel_pack(size_t k, size_t n, const real *b, size_t row_step, size_t col_step, size_t first,
                real *panels);
/* c (m, n) = a (m, k) b; n is padded. Runs on the pool in fixed pieces of rows. */
void panel_product(size_t m, size_t n, size_t k, const real *a, size_t lda, const real *panels,
                   real *c, size_t ldc);
/* Whether there are 32 registers, for the larger blocks. */
bool panel_many_regs(void);

/* the kernel, for use inside SIMD_CLONES functions ------------------------------------------- */

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

enum { PANEL_VECTORS = PANEL / LANES, PANEL_ROWS = 6 };

/* The left operand: element (r, k) is p[r * row_step + k * col_step]. */
typedef struct panel_left {
    const real *p;
    size_t row_step, col_step;
} panel_left;

/* The right operand: PANEL columns, rows `step` apart (PANEL if packed). */
typedef struct panel_right {
    const real *p;
    size_t step;
} panel_right;

/* What a block starts from: gathered rows plus a bias (both from column `col` on), zero, or what
 * the result holds. */
typedef struct panel_start {
    const real *const *x;
    const real *bias;
    size_t col;
    bool zero;
} panel_start;

/* c (R, V vectors; ldc) = start + a (R, K) b. R and V are constants. */
static ALWAYS_INLINE void panel_block(const int R, const int V, size_t K, panel_left a,
                                      panel_right b, panel_start from, real *c, size_t ldc)
{
    lanes acc[PANEL_ROWS][PANEL_VECTORS];
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) {
            const size_t j = (size_t)v * LANES;
            if (from.x)
                acc[r][v] = *(const lanes *)(from.x[r] + from.col + j) +
                            *(const lanes *)(from.bias + from.col + j);
            else if (from.zero)
                acc[r][v] = (lanes){0};
            else
                acc[r][v] = *(const lanes *)(c + (size_t)r * ldc + j);
        }
    }
    for (size_t k = 0; k < K; k++) {
        lanes bk[PANEL_VECTORS];
        UNROLL
        for (int v = 0; v < V; v++)
            bk[v] = *(const lanes *)(b.p + k * b.step + (size_t)v * LANES);
        UNROLL
        for (int r = 0; r < R; r++) {
            const real s = a.p[(size_t)r * a.row_step + k * a.col_step];
            UNROLL
            for (int v = 0; v < V; v++)
                acc[r][v] += s * bk[v];
        }
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++)
            *(lanes *)(c + (size_t)r * ldc + (size_t)v * LANES) = acc[r][v];
    }
}

/* The same for any number of rows and the whole panel: blocks of nearly equal height. Machines with
 * 16 registers take two rows and half a panel at a time. */
static ALWAYS_INLINE void panel_rows(size_t rows, bool many_regs, size_t K, panel_left a,
                                     panel_right b, panel_start from, real *c, size_t ldc)
{
#define BLOCK(R)                                                                                   \
    case R:                                                                                        \
        panel_block(R, PANEL_VECTORS, K, a, b, from, c, ldc);                                      \
        break;
#define HALVES(R)                                                                                  \
    case -(R):                                                                                     \
        panel_block(R, PANEL_VECTORS / 2, K, a, b, from, c, ldc);                                  \
        panel_block(R, PANEL_VECTORS / 2, K, a, (panel_right){b.p + PANEL / 2, b.step},            \
                    (panel_start){from.x, from.bias, from.col + PANEL / 2, from.zero},             \
                    c + PANEL / 2, ldc);                                                           \
        break;
    const size_t most = many_regs ? PANEL_ROWS : 2;
    for (size_t left = (rows + most - 1) / most; left; left--) {
        const size_t R = (rows + left - 1) / left;
        switch (many_regs ? (int)R : -(int)R) {
            BLOCK(1)
            BLOCK(2)
            BLOCK(3)
            BLOCK(4)
            BLOCK(5)
            BLOCK(6)
            HALVES(1)
            HALVES(2)
        }
        rows -= R;
        a.p += R * a.row_step;
        c += R * ldc;
        from.x += from.x ? R : 0;
    }
#undef BLOCK
#undef HALVES
}

#endif
