/* tests/bound/bounded_kinds.h - the small models that have growth bounds. */
#ifndef TESTS_BOUNDED_KINDS_H
#define TESTS_BOUNDED_KINDS_H

#include "bound/bounds.h"
#include "model/small_model.h"

static inline int next_bounded(int kind)
{
    while (kind < SMALL_KINDS && !bounds_named(small_kinds[kind].name)->term)
        kind++;
    return kind;
}

#define FOR_EACH_BOUNDED(kind)                                                                     \
    for (int kind = next_bounded(0); kind < SMALL_KINDS; kind = next_bounded(kind + 1))

/* Its last term is that before this one. */
static inline gbm_of terms_end(int kind)
{
    return bounds_named(small_kinds[kind].name)->states ? GBM_OF_RHO + 1 : GBM_OF_LOGITS + 1;
}

#endif
