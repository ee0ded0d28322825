/* defense/mixada.c - mixtures of texts (MixADA: Si et al. 2021): beside the texts themselves, training
 * sees points between two of them, with labels between theirs. With `augment` before it, some of the
 * texts are adversarial. docs/defences.md. */
#include "defense/mixada.h"

#include <math.h>

#include "base/mem.h"
#include "defense/defenses.h"

typedef struct mixada_cfg {
    double alpha, weight;
} mixada_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL(
        "mixada-alpha", mixada_cfg, alpha, "0.2", 1e-6, 1e6, "A",
        "mixada: parameter of the shares; the smaller, the closer to one of the two texts"),
    STET_OPT_REAL("mixada-weight", mixada_cfg, weight, "1", 0, 1e6, "X",
                  "mixada: weight of the mixtures' loss"),
    STET_OPT_END,
};

typedef struct mixada_state {
    mixada_cfg cfg;
    node *mixed; /* of this step */
} mixada_state;

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)m, (void)subst;
    mixada_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const mixada_cfg *)cfg;
    return STET_OK;
}

static double entropy(double p)
{
    return p > 0 && p < 1 ? -p * log(p) - (1 - p) * log(1 - p) : 0;
}

node *mixed_loss(const step_view *v, double share, const uint32_t *with)
{
    tape *t = v->p->t;
    const size_t B = v->x->seq.n_texts;
    int32_t *label = arena_new(v->mem, int32_t, B);
    double unsure = 0;
    if (!label) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (size_t b = 0; b < B; b++) {
        label[b] = v->x->label[with[b]];
        unsure += label[b] == v->x->label[b] ? 0 : entropy(share) / (double)B;
    }
    node *z = op_add(t, op_scale(t, v->logits, share),
                     op_scale(t, op_gather(t, v->logits, with, B), 1 - share));
    node *y = op_add(t, op_scale(t, op_cross_entropy(t, z, v->x->label), share),
                     op_scale(t, op_cross_entropy(t, z, label), 1 - share));
    real *least =
        arena_new(v->mem, real, 1); /* the mixed labels' own entropy: then it is a divergence */
    if (!least) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    *least = (real)unsure;
    return op_sub(t, y, y ? tape_numbers(t, y->shape, least) : NULL);
}

static node *loss(void *state, const step_view *v, node *base)
{
    mixada_state *s = state;
    const size_t B = v->x->seq.n_texts;
    uint32_t *with = arena_new(v->mem, uint32_t, B);
    if (!with) {
        tape_fail(v->p->t, STET_ENOMEM);
        return NULL;
    }
    rng r = rng_stream(v->seed, STREAM_DEFENSE, v->step);
    rng_permutation(&r, with, B);
    const double a = rng_gamma(&r, s->cfg.alpha), b = rng_gamma(&r, s->cfg.alpha);
    s->mixed = mixed_loss(v, a + b > 0 ? a / (a + b) : 0.5, with);
    return op_add(v->p->t, base, op_scale(v->p->t, s->mixed, s->cfg.weight));
}

static void metrics(void *state, step_metrics *out)
{
    metric_node(out, "mixada_mixed", ((const mixada_state *)state)->mixed);
}

const defense_desc defense_mixada = {
    .name = "mixada",
    .summary = "mixtures of texts and of their labels (MixADA, with augment)",
    .opts = opts,
    .cfg_size = sizeof(mixada_cfg),
    .reads_no_words = true,
    .start = start,
    .end = mem_free,
    .loss = loss,
    .metrics = metrics,
};
