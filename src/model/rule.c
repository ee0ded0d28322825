/* model/rule.c - see rule.h: the table of rules, the rule of a model, its views. */
#include "model/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/option_impl.h"
#include "model/ensemble.h"

enum { MAX_RULES = 32 };
static const rule_desc *rules[MAX_RULES + 1] = {&rule_ensemble}; /* more of them before main */

void rule_register(const rule_desc *d)
{
    for (size_t i = 0; i < MAX_RULES; i++)
        if (!rules[i] || rules[i] == d) {
            rules[i] = d;
            return;
        }
}

const rule_desc *rule_find(const char *name)
{
    const char *names[MAX_RULES + 1] = {NULL};
    for (size_t i = 0; rules[i]; i++) {
        if (strcmp(rules[i]->name, name) == 0)
            return rules[i];
        names[i] = rules[i]->name;
    }
    opt_no_such("prediction rule", name, names);
    return NULL;
}

/* ---- the rule of a model ------------------------------------------------------------------ */

static stet_status fill(model *m, rule *r, const char *const *settings)
{
    const opt_table table = {r->desc->opts, r->cfg};
    char owner[64];
    snprintf(owner, sizeof owner, "prediction rule '%s'", r->desc->name);
    TRY(stet_opt_defaults(r->desc->opts, r->cfg));
    for (; settings && *settings; settings++) {
        const char *kept = arena_strndup(&m->strings, *settings, strlen(*settings));
        if (!kept)
            return STET_ENOMEM;
        TRY(opt_settings(&table, 1, (const char *const[]){kept, NULL}, owner));
    }
    return STET_OK;
}

stet_status rule_attach(model *m, const rule_desc *d, const void *cfg, const char *const *settings,
                        rng *stream)
{
    rule *r = m->rule = mem_zalloc(1, sizeof *r); /* the model releases it, also after a failure */
    if (!r)
        return STET_ENOMEM;
    r->desc = d;
    r->cfg = mem_zalloc(1, d->cfg_size + 1);
    if (!r->cfg)
        return STET_ENOMEM;
    if (cfg)
        memcpy(r->cfg, cfg, d->cfg_size);
    else
        TRY(fill(m, r, settings));
    return d->parameters ? d->parameters(r->cfg, m, stream) : STET_OK;
}

void rule_free(rule *r)
{
    if (!r)
        return;
    if (r->desc->end)
        r->desc->end(r->state);
    mem_free(r->cfg);
    mem_free(r);
}

/* ---- answers ------------------------------------------------------------------------------ */

const uint32_t *corpus_rows(const model *m, const stet_corpus *c, size_t i, size_t *n)
{
    static const uint32_t unknown = STET_UNK;
    *n = (size_t)(c->start[i + 1] - c->start[i]);
    if (*n == 0 && !m->reader.framed) {
        *n = 1;
        return &unknown;
    }
    if (*n > model_max_rows(m) && !m->reader.begins)
        *n = model_max_rows(m);
    return c->ids + c->start[i];
}

stet_status rule_logits(const model *m, const uint32_t *ids, size_t n, float *logits)
{
    if (!m->rule->desc->predict_all)
        return m->rule->desc->predict(m->rule, m, ids, n, logits);
    uint64_t start[2] = {0, n};
    int32_t none = -1;
    const stet_corpus one = {1, n, m->n_classes, (uint32_t *)ids, start, &none}; /* only read */
    return rule_logits_all(m, &one, logits);
}

static stet_status answer_all(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    const rule_desc *d = r->desc;
    if (d->predict_all)
        return d->predict_all(r, m, c, logits);
    for (size_t i = 0; i < c->n_texts; i++) {
        size_t n;
        const uint32_t *ids = corpus_rows(m, c, i, &n);
        TRY(d->predict(r, m, ids, n, logits + i * m->n_classes));
    }
    return STET_OK;
}

/* The mean of probabilities, as logarithms. */
static stet_status mean_answers(const rule *r, const model *m, const stet_corpus *c, float *z,
                                float *sum, float *logits)
{
    const size_t K = m->n_classes;
    rule one = *r;
    for (one.mean_of = 0; one.redraw < r->redraw + r->mean_of; one.redraw++) {
        TRY(answer_all(&one, m, c, z));
        for (size_t i = 0; i < c->n_texts; i++) {
            stet_softmax(z + i * K, K, z + i * K);
            for (size_t k = 0; k < K; k++)
                sum[i * K + k] += z[i * K + k];
        }
    }
    for (size_t i = 0; i < c->n_texts * K; i++)
        logits[i] = logf(sum[i] / (float)r->mean_of + 1e-30F);
    return STET_OK;
}

stet_status rule_logits_all(const model *m, const stet_corpus *c, float *logits)
{
    if (!m->rule->mean_of)
        return answer_all(m->rule, m, c, logits);
    float *z = mem_alloc(c->n_texts * m->n_classes + 1, sizeof *z),
          *sum = mem_zalloc(c->n_texts * m->n_classes + 1, sizeof *sum);
    const stet_status st =
        z && sum ? mean_answers(m->rule, m, c, z, sum, logits) : STET_ENOMEM;
    mem_free(z);
    mem_free(sum);
    return st;
}
