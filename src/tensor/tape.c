/* tensor/tape.c - recording a forward pass and walking it backwards. */
#include "tensor/tape.h"

#include <string.h>

#include "base/mem.h"

enum { FIRST_CAP = 64 };

/* A range of host memory and its copy in the store. */
struct tape_copy {
    const char *host, *at;
    size_t bytes, known; /* of them, the first that the host has */
    tape_copy *next;
};

void tape_init(tape *t, arena *mem, store_arena *values, bool record)
{
    *t = (tape){.mem = mem, .store = values ? values->store : &host_store, .record = record};
    t->values = t->store->desc->host ? NULL : values;
}

/* Memory of the store for this pass. */
static void *take(const tape *t, size_t count, size_t size)
{
    return t->values ? store_arena_alloc(t->values, count, size) : arena_alloc(t->mem, count, size);
}

stet_status tape_status(const tape *t)
{
    return t->status;
}

stet_status tape_fail(tape *t, stet_status st)
{
    if (t->status == STET_OK)
        t->status = st;
    return st;
}

/* The list doubles inside the arena; what it leaves behind goes with the rest of the step. */
static bool append(tape *t, node *n)
{
    if (!t->record)
        return true;
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : FIRST_CAP;
        node **nodes = arena_new(t->mem, node *, cap);
        if (!nodes)
            return false;
        if (t->n)
            memcpy(nodes, t->nodes, t->n * sizeof *nodes);
        t->nodes = nodes;
        t->cap = cap;
    }
    t->nodes[t->n++] = n;
    return true;
}

node *tape_input(tape *t, shape s, real *value, real *grad)
{
    if (t->status != STET_OK)
        return NULL;
    node *n = arena_znew(t->mem, node, 1);
    if (!n || !append(t, n)) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    n->shape = s;
    n->value = value;
    n->needs_grad = t->record && grad;
    n->grad = n->needs_grad ? grad : NULL;
    return n;
}

node *tape_learner(tape *t, shape s, real *value)
{
    real *grad = t->status == STET_OK ? take(t, shape_count(s), sizeof *grad) : NULL;
    if (!grad) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    node *n = tape_input(t, s, value, grad);
    if (n)
        n->grad_fresh = n->needs_grad;
    return n;
}

node *tape_constant(tape *t, shape s, const real *value)
{
    return tape_input(t, s, (real *)value, NULL); /* no kernel writes to the value of an input */
}

node *tape_numbers(tape *t, shape s, const real *host)
{
    return tape_constant(t, s, tape_twin(t, host, shape_count(s) * sizeof *host));
}

node *tape_zeros(tape *t, shape s)
{
    real *value = t->status == STET_OK ? take(t, shape_count(s), sizeof *value) : NULL;
    if (!value) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    store_clear(t->store, value, shape_count(s) * sizeof *value);
    return tape_constant(t, s, value);
}

/* ---- memory given back ------------------------------------------------------------------ */

tape_mark tape_save(const tape *t)
{
    return (tape_mark){arena_save(t->mem),
                       t->values ? store_arena_save(t->values) : (store_mark){0}, t->copies};
}

node *tape_carry(tape *t, tape_mark mark, node *x, const node *into)
{
    if (t->record || t->status != STET_OK)
        return x;
    store_copy(t->store, into->value, x->value, shape_count(x->shape) * sizeof *x->value);
    const shape s = x->shape;
    arena_restore(t->mem, mark.mem);
    if (t->values)
        store_arena_restore(t->values, mark.values);
    t->copies = mark.copies;
    return tape_constant(t, s, into->value);
}

/* ---- copies of host memory ---------------------------------------------------------------- */

/* The copy in which all of the range is; NULL: none. */
static const tape_copy *copy_of(const tape *t, const char *from, size_t bytes)
{
    const tape_copy *c = t->copies;
    while (c && !(from >= c->host && bytes <= c->bytes &&
                  (size_t)(from - c->host) <= c->bytes - bytes))
        c = c->next;
    return c;
}

