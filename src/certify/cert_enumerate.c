/* certify/cert_enumerate.c - a proof by trying everything, for tasks with few combinations: exact but
 * for rounding, whatever the model.
 *
 * The float32 margin of one text depends on the order of its sums, so a combination is proved by the
 * family's bound of a task without choices: the margin, less all that rounding may take. Views, which
 * are faster, only say where not to begin. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "certify/certifier.h"

const char cert_enumerate_name[] = "enumerate";

enum {
    AT_ONCE = 512,         /* variants a view is asked for */
    MOST_IN_AUTO = 1024,   /* combinations */
    MOST_BY_NAME = 1 << 20 /* if nothing else was asked for */
};
static const double work_in_auto = 0x1p31; /* combinations x words x parameters */

/* One combination: a word for each position, by its place in the set; `left` changes may follow. */
typedef struct combination {
    const cert_task *t;
    uint32_t *pick;
    size_t left;
} combination;

static bool counts(const cert_task *t, size_t p)
{
    return !(t->unpaid && t->unpaid[p]);
}

/* How many combinations the budget allows; at most one more than `most`. ways[j]: with j changes. */
static stet_status count_combinations(const cert_task *t, size_t most, arena *a, size_t *out)
{
    const size_t limit = t->budget < t->n ? t->budget : t->n;
    double *ways = arena_znew(a, double, limit + 1), sum = 0;
    if (!ways)
        return STET_ENOMEM;
    ways[0] = 1;
    for (size_t p = 0; p < t->n; p++) {
        const double others = (double)(t->start[p + 1] - t->start[p]) - 1;
        for (size_t j = limit + 1; j-- > 0;)
            if (!counts(t, p))
                ways[j] *= 1 + others;
            else if (j > 0)
                ways[j] += others * ways[j - 1];
    }
    for (size_t j = 0; j <= limit; j++)
        sum += ways[j];
    *out = sum <= (double)most ? (size_t)sum : most + 1;
    return STET_OK;
}

/* The next one, the last position running fastest; false: that was the last. */
static bool next(combination *c)
{
    const cert_task *t = c->t;
    for (size_t p = t->n; p-- > 0;) {
        const bool pays = counts(t, p) && c->left != STET_ANY;
        const uint32_t after = c->pick[p] + 1;
        if (after < t->start[p + 1] - t->start[p] && (c->pick[p] || !pays || c->left)) {
            c->left -= pays && !c->pick[p];
            c->pick[p] = after;
            return true;
        }
        c->left += pays && c->pick[p];
        c->pick[p] = 0;
    }
    return false;
}

static size_t put_edits(const combination *c, stet_edit *e)
{
    size_t n = 0;
    for (size_t p = 0; p < c->t->n; p++)
        if (c->pick[p])
            e[n++] = (stet_edit){(uint32_t)p, c->t->word[c->t->start[p] + c->pick[p]]};
    return n;
}

/* The views' opinion: the lowest margin of all combinations, and in `worst` (n) which one has it. */
static stet_status look(stet_certifier *c, const cert_task *t, double *least, uint32_t *worst)
{
    const size_t K = c->shared->m->n_classes;
    uint32_t *ids = arena_new(&c->mem, uint32_t, t->n);
    stet_edit *edits = arena_new(&c->mem, stet_edit, AT_ONCE * t->n);
    size_t *start = arena_new(&c->mem, size_t, AT_ONCE + 1);
    uint32_t *picks = arena_new(&c->mem, uint32_t, AT_ONCE * t->n);
    float *logits = arena_new(&c->mem, float, AT_ONCE *K);
    combination now = {t, arena_znew(&c->mem, uint32_t, t->n), t->budget};
    if (!ids || !edits || !start || !picks || !logits || !now.pick)
        return STET_ENOMEM;
    for (size_t p = 0; p < t->n; p++)
        ids[p] = t->word[t->start[p]];
    TRY(stet_view_reopen(c->view, ids, t->n));
    *least = INFINITY;
    for (bool more = true; more;) {
        size_t n = 0, made = 0;
        do {
            memcpy(picks + n * t->n, now.pick, t->n * sizeof *picks);
            start[n++] = made;
            made += put_edits(&now, edits + made);
        } while ((more = next(&now)) && n < AT_ONCE);
        start[n] = made;
        TRY(interrupt_status());
        TRY(stet_view_edits(c->view, edits, start, n, logits));
        for (size_t i = 0; i < n; i++) {
            double margin = INFINITY;
            for (size_t k = 0; k < K; k++)
                if ((int)k != t->label)
                    margin = fmin(margin, logits[i * K + (size_t)t->label] - logits[i * K + k]);
            if (!(margin >= *least)) {
                *least = margin;
                memcpy(worst, picks + i * t->n, t->n * sizeof *worst);
            }
        }
    }
    return STET_OK;
}

