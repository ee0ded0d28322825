/* tensor/host/panel.h - products with weights that many rows meet: the weights are packed once, the
 * rows are read as they lie.
 *
 * A matrix b (k, n) is packed as panels of PANEL columns: (n / PANEL, k, PANEL), n padded. The
 * kernel keeps some rows x some columns of the result in registers over the whole inner dimension
 * (panel_kernel.h). A general product would pack the rows as well; at the inner sizes here, 64 to a
 * few hundred, that costs more than it brings.
 *
 * Each element is a sum over k in order, however the rows are cut: a row's result has the same bits
 * in any company. */
#ifndef TENSOR_HOST_PANEL_H
#define TENSOR_HOST_PANEL_H

#include "tensor/tensor.h"

enum { PANEL = 64 };

size_t panel_padded(size_t n); /* n rounded up to whole panels */
/* Put b (k, n), whose element (i, j) is b[i * row_step + j * col_step], into columns first ..
 * first + n of `panels`. Columns that nobody packs must be zeroed or ignored. */
void panel_pack(size_t k, size_t n, const real *b, size_t row_step, size_t col_step, size_t first,
                real *panels);
/* c (m, n) = a (m, k) b; n is padded. Runs on the pool in fixed pieces of rows. */
void panel_product(size_t m, size_t n, size_t k, const real *a, size_t lda, const real *panels,
                   real *c, size_t ldc);

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

/* What a result starts from: gathered rows plus a bias (both from column `col` on), zero, or what
 * it holds. */
typedef struct panel_start {
    const real *const *x;
    const real *bias;
    size_t col;
    bool zero;
} panel_start;

/* c (rows, PANEL; ldc) = start + a (rows, K) b, on the calling thread. */
typedef void panel_fn(size_t rows, size_t K, panel_left a, panel_right b, panel_start from, real *c,
                      size_t ldc);
panel_fn *panel_kernel(void); /* the best for this machine */
/* Does it round once for each term, as a fused multiply-add does, or twice? A device that is to find the
 * same bits has to know. */
bool panel_fuses(void);

#endif
