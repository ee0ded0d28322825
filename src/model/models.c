/* model/models.c - the kinds of model (kind_list.h). */
#include <string.h>

#include "base/option_impl.h"
#include "model/kind_list.h"

#define ROW(kind) &model_##kind,
const model_desc *const model_descs[] = {MODEL_KINDS(ROW) NULL};

const model_desc *model_find(const char *name)
{
    const char *names[sizeof model_descs / sizeof *model_descs];
    size_t n = 0;
    for (const model_desc *const *d = model_descs; *d; d++) {
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
    return sizeof model_descs / sizeof *model_descs - 1;
}

const char *stet_model_kind_name(size_t i)
{
    return model_descs[i]->name;
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
                                 .decoupled = d->train.decoupled};
}
