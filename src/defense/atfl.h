/* defense/atfl.h - the attack inside adversarial training with first-order word swaps, and that
 * defence's state, for tests. */
#ifndef DEFENSE_ATFL_H
#define DEFENSE_ATFL_H

#include "bound/hulls.h"
#include "defense/defense_impl.h"

typedef struct atfl_cfg {
    int64_t most, rounds, at_once;
    double cap, pairing;
} atfl_cfg;

typedef struct atfl_state {
    atfl_cfg cfg;
    word_sets sets;
    uint32_t *slot; /* (vocabulary) scratch */
    /* of this step */
    size_t first_copy; /* text i's copy is text first_copy + i */
    size_t n_changed, n_words;
    node *pairing;
} atfl_state;

/* What a swap gains along the gradient g: (to - from) . g. */
double swap_score(const real *from, const real *to, const real *g, size_t dim);

/* The fast gradient projection method: in each round the swaps whose change of the vector goes
 * farthest along the loss's gradient, by one pass for all texts. ids[i] (as long as text i) are the
 * words of the first n_own texts afterwards. */
stet_status fgpm(atfl_state *s, const step_view *v, const step_texts *t, uint32_t **ids);

#endif
