/* certify/cert_ensemble.c - bounds of an ensemble (model/ensemble.h): its margin is the sum of its
 * members' margins, none of which goes below the member's own bound.
 *
 * Each member fears its own words, and within a budget its own positions, so the sum is below the worst
 * text of the ensemble. Without a budget sums over positions add up: what a position takes is the sum
 * of what it takes from the members. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "certify/cert_scores.h"
#include "certify/certifier.h"
#include "model/ensemble.h"

enum { CHEAP, BEST }; /* every member by its cheapest method, or by all that "auto" has */
static const char *const methods[] = {"cheap", "best", NULL};

typedef struct shared {
    const ensemble *e;
    const cert_family *family[ENSEMBLE_MOST];
    void *impl[ENSEMBLE_MOST];
    size_t n; /* members that are ready */
} shared;

/* One member at work on a task. */
typedef struct member {
    void *work;
    cert_task task; /* in its own rows */
    cert_bound best, next;
    size_t method;   /* that gave `best` */
    json_t *witness; /* of it, or NULL */
} member;

typedef struct work {
    const shared *s;
    arena mem; /* of the task */
    const cert_task *t;
    member member[ENSEMBLE_MOST];
} work;

static void shared_free(void *p)
{
    shared *s = p;
    for (size_t i = 0; s && i < s->n; i++)
        s->family[i]->shared_free(s->impl[i]);
    mem_free(s);
}

static stet_status prepare_member(model *m, shared *s)
{
    TRY(cert_family_of_model(m, &s->family[s->n]));
    TRY(model_ready(m));
    TRY(cert_scores_check(m));
    TRY(s->family[s->n]->prepare(m, &s->impl[s->n]));
    s->n++;
    return STET_OK;
}

static stet_status prepare(const model *m, void **out)
{
    shared *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->e = ensemble_of(m);
    stet_status st = cert_family_of_model(m, &s->family[0]);
    if (st == STET_OK)
        st = s->family[0]->prepare(m, &s->impl[0]);
    s->n = st == STET_OK;
    for (size_t i = 0; st == STET_OK && i + 1 < s->e->n; i++)
        st = prepare_member(s->e->other[i], s);
    if (st == STET_OK)
        *out = s;
    else
        shared_free(s);
    return st;
}

static void work_free(void *p)
{
    work *w = p;
    for (size_t i = 0; w && i < w->s->n; i++) {
        if (w->member[i].work)
            w->s->family[i]->work_free(w->member[i].work);
        json_decref(w->member[i].witness);
    }
    if (w)
        arena_deinit(&w->mem);
    mem_free(w);
}

static stet_status work_new(const void *p, void **out)
{
    work *w = mem_zalloc(1, sizeof *w);
    if (!w)
        return STET_ENOMEM;
    w->s = p;
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < w->s->n; i++)
        st = w->s->family[i]->work_new(w->s->impl[i], &w->member[i].work);
    if (st == STET_OK)
        *out = w;
    else
        work_free(w);
    return st;
}

static bool bound_init(arena *mem, size_t n, cert_bound *b)
{
    *b = (cert_bound){.drop = arena_znew(mem, double, n), .worst = arena_znew(mem, uint32_t, n)};
    return b->drop && b->worst;
}

/* The task in the rows of member i. */
static stet_status open_member(work *w, size_t i)
{
    member *x = &w->member[i];
    const size_t words = w->t->start[w->t->n];
    x->task = *w->t;
    json_decref(x->witness);
    x->witness = NULL;
    if (i > 0) {
        uint32_t *row = arena_new(&w->mem, uint32_t, words);
        if (!row)
            return STET_ENOMEM;
        for (size_t k = 0; k < words; k++)
            row[k] = w->s->e->row[i - 1][w->t->word[k]];
        x->task.word = row;
    }
    return bound_init(&w->mem, w->t->n, &x->best) && bound_init(&w->mem, w->t->n, &x->next)
               ? w->s->family[i]->open(x->work, &x->task)
               : STET_ENOMEM;
}

static stet_status open(void *p, const cert_task *t)
{
    work *w = p;
    arena_restore(&w->mem, (arena_mark){0});
    w->t = t;
    for (size_t i = 0; i < w->s->n; i++)
        TRY(open_member(w, i));
    return STET_OK;
}

/* ---- bounds ------------------------------------------------------------------------------- */

static stet_status take_witness(const cert_family *f, member *x, size_t method, int other)
{
    const size_t failures = mem_failures(); /* NULL has two meanings */
    json_decref(x->witness);
    x->witness = f->witness ? f->witness(x->work, method, other) : NULL;
    x->method = method;
    return mem_failures() == failures ? STET_OK : STET_ENOMEM;
}

/* The best bound of one member, with what a checker needs to follow it. */
static stet_status bound_member(const cert_family *f, member *x, size_t most, int other,
                                size_t refine)
{
    x->best.margin = -INFINITY;
    x->best.additive = false;
    for (size_t m = 0; m < most; m++) {
        x->next.additive = false;
        TRY(f->bound(x->work, m, other, refine, &x->next));
        if (!isfinite(x->next.margin) || !(x->next.margin > x->best.margin))
            continue;
        const cert_bound b = x->best;
        x->best = x->next;
        x->next = b;
        TRY(take_witness(f, x, m, other));
    }
    return STET_OK;
}

/* Drops add up; the word that a position fears is that of the member who loses most there. */
static void add_drops(const work *w, cert_bound *out)
{
    for (size_t p = 0; p < w->t->n; p++) {
        double most = 0;
        out->drop[p] = 0;
        out->worst[p] = 0;
        for (size_t i = 0; i < w->s->n; i++) {
            const cert_bound *b = &w->member[i].best;
            out->drop[p] += b->drop[p];
            if (b->drop[p] > most) {
                most = b->drop[p];
                out->worst[p] = b->worst[p];
            }
        }
    }
}

static stet_status bound(void *p, size_t method, int other, size_t refine, cert_bound *out)
{
    work *w = p;
    double size = 0;
    out->margin = out->slack = out->base = 0;
    out->additive = w->t->budget == STET_ANY; /* within a budget each member fears other positions */
    for (size_t i = 0; i < w->s->n; i++) {
        const cert_family *f = w->s->family[i];
        member *x = &w->member[i];
        TRY(bound_member(f, x, method == CHEAP ? 1 : cert_auto_methods(f), other, refine));
        out->margin += x->best.margin;
        out->slack += x->best.slack;
        out->base += x->best.base;
        out->additive &= x->best.additive;
        size += fabs(x->best.margin);
    }
    out->margin -= size * 0x1p-50 * (double)w->s->n; /* what this sum may have rounded up */
    if (!isfinite(out->margin))
        out->margin = -INFINITY, out->additive = false;
    if (out->additive)
        add_drops(w, out);
    return STET_OK;
}

/* [{"method": "ibp"}, {"method": "joint", "witness": ...}], one for each member. */
static json_t *witness(const void *p, size_t method, int other)
{
    (void)method, (void)other;
    const work *w = p;
    json_t *all = json_array();
    for (size_t i = 0; i < w->s->n; i++) {
        const member *x = &w->member[i];
        json_t *o = json_pack("{s:s}", "method", w->s->family[i]->methods[x->method]);
        if (x->witness)
            json_object_set(o, "witness", x->witness);
        json_array_append_new(all, o);
    }
    return all;
}

const cert_family cert_ensemble = {
    .methods = methods,
    .prepare = prepare,
    .shared_free = shared_free,
    .work_new = work_new,
    .work_free = work_free,
    .open = open,
    .bound = bound,
    .witness = witness,
};
