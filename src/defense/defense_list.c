/* defense/defense_list.c - several defences in one run; see defense_impl.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/option_impl.h"
#include "base/strmap.h"
#include "defense/defense_impl.h"

/* ---- names and settings ------------------------------------------------------------------- */

/* What two defences of a list cannot both do. */
static stet_status check_pair(const defense_desc *a, const defense_desc *b)
{
    if (a == b)
        return error_set(STET_EUSAGE, "defence '%s' is listed twice", a->name);
    const char *both = a->forward && b->forward ? "both replace the forward pass"
                       : a->rule && b->rule     ? "both decide how the model answers"
                                                : NULL;
    return both ? error_set(STET_EUSAGE, "defences '%s' and '%s' cannot be combined: %s", a->name,
                            b->name, both)
                : STET_OK;
}

static stet_status append(defense_list *l, const char *name)
{
    const defense_desc *d = defense_find(name);
    if (!d)
        return STET_EUSAGE;
    for (size_t i = 0; i < l->n; i++)
        TRY(check_pair(l->d[i].desc, d));
    if (l->n == MAX_DEFENSES)
        return error_set(STET_EUSAGE, "more than %d defences", MAX_DEFENSES);
    l->d[l->n].desc = d;
    l->d[l->n].state = NULL;
    l->d[l->n].cfg = mem_zalloc(1, d->cfg_size + 1);
    if (!l->d[l->n++].cfg)
        return STET_ENOMEM;
    return stet_opt_defaults(d->opts, l->d[l->n - 1].cfg);
}

static stet_status append_all(defense_list *l, const char *names)
{
    for (const char *s = names;; s++) {
        const size_t n = strcspn(s, ",");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), s);
        TRY(append(l, name));
        s += n;
        if (*s == '\0')
            return STET_OK;
    }
}

/* Settings into defences [from, to) of the list. */
static stet_status apply(const defense_list *l, size_t from, size_t to, const char *names,
                         const char *const *settings)
{
    opt_table tables[MAX_DEFENSES];
    for (size_t i = from; i < to; i++)
        tables[i - from] = (opt_table){l->d[i].desc->opts, l->d[i].cfg};
    char owner[128];
    snprintf(owner, sizeof owner, "defence '%s'", names);
    return opt_settings(tables, to - from, settings, owner);
}

stet_status defense_list_init(defense_list *l, const char *names, const char *const *settings)
{
    *l = (defense_list){.n = 0};
    TRY(append_all(l, names));
    return apply(l, 0, l->n, names, settings);
}

stet_status defense_list_first(defense_list *l, const char *name, const char *const *settings)
{
    size_t at = 0;
    while (at < l->n && strcmp(l->d[at].desc->name, name) != 0)
        at++;
    if (at == l->n) {
        const stet_status st = append(l, name);
        for (; at > 0 && l->n > at; at--) {
            const defense_list before = *l;
            l->d[at] = before.d[at - 1];
            l->d[at - 1] = before.d[at];
        }
        TRY(st);
    }
    return apply(l, at, at + 1, name, settings);
}

double defense_list_real(const defense_list *l, const char *setting)
{
    for (size_t i = 0; i < l->n; i++)
        for (const stet_opt *o = l->d[i].desc->opts; o->type != STET_T_END; o++)
            if (o->type == STET_T_REAL && strcmp(o->name, setting) == 0)
                return *(const double *)((const char *)l->d[i].cfg + o->offset);
    return 0;
}

bool defense_list_keeps_last(const defense_list *l)
{
    bool last = false;
    for (size_t i = 0; i < l->n; i++)
        last |= l->d[i].desc->keeps_last;
    return last;
}

bool defense_list_alone(const defense_list *l)
{
    bool alone = false;
    for (size_t i = 0; i < l->n; i++)
        alone |= l->d[i].desc->alone && l->d[i].desc->alone(l->d[i].cfg);
    return alone;
}

/* ---- before the first step ---------------------------------------------------------------- */

static stet_status check_own_pass(const defense_list *l, size_t i)
{
    const defense_desc *d = l->d[i].desc;
    if (!d->own_pass || !d->own_pass(l->d[i].cfg))
        return STET_OK;
    for (size_t k = 0; k < l->n; k++)
        if (l->d[k].desc->forward)
            return error_set(STET_EUSAGE,
                             "defences '%s' and '%s' cannot be combined with these settings: '%s' "
                             "has a pass of its own, which '%s' would not change",
                             l->d[k].desc->name, d->name, d->name, l->d[k].desc->name);
    return STET_OK;
}

stet_status defense_list_check(const defense_list *l, const stet_subst *s)
{
    for (size_t i = 0; i < l->n; i++) {
        if (!s && l->d[i].desc->needs_sets)
            return error_set(STET_EUSAGE, "%s", l->d[i].desc->needs_sets);
        TRY(check_own_pass(l, i));
    }
    return STET_OK;
}