static void add_copy(tape *t, const void *host, size_t bytes, size_t known, const void *at)
{
    tape_copy *c = at ? arena_new(t->mem, tape_copy, 1) : NULL;
    if (!c) {
        tape_fail(t, STET_ENOMEM);
        return;
    }
    *c = (tape_copy){host, at, bytes, known, t->copies};
    t->copies = c;
}

const void *tape_twin(tape *t, const void *host, size_t bytes)
{
    if (t->status != STET_OK)
        return NULL;
    if (t->store->desc->host)
        return host;
    const tape_copy *c = copy_of(t, host, bytes);
    if (c)
        return c->at + ((const char *)host - c->host);
    void *at = take(t, bytes, 1);
    add_copy(t, host, bytes, bytes, at);
    if (t->status != STET_OK)
        return NULL;
    store_upload(t->store, at, host, bytes);
    return at;
}

void tape_twin_is(tape *t, const void *host, size_t bytes, size_t known, const void *at)
{
    if (t->status == STET_OK)
        add_copy(t, host, bytes, known, at);
}

bool tape_is_name(const tape *t, const void *host)
{
    const tape_copy *c = copy_of(t, host, 1);
    return c && (size_t)((const char *)host - c->host) >= c->known;
}

void *tape_memory(tape *t, size_t count, size_t size)
{
    void *p = t->status == STET_OK ? take(t, count, size) : NULL;
    if (!p)
        tape_fail(t, STET_ENOMEM);
    return p;
}

const seq_index *tape_seq(tape *t, const seq_index *seq)
{
    if (t->store->desc->host || t->status != STET_OK)
        return seq;
    seq_index *twin = arena_new(t->mem, seq_index, 1);
    if (!twin) {
        tape_fail(t, STET_ENOMEM);
        return seq;
    }
    *twin = *seq;
    twin->start = tape_twin(t, seq->start, (seq->n_texts + 1) * sizeof *seq->start);
    twin->row = seq->row ? tape_twin(t, seq->row, seq->n_tokens * sizeof *seq->row) : NULL;
    return twin;
}

/* ---- numbers for the host ----------------------------------------------------------------- */

stet_status tape_read(tape *t, node *const *n, size_t count, double *out)
{
    TRY(t->status);
    const void **from = arena_new(t->mem, const void *, count);
    real *x = arena_new(t->mem, real, count);
    if (!from || !x)
        return tape_fail(t, STET_ENOMEM);
    for (size_t i = 0; i < count; i++)
        from[i] = n[i]->value;
    TRY(store_gather(t->store, x, from, count, sizeof *x));
    for (size_t i = 0; i < count; i++)
        out[i] = (double)x[i];
    return STET_OK;
}

stet_status tape_download(tape *t, const node *n, real *host)
{
    TRY(t->status);
    return store_download(t->store, host, n->value, shape_count(n->shape) * sizeof *host);
}

static bool shape_fits(shape s)
{
    size_t count = sizeof(real);
    for (int i = 0; i < s.rank; i++)
        if (!size_mul(count, s.dim[i], &count))
            return false;
    return true;
}

static stet_status missing_kernel(const tape *t, const op_desc *op, const char *pass)
{
    return error_set(STET_ENOTSUP, "op %s has no %s kernel on %s", op->name, pass,
                     t->store->desc->name);
}

static stet_status run_kernel(tape *t, op_kernel *kernel, node *n)
{
    store_enter(t->store);
    const stet_status st = kernel(t, n);
    store_leave(t->store);
    return st;
}

static stet_status run_forward(tape *t, node *n)
{
    const op_desc *d = n->op;
    TRY(d->infer(n, &n->shape));
    if (!shape_fits(n->shape))
        return error_set(STET_ENOMEM, "%s: result too large", d->name);
    op_kernel *kernel = d->forward[t->store->desc->kernels];
    if (!kernel)
        return missing_kernel(t, d, "forward");
    n->value = take(t, shape_count(n->shape), sizeof *n->value);
    return n->value ? run_kernel(t, kernel, n) : STET_ENOMEM;
}

