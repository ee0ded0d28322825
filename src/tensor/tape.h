/* tensor/tape.h - a define-by-run reverse-mode tape.
 *
 *     tape t;
 *     tape_init(&t, &step_arena, true);
 *     node *x = tape_input(&t, shape2(64, 300), batch_values, NULL);
 *     node *w = tape_input(&t, w_shape, w_values, w_grad);     // gradients are ADDED to w_grad
 *     node *loss = op_cross_entropy(&t, op_matmul(&t, x, false, w, true), labels);
 *     TRY(tape_backward(&t, loss));                            // also reports any earlier failure
 *
 * A failing op returns NULL and leaves its status in the tape; ops on NULL inputs do nothing and
 * return NULL, so a forward pass reads like the paper and is checked once (tape_status or
 * tape_backward). Nodes, values and gradients live in the arena. Forward kernels run at once. */
#ifndef TENSOR_TAPE_H
#define TENSOR_TAPE_H

#include "base/arena.h"
#include "base/rng.h"
#include "tensor/op_list.h"
#include "tensor/tensor.h"

typedef struct op_desc op_desc;
typedef struct node node;
struct node {
    const op_desc *op; /* NULL: an input */
    int n_in;
    node **in;
    shape shape;
    real *value;
    real *grad; /* NULL where no gradient is wanted; zeroed before the backward walk reaches it */
    bool needs_grad;
    bool grad_fresh; /* the block was just allocated and holds nothing yet: see op_desc.fills */
    void *args;      /* the op's typed parameters, a copy in the arena */
    void *saved;     /* what forward keeps for backward, in the arena */
};

typedef struct tape {
    arena *mem;
    node **nodes; /* in order of creation */
    size_t n, cap;
    bool record; /* false: inference, no gradients will be asked for */
    device dev;
    stet_status status;
} tape;

void tape_init(tape *t, arena *mem, bool record);
stet_status tape_status(const tape *t);
node *tape_input(tape *t, shape s, real *value,
                 real *grad); /* both borrowed; grad NULL: constant */
node *tape_constant(tape *t, shape s, const real *value);
/* d loss / d every input that has a gradient block, added to it. `loss` has one element; its seed is
 * 1. Gradients of results are scratch: ops hand their blocks on. */
stet_status tape_backward(tape *t, node *loss);

/* For ops: make a node (args copied to the arena), infer its shape, allocate its value, run its
 * forward kernel. */
node *tape_push(tape *t, const op_desc *op, node *const *in, int n_in, const void *args,
                size_t args_size);
stet_status tape_fail(tape *t, stet_status st); /* remembers the first failure */

/* What an op is: a static descriptor with one column of kernels per device. Those of this folder
 * are listed in op_list.h; a higher layer defines its own beside their kernels and lists them in a
 * table of its layer. A NULL kernel is an answer: STET_ENOTSUP.
 * A backward kernel ADDS to in[i]->grad of each input that needs_grad (one at least does). One
 * marked `fills` also takes blocks that hold nothing yet: it asks grad_is_fresh and then writes
 * instead of adding, which saves clearing the block. All others find their blocks cleared. */
typedef stet_status op_kernel(tape *t, node *n);
struct op_desc {
    const char *name;
    int n_in; /* -1: any */
    bool fills;
    stet_status (*infer)(const node *n, shape *out); /* operands are checked here, once */
    op_kernel *forward[DEV_COUNT], *backward[DEV_COUNT];
};

typedef enum op_id {
#define OP_ENUM(name, n_in) OP_##name,
    OP_LIST(OP_ENUM)
#undef OP_ENUM
        OP_COUNT
} op_id;
extern const op_desc op_table[OP_COUNT];
bool op_support(const op_desc *op, device dev); /* can it run there, forwards and backwards? */

/* Operands of the right number for the descriptor, for infer functions of any layer: STET_EUSAGE
 * with the op's name where operand i has another shape or count. */
stet_status op_expect_shape(const node *n, int i, shape expected, const char *what);
stet_status op_expect_count(const node *n, int i, size_t expected, const char *what);

/* True once for a block that holds nothing yet. */
static inline bool grad_is_fresh(node *x)
{
    const bool fresh = x->grad_fresh;
    x->grad_fresh = false;
    return fresh;
}

#define OP_DECLARE(name, n_in)                                                                     \
    stet_status op_##name##_infer(const node *n, shape *out);                                      \
    op_kernel cpu_##name##_fwd, cpu_##name##_bwd, cuda_##name##_fwd, cuda_##name##_bwd;
OP_LIST(OP_DECLARE)
#undef OP_DECLARE

#endif