/* A combination as a task, and its bounds into the lowest ones; false: one proves nothing. */
static stet_status bound_one(stet_certifier *c, const combination *x, const uint32_t *start,
                             uint32_t *word, cert_proof *out, cert_claim *lowest, bool *proved)
{
    const cert_family *f = c->shared->family;
    const cert_task one = {
        .n = x->t->n, .start = start, .word = word, .budget = STET_ANY, .label = x->t->label};
    for (size_t p = 0; p < one.n; p++)
        word[p] = x->t->word[x->t->start[p] + x->pick[p]];
    TRY(interrupt_status());
    TRY(f->open(c->work, &one));
    for (int k = 0; k < (int)out->n_classes && *proved; k++) {
        if (k == one.label || out->claim[k].bound > 0)
            continue;
        *proved = false;
        for (size_t m = 0; m < cert_auto_methods(f) && !*proved; m++) {
            out->next.additive = false;
            TRY(f->bound(c->work, m, k, 0, &out->next));
            *proved = out->next.margin > 0 && isfinite(out->next.margin);
        }
        if (out->next.margin < lowest[k].bound)
            lowest[k] = (cert_claim){
                .method = CERT_ENUMERATE, .bound = out->next.margin, .slack = out->next.slack};
    }
    return STET_OK;
}

static stet_status bound_all(stet_certifier *c, const cert_task *t, uint32_t *worst,
                             cert_proof *out)
{
    uint32_t *start = arena_new(&c->mem, uint32_t, t->n + 1);
    uint32_t *word = arena_new(&c->mem, uint32_t, t->n);
    cert_claim *lowest = arena_new(&c->mem, cert_claim, out->n_classes);
    combination now = {t, arena_znew(&c->mem, uint32_t, t->n), t->budget};
    if (!start || !word || !lowest || !now.pick)
        return STET_ENOMEM;
    for (size_t p = 0; p <= t->n; p++)
        start[p] = (uint32_t)p;
    for (size_t k = 0; k < out->n_classes; k++)
        lowest[k] = (cert_claim){.bound = INFINITY};
    bool proved = true;
    const combination first = {t, worst, 0}; /* likely to end it, if anything does */
    TRY(bound_one(c, &first, start, word, out, lowest, &proved));
    do
        TRY(proved ? bound_one(c, &now, start, word, out, lowest, &proved) : STET_OK);
    while (proved && next(&now));
    for (size_t k = 0; k < out->n_classes && proved; k++)
        if ((int)k != t->label && !(out->claim[k].bound > 0))
            out->claim[k] = lowest[k];
    return STET_OK;
}

static bool few_enough(const stet_certifier *c, const cert_task *t, size_t n)
{
    const double work = (double)n * (double)t->n * (double)c->shared->m->n_values;
    return c->enumerate == ENUMERATE_CHEAP ? n <= MOST_IN_AUTO && work <= work_in_auto
                                           : n <= MOST_BY_NAME;
}

stet_status cert_enumerate(stet_certifier *c, const cert_task *t, cert_proof *out)
{
    const arena_mark mark = arena_save(&c->mem);
    size_t n;
    double least = -INFINITY;
    uint32_t *worst = arena_znew(&c->mem, uint32_t, t->n);
    if (!worst)
        return STET_ENOMEM;
    TRY(count_combinations(t, MOST_BY_NAME, &c->mem, &n));
    if (few_enough(c, t, n))
        TRY(look(c, t, &least, worst));
    if (least > 0)
        TRY(bound_all(c, t, worst, out));
    arena_restore(&c->mem, mark);
    return STET_OK;
}
