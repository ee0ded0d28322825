/* model/models.c - the kinds of model (kind_list.h). */
#include <string.h>

#include "base/option_impl.h"
#include "model/kinds.h"

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