node *tape_push(tape *t, const op_desc *op, node *const *in, int n_in, const void *args,
                size_t args_size)
{
    bool needs_grad = false;
    for (int i = 0; t->status == STET_OK && i < n_in; i++) {
        if (in[i])
            needs_grad |= in[i]->needs_grad;
        else
            tape_fail(t, error_set(STET_EINTERNAL, "%s: operand %d is missing", op->name, i));
    }
    if (t->status != STET_OK)
        return NULL;

    node *n = arena_znew(t->mem, node, 1);
    node **ins = n ? arena_new(t->mem, node *, (size_t)n_in) : NULL;
    void *own_args = ins && args_size ? arena_alloc(t->mem, args_size, 1) : NULL;
    if (!n || !ins || (args_size && !own_args)) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    memcpy(ins, in, (size_t)n_in * sizeof *ins);
    if (args_size)
        memcpy(own_args, args, args_size);
    *n = (node){.op = op,
                .n_in = n_in,
                .in = ins,
                .needs_grad = needs_grad && !op->constant,
                .args = own_args};

    stet_status st = run_forward(t, n);
    if (st == STET_OK && !append(t, n))
        st = STET_ENOMEM;
    if (st == STET_OK)
        return n;
    tape_fail(t, st);
    return NULL;
}

/* Every input that wants a gradient gets a block; it is cleared here unless the kernel fills it. */
static stet_status prepare_gradients(tape *t, node *n, bool fills)
{
    for (int i = 0; i < n->n_in; i++) {
        node *x = n->in[i];
        if (!x->needs_grad)
            continue;
        const size_t count = shape_count(x->shape);
        if (!x->grad) {
            x->grad = take(t, count, sizeof *x->grad);
            if (!x->grad)
                return STET_ENOMEM;
            x->grad_fresh = true;
        }
        if (!fills && grad_is_fresh(x))
            store_clear(t->store, x->grad, count * sizeof *x->grad);
    }
    return STET_OK;
}

static stet_status run_backward(tape *t, node *n)
{
    const op_desc *d = n->op;
    op_kernel *kernel = d->backward[t->store->desc->kernels];
    if (!kernel)
        return missing_kernel(t, d, "backward");
    TRY(prepare_gradients(t, n, d->fills));
    return run_kernel(t, kernel, n);
}

/* Inputs that the loss does not depend on. */
static void clear_unreached(tape *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (!t->nodes[i]->op && grad_is_fresh(t->nodes[i]))
            store_clear(t->store, t->nodes[i]->grad,
                        shape_count(t->nodes[i]->shape) * sizeof *t->nodes[i]->grad);
}

/* The derivative of the loss by itself; an input's block may hold something already. */
static stet_status seed(tape *t, node *loss)
{
    real one = 0;
    if (loss->grad)
        TRY(store_download(t->store, &one, loss->grad, sizeof one));
    else
        loss->grad = take(t, 1, sizeof *loss->grad);
    if (!loss->grad)
        return STET_ENOMEM;
    one += 1;
    store_upload(t->store, loss->grad, &one, sizeof one);
    return STET_OK;
}

stet_status tape_backward(tape *t, node *loss)
{
    if (t->status != STET_OK)
        return t->status;
    if (!t->record || !loss || shape_count(loss->shape) != 1)
        return tape_fail(
            t, error_set(STET_EINTERNAL, "backward needs a recorded loss with one element"));
    if (!loss->needs_grad) {
        clear_unreached(t);
        return STET_OK;
    }

    for (size_t i = 0; i < t->n; i++) /* so that a tape may be walked from several losses */
        if (t->nodes[i]->op)
            t->nodes[i]->grad = NULL;
    const stet_status seeded = seed(t, loss);
    if (seeded != STET_OK)
        return tape_fail(t, seeded);

    for (size_t i = t->n; i-- > 0;) {
        node *n = t->nodes[i];
        if (!n->op || !n->grad)
            continue; /* the loss does not depend on it */
        const stet_status st = run_backward(t, n);
        if (st != STET_OK)
            return tape_fail(t, st);
    }
    clear_unreached(t);
    return STET_OK;
}
