/* certify/cert_decide.c - the complete method: branch and bound over the words of positions.
 *
 * A part of the combinations that no bound proves is split in two: the position that takes most of
 * the bound gets half of its words in each. The part with the lowest bound comes first; what its
 * bound fears is tried as a counter-example. When every part is proved, so is the text. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "certify/certifier.h"

/* A part as a task, and which choice each of its words is. */
typedef struct part {
    uint32_t *start, *word, *choice; /* (n + 1), (words of the text) twice */
    bool *unpaid;
    const uint32_t **set; /* (n) of the ancestors' restrictions, the nearest one; NULL: all words */
    uint32_t *n_set;
    cert_task task;
    bool empty;
} part;

static stet_status part_init(stet_certifier *c, part *w)
{
    const size_t n = c->text.n, words = c->text.start[n];
    *w = (part){.start = arena_new(&c->mem, uint32_t, n + 1),
                .word = arena_new(&c->mem, uint32_t, words),
                .choice = arena_new(&c->mem, uint32_t, words),
                .unpaid = arena_new(&c->mem, bool, n),
                .set = arena_new(&c->mem, const uint32_t *, n),
                .n_set = arena_new(&c->mem, uint32_t, n)};
    return w->start && w->word && w->choice && w->unpaid && w->set && w->n_set ? STET_OK
                                                                               : STET_ENOMEM;
}

/* A position that has lost its own word is a changed one: that is paid for once and for all, and
 * what else stands there no longer counts. */
static void part_make(const stet_certifier *c, size_t which, part *w)
{
    const cert_text *t = &c->text;
    memset(w->set, 0, t->n * sizeof *w->set);
    for (const cert_node *v = &c->tree.node[which]; v->parent != SIZE_MAX;
         v = &c->tree.node[v->parent])
        if (!w->set[v->pos]) {
            w->set[v->pos] = v->set;
            w->n_set[v->pos] = v->n_set;
        }
    uint32_t made = 0;
    size_t forced = 0;
    for (size_t p = 0; p < t->n; p++) {
        const uint32_t n = w->set[p] ? w->n_set[p] : t->start[p + 1] - t->start[p];
        w->start[p] = made;
        for (uint32_t k = 0; k < n; k++, made++) {
            w->choice[made] = w->set[p] ? w->set[p][k] : k;
            w->word[made] = t->word[t->start[p] + w->choice[made]];
        }
        w->unpaid[p] = w->choice[w->start[p]] != 0;
        forced += w->unpaid[p];
    }
    w->start[t->n] = made;
    w->empty = forced > t->budget;
    w->task = (cert_task){.n = t->n,
                          .start = w->start,
                          .word = w->word,
                          .budget = t->budget == STET_ANY ? STET_ANY : t->budget - forced,
                          .unpaid = forced ? w->unpaid : NULL,
                          .label = t->label};
}

/* ---- the tree ----------------------------------------------------------------------------- */

void cert_tree_clear(cert_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        mem_free(t->node[i].claims);
    t->n = t->n_heap = 0;
}

void cert_tree_deinit(cert_tree *t)
{
    cert_tree_clear(t);
    mem_free(t->node);
    mem_free(t->heap);
    *t = (cert_tree){0};
}

static stet_status add_node(cert_tree *t, size_t parent, uint32_t pos, const uint32_t *set,
                            uint32_t n_set)
{
    TRY(mem_grow(&t->node, &t->cap, t->n + 1, sizeof *t->node));
    t->node[t->n++] =
        (cert_node){.parent = parent, .child = SIZE_MAX, .pos = pos, .set = set, .n_set = n_set};
    return STET_OK;
}

static bool lower(const cert_tree *t, size_t a, size_t b) /* places in the heap */
{
    const size_t x = t->heap[a], y = t->heap[b];
    const double bx = t->node[x].weakest.bound, by = t->node[y].weakest.bound;
    return bx < by || (bx == by && x < y);
}

static void swap(cert_tree *t, size_t a, size_t b)
{
    const size_t x = t->heap[a];
    t->heap[a] = t->heap[b];
    t->heap[b] = x;
}

