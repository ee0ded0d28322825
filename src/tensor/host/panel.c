/* tensor/host/panel.c - see panel.h. */
#include "tensor/host/panel.h"

#include "base/pool.h"

#define KERNEL_FILE "tensor/host/panel_kernel.h"
#include "tensor/host/each_width.h"

enum { PIECE_ROWS = 96 }; /* with a layer's weights they fit the second cache */

panel_fn *panel_kernel(void)
{
    return FOR_MACHINE(rows);
}

/* -round(x x) + x x is what rounding x x took away. */
bool panel_fuses(void)
{
    const real x = (real)(1 + 0x1p-12), a[2] = {1, x};
    real b[2 * PANEL], c[PANEL];
    for (size_t j = 0; j < PANEL; j++) {
        b[j] = (real)-(1 + 0x1p-11);
        b[PANEL + j] = x;
    }
    panel_kernel()(1, 2, (panel_left){a, 2, 1}, (panel_right){b, PANEL}, (panel_start){.zero = true},
                   c, PANEL);
    return c[0] != 0;
}

size_t panel_padded(size_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

/* One panel after the other, line by line: the lines of b that a panel reads fit the first cache.
 */
void panel_pack(size_t k, size_t n, const real *b, size_t row_step, size_t col_step, size_t first,
                real *panels)
{
    for (size_t j = 0, width; j < n; j += width) {
        const size_t col = first + j, room = PANEL - col % PANEL;
        real *to = panels + col / PANEL * k * PANEL + col % PANEL;
        width = n - j < room ? n - j : room;
        for (size_t i = 0; i < k; i++)
            for (size_t c = 0; c < width; c++)
                to[i * PANEL + c] = b[i * row_step + (j + c) * col_step];
    }
}

typedef struct product {
    size_t m, n, k;
    const real *a;
    size_t lda;
    const real *panels;
    real *c;
    size_t ldc;
    panel_fn *kernel;
} product;

static void product_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const product *p = ctx;
    const size_t first = i * PIECE_ROWS, left = p->m - first;
    const size_t rows = left < PIECE_ROWS ? left : PIECE_ROWS;
    for (size_t j = 0; j < p->n; j += PANEL)
        p->kernel(rows, p->k, (panel_left){p->a + first * p->lda, p->lda, 1},
                  (panel_right){p->panels + j * p->k, PANEL}, (panel_start){.zero = true},
                  p->c + first * p->ldc + j, p->ldc);
}

void panel_product(size_t m, size_t n, size_t k, const real *a, size_t lda, const real *panels,
                   real *c, size_t ldc)
{
    product p = {m, n, k, a, lda, panels, c, ldc, panel_kernel()};
    pool_run((m + PIECE_ROWS - 1) / PIECE_ROWS, product_piece, &p);
}
