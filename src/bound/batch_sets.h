/* bound/batch_sets.h - a batch together with everything that may stand in it.
 *
 * Rows 0 .. V are the batch's distinct words, the rows after them the substitutes that are none of
 * these, so that one product projects both. Row v may be replaced by the rows alt[start[v]] ..
 * alt[start[v + 1]]. Extremes over a word's set are kept as two more rows for each word that has
 * one: lo_row and hi_row name, in a table of n_rows + 2 n_moving rows, the row of the smallest and
 * largest values of v; a word that stays is its own extreme. The struct is in bound_args.h. */
#ifndef BOUND_BATCH_SETS_H
#define BOUND_BATCH_SETS_H

#include "bound/bound_args.h"
#include "bound/hulls.h"
#include "model/spans.h"

/* Some texts of a batch, given in rising order: their words, index and labels, in memory of `mem`.
 */
stet_status batch_part(const batch *x, const uint32_t *text, size_t n, arena *mem, batch *out);

/* On the pass's tape, rows from its table; found there where they came with the batch. `slot`
 * (vocabulary) is scratch that comes and goes zeroed. */
stet_status batch_sets_make(const word_sets *s, const pass *p, const batch *x, uint32_t *slot,
                            batch_sets *out);
/* The same with texts cut in pieces, in memory of the tape. */
const batch_sets *batch_sets_cut(tape *t, const batch_sets *s, const spans *cut);

/* ---- for CPU kernels ---------------------------------------------------------------------- */

/* Fill the rows of extremes of a table of projections (n_rows + 2 n_moving, cols; the first n_rows
 * are given) for substitutes moved to `eps` of their distance from the word: 1, the whole set.
 * `at` (2, n_moving, cols) gets the rows that are the smallest, then the largest; NULL: not
 * wanted. */
void batch_sets_extremes(const batch_sets *s, double eps, real *table, size_t cols, uint32_t *at);

/* The row of v's set with the smallest or largest value in column `col` of such a table. */
uint32_t batch_sets_argmin(const batch_sets *s, const real *table, size_t cols, uint32_t v,
                           size_t col);
uint32_t batch_sets_argmax(const batch_sets *s, const real *table, size_t cols, uint32_t v,
                           size_t col);

/* Gradients of the extremes that tokens read, as those of their centres and radii. */
typedef struct token_gradients {
    const uint32_t *lo_row, *hi_row; /* (n) */
    size_t n;
    const real *centre, *radius; /* (n, ld) */
    size_t ld;
} token_gradients;

/* Columns first .. first + n_cols of the table's gradient, which comes zeroed: tokens in order,
 * then from the rows of extremes to the words that are them. sum (n_cols) += the centres. */
void batch_sets_back(const batch_sets *s, double eps, const uint32_t *at, size_t cols, size_t first,
                     size_t n_cols, const token_gradients *g, real *dtable, double *sum);

#endif
