/* defense/certified.c - training on the worst case over the substitution sets: (1 - kappa) loss so
 * far + kappa times the loss of the worst logits that bounds allow (recipes.md 4, gbm.md 7). A text
 * whose worst margin is positive is proved, up to rounding, in the very step.
 * docs/certified-training.md explains the bounds and the ramps.
 *
 * kappa grows linearly from 0 over the first steps: a classifier that knows nothing yet would learn
 * to answer the same to everything, whose worst case is the best there is. */
#include "base/mem.h"
#include "bound/worst_case.h"
#include "defense/defenses.h"

typedef struct certified_cfg {
    double kappa, ramp, eps_ramp;
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
    STET_OPT_END,
};

typedef struct certified_state {
    certified_cfg cfg;
    const model *m;
    word_sets sets;
    uint32_t *slot; /* (vocabulary) scratch of batch_sets_make */
    node *worst;    /* (B, K) of this step */
    double kappa, eps, loss, share;
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
    if (!subst)
        return error_set(STET_EUSAGE, "--defense certified needs --synonyms: the sets that "
                                      "certificates are to hold for");
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

static node *logits(void *state, const step_view *v)
{
    certified_state *s = state;
    tape *t = v->p->t;
    s->kappa = s->cfg.kappa * ramp_at(s->cfg.ramp, v);
    s->eps = ramp_at(s->cfg.eps_ramp, v);
    batch_sets *sets = arena_new(t->mem, batch_sets, 1);
    const stet_status st =
        sets ? batch_sets_make(&s->sets, s->m, v->x, s->slot, t->mem, sets) : STET_ENOMEM;
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    const worst_args a = {
        .s = sets, .label = v->x->label, .eps = s->eps, .joint = s->cfg.bound == BOUND_JOINT};
    node *clean;
    worst_forward(s->m, v->p, &a, &clean, &s->worst);
    return clean;
}

static node *loss(void *state, const step_view *v, node *base)
{
    certified_state *s = state;
    tape *t = v->p->t;
    node *worst = op_cross_entropy(t, s->worst, v->x->label);
    if (!worst)
        return NULL;
    s->loss = (double)worst->value[0];
    s->share = worst_share(s->worst, v->x->label);
    return op_add(t, op_scale(t, base, 1 - s->kappa), op_scale(t, worst, s->kappa));
}

static void metrics(void *state, step_metrics *out)
{
    const certified_state *s = state;
    metric_add(out, "worst", s->loss);
    metric_add(out, "certified", s->share);
    metric_add(out, "kappa", s->kappa);
    metric_add(out, "eps", s->eps);
}

const defense_desc defense_certified = {
    .name = "certified",
    .summary = "the worst case over the substitution sets, bounded, in the loss",
    .opts = opts,
    .cfg_size = sizeof(certified_cfg),
    .keeps_last = true,
    .start = start,
    .logits = logits,
    .loss = loss,
    .metrics = metrics,
    .end = end,
};
