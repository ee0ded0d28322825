/* tensor/host/panel_kernel.h - the kernel of panel.h, included by each_width.h.
 *
 * A block of up to 6 rows of the result stays in registers, 4 vectors wide where there are 32 (24
 * of them, and 10 loads for 24 multiply-adds), 2 where there are 16. */

enum { NAME(VECTORS) = REGISTERS / 8, NAME(PASS) = NAME(VECTORS) * LANES, NAME(ROWS) = 6 };

/* c (R, PASS; ldc) = start + a (R, K) b. R is a constant. */
TARGET static ALWAYS_INLINE void NAME(block)(const int R, size_t K, panel_left a, panel_right b,
                                             panel_start from, real *c, size_t ldc)
{
    vec acc[NAME(ROWS)][NAME(VECTORS)];
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < NAME(VECTORS); v++) {
            const size_t j = (size_t)(v * LANES);
            if (from.x)
                acc[r][v] = *(const vec *)(from.x[r] + from.col + j) +
                            *(const vec *)(from.bias + from.col + j);
            else if (from.zero)
                acc[r][v] = (vec){0};
            else
                acc[r][v] = *(const vec *)(c + (size_t)r * ldc + j);
        }
    }
    for (size_t k = 0; k < K; k++) {
        vec bk[NAME(VECTORS)];
        UNROLL
        for (int v = 0; v < NAME(VECTORS); v++)
            bk[v] = *(const vec *)(b.p + k * b.step + (size_t)(v * LANES));
        UNROLL
        for (int r = 0; r < R; r++) {
            const real s = a.p[(size_t)r * a.row_step + k * a.col_step];
            UNROLL
            for (int v = 0; v < NAME(VECTORS); v++)
                acc[r][v] += s * bk[v];
        }
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < NAME(VECTORS); v++)
            *(vec *)(c + (size_t)r * ldc + (size_t)(v * LANES)) = acc[r][v];
    }
}

/* Blocks of nearly equal height. */
TARGET static void NAME(rows)(size_t rows, size_t K, panel_left a, panel_right b, panel_start from,
                              real *c, size_t ldc)
{
#define BLOCK(R)                                                                                   \
    case R:                                                                                        \
        NAME(block)(R, K, a, bj, start, c + j, ldc);                                               \
        break;
    for (size_t left = (rows + NAME(ROWS) - 1) / NAME(ROWS); left; left--) {
        const size_t R = (rows + left - 1) / left;
        for (size_t j = 0; j < PANEL; j += NAME(PASS)) {
            const panel_right bj = {b.p + j, b.step};
            const panel_start start = {from.x, from.bias, from.col + j, from.zero};
            switch (R) {
                BLOCK(1)
                BLOCK(2)
                BLOCK(3)
                BLOCK(4)
                BLOCK(5)
                BLOCK(6)
            }
        }
        rows -= R;
        a.p += R * a.row_step;
        c += R * ldc;
        if (from.x)
            from.x += R;
    }
#undef BLOCK
}
