/* defense/certified.c - training on the worst case over the substitution sets: (1 - kappa) loss so
 * far + kappa times the loss of the worst logits that bounds allow (recipes.md 4, gbm.md 7). A text
 * whose worst margin is positive is proved, up to rounding, in the very step.
 * docs/certified-training.md explains the bounds and the ramps.
 *
 * kappa grows linearly from 0 over the first steps: a classifier that knows nothing yet would learn
 * to answer the same to everything, whose worst case is the best there is. */
#include <math.h>

#include "base/mem.h"
#include "bound/worst_case.h"
#include "defense/defenses.h"

typedef struct certified_cfg {
    double kappa, ramp, eps_ramp, share;
    int bound;
} certified_cfg;

enum { BOUND_IBP, BOUND_JOINT };

static const stet_opt opts[] = {
    STET_OPT_REAL("kappa", certified_cfg, kappa, "0.3", 0, 1, "K",
                  "certified: weight of the worst case; 1 - K is left to the rest of the loss"),
    STET_OPT_REAL("ramp", certified_cfg, ramp, "0.6", 0, 1, "SHARE",
                  "certified: share of the steps over which the weight grows from 0"),
    STET_OPT_REAL("eps-ramp", certified_cfg, eps_ramp, "0", 0, 1, "SHARE",
                  "certified: share of the steps over which substitutes move out from their word"),
    STET_OPT_CHOICE("bound", certified_cfg, bound, "ibp", "ibp|joint",
                    "certified: intervals, or (cnn) one worst text for all features"),
    STET_OPT_REAL("bound-share", certified_cfg, share, "1", 0, 1, "SHARE",
                  "certified: share of a batch's texts whose worst case is bounded, drawn anew"),
    STET_OPT_END,
};

typedef struct certified_state {
    certified_cfg cfg;
    const model *m;
    word_sets sets;
    uint32_t *slot;       /* (vocabulary) scratch of batch_sets_make */
    node *worst;          /* (texts, K) of this step */
    const batch *x; /* theirs */
    double kappa, eps;
    node *loss, *share; /* of this step */
} certified_state;

static void end(void *state)
{
    certified_state *s = state;
    if (!s)
        return;
    word_sets_deinit(&s->sets);
    mem_free(s->slot);
    mem_free(s);
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    certified_state *s = mem_zalloc(1, sizeof *s);
    *state = s; /* the caller ends what has begun, also after a failure */
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const certified_cfg *)cfg;
    s->m = m;
    TRY(worst_supported(m, s->cfg.bound == BOUND_JOINT));
    TRY(word_sets_make(subst, m->vocab, &s->sets));
    s->slot = mem_zalloc(m->n_words, sizeof *s->slot);
    return s->slot ? STET_OK : STET_ENOMEM;
}

/* 0 at the first step, 1 from `share` of the steps on. */
static double ramp_at(double share, const step_view *v)
{
    const double end_step = share * (double)v->total_steps;
    return (double)v->step < end_step ? (double)v->step / end_step : 1;
}

/* The texts to bound: all of the batch, or some, drawn from (seed, step). At least one. */
static stet_status choose_texts(const certified_state *s, const step_view *v, batch *out)
{
    const size_t B = v->x->seq.n_texts, n = (size_t)ceil(s->cfg.share * (double)B);
    *out = *v->x;
    if (n >= B)
        return STET_OK;
    arena *mem = v->p->t->mem;
    uint32_t *drawn = arena_new(mem, uint32_t, B), *text = arena_new(mem, uint32_t, B);
    bool *chosen = arena_znew(mem, bool, B);
    if (!drawn || !text || !chosen)
        return STET_ENOMEM;
    rng r = step_stream(v);
    rng_permutation(&r, drawn, B);
    for (size_t i = 0; i < n || i < 1; i++)
        chosen[drawn[i]] = true;
    size_t found = 0;
    for (uint32_t b = 0; b < B; b++)
        if (chosen[b])
            text[found++] = b;
    return batch_part(v->x, text, found, mem, out);
}

/* What is bounded in this step, in its memory. */
typedef struct bounded {
    batch x;
    batch_sets sets;
} bounded;

static stet_status prepare(const certified_state *s, const step_view *v, bool all, bounded *out)
{
    out->x = *v->x;
    if (!all)
        TRY(choose_texts(s, v, &out->x));
    TRY(batch_sets_make(&s->sets, v->p, &out->x, s->slot, &out->sets));
    if (out->x.label == v->x->label)
        out->sets.seq = v->p->seq; /* the same texts: worst_forward asks */
    return STET_OK;
}

/* The clean logits; the worst ones of the chosen texts in s->worst. */
static node *worst_pass(certified_state *s, const step_view *v, bool all, double eps)
{
    tape *t = v->p->t;
    bounded *b = arena_new(t->mem, bounded, 1);
    const stet_status st = b ? prepare(s, v, all, b) : STET_ENOMEM;
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    s->x = &b->x;
    const worst_args a = {
        .s = &b->sets, .label = b->x.label, .eps = eps, .joint = s->cfg.bound == BOUND_JOINT};
    node *clean;
    worst_forward(s->m, v->p, &a, &clean, &s->worst);
    return clean;
}

static const word_sets *sets_of(const void *state)
{
    const certified_state *s = state;
    return s->cfg.share >= 1 ? &s->sets : NULL; /* batch_part reads words */
}

static node *forward(void *state, const step_view *v)
{
    certified_state *s = state;
    s->kappa = s->cfg.kappa * ramp_at(s->cfg.ramp, v);
    s->eps = ramp_at(s->cfg.eps_ramp, v);
    return worst_pass(s, v, false, s->eps);
}

static node *share_in_worst_case(void *state, const step_view *v)
{
    certified_state *s = state;
    return worst_pass(s, v, true, 1) ? worst_share(v->p->t, s->worst, s->x->label) : NULL;
}

static node *loss(void *state, const step_view *v, node *base)
{
    certified_state *s = state;
    tape *t = v->p->t;
    s->loss = v->target_in_worst ? step_cross_entropy(v, s->x, s->worst)
                                 : op_cross_entropy(t, s->worst, s->x->label);
    s->share = worst_share(t, s->worst, s->x->label);
    return op_mix(t, base, 1 - s->kappa, s->loss, s->kappa);
}

static void metrics(void *state, step_metrics *out)
{
    const certified_state *s = state;
    metric_node(out, "worst", s->loss);
    metric_node(out, "certified", s->share);
    metric_add(out, "kappa", s->kappa);
    metric_add(out, "eps", s->eps);
}

const defense_desc defense_certified = {
    .name = "certified",
    .summary = "the worst case over the substitution sets, bounded, in the loss",
    .opts = opts,
    .cfg_size = sizeof(certified_cfg),
    .keeps_last = true,
    .needs_sets = "--defense certified needs --synonyms: the sets that certificates are to hold "
                  "for",
    .sets = sets_of,
    .start = start,
    .forward = forward,
    .loss = loss,
    .metrics = metrics,
    .worst_share = share_in_worst_case,
    .end = end,
};