stet_status defense_list_check_learning(const defense_list *l, bool learns)
{
    for (size_t i = 0; i < l->n; i++) {
        const defense_desc *d = l->d[i].desc;
        if (!learns && d->needs_learning)
            return error_set(STET_EUSAGE, "%s", d->needs_learning);
        if (learns && d->ties_words)
            return error_set(STET_EUSAGE,
                             "defence '%s' cannot be combined with vectors that learn "
                             "(--tune-vectors): words that share a vector would drift apart",
                             d->name);
    }
    return STET_OK;
}

stet_status defense_list_vectors(const defense_list *l, const vector_view *v)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->vectors)
            TRY(l->d[i].desc->vectors(l->d[i].cfg, v));
    return STET_OK;
}

stet_status defense_list_parameters(const defense_list *l, model *m, uint64_t seed)
{
    for (size_t i = 0; i < l->n; i++) {
        const defense_desc *d = l->d[i].desc;
        rng r = rng_stream(seed, STREAM_INIT, hash_bytes(d->name, strlen(d->name), 1));
        if (d->rule)
            TRY(rule_attach(m, d->rule, l->d[i].cfg, NULL, &r));
        const size_t before = m->n_params + m->n_added;
        if (d->parameters)
            TRY(d->parameters(l->d[i].cfg, m, &r));
        for (size_t k = before; k < m->n_params + m->n_added; k++)
            m->params[k].aside = true;
    }
    return STET_OK;
}

stet_status defense_list_start(defense_list *l, const model *m, const stet_subst *s)
{
    TRY(defense_list_check(l, s));
    for (size_t i = 0; i < l->n; i++) {
        const defense_desc *d = l->d[i].desc;
        if (d->rule && d->rule->make)
            TRY(d->rule->make(l->d[i].cfg, m, s, &m->rule->state));
        if (d->start)
            TRY(d->start(l->d[i].cfg, m, s, &l->d[i].state));
    }
    return STET_OK;
}

/* ---- a step ------------------------------------------------------------------------------- */

node *defense_list_loss(defense_list *l, step_view *v)
{
    v->logits = NULL;
    for (v->place = 0; v->place < l->n; v->place++)
        if (l->d[v->place].desc->forward)
            v->logits = l->d[v->place].desc->forward(l->d[v->place].state, v);
    if (!v->logits)
        v->logits = model_forward(v->m, v->p); /* on a failed tape this does nothing */
    node *y = step_cross_entropy(v, v->x, v->logits);
    l->ce = y;
    for (v->place = 0; v->place < l->n; v->place++)
        if (l->d[v->place].desc->loss)
            y = l->d[v->place].desc->loss(l->d[v->place].state, v, y);
    return y;
}

bool defense_list_has_batch(const defense_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->batch)
            return true;
    return false;
}

bool defense_list_reads_words(const defense_list *l, const word_sets **sets)
{
    *sets = NULL;
    for (size_t i = 0; i < l->n; i++) {
        const defense_desc *d = l->d[i].desc;
        if (!(d->forward || d->loss) || (d->reads_words && !d->reads_words(l->d[i].state)))
            continue;
        const word_sets *own = d->sets ? d->sets(l->d[i].state) : NULL;
        if (!own || *sets) /* a batch brings one kind */
            return true;
        *sets = own;
    }
    return false;
}

bool defense_list_has_after_step(const defense_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->after_step)
            return true;
    return false;
}

stet_status defense_list_after_step(const defense_list *l, const step_view *v)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->after_step)
            TRY(l->d[i].desc->after_step(l->d[i].state, v));
    return STET_OK;
}

stet_status defense_list_metrics(const defense_list *l, tape *t, node *loss, store_letter *to,
                                 step_metrics *out)
{
    TRY(tape_status(t));
    const void *at[MAX_METRICS + 1] = {loss->value};
    size_t n = 1;
    out->n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (!l->d[i].desc->metrics)
            continue;
        if (out->n == 0)
            metric_node(out, "ce", l->ce);
        l->d[i].desc->metrics(l->d[i].state, out);
    }
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].at)
            at[n++] = out->v[i].at->value;
    return store_send(t->store, to, at, n, sizeof(real));
}

stet_status metrics_receive(store *s, store_letter *from, double *loss, step_metrics *m)
{
    real value[LETTER_BYTES / sizeof(real)];
    size_t k = 0;
    TRY(store_receive(s, from, value));
    *loss = (double)value[k++];
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].at)
            m->v[i].value = (double)value[k++];
    return STET_OK;
}

bool defense_list_has_worst_share(const defense_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->worst_share)
            return true;
    return false;
}

node *defense_list_worst_share(const defense_list *l, const step_view *v)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->worst_share)
            return l->d[i].desc->worst_share(l->d[i].state, v);
    return NULL;
}

void defense_list_end(defense_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->d[i].desc->end)
            l->d[i].desc->end(l->d[i].state);
        mem_free(l->d[i].cfg);
    }
    *l = (defense_list){.n = 0};
}
