/* certify/cert_prover.c - proofs for an attack that would rather not search in vain. */
#include "base/mem.h"
#include "base/pool.h"
#include "certify/certifier.h"
#include "model/rule.h"

typedef struct prover {
    stet_prover face;
    cert_shared shared;
    stet_certifier **c; /* (n) one per thread, made when it first asks */
    size_t n;
} prover;

/* Without `hard`, only the cheapest method. */
static void choose_effort(stet_certifier *c, bool hard)
{
    const cert_family *f = c->shared->family;
    if (cert_by_rule(c->shared->m))
        return;
    c->end_method = hard ? cert_auto_methods(f) : 1;
    c->enumerate = hard && !f->exact ? ENUMERATE_CHEAP : ENUMERATE_NEVER;
}

static stet_status proved(stet_prover *face, size_t worker, const uint32_t *ids,
                          const stet_choices *choices, int label, bool hard, bool *out)
{
    prover *p = (prover *)face;
    const stet_certify_how how = STET_CERTIFY_HOW;
    *out = false;
    if (worker >= p->n)
        return error_set(STET_EUSAGE, "thread %zu asks a prover made for %zu", worker, p->n);
    if (!p->c[worker])
        TRY(certifier_new(&p->shared, &how, &p->c[worker]));
    choose_effort(p->c[worker], hard);
    stet_certificate r;
    const stet_status st = certifier_text(p->c[worker], ids, choices, label, &r);
    if (st == STET_EFORMAT || st == STET_ENOTSUP)
        return STET_OK; /* nothing can be proved of such numbers, or of such a reader */
    if (st != STET_OK)
        return st;
    *out = r.verdict == STET_CERTIFIED && r.budget == STET_ANY;
    stet_certificate_deinit(&r);
    return STET_OK;
}

static void prover_free(stet_prover *face)
{
    prover *p = (prover *)face;
    for (size_t i = 0; p->c && i < p->n; i++)
        stet_certifier_free(p->c[i]);
    mem_free(p->c);
    mem_free(p);
}

stet_status stet_certify_prover(const stet_model *m, stet_prover **out)
{
    *out = NULL;
    const cert_family *f;
    TRY(cert_family_for(m, &f));
    if (cert_by_draws(m))
        return error_set(STET_ENOTSUP, "draws are no proofs");
    prover *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    p->face = (stet_prover){.proved = proved, .free = prover_free};
    p->n = POOL_MOST; /* certifiers are made when they are needed */
    p->c = mem_zalloc(p->n, sizeof *p->c);
    const stet_status st = p->c ? cert_shared_init(&p->shared, m, f) : STET_ENOMEM;
    if (st == STET_OK)
        *out = &p->face;
    else
        prover_free(&p->face);
    return st == STET_EFORMAT ? STET_ENOTSUP
                              : st; /* numbers too large for proofs, not for attacks */
}
