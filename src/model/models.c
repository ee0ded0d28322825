/* model/models.c - the kinds of model by name; model_list.c has the list. */
#include <string.h>

#include "base/option_impl.h"
#include "model/model_impl.h"

const model_desc *model_find(const char *name)
{
    const char *names[64];
    size_t n = 0;
    for (const model_desc *const *d = model_descs; *d && n < 63; d++) {
        if (strcmp((*d)->name, name) == 0)
            return *d;
        names[n++] = (*d)->name;
    }
    names[n] = NULL;
    opt_no_such("model", name, names);
    return NULL;
}

size_t stet_model_kinds(void)
{
    size_t n = 0;
    while (model_descs[n])
        n++;
    return n;
}

const char *stet_model_kind_name(size_t i)
{
    return model_descs[i]->name;
}

const char *const *stet_model_kind_recipe(size_t i, const char *name)
{
    const model_recipe *r = model_descs[i]->recipes;
    while (r && r->name && strcmp(r->name, name) != 0)
        r++;
    return r && r->name ? r->args : NULL;
}

const stet_opt *stet_model_kind_options(size_t i)
{
    return model_descs[i]->opts;
}

stet_model_training stet_model_kind_training(size_t i)
{
    const model_desc *d = model_descs[i];
    const double rate = d->train.rate[PARAM_PLAIN], state_rate = d->train.rate[PARAM_STATE];
    return (stet_model_training){.rate = rate,
                                 .state_rate = state_rate == rate ? -1 : state_rate,
                                 .decay = d->train.decay[PARAM_PLAIN],
                                 .dropout = d->train.dropout,
                                 .clip = d->train.clip,
                                 .warmup = d->train.warmup,
                                 .epochs = d->train.epochs ? d->train.epochs : 20,
                                 .batch = d->train.batch ? d->train.batch : 64,
                                 .decoupled = d->train.decoupled,
                                 .reads_itself = d->reader != NULL,
                                 .slow_edits = d->slow_edits};
}