static stet_status push(cert_tree *t, size_t which)
{
    TRY(mem_grow(&t->heap, &t->cap_heap, t->n_heap + 1, sizeof *t->heap));
    size_t i = t->n_heap++;
    t->heap[i] = which;
    for (; i > 0 && lower(t, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(t, i, (i - 1) / 2);
    return STET_OK;
}

static size_t pop(cert_tree *t)
{
    const size_t top = t->heap[0];
    t->heap[0] = t->heap[--t->n_heap];
    for (size_t i = 0;;) {
        const size_t l = 2 * i + 1, r = l + 1;
        size_t least = i;
        if (l < t->n_heap && lower(t, l, least))
            least = l;
        if (r < t->n_heap && lower(t, r, least))
            least = r;
        if (least == i)
            return top;
        swap(t, i, least);
        i = least;
    }
}

const cert_claim *cert_tree_weakest(const cert_tree *t)
{
    const cert_claim *least = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const cert_node *v = &t->node[i];
        if (v->child == SIZE_MAX && !v->empty && (!least || v->weakest.bound < least->bound))
            least = &v->weakest;
    }
    return least;
}

/* ---- one part ----------------------------------------------------------------------------- */

typedef struct decision {
    stet_certifier *c;
    part part;
    cert_proof proof;
    uint32_t *worst;    /* (n) the point that the bound fears, in the part's indices */
    uint32_t *choice;   /* (n) the same in the text's */
    bool broken, stuck; /* stuck: a single combination that rounding leaves open */
} decision;

/* What the model itself says of each position of the feared point: how much the margin rises when
 * the reference comes back. */
static stet_status true_drops(decision *d, double *rise)
{
    stet_certifier *c = d->c;
    const cert_task *t = &d->part.task;
    stet_edit *swaps = arena_new(&c->mem, stet_edit, t->n);
    double *margin = arena_new(&c->mem, double, t->n), here;
    if (!swaps || !margin)
        return STET_ENOMEM;
    size_t n = 0;
    for (size_t p = 0; p < t->n; p++)
        if (d->worst[p])
            swaps[n++] = (stet_edit){(uint32_t)p, d->part.choice[t->start[p]]};
    TRY(cert_margin_at(c, d->choice, &here));
    TRY(cert_margins_of(c, swaps, n, margin));
    memset(rise, 0, t->n * sizeof *rise);
    for (size_t i = 0; i < n; i++)
        rise[swaps[i].pos] = margin[i] - here;
    return STET_OK;
}

/* Where to split: what takes much of the bound, and most of all where the bound and the model
 * disagree about it; without such knowledge, the largest set. Twice the disagreement needed a
 * fraction of the parts that the drop alone did (IMDB, CNN: 231 against 1717). */
static stet_status split_position(decision *d, size_t *out)
{
    const arena_mark mark = arena_save(&d->c->mem);
    const cert_bound *b = &d->proof.sum;
    const cert_task *t = &d->part.task;
    double *rise = arena_new(&d->c->mem, double, t->n), most = -1;
    if (!rise)
        return STET_ENOMEM;
    TRY(true_drops(d, rise));
    *out = SIZE_MAX;
    for (size_t p = 0; p < t->n; p++) {
        const uint32_t n = t->start[p + 1] - t->start[p];
        const double value =
            (b->additive ? b->drop[p] + 2 * fabs(b->drop[p] - rise[p]) : 0) + 1e-9 * n;
        if (n > 1 && value > most) {
            most = value;
            *out = p;
        }
    }
    arena_restore(&d->c->mem, mark);
    return STET_OK;
}

/* Half of the words by what the model says of them at the feared point: the lower half first. */
static stet_status plan_split(decision *d, cert_node *v)
{
    stet_certifier *c = d->c;
    size_t p;
    TRY(split_position(d, &p));
    if (p == SIZE_MAX) {
        d->stuck = true;
        return STET_OK;
    }
    const uint32_t at = d->part.start[p], n = d->part.start[p + 1] - at;
    uint32_t *order = arena_new(&c->mem, uint32_t, n);
    if (!order)
        return STET_ENOMEM;
    const arena_mark mark = arena_save(&c->mem);
    stet_edit *swaps = arena_new(&c->mem, stet_edit, n);
    double *margin = arena_new(&c->mem, double, n);
    if (!swaps || !margin)
        return STET_ENOMEM;
    memcpy(order, d->part.choice + at, n * sizeof *order);
    for (uint32_t i = 0; i < n; i++)
        swaps[i] = (stet_edit){(uint32_t)p, order[i]};
    TRY(cert_margins_of(c, swaps, n, margin));
    for (uint32_t i = 1; i < n; i++) /* few words: insertion */
        for (uint32_t k = i; k > 0 && margin[k] < margin[k - 1]; k--) {
            const double m = margin[k];
            const uint32_t o = order[k];
            margin[k] = margin[k - 1], order[k] = order[k - 1];
            margin[k - 1] = m, order[k - 1] = o;
        }
    arena_restore(&c->mem, mark);
    v->split = (uint32_t)p;
    v->order = order;
    v->n_split = n;
    v->n_first = n / 2;
    return STET_OK;
}

static stet_status try_worst(decision *d)
{
    stet_certifier *c = d->c;
    double margin;
    TRY(cert_worst_point(c, &d->proof.sum, &d->part.task, d->worst));
    for (size_t p = 0; p < c->text.n; p++)
        d->choice[p] = d->part.choice[d->part.start[p] + d->worst[p]];
    TRY(cert_margin_at(c, d->choice, &margin));
    if (margin <= 0)
        TRY(cert_confirm(c, d->choice, &d->broken));
    return d->broken ? cert_strengthen(c, d->choice) : STET_OK;
}

/* Bound a part; what is not proved is looked at and waits to be split. */
static stet_status bound_part(decision *d, size_t which)
{
    stet_certifier *c = d->c;
    part_make(c, which, &d->part);
    cert_node *v = &c->tree.node[which];
    v->empty = d->part.empty;
    if (v->empty)
        return STET_OK;
    TRY(cert_prove(c, &d->part.task, &d->proof));
    v->weakest = d->proof.claim[d->proof.worst];
    v->weakest.witness = NULL;
    if (d->proof.margin > 0)
        return c->keep ? cert_claims_text(c, &d->proof, &v->claims) : STET_OK;
    TRY(try_worst(d));
    if (d->broken)
        return STET_OK;
    TRY(plan_split(d, v));
    return v->n_split ? push(&c->tree, which) : STET_OK;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static stet_status split(decision *d, size_t which)
{
    cert_tree *t = &d->c->tree;
    const cert_node v = t->node[which];
    qsort(v.order, v.n_first, sizeof *v.order, ascending);
    qsort(v.order + v.n_first, v.n_split - v.n_first, sizeof *v.order, ascending);
    const size_t child = t->n;
    TRY(add_node(t, which, v.split, v.order, v.n_first));
    TRY(add_node(t, which, v.split, v.order + v.n_first, v.n_split - v.n_first));
    t->node[which].child = child;
    for (size_t k = 0; k < 2 && !d->broken; k++)
        TRY(bound_part(d, child + k));
    return STET_OK;
}

static stet_status explore(decision *d)
{
    cert_tree *t = &d->c->tree;
    TRY(part_init(d->c, &d->part));
    TRY(cert_proof_init(d->c, &d->proof));
    d->worst = arena_new(&d->c->mem, uint32_t, d->c->text.n);
    if (!d->worst)
        return STET_ENOMEM;
    TRY(add_node(t, SIZE_MAX, 0, NULL, 0));
    TRY(bound_part(d, 0));
    while (t->n_heap && !d->broken && !cert_out_of_time(d->c)) {
        TRY(interrupt_status());
        TRY(split(d, pop(t)));
    }
    return STET_OK;
}

stet_status cert_decide(stet_certifier *c, uint32_t *choice, stet_verdict *out)
{
    decision d = {.c = c, .choice = choice};
    *out = STET_UNDECIDED;
    TRY(cert_find_break(c, choice, &d.broken));
    stet_status st = d.broken || cert_out_of_time(c) ? STET_OK : explore(&d);
    cert_proof_drop(&d.proof);
    if (d.broken)
        *out = STET_BROKEN;
    else if (c->tree.n > 1 && c->tree.n_heap == 0 && !d.stuck)
        *out = STET_CERTIFIED;
    return st;
}
