/* certify/cert_prove.c - proofs of tasks: methods from cheap to expensive, every wrong class until
 * it is proved; and the largest budget for which that works. */
#include <math.h>

#include "base/mem.h"
#include "certify/certifier.h"

cert_task cert_task_of(const cert_text *t, size_t budget)
{
    return (cert_task){
        .n = t->n, .start = t->start, .word = t->word, .budget = budget, .label = t->label};
}

static bool bound_init(arena *mem, size_t n, cert_bound *b)
{
    *b = (cert_bound){.drop = arena_znew(mem, double, n), .worst = arena_znew(mem, uint32_t, n)};
    return b->drop && b->worst;
}

stet_status cert_proof_init(stet_certifier *c, cert_proof *p)
{
    const size_t k = c->shared->m->n_classes;
    *p = (cert_proof){.claim = arena_znew(&c->mem, cert_claim, k), .n_classes = k};
    return p->claim && bound_init(&c->mem, c->text.n, &p->sum) &&
                   bound_init(&c->mem, c->text.n, &p->next)
               ? STET_OK
               : STET_ENOMEM;
}

void cert_proof_drop(cert_proof *p)
{
    for (size_t k = 0; p->claim && k < p->n_classes; k++) {
        json_decref(p->claim[k].witness);
        p->claim[k].witness = NULL;
    }
}

static void begin(cert_proof *p, int label)
{
    cert_proof_drop(p);
    for (size_t k = 0; k < p->n_classes; k++)
        p->claim[k] = (cert_claim){.bound = -INFINITY};
    p->label = p->worst = label;
    p->margin = -INFINITY;
    p->sum.additive = false;
}

/* The weakest claim. Without a wrong class there is nothing to prove. */
static void settle(cert_proof *p)
{
    p->margin = INFINITY;
    for (size_t k = 0; k < p->n_classes; k++)
        if ((int)k != p->label && p->claim[k].bound < p->margin) {
            p->margin = p->claim[k].bound;
            p->worst = (int)k;
        }
}

static stet_status take_witness(stet_certifier *c, size_t method, int other, cert_claim *claim)
{
    const cert_family *f = c->shared->family;
    if (!c->keep || !f->witness)
        return STET_OK;
    const size_t failures = mem_failures(); /* NULL has two meanings */
    claim->witness = f->witness(c->work, method, other);
    return mem_failures() == failures ? STET_OK : STET_ENOMEM;
}

/* One bound into its claim. What is not a number proves nothing. */
static stet_status take(stet_certifier *c, size_t method, int other, const cert_bound *b,
                        cert_proof *out)
{
    cert_claim *claim = &out->claim[other];
    if (!isfinite(b->margin) || !(b->margin > claim->bound))
        return STET_OK;
    claim->method = method;
    claim->bound = b->margin;
    claim->slack = b->slack;
    return b->margin > 0 ? take_witness(c, method, other, claim) : STET_OK;
}

/* Does the model change its answer at the very words that the last sum fears? Then no bound proves the
 * task. */
static stet_status refuted(stet_certifier *c, const cert_task *t, const cert_proof *p, bool *out)
{
    const arena_mark mark = arena_save(&c->mem);
    const model *m = c->shared->m;
    uint32_t *rows = arena_new(&c->mem, uint32_t, t->n);
    float *logits = arena_new(&c->mem, float, m->n_classes);
    if (!rows || !logits)
        return STET_ENOMEM;
    TRY(cert_worst_point(c, &p->sum, t, rows));
    for (size_t i = 0; i < t->n; i++)
        rows[i] = t->word[t->start[i] + rows[i]];
    TRY(model_logits_of(m, rows, t->n, logits));
    *out = stet_argmax(logits, m->n_classes) != t->label;
    arena_restore(&c->mem, mark);
    return STET_OK;
}

stet_status cert_prove(stet_certifier *c, const cert_task *t, cert_proof *out)
{
    const cert_family *f = c->shared->family;
    begin(out, t->label);
    TRY(f->open(c->work, t));
    cert_bound *b = &out->next;
    for (size_t m = c->first_method; m < c->end_method && !(out->margin > 0); m++) {
        bool hopeless = false;
        if (f->dear && m == f->dear && out->sum.additive)
            TRY(refuted(c, t, out, &hopeless));
        if (hopeless)
            return STET_OK;
        double lowest = INFINITY; /* of this method's sums */
        for (int k = 0; k < (int)out->n_classes; k++) {
            if (k == t->label || out->claim[k].bound > 0)
                continue;
            b->additive = false;
            TRY(f->bound(c->work, m, k, c->how.refine, b));
            TRY(take(c, m, k, b, out));
            if (b->additive && b->margin < lowest) {
                lowest = b->margin;
                const cert_bound other = out->sum;
                out->sum = *b;
                *b = other;
            }
        }
        settle(out);
    }
    if (c->enumerate != ENUMERATE_NEVER && !(out->margin > 0)) {
        TRY(cert_enumerate(c, t, out));
        settle(out);
    }
    return STET_OK;
}

/* ---- the largest budget ------------------------------------------------------------------- */

/* What the sum over positions of a proof that failed promises; only a place to start from. */
static stet_status first_guess(stet_certifier *c, size_t most, size_t *out)
{
    const cert_task t = cert_task_of(&c->text, STET_ANY);
    double *scratch = arena_new(&c->mem, double, t.n);
    if (!scratch)
        return STET_ENOMEM;
    size_t lo = 0, hi = most + 1;
    while (c->proof.sum.additive && hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (cert_within_budget(&c->proof.sum, &t, mid, scratch) > 0)
            lo = mid;
        else
            hi = mid;
    }
    *out = lo ? lo : 1;
    return STET_OK;
}

static stet_status try_budget(stet_certifier *c, size_t budget, bool *proved)
{
    const cert_task t = cert_task_of(&c->text, budget);
    TRY(cert_prove(c, &t, &c->proof));
    *proved = c->proof.margin > 0;
    return STET_OK;
}

stet_status cert_largest(stet_certifier *c, size_t *out)
{
    size_t changeable = 0;
    for (size_t p = 0; p < c->text.n; p++)
        changeable += c->text.start[p + 1] - c->text.start[p] > 1;
    const size_t failed = c->text.budget == STET_ANY ? changeable : c->text.budget;
    *out = 0;
    if (failed < 2)
        return STET_OK;
    size_t lo = 0, hi = failed, step = 1, at, last = 0;
    TRY(first_guess(c, hi - 1, &at));
    while (hi - lo > 1) { /* upwards in growing steps until one fails, then by halves */
        bool proved;
        TRY(try_budget(c, last = at, &proved));
        if (proved)
            lo = at;
        else
            hi = at;
        at = hi == failed && lo + step < hi ? lo + step : lo + (hi - lo) / 2;
        step *= 2;
    }
    *out = lo;
    bool proved = true;
    return lo && last != lo ? try_budget(c, lo, &proved)
                            : STET_OK; /* its claims are the ones to keep */
}
