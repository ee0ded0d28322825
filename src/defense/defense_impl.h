/* defense/defense_impl.h - what a defence is: it may change the loss, and say what it measured.
 * Adding one: a file that defines a defense_desc, a line in defenses.c, a test, a page section.
 *
 * Defences form a list (`--defense certified,gbm`). The first is given the cross-entropy of the
 * clean texts, each one makes a new loss of the loss it is given. */
#ifndef DEFENSE_DEFENSE_IMPL_H
#define DEFENSE_DEFENSE_IMPL_H

#include "model/model_impl.h"
#include "stet/lexicon.h"

/* What a defence sees of one training step. */
typedef struct step_view {
    const model *m;
    pass *p; /* tape, parameter nodes, rows, index, dropout */
    const batch *x;
    node *logits; /* (B, K) of the clean texts */
    uint64_t step, total_steps;
    uint64_t seed;
} step_view;

/* Numbers of a step that go to train.jsonl beside the loss. */
enum { MAX_METRICS = 16 };
typedef struct step_metrics {
    struct {
        const char *name;
        double value;
        node *at; /* a number on the step's tape, read at the step's end; NULL: `value` has it */
    } v[MAX_METRICS];
    size_t n;
} step_metrics;

static inline void metric_add(step_metrics *m, const char *name, double value)
{
    m->v[m->n].name = name;
    m->v[m->n].at = NULL;
    m->v[m->n++].value = value;
}

static inline void metric_node(step_metrics *m, const char *name, node *at)
{
    metric_add(m, name, 0);
    m->v[m->n - 1].at = at;
}

typedef struct defense_desc {
    const char *name, *summary;
    const stet_opt *opts;
    size_t cfg_size;
    /* The loss changes during the run, so its epochs cannot be compared: the last one is kept. */
    bool keeps_last;
    /* Called once, when model and sets are ready; `state` is the defence's own memory. `s` may be
     * NULL. */
    stet_status (*start)(const void *cfg, const model *m, const stet_subst *s, void **state);
    /* The clean logits, from a defence that computes them together with what it needs. May be NULL;
     * of a list's defences one at most has it. */
    node *(*logits)(void *state, const step_view *v);
    /* The loss of the step on the tape, from the loss so far. NULL: it stays as it is. */
    node *(*loss)(void *state, const step_view *v, node *base);
    void (*metrics)(void *state, step_metrics *out); /* of this step; may be NULL */
    /* State that a resumed run must have again: one block of reals (may be NULL/0). */
    real *(*saved)(void *state, size_t *n);
    void (*end)(void *state);
} defense_desc;

extern const defense_desc *const defense_descs[];   /* defenses.c, NULL at the end */
const defense_desc *defense_find(const char *name); /* NULL: unknown, message set */

/* The defences of one run: defense_list.c. */
enum { MAX_DEFENSES = 8 };
typedef struct defense_list {
    struct {
        const defense_desc *desc;
        void *cfg, *state;
    } d[MAX_DEFENSES];
    size_t n;
    node *ce; /* of this step */
} defense_list;

/* Names between commas; settings are "name=value" with a NULL at the end (or NULL), each an option
 * of one of them. Release with defense_list_end, also after a failure. */
stet_status defense_list_init(defense_list *l, const char *names, const char *const *settings);
stet_status defense_list_start(defense_list *l, const model *m, const stet_subst *s);
node *defense_list_loss(defense_list *l, step_view *v); /* fills v->logits */
/* The numbers of the step, read from its tape with one wait; its loss among them, not listed. */
stet_status defense_list_metrics(const defense_list *l, tape *t, node *loss, double *loss_value,
                                 step_metrics *out);
bool defense_list_keeps_last(const defense_list *l);
void defense_list_end(defense_list *l);

#endif
