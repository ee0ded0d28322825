/* defense/defense_impl.h - what a defence is: it may change the loss, and say what it measured.
 * Adding one: a file that defines a defense_desc, a line in defenses.c, a test, a page section. */
#ifndef DEFENSE_DEFENSE_IMPL_H
#define DEFENSE_DEFENSE_IMPL_H

#include "model/model_impl.h"
#include "stet/lexicon.h"

/* What a defence sees of one training step. */
typedef struct step_view {
    const model *m;
    pass *p;            /* tape, parameter nodes, rows, index, dropout */
    const batch *x;
    node *logits;       /* (B, K) of the clean texts */
    uint64_t step, total_steps;
    uint64_t seed;
} step_view;

/* Numbers of a step that go to train.jsonl beside the loss. */
enum { MAX_METRICS = 8 };
typedef struct step_metrics {
    struct {
        const char *name;
        double value;
    } v[MAX_METRICS];
    size_t n;
} step_metrics;

typedef struct defense_desc {
    const char *name, *summary;
    const stet_opt *opts;
    size_t cfg_size;
    /* Called once, when model and sets are ready; `state` is the defence's own memory. `s` may be NULL. */
    stet_status (*start)(const void *cfg, const model *m, const stet_subst *s, void **state);
    /* The loss of the step on the tape. `metric` may be filled from node values after backward: see metrics. */
    node *(*loss)(void *state, const step_view *v);
    void (*metrics)(void *state, step_metrics *out); /* may be NULL */
    /* State that a resumed run must have again: one block of reals (may be NULL/0). */
    real *(*saved)(void *state, size_t *n);
    void (*end)(void *state);
} defense_desc;

extern const defense_desc *const defense_descs[]; /* defenses.c, NULL at the end */
const defense_desc *defense_find(const char *name); /* NULL: unknown, message set */

#endif
