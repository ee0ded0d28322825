/* tensor/tape.c - recording a forward pass and walking it backwards. */
#include "tensor/tape.h"

#include <string.h>

#include "base/mem.h"

enum { FIRST_CAP = 64 };

void tape_init(tape *t, arena *mem, bool record)
{
    *t = (tape){.mem = mem, .record = record, .dev = DEV_CPU};
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

node *tape_constant(tape *t, shape s, const real *value)
{
    return tape_input(t, s, (real *)value, NULL); /* no kernel writes to the value of an input */
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
                     device_name(t->dev));
}

static stet_status run_forward(tape *t, node *n)
{
    const op_desc *d = n->op;
    TRY(d->infer(n, &n->shape));
    if (!shape_fits(n->shape))
        return error_set(STET_ENOMEM, "%s: result too large", d->name);
    n->value = arena_new(t->mem, real, shape_count(n->shape));
    if (!n->value)
        return STET_ENOMEM;
    return d->forward[t->dev] ? d->forward[t->dev](t, n) : missing_kernel(t, n->op, "forward");
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
    *n = (node){.op = op, .n_in = n_in, .in = ins, .needs_grad = needs_grad, .args = own_args};

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
            x->grad = arena_new(t->mem, real, count);
            if (!x->grad)
                return STET_ENOMEM;
            x->grad_fresh = true;
        }
        if (!fills && grad_is_fresh(x))
            memset(x->grad, 0, count * sizeof *x->grad);
    }
    return STET_OK;
}

static stet_status run_backward(tape *t, node *n)
{
    const op_desc *d = n->op;
    if (!d->backward[t->dev])
        return missing_kernel(t, n->op, "backward");
    TRY(prepare_gradients(t, n, d->fills));
    return d->backward[t->dev](t, n);
}

stet_status tape_backward(tape *t, node *loss)
{
    if (t->status != STET_OK)
        return t->status;
    if (!t->record || !loss || shape_count(loss->shape) != 1)
        return tape_fail(
            t, error_set(STET_EINTERNAL, "backward needs a recorded loss with one element"));
    if (!loss->needs_grad)
        return STET_OK;

    for (size_t i = 0; i < t->n; i++) /* so that a tape may be walked from several losses */
        if (t->nodes[i]->op)
            t->nodes[i]->grad = NULL;
    if (!loss->grad)
        loss->grad = arena_znew(t->mem, real, 1);
    if (!loss->grad)
        return tape_fail(t, STET_ENOMEM);
    loss->grad[0] += 1;

    for (size_t i = t->n; i-- > 0;) {
        node *n = t->nodes[i];
        if (!n->op || !n->grad)
            continue; /* the loss does not depend on it */
        const stet_status st = run_backward(t, n);
        if (st != STET_OK)
            return tape_fail(t, st);
    }
    return STET_OK;
}
