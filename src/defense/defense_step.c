/* defense/defense_step.c - tools for hooks: texts of a step, rows of a batch, passes beside the
 * step's; see defense_impl.h. */
#include <string.h>

#include "defense/defense_impl.h"

/* ---- texts -------------------------------------------------------------------------------- */

stet_status texts_add(step_texts *t, const uint32_t *ids, size_t n, int32_t label)
{
    if (t->n == t->cap) {
        step_text *more = arena_new(t->mem, step_text, 2 * t->cap + 8);
        if (!more)
            return STET_ENOMEM;
        if (t->n)
            memcpy(more, t->v, t->n * sizeof *more);
        t->v = more;
        t->cap = 2 * t->cap + 8;
    }
    t->v[t->n++] = (step_text){ids, n, label};
    return STET_OK;
}

/* The texts one after the other, in memory of the step, and the numbers 0, 1, 2, ... */
static stet_status gather(const step_texts *t, size_t n_classes, stet_corpus *out, uint32_t **pick)
{
    size_t n_tokens = 0;
    for (size_t i = 0; i < t->n; i++)
        n_tokens += t->v[i].n;
    uint32_t *ids = arena_new(t->mem, uint32_t, n_tokens + 1);
    uint64_t *start = arena_new(t->mem, uint64_t, t->n + 1);
    int32_t *label = arena_new(t->mem, int32_t, t->n + 1);
    *pick = arena_new(t->mem, uint32_t, t->n + 1);
    if (!ids || !start || !label || !*pick)
        return STET_ENOMEM;
    start[0] = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i].n)
            memcpy(ids + start[i], t->v[i].ids, t->v[i].n * sizeof *ids);
        start[i + 1] = start[i] + t->v[i].n;
        label[i] = t->v[i].label;
        (*pick)[i] = (uint32_t)i;
    }
    *out = (stet_corpus){t->n, n_tokens, n_classes, ids, start, label};
    return STET_OK;
}

stet_status texts_batch(const step_view *v, const step_texts *t, batch *out)
{
    stet_corpus c;
    uint32_t *pick;
    TRY(gather(t, v->m->n_classes, &c, &pick));
    return batch_make(v->batches, v->m, &c, pick, t->n, v->mem, out);
}

stet_status defense_list_batch(const defense_list *l, step_view *v, const stet_corpus **c,
                               const uint32_t **pick, size_t *n)
{
    v->n_own = *n;
    if (!defense_list_has_batch(l))
        return STET_OK;
    step_texts t = {.mem = v->mem, .n_own = *n};
    for (size_t i = 0; i < *n; i++) {
        const uint64_t first = (*c)->start[(*pick)[i]], end = (*c)->start[(*pick)[i] + 1];
        TRY(texts_add(&t, (*c)->ids + first, (size_t)(end - first), (*c)->label[(*pick)[i]]));
    }
    for (v->place = 0; v->place < l->n; v->place++)
        if (l->d[v->place].desc->batch)
            TRY(l->d[v->place].desc->batch(l->d[v->place].state, v, &t));
    stet_corpus *made = arena_new(v->mem, stet_corpus, 1);
    uint32_t *all;
    if (!made)
        return STET_ENOMEM;
    TRY(gather(&t, (*c)->n_classes, made, &all));
    *c = made;
    *pick = all;
    *n = t.n;
    return STET_OK;
}

/* ---- labels ------------------------------------------------------------------------------- */

static const real *targets_of(const step_view *v, const batch *x, size_t K)
{
    real *q = arena_znew(v->mem, real, x->seq.n_texts * K);
    for (size_t b = 0; q && b < x->seq.n_texts; b++)
        if (x->order[b] < v->n_own)
            memcpy(q + b * K, v->target + v->own[x->order[b]] * K, K * sizeof *q);
        else
            q[b * K + (size_t)x->label[b]] = 1;
    return q;
}

node *step_cross_entropy(const step_view *v, const batch *x, node *logits)
{
    tape *t = v->p->t;
    const size_t K = v->m->n_classes;
    if (!v->target)
        return op_cross_entropy(t, logits, x->label);
    const real *q = targets_of(v, x, K);
    if (!q) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    node *each = op_mul(t, op_log_softmax(t, logits),
                        tape_numbers(t, shape2(x->seq.n_texts, K), q));
    return op_scale(t, op_sum(t, each), -1 / (double)x->seq.n_texts);
}

/* ---- words -------------------------------------------------------------------------------- */

