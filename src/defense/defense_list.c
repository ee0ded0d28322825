/* defense/defense_list.c - several defences in one run; see defense_impl.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
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

static bool has_option(const defense_desc *d, const char *name)
{
    for (const stet_opt *o = d->opts; o->type != STET_T_END; o++)
        if (o->name && strcmp(o->name, name) == 0)
            return true;
    return false;
}

static stet_status apply(const defense_list *l, const char *setting)
{
    const char *eq = strchr(setting, '=');
    char name[64];
    if (!eq || (size_t)(eq - setting) >= sizeof name)
        return error_set(STET_EUSAGE, "defence setting '%s': expected name=value", setting);
    snprintf(name, sizeof name, "%.*s", (int)(eq - setting), setting);
    size_t i = 0;
    while (i + 1 < l->n && !has_option(l->d[i].desc, name))
        i++;
    return stet_opt_set(l->d[i].desc->opts, l->d[i].cfg, name, eq + 1);
}

stet_status defense_list_init(defense_list *l, const char *names, const char *const *settings)
{
    *l = (defense_list){.n = 0};
    TRY(append_all(l, names));
    for (; settings && *settings; settings++)
        TRY(apply(l, *settings));
    return STET_OK;
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
    l->ce = y;
    for (size_t i = 0; i < l->n; i++)
        if (l->d[i].desc->loss)
            y = l->d[i].desc->loss(l->d[i].state, v, y);
    return y;
}

stet_status defense_list_metrics(const defense_list *l, tape *t, node *loss, double *loss_value,
                                 step_metrics *out)
{
    node *at[MAX_METRICS + 1] = {loss};
    double value[MAX_METRICS + 1];
    size_t n = 1, k = 0;
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
            at[n++] = out->v[i].at;
    TRY(tape_read(t, at, n, value));
    *loss_value = value[k++];
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].at)
            out->v[i].value = value[k++];
    return STET_OK;
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
