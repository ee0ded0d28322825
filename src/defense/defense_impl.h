/* defense/defense_impl.h - what a defence is. Adding one: a file that defines a defense_desc, a line
 * in defenses.h, a test, a page section. The shortest is standard.c; tests/defense/test_hooks.c has
 * a small one for every hook.
 *
 *     --defense certified,gbm      a list: each defence builds on those before it
 *
 * A defence is a table of hooks. Each may be absent and then costs nothing. They are asked in this
 * order, the defences of a list in theirs:
 *
 *     once        vectors      change the word vectors, before there is a model
 *                 parameters   add tensors to the model, or freeze some of its own
 *                 start        look at model and sets, take memory for the run
 *     each step   batch        change the words of the step's texts, add copies or other texts
 *                 forward      replace the clean forward pass: perturbed rows, bounds beside it
 *                 loss         make a new loss of the loss so far
 *                 after_step   look at the new weights, or change them
 *                 metrics      numbers of the step for train.jsonl
 *     each epoch  worst_share  accuracy in the worst case, on texts held out
 *     saved       what a resumed run must have again
 *     afterwards  rule         how the trained model answers and what certificate that has
 *                              (predict and certify, in model/rule.h)
 *
 * What two defences of a list cannot both do is refused when the list is made, by their names: two
 * forward passes, two rules. The first loss is the mean cross-entropy of the logits of `forward`, or
 * of the clean pass, over all texts of the step.
 *
 * Numbers on the tape belong to the device (tensor/): a defence builds nodes and never looks into
 * one. Where it needs gradients of its own (with respect to the rows, at other points than the
 * step's) it asks probe_run(). Random choices derive from (seed, step), so that a resumed run
 * repeats them. */
#ifndef DEFENSE_DEFENSE_IMPL_H
#define DEFENSE_DEFENSE_IMPL_H

#include <string.h>

#include "model/rule.h"
#include "stet/lexicon.h"

/* ---- what a defence sees ------------------------------------------------------------------ */

/* Numbers that go to train.jsonl beside the loss. */
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

/* 0 where there is no such number. */
static inline double metric_of(const step_metrics *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->v[i].name, name) == 0)
            return m->v[i].value;
    return 0;
}

/* The vectors before there is a model. */
typedef struct vector_view {
    const stet_vocab *vocab;
    stet_vectors *t;            /* one row per word of it; may be changed, but for its size */
    const stet_counter *counts; /* how often the training texts have each word */
    const stet_subst *subst;    /* or NULL */
    uint64_t seed;
    step_metrics *told; /* numbers of this stage */
} vector_view;

/* One training step. */
typedef struct step_view {
    const model *m;
    const model_weights *w;  /* its numbers where the step computes; NULL: the model's own */
    const stet_subst *subst; /* or NULL */
    const stet_corpus *data; /* the texts of the run */
    uint64_t step, total_steps, steps_per_epoch, seed;
    arena *mem;       /* of the step: everything in it goes when the step ends */
    batcher *batches; /* for batches beside the step's */
    real *grad;       /* (n_values) the step's gradient, in the store: for probe_run */
    /* Soft labels (texts of the data, K), in host memory, and which of them the step's own texts
     * are; NULL: labels stand. step_cross_entropy() knows. */
    const real *target;
    const uint32_t *own;  /* (n_own) */
    bool target_in_worst; /* meant for worst logits, too */
    pass *p;              /* its tape; from `forward` on, parameter nodes, rows, index, dropout */
    /* from `forward` on */
    const batch *x;
    size_t n_own; /* texts of the data; x->order[b] >= n_own is one that `batch` added */
    /* from `loss` on */
    node *logits; /* (B, K) of the step's texts */
    size_t place; /* in the list, of the defence whose hook `batch`, `forward` or `loss` runs */
} step_view;

/* A seed of this defence's own: another of the list draws apart from it. The first has the run's. */
static inline uint64_t step_seed(const step_view *v)
{
    return v->seed + v->place * RNG_GOLDEN;
}

/* What this defence draws in this step. */
static inline rng step_stream(const step_view *v)
{
    return rng_stream(step_seed(v), STREAM_DEFENSE, v->step);
}

/* The texts of a step, before they become a batch: first the n_own of the data, then those added.
 * Words may be replaced by pointing `ids` to others. */
