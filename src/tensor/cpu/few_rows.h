/* tensor/cpu/few_rows.h - gradients of which few rows are anything but zero.
 *
 * A maximum passes its gradient to the one row it took: of a substitution set, to the worst word. A
 * product of such a gradient need not read the other rows. */
#ifndef TENSOR_CPU_FEW_ROWS_H
#define TENSOR_CPU_FEW_ROWS_H

#include "base/arena.h"
#include "tensor/tensor.h"

typedef struct few_rows {
    /* At most two thirds: else a product of all rows costs no more, and n and row are not set. */
    bool few;
    size_t n;
    const uint32_t *row; /* (n) rising */
} few_rows;

/* The rows of g (rows, c) with a number other than 0, in `mem`. A row with one is read up to it. */
stet_status few_rows_find(arena *mem, const real *g, size_t rows, size_t c, few_rows *out);
/* Those rows of x (rows, c), one after the other, in `mem`; NULL: out of memory. */
real *few_rows_take(arena *mem, const few_rows *f, const real *x, size_t c);
/* Put the rows `from` (n, c) in their places in x (rows, c): added to what is there, or `fresh` with
 * zeros in all others. */
void few_rows_put(const few_rows *f, const real *from, size_t rows, size_t c, bool fresh, real *x);

#endif
