/* defense/mixada.c - mixtures of texts (MixADA: Si et al. 2021): beside the texts themselves, training
 * sees points between two of them, with labels between theirs. With `augment` before it, some of the
 * texts are adversarial. docs/defences.md. */
#include "defense/mixada.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "defense/defenses.h"

typedef struct mixada_cfg {
    double alpha, weight;
    const char *layers;
} mixada_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL(
        "mixada-alpha", mixada_cfg, alpha, "0.2", 0.01, 1e6, "A",
        "mixada: parameter of the shares; the smaller, the closer to one of the two texts"),
    STET_OPT_REAL("mixada-weight", mixada_cfg, weight, "1", 0, 1e6, "X",
                  "mixada: weight of the mixtures' loss"),
    STET_OPT_STR("mixada-layers", mixada_cfg, layers, NULL, "N,N,...",
                 "mixada: mix texts after one of these layers of a BERT, drawn anew each step; "
                 "without it, mix what the last layer of any model sees"),
    STET_OPT_END,
};

enum { MOST_LAYERS = 256 };

typedef struct mixada_state {
    mixada_cfg cfg;
    size_t layer[MOST_LAYERS], n_layers; /* none: features are mixed */
    node *mixed;                         /* of this step */
} mixada_state;

static stet_status read_layers(const model *m, mixada_state *s)
{
    const model_layers *net = m->desc->layers;
    const size_t most = net ? net->n(m) : 0;
    const char *at = s->cfg.layers;
    if (most == 0)
        return error_set(STET_EUSAGE, "--mixada-layers needs a BERT without a head; leave it out "
                                      "to mix what the last layer sees");
    do {
        char *end;
        const long k = strtol(at, &end, 10);
        if (end == at || k < 0 || (size_t)k > most || s->n_layers == MOST_LAYERS ||
            (*end != ',' && *end != '\0'))
            return error_set(STET_EUSAGE,
                             "--mixada-layers %s: expected numbers from 0 to %zu separated by commas",
                             s->cfg.layers, most);
        s->layer[s->n_layers++] = (size_t)k;
        at = end + 1;
    } while (at[-1]);
    return STET_OK;
}

static bool own_pass(const void *cfg)
{
    const char *layers = ((const mixada_cfg *)cfg)->layers;
    return layers && *layers;
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)subst;
    mixada_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const mixada_cfg *)cfg;
    return own_pass(cfg) ? read_layers(m, s) : STET_OK;
}

static bool reads_words(const void *state)
{
    return ((const mixada_state *)state)->n_layers > 0;
}

static double entropy(double p)
{
    return p > 0 && p < 1 ? -p * log(p) - (1 - p) * log(1 - p) : 0;
}

node *mixed_rows(tape *t, node *x, size_t n, double share, const uint32_t *with)
{
    return op_add(t, op_scale(t, x, share), op_scale(t, op_gather(t, x, with, n), 1 - share));
}

node *mixed_loss(const step_view *v, node *z, double share, const uint32_t *with)
{
    tape *t = v->p->t;
    const size_t B = v->x->seq.n_texts;
    int32_t *label = arena_new(v->mem, int32_t, B);
    real *least =
        arena_new(v->mem, real, 1); /* the mixed labels' own entropy: then it is a divergence */
    double unsure = 0;
    if (!label || !least) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (size_t b = 0; b < B; b++) {
        label[b] = v->x->label[with[b]];
        unsure += label[b] == v->x->label[b] ? 0 : entropy(share) / (double)B;
    }
    node *y = op_add(t, op_scale(t, op_cross_entropy(t, z, v->x->label), share),
                     op_scale(t, op_cross_entropy(t, z, label), 1 - share));
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
    rng r = step_stream(v);
    rng_permutation(&r, with, B);
    const double a = rng_gamma(&r, s->cfg.alpha), b = rng_gamma(&r, s->cfg.alpha);
    const double share = a + b > 0 ? a / (a + b) : 0.5;
    node *z = s->n_layers
                  ? tmix_logits(v, s->layer[rng_below(&r, s->n_layers)], share, with)
                  : mixed_rows(v->p->t, v->logits, B, share, with); /* the last layer is linear */
    s->mixed = mixed_loss(v, z, share, with);
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
    .reads_words = reads_words,
    .own_pass = own_pass,
    .start = start,
    .end = mem_free,
    .loss = loss,
    .metrics = metrics,
};
