/* bound/bounds.c - the bounds of every kind of model, in the order of model_descs. */
#include "bound/bounds.h"

#include <string.h>

#define ROW(kind) &bounds_##kind,
static const model_bounds *const all[] = {MODEL_KINDS(ROW)};

const model_bounds *bounds_named(const char *kind)
{
    static const model_bounds none;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(model_descs[i]->name, kind) == 0)
            return all[i];
    return &none;
}

const model_bounds *bounds_of(const model *m)
{
    return bounds_named(m->desc->name);
}
