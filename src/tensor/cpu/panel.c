/* tensor/cpu/panel.c - see panel.h. */
#include "tensor/cpu/panel.h"

#include <string.h>

#include "base/pool.h"
#include "tensor/kernels.h"

enum { PIECE_ROWS = 96 }; /* with all the weights of a layer in a core's second cache */

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

bool panel_many_regs(void)
{
    return strcmp(simd_level(), "avx512") == 0;
}

typedef struct product {
    size_t m, n, k;
    const real *a, *panels;
    real *c;
    size_t lda, ldc;
    bool many_regs;
} product;

SIMD_CLONES static void multiply_rows(const product *p, size_t first, size_t rows)
{
    const panel_left a = {p->a + first * p->lda, p->lda, 1};
    for (size_t j = 0; j < p->n; j += PANEL)
        panel_rows(rows, p->many_regs, p->k, a, (panel_right){p->panels + j * p->k, PANEL},
                   (panel_start){.zero = true}, p->c + first * p->ldc + j, p->ldc);
}

static void product_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const product *p = ctx;
    const size_t first = i * PIECE_ROWS, left = p->m - first;
    multiply_rows(p, first, left < PIECE_ROWS ? left : PIECE_ROWS);
}

void panel_product(size_t m, size_t n, size_t k, const real *a, size_t lda, const real *panels,
                   real *c, size_t ldc)
{
    product p = {m, n, k, a, panels, c, lda, ldc, panel_many_regs()};
    pool_run((m + PIECE_ROWS - 1) / PIECE_ROWS, product_piece, &p);
}
