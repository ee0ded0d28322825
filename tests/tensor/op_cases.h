/* tests/tensor/op_cases.h - one description per op: operands at several sizes and how to call it.
 * Whoever compares ops (with finite differences, other precision, other thread counts, another
 * device) walks this table; an op without a row fails the first test. */
#ifndef STET_OP_CASES_H
#define STET_OP_CASES_H

#include "base/arena.h"
#include "tensor/ops.h"

enum { CASE_INPUTS = 9 };

typedef struct op_case {
    int n_in;
    shape in[CASE_INPUTS];
    double lo[CASE_INPUTS], hi[CASE_INPUTS]; /* entries are drawn from these ranges */
    bool ta, tb;                             /* what else the op wants */
    size_t first, count;
    const uint32_t *index;
    const int32_t *label;
    seq_index seq, asks; /* asks: n_texts 0 where there are none */
} op_case;

typedef struct op_test {
    /* Fill `c` for `variant` (0 .. OP_VARIANTS-1; the last is large enough to be cut into pieces).
     */
    void (*setup)(op_case *c, int variant, rng *r, arena *mem);
    node *(*apply)(tape *t, node *const *in, const op_case *c);
    double kink[2];   /* entries keep away from these points, where the slope jumps; NAN: none */
    bool kink_at_tie; /* the slope jumps where the two operands are equal */
    double
        tolerance; /* gradient against finite differences in double, relative to 1 + |gradient| */
    double float_tolerance; /* results and gradients in float against double, likewise */
} op_test;

enum { OP_VARIANTS = 4, OP_LARGE = OP_VARIANTS - 1 };
extern const op_test op_tests[OP_COUNT];

/* Operand values of a case, drawn so that float holds them exactly. */
real *op_case_values(const op_test *test, const op_case *c, int input, real *const *before, rng *r,
                     arena *mem);

#endif
