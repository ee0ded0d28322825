/* defense/standard.c - no defence: the mean cross-entropy of the clean texts stays as it is. */
#include "defense/defenses.h"

static const stet_opt opts[] = {STET_OPT_END};

const defense_desc defense_standard = {
    .name = "standard",
    .summary = "cross-entropy of the clean texts",
    .opts = opts,
};