typedef struct step_text {
    const uint32_t *ids;
    size_t n;
    int32_t label;
} step_text;
typedef struct step_texts {
    step_text *v;
    size_t n, n_own, cap;
    arena *mem;
} step_texts;
stet_status texts_add(step_texts *t, const uint32_t *ids, size_t n, int32_t label);
/* The texts as a batch of their own, for passes that a defence makes before the step's. */
stet_status texts_batch(const step_view *v, const step_texts *t, batch *out);

/* The mean cross-entropy of logits (B, K) of the texts of `x`, the step's batch or a part of it,
 * against their soft labels where there are any; texts that a defence added have their label. */
node *step_cross_entropy(const step_view *v, const batch *x, node *logits);

/* The word at a place of a text of the step's batch, wherever that was made. */
uint32_t step_word(const step_view *v, size_t text, size_t at);

/* The batch with one row per position instead of one per distinct word: rows that can be moved alone. */
stet_status batch_spread(const batch *x, arena *mem, batch *out);

/* A pass beside the step's, with the weights as they are: its loss and gradients as constants of the
 * step's tape, for more ops. */
typedef struct probe {
    const batch *x;
    node *rows; /* (n_rows, D) to read instead of the words' vectors; NULL: those */
    node *made; /* what the model makes of them (model_desc.make), where it is known; or NULL */
    /* The loss from the logits (B, K) of the pass; NULL: the mean cross-entropy. */
    node *(*loss)(void *ctx, const pass *q, node *logits);
    /* One more loss of the same pass, when the gradient of the first is known (`drows`). It trains too and
     * counts in `value_all` and `drows_all`. NULL, or a NULL from it on a tape without failure: none. Only
     * with a weight. */
    node *(*second)(void *ctx, const pass *q);
    void *ctx;
    /* > 0: this times the loss's gradient is added to the step's, as if it were part of the step's
     * loss; 0: the parameters are left out of it. */
    double weight;
    bool dropout; /* from `forward` on: that of the step's pass, with the same draws */
    /* what comes out */
    node *at;                    /* (n_rows, D) the rows that were read */
    node *value;                 /* () the loss */
    node *drows;                 /* (n_rows, D) its gradient */
    node *logits;                /* (B, K) */
    node *value_all, *drows_all; /* with the second loss */
} probe;
stet_status probe_run(const step_view *v, probe *p);

/* For a loss that is built from the step's own: t fails where that is not the cross-entropy of the
 * labels, as with another defence before it, or with teachers. */
void expect_plain_loss(tape *t, const node *base, const char *defense);

/* Passes on the way to the step's that train too. `step_beside` is the step as probe_run should see it,
 * so that their gradients gather in `grad` (n_values) alone; these are then a term of the step's loss,
 * and what others make of the loss, they make of that term. */
step_view step_beside(const step_view *v, node *grad, model_weights *fixed);
/* `to` with another term: 0, with the gradient g (of x's shape) with respect to x. */
node *slope_add(tape *t, node *to, node *x, node *g);
/* The same for every parameter. */
node *slopes_add(const step_view *v, node *to, const node *grad);

/* ---- the hooks ---------------------------------------------------------------------------- */