uint32_t step_word(const step_view *v, size_t text, size_t at)
{
    const batch *x = v->x;
    if (!x->twin)
        return x->word[x->seq.row[x->seq.start[text] + at]];
    return text_word(v->m, v->data, v->own[x->order[text]], at);
}

/* ---- rows --------------------------------------------------------------------------------- */

stet_status batch_spread(const batch *x, arena *mem, batch *out)
{
    const size_t n = x->seq.n_tokens;
    uint32_t *row = arena_new(mem, uint32_t, 2 * n), *word = row + n;
    if (!row)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        row[i] = (uint32_t)i;
        word[i] = x->word[x->seq.row[i]];
    }
    *out = *x;
    out->seq.n_rows = n;
    out->seq.row = row;
    out->word = word;
    return STET_OK;
}

/* ---- passes ------------------------------------------------------------------------------- */

static stet_status second_loss(tape *step, const pass *q, node *all, probe *p)
{
    TRY(tape_status(step));
    node *y = p->second(p->ctx, q);
    TRY(tape_status(q->t));
    if (!y)
        return STET_OK;
    TRY(tape_backward(q->t, op_scale(q->t, y, p->weight)));
    p->value_all = op_add(step, p->value, tape_constant(step, y->shape, y->value));
    p->drows_all = op_scale(step, all, 1 / p->weight);
    return tape_status(step);
}

stet_status probe_run(const step_view *v, probe *p)
{
    const model *m = v->m;
    tape *step = v->p->t, t;
    pass q;
    tape_init(&t, v->mem, step->values, true);
    TRY(pass_init(&q, m, &t, v->w, p->weight > 0 ? v->grad : NULL, p->x));
    const node *from = p->rows ? p->rows : pass_text_rows(&q);
    TRY(tape_status(&t));
    const shape rows = from->shape;
    p->at = tape_constant(step, rows, from->value);
    p->drows = tape_zeros(step, rows);
    TRY(tape_status(step));
    q.rows = tape_input(&t, rows, p->at->value, p->drows->value);
    q.made = p->made ? tape_constant(&t, p->made->shape, p->made->value) : NULL;
    rng drops;
    if (p->dropout && v->p->dropout > 0) {
        drops = *v->p->stream;
        q.dropout = v->p->dropout;
        q.stream = &drops;
    }
    node *z = model_forward(m, &q);
    node *y = p->loss ? p->loss(p->ctx, &q, z) : op_cross_entropy(&t, z, p->x->label);
    if (p->weight > 0)
        y = op_scale(&t, y, p->weight);
    TRY(tape_backward(&t, y));
    p->logits = tape_constant(step, z->shape, z->value);
    p->value = tape_constant(step, y->shape, y->value);
    node *all = p->drows; /* later losses add to it */
    if (p->weight > 0) {
        p->value = op_scale(step, p->value, 1 / p->weight);
        p->drows = op_scale(step, p->drows, 1 / p->weight);
    }
    p->value_all = p->value;
    p->drows_all = p->drows;
    if (p->second)
        TRY(second_loss(step, &q, all, p));
    return tape_status(step);
}

void expect_plain_loss(tape *t, const node *base, const char *defense)
{
    if (base && base->op != &op_table[OP_cross_entropy])
        tape_fail(t, error_set(STET_EUSAGE,
                               "%s: list it before defences that change the loss, and without "
                               "--teacher, whose soft labels it cannot learn from",
                               defense));
}

step_view step_beside(const step_view *v, node *grad, model_weights *fixed)
{
    step_view beside = *v;
    *fixed = v->w ? *v->w : (model_weights){0};
    fixed->learn = NULL; /* their rows are in the term */
    beside.w = v->w ? fixed : NULL;
    beside.grad = grad ? grad->value : NULL;
    return beside;
}

node *slope_add(tape *t, node *to, node *x, node *g)
{
    node *y = op_sum(t, op_mul(t, x, g));
    return op_add(t, to, op_sub(t, y, y ? tape_constant(t, y->shape, y->value) : NULL));
}

node *slopes_add(const step_view *v, node *to, const node *grad)
{
    const model *m = v->m;
    for (size_t i = 0; i < m->n_params + m->n_added; i++)
        if (v->p->param[i]->needs_grad)
            to = slope_add(
                v->p->t, to, v->p->param[i],
                tape_constant(v->p->t, m->params[i].shape, grad->value + m->params[i].first));
    return to;
}
