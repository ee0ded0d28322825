/* tests/certify/exact.h - a family of bounds for any small model, by trying everything: "loose"
 * takes off a bit for every position that is still open, so that parts have to be made; "exact"
 * does not. exact_raise makes it a liar. */
#ifndef TESTS_CERTIFY_EXACT_H
#define TESTS_CERTIFY_EXACT_H

#include "base/mem.h"
#include "certify/certifier.h"
#include "harness.h"

static const double exact_slack = 1e-4, exact_loose = 0.05;
static double exact_raise;

typedef struct exact_work {
    const model *m;
    const cert_task *t;
    double least[HARNESS_CLASSES], clean[HARNESS_CLASSES];
} exact_work;

static stet_status exact_prepare(const model *m, void **shared)
{
    const model **p = mem_alloc(1, sizeof(const model *));
    if (!p)
        return STET_ENOMEM;
    *p = m;
    *shared = p;
    return STET_OK;
}

static stet_status exact_new(const void *shared, void **work)
{
    exact_work *w = mem_zalloc(1, sizeof *w);
    if (!w)
        return STET_ENOMEM;
    w->m = *(const model *const *)shared;
    *work = w;
    return STET_OK;
}

static stet_status exact_open(void *work, const cert_task *t)
{
    exact_work *w = work;
    w->t = t;
    harness_minimum(w->m, t, w->least);
    cert_task alone = *t;
    alone.budget = 0;
    alone.unpaid = NULL;
    harness_minimum(w->m, &alone, w->clean);
    return STET_OK;
}

/* As a sum: every open position takes the same. */
static stet_status exact_bound(void *work, size_t method, int other, size_t refine, cert_bound *out)
{
    (void)refine;
    const exact_work *w = work;
    size_t open = 0;
    for (size_t p = 0; p < w->t->n; p++) {
        out->drop[p] = 0;
        open += w->t->start[p + 1] - w->t->start[p] > 1;
    }
    out->slack = exact_slack;
    out->margin = w->least[other] - exact_slack + exact_raise;
    if (method == 0)
        out->margin -= exact_loose * (double)open;
    out->additive = method == 0;
    out->base = w->clean[other] - exact_slack;
    for (size_t p = 0; p < w->t->n; p++)
        if (w->t->start[p + 1] - w->t->start[p] > 1) {
            out->drop[p] = fmax(0, (out->base - out->margin) / (double)open);
            out->worst[p] = 1;
        }
    return STET_OK;
}

static const char *const exact_methods[] = {"loose", "exact", NULL};
static const cert_family exact_family = {.methods = exact_methods,
                                         .prepare = exact_prepare,
                                         .shared_free = mem_free,
                                         .work_new = exact_new,
                                         .work_free = mem_free,
                                         .open = exact_open,
                                         .bound = exact_bound};

#endif
