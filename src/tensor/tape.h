/* tensor/tape.h - a define-by-run reverse-mode tape.
 *
 *     tape t;
 *     tape_init(&t, &step_arena, NULL, true);
 *     node *x = tape_numbers(&t, shape2(64, 300), batch_values);
 *     node *w = tape_input(&t, w_shape, w_values, w_grad);     // gradients are ADDED to w_grad
 *     node *loss = op_cross_entropy(&t, op_matmul(&t, x, false, w, true), labels);
 *     TRY(tape_backward(&t, loss));                            // also reports any earlier failure
 *
 * A failing op returns NULL and leaves its status in the tape; ops on NULL inputs do nothing and
 * return NULL, so a forward pass reads like the paper and is checked once (tape_status or
 * tape_backward). Forward kernels run at once.
 *
 * Values and gradients are addresses in the tape's store (store.h): kernels follow them, other code
 * does not, and reads numbers with tape_read. Nodes, arguments and index arrays are the host's. */
#ifndef TENSOR_TAPE_H
#define TENSOR_TAPE_H

#include "base/arena.h"
#include "base/rng.h"
#include "tensor/op_list.h"
#include "tensor/store.h"
#include "tensor/tensor.h"

typedef struct op_desc op_desc;
typedef struct node node;
struct node {
    const op_desc *op; /* NULL: an input */
    int n_in;
    node **in;
    struct shape shape; /* `struct`: C++ reads this header too (cuda/) */
    real *value; /* in the store */
    real *
        grad; /* in the store; NULL where no gradient is wanted; zeroed before the backward walk reaches it */
    bool needs_grad;
    bool grad_fresh; /* the block was just allocated and holds nothing yet: see op_desc.fills */
    void *args;      /* the op's typed parameters, a copy in the arena */
    void *saved;     /* what forward keeps for backward, in the arena */
};

typedef struct tape_copy tape_copy;
typedef struct tape {
    arena *mem; /* the host's: nodes, arguments, scratch of CPU kernels */
    struct store *store;
    store_arena *values; /* of the store; NULL: the store is the host's, and its memory is `mem` */
    node **nodes;        /* in order of creation */
    size_t n, cap;
    bool record; /* false: inference, no gradients will be asked for */
    tape_copy *copies;
    stet_status status;
} tape;

/* `values` is memory of the store in which the tape computes; NULL: the host's. */
void tape_init(tape *t, arena *mem, store_arena *values, bool record);
stet_status tape_status(const tape *t);
/* Both borrowed, both in the store; grad NULL: constant. */
node *tape_input(tape *t, shape s, real *value, real *grad);
node *tape_constant(tape *t, shape s, const real *value);
/* A constant from host memory, which stays as it is until the backward pass. */
node *tape_numbers(tape *t, shape s, const real *host);

/* An input with a gradient in memory of this pass: the first backward walk sets it, later ones add. */
node *tape_learner(tape *t, shape s, real *value);
node *tape_zeros(tape *t, shape s); /* a constant of zeros, in memory of this pass */

/* What kernels read of host memory (indices, labels): the address in the store of a copy of `bytes`
 * bytes at `host`, which stay as they are until the backward pass; `host` itself where the store is
 * the host's. A range inside one that was copied before is found there: copy a batch's block once,
 * then ask for its parts. NULL on a failed tape. */
const void *tape_twin(tape *t, const void *host, size_t bytes);
/* Say where such a copy is already: at `at` in the store. Only the first `known` of its bytes are at
 * `host` too; the addresses behind them are names of what was made there, and nobody reads them. */
void tape_twin_is(tape *t, const void *host, size_t bytes, size_t known, const void *at);
bool tape_is_name(const tape *t, const void *host); /* one of those? */
void *tape_memory(tape *t, size_t count, size_t size); /* for them, of this pass; NULL: it failed */
/* The same for a seq_index: the index with its arrays in the store. */
const seq_index *tape_seq(tape *t, const seq_index *seq);

/* Without recording, memory may be given back while the pass goes on: what was computed since
 * tape_save goes, but for x, whose numbers are kept in `into`, a tape_zeros of x's size from before
 * the mark. A recording tape needs everything: there it does nothing and gives x. */
typedef struct tape_mark {
    arena_mark mem;
    store_mark values;
    tape_copy *copies;
} tape_mark;
tape_mark tape_save(const tape *t);
node *tape_carry(tape *t, tape_mark mark, node *x, const node *into);

/* The numbers of nodes with one element each, with one wait for the device. */
stet_status tape_read(tape *t, node *const *n, size_t count, double *out);
/* All numbers of a node, as float or whatever `real` is. */
stet_status tape_download(tape *t, const node *n, real *host);

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
    bool constant; /* its result is never differentiated: no backward kernels */
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

/* A descriptor's column of kernels in cuda/: .forward = {[DEV_CPU] = fwd, CUDA_KERNEL(cuda_x_fwd)}.
 * Nothing in a build without CUDA. */
#ifdef STET_HAVE_CUDA
#define CUDA_KERNEL(kernel) [DEV_CUDA] = (kernel)
#else
#define CUDA_KERNEL(kernel)
#endif

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
