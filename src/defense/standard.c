/* defense/standard.c - no defence: the mean cross-entropy of the clean texts. */
#include "defense/defenses.h"

static const stet_opt opts[] = { STET_OPT_END };

static node *loss(void *state, const step_view *v)
{
    (void)state;
    return op_cross_entropy(v->p->t, v->logits, v->x->label);
}

const defense_desc defense_standard = {
    .name = "standard",
    .summary = "cross-entropy of the clean texts",
    .opts = opts,
    .loss = loss,
};
