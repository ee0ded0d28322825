/* defense/defense_list.c - several defences in one run; see defense_impl.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/option_impl.h"
#include "defense/defense_impl.h"

/* ---- names and settings ------------------------------------------------------------------- */

static stet_status append(defense_list *l, const char *name)
{
    const defense_desc *d = defense_find(name);
    if (!d)
        return STET_EUSAGE;
    for (size_t i = 0; i < l->n; i++) {
        if (l->d[i].desc == d)
            return error_set(STET_EUSAGE, "defence '%s' is listed twice", name);
        if (l->d[i].desc->logits && d->logits)
            return error_set(STET_EUSAGE, "defences '%s' and '%s' cannot be combined",
                             l->d[i].desc->name, name);
    }
    if (l->n == MAX_DEFENSES)
        return error_set(STET_EUSAGE, "more than %d defences", MAX_DEFENSES);
    l->d[l->n].desc = d;
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

static stet_status apply(const defense_list *l, const char *names, const char *const *settings)
{
    opt_table tables[MAX_DEFENSES];
    for (size_t i = 0; i < l->n; i++)
        tables[i] = (opt_table){l->d[i].desc->opts, l->d[i].cfg};
    char owner[128];
    snprintf(owner, sizeof owner, "defence '%s'", names);
    return opt_settings(tables, l->n, settings, owner);
}

stet_status defense_list_init(defense_list *l, const char *names, const char *const *settings)
{
    *l = (defense_list){.n = 0};
    TRY(append_all(l, names));
    return apply(l, names, settings);
}

/* ---- a run -------------------------------------------------------------------------------- */

stet_status defense_list_start(defense_list *l, const model *m, const stet_subst *s)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->start)
            TRY(l->d[i].desc->start(l->d[i].cfg, m, s, &l->d[i].state));
    return STET_OK;
}

node *defense_list_loss(defense_list *l, step_view *v)
{
    v->logits = NULL;
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->logits)
            v->logits = l->d[i].desc->logits(l->d[i].state, v);
    if (!v->logits)
        v->logits = model_forward(v->m, v->p); /* on a failed tape this does nothing */
    node *y = op_cross_entropy(v->p->t, v->logits, v->x->label);
    l->ce = y ? (double)y->value[0] : 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->loss)
            y = l->d[i].desc->loss(l->d[i].state, v, y);
    return y;
}

void defense_list_metrics(const defense_list *l, step_metrics *out)
{
    out->n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (!l->d[i].desc->metrics)
            continue;
        if (out->n == 0)
            metric_add(out, "ce", l->ce);
        l->d[i].desc->metrics(l->d[i].state, out);
    }
}

bool defense_list_keeps_last(const defense_list *l)
{
    bool last = false;
    for (size_t i = 0; i < l->n; i++)
        last |= l->d[i].desc->keeps_last;
    return last;
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
