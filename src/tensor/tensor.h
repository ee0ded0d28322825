/* tensor/tensor.h - numbers, shapes, and the letters of the project.
 *
 * B texts in a batch, T tokens (all texts together, no padding), V input rows (distinct words of
 * the batch), D embedding size, H hidden size or channels, F filters, K classes, S substitutes of a
 * word. Matrices are row-major; a tensor of higher rank is seen by most ops as (product of all but
 * the last, last).
 *
 * `real` is float. The tests compile the same sources once more with real = double, so that every
 * gradient can be compared with finite differences of the very code that ships. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "base/error.h"

#ifdef STET_DOUBLE
typedef double real;
#else
typedef float real;
#endif

enum { MAX_RANK = 4 };
typedef struct shape {
    int rank;
    size_t dim[MAX_RANK];
} shape;

shape shape1(size_t n);
shape shape2(size_t rows, size_t cols);
shape shape3(size_t a, size_t b, size_t c);
size_t shape_count(shape s);
size_t shape_rows(shape s); /* product of all but the last */
size_t shape_cols(shape s); /* the last; 1 for a scalar */
bool shape_equal(shape a, shape b);
const char *shape_text(shape s, char *out, size_t size); /* "(64, 300)" */

typedef enum device { DEV_CPU, DEV_CUDA, DEV_COUNT } device;

/* Where the words of each text are: position p of text b reads input row row[start[b] + p].
 * The texts of a batch are sorted by falling length, and none is empty; an index of other rows, such
 * as those that ask in an attention, has any order, and `row` NULL where rows are positions. Nothing
 * is padded. Borrowed by ops. The arrays
 * are the host's, except in a twin that the tape made for kernels (tape_seq). */
typedef struct seq_index {
    size_t n_texts;        /* B */
    size_t n_tokens;       /* T = start[B] */
    size_t n_rows;         /* V: every entry of row is below it */
    size_t max_len;        /* start[1] - start[0] */
    const uint32_t *start; /* (B + 1) */
    const uint32_t *row;   /* (T) */
} seq_index;

#endif