typedef struct defense_desc {
    const char *name, *summary;
    const stet_opt *opts; /* its settings, which become options of `stet train` */
    size_t cfg_size;
    /* The loss changes during the run, so its epochs cannot be compared: the last one is kept. */
    bool keeps_last;
    /* What to say where no substitution sets are given; NULL: it can do without. */
    const char *needs_sets;
    /* Words share vectors, which must not learn apart. */
    bool ties_words;
    /* What to say where vectors do not learn; NULL: it does not matter. */
    const char *needs_learning;
    /* Vectors learn from this defence's loss alone (through v->w->learn); NULL: from all. */
    bool (*alone)(const void *cfg);
    /* Its loss has a pass of its own from the words' vectors, which another defence's `forward` would
     * not reach: refused together. NULL: no. */
    bool (*own_pass)(const void *cfg);
    /* Do `forward` and `loss` read x->word and x->seq.row themselves, rather than hand them to ops and
     * pass_rows? If not, a device may look the words up, x->word and x->seq.row only name what it has
     * (batch.twin), and step_word() reads a single word. NULL: they do. */
    bool (*reads_words)(const void *state);
    /* They do, but through batch_sets_make() with these sets alone, which makes names as well; NULL, or
     * where it gives NULL: they may read any. */
    const word_sets *(*sets)(const void *state);

    stet_status (*vectors)(const void *cfg, const vector_view *v);
    /* model_add_param() for each tensor, first values from `r`; m->params[id].frozen for those that
     * are not to be trained. Tensors added stay out of the saved model: what the trained model
     * needs is the rule's. */
    stet_status (*parameters)(const void *cfg, model *m, rng *r);
    /* When model and sets are ready; `state` is the defence's own memory, which `end` releases, also
     * after a failure. `s` may be NULL. */
    stet_status (*start)(const void *cfg, const model *m, const stet_subst *s, void **state);
    void (*end)(void *state);

    stet_status (*batch)(void *state, const step_view *v, step_texts *t);
    node *(*forward)(void *state, const step_view *v);          /* (B, K) */
    node *(*loss)(void *state, const step_view *v, node *base); /* () from () */
    /* The new weights are v->p's parameters, on a tape of its own; v->w says where to store_copy
     * others. */
    stet_status (*after_step)(void *state, const step_view *v);
    void (*metrics)(void *state, step_metrics *out); /* of this step, while its tape is there */
    /* The share of the texts of v->x that keep their label in the worst case, by the defence's
     * bounds: a number () on v->p's tape, which has no gradients and no dropout. */
    node *(*worst_share)(void *state, const step_view *v);
    /* One block of host memory, up to date: read by a checkpoint, or filled from one before the
     * first step. */
    stet_status (*saved)(void *state, real **block, size_t *n);

    const rule_desc *rule; /* with the same name, opts and cfg_size */
} defense_desc;

extern const defense_desc *const defense_descs[];   /* defenses.c, NULL at the end */
const defense_desc *defense_find(const char *name); /* NULL: unknown, message set */
/* One more, findable by name like those of the list; its rule joins the rules. Before main or before
 * the first run. */
void defense_register(const defense_desc *d);

/* ---- the defences of one run: defense_list.c ---------------------------------------------- */

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
/* Another one in front, unless it is listed, with settings for it. */
stet_status defense_list_first(defense_list *l, const char *name, const char *const *settings);
/* The value of a setting of kind REAL; 0 where no defence of the list has it. */
double defense_list_real(const defense_list *l, const char *setting);
bool defense_list_keeps_last(const defense_list *l);
bool defense_list_alone(const defense_list *l); /* one of them alone moves the vectors */

/* What needs sets, and vectors that learn. */
stet_status defense_list_check(const defense_list *l, const stet_subst *s);
stet_status defense_list_check_learning(const defense_list *l, bool learns);
stet_status defense_list_vectors(const defense_list *l, const vector_view *v);
stet_status defense_list_parameters(const defense_list *l, model *m, uint64_t seed);
stet_status defense_list_start(defense_list *l, const model *m, const stet_subst *s);
/* The texts pick[0..n) of `c` as the defences leave them: *c and *pick stay or are replaced. */
stet_status defense_list_batch(const defense_list *l, step_view *v, const stet_corpus **c,
                               const uint32_t **pick, size_t *n);
node *defense_list_loss(defense_list *l, step_view *v); /* fills v->logits */
bool defense_list_has_after_step(const defense_list *l);
stet_status defense_list_after_step(const defense_list *l, const step_view *v);
/* The numbers of the step, sent from its tape; its loss among them, not listed. */
stet_status defense_list_metrics(const defense_list *l, tape *t, node *loss, store_letter *to,
                                 step_metrics *out);
/* Waits for them. */
stet_status metrics_receive(store *s, store_letter *from, double *loss, step_metrics *m);
bool defense_list_has_batch(const defense_list *l);   /* does any change the texts of a step? */
/* May any read words of a step's batch? If not, *sets are what may stand in their place, or NULL:
 * nobody asks. */
bool defense_list_reads_words(const defense_list *l, const word_sets **sets);
bool defense_list_has_worst_share(const defense_list *l);
node *defense_list_worst_share(const defense_list *l, const step_view *v); /* the first that has */
void defense_list_end(defense_list *l);

#endif
