/* certify/cert_sum.c - certificates of the sum model. Words add up, so every position takes its own
 * worst word, a budget the positions that lose most, and what comes out is the worst text itself: the
 * bound is exact but for rounding. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "certify/cert_scores.h"
#include "certify/onnx.h"

static const char *const methods[] = {"exact", NULL};

typedef struct shared {
    const model *m;
    const real *bias; /* (K) */
} shared;

typedef struct work {
    const shared *s;
    const cert_task *t;
    arena mem;
    cert_scores scores;
} work;

/* ---- the family --------------------------------------------------------------------------- */

static void shared_free(void *p)
{
    mem_free(p);
}

static stet_status prepare(const model *m, void **out)
{
    shared *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->m = m;
    s->bias = model_value(m, (int)m->n_params - 1);
    *out = s;
    return STET_OK;
}

static stet_status work_new(const void *p, void **out)
{
    work *w = mem_zalloc(1, sizeof *w);
    if (w)
        w->s = p;
    *out = w;
    return w ? STET_OK : STET_ENOMEM;
}

static void work_free(void *p)
{
    work *w = p;
    if (w)
        arena_deinit(&w->mem);
    mem_free(w);
}

static stet_status open(void *p, const cert_task *t)
{
    work *w = p;
    for (size_t i = 0; i < t->start[t->n]; i++)
        if (t->word[i] >= w->s->m->n_words)
            return error_set(STET_EUSAGE, "word %u: the model knows %zu words", t->word[i],
                             w->s->m->n_words);
    arena_restore(&w->mem, (arena_mark){0});
    w->t = t;
    return cert_scores_open(&w->scores, w->s->m, t, &w->mem);
}

static stet_status bound(void *p, size_t method, int other, size_t refine, cert_bound *out)
{
    (void)method, (void)refine;
    work *w = p;
    const real *b = w->s->bias;
    const double a = (double)b[w->t->label], c = (double)b[other];
    const double biases = (fabs(a) + fabs(c)) * 0x1p-22; /* of adding them */
    cert_bound *sum = &w->scores.sum;
    cert_scores_against(&w->scores, other);
    out->additive = true;
    out->slack = sum->slack + biases;
    out->base = sum->base + (a - c) - biases;
    memcpy(out->drop, sum->drop, w->t->n * sizeof *out->drop);
    memcpy(out->worst, sum->worst, w->t->n * sizeof *out->worst);
    out->margin = cert_within_budget(out, w->t, w->t->budget, w->scores.scratch);
    if (!(out->margin > -1e100)) /* NaN, too, proves nothing */
        out->margin = -INFINITY;
    return STET_OK;
}

/* Words add up, so the question is one linear map. */
static stet_status onnx(const model *m, const cert_task *t, buf *graph)
{
    int64_t inputs = 0;
    for (size_t p = 0; p < t->n; p++)
        inputs += t->start[p + 1] - t->start[p] > 1 ? t->start[p + 1] - t->start[p] : 0;
    onnx_input(graph, "choice", (const int64_t[]){1, inputs, 0});
    onnx_output(graph, "logits", (const int64_t[]){1, (int64_t)m->n_classes, 0});
    return cert_scores_onnx(m, t, NULL, graph);
}

const cert_family cert_sum = {
    .methods = methods,
    .exact = true,
    .prepare = prepare,
    .shared_free = shared_free,
    .work_new = work_new,
    .work_free = work_free,
    .open = open,
    .bound = bound,
    .onnx = onnx,
};
