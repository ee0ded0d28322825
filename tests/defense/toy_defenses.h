/* tests/defense/toy_defenses.h - a small defence for every hook of the contract. Each does something
 * that a test can see, and together they do what published defences need: words dropped from copies
 * of the texts, rows moved along their gradient, a tensor of its own, votes with a certificate. */
#ifndef TESTS_TOY_DEFENSES_H
#define TESTS_TOY_DEFENSES_H

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "defense/defenses.h"

/* ---- mirror: the vectors ------------------------------------------------------------------ */

typedef struct mirror_cfg {
    double factor;
} mirror_cfg;
static const stet_opt mirror_opts[] = {
    STET_OPT_REAL("mirror", mirror_cfg, factor, "-1", -9, 9, "X", "factor of every vector"),
    STET_OPT_END};

static stet_status mirror_vectors(const void *cfg, const vector_view *v)
{
    const double factor = ((const mirror_cfg *)cfg)->factor;
    for (size_t i = 0; i < v->t->n * v->t->dim; i++)
        v->t->data[i] *= (float)factor;
    metric_add(v->told, "mirrored", (double)stet_counter_size(v->counts));
    return STET_OK;
}

static const defense_desc toy_mirror = {.name = "mirror",
                                        .summary = "vectors times a number",
                                        .opts = mirror_opts,
                                        .cfg_size = sizeof(mirror_cfg),
                                        .vectors = mirror_vectors};

/* ---- drop: the batch ---------------------------------------------------------------------- */

typedef struct drop_cfg {
    double share;
} drop_cfg;
static const stet_opt drop_opts[] = {
    STET_OPT_REAL("drop", drop_cfg, share, "0.5", 0, 1, "SHARE", "words that copies lose"),
    STET_OPT_END};

static stet_status drop_start(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    drop_cfg *c = *state = mem_zalloc(1, sizeof *c);
    if (!c)
        return STET_ENOMEM;
    *c = *(const drop_cfg *)cfg;
    return STET_OK;
}

/* Of each text of the data a copy without some of its words. */
static stet_status drop_batch(void *state, const step_view *v, step_texts *t)
{
    const drop_cfg *c = state;
    rng r = rng_stream(v->seed, STREAM_DEFENSE, v->step);
    for (size_t i = 0; i < t->n_own; i++) {
        const step_text own = t->v[i];
        uint32_t *ids = arena_new(t->mem, uint32_t, own.n);
        if (!ids)
            return STET_ENOMEM;
        size_t n = 0;
        for (size_t k = 0; k < own.n; k++)
            if (rng_double(&r) >= c->share)
                ids[n++] = own.ids[k];
        stet_status st = texts_add(t, ids, n, own.label);
        if (st != STET_OK)
            return st;
    }
    return STET_OK;
}

static const defense_desc toy_drop = {.name = "drop",
                                      .summary = "copies of the texts without some words",
                                      .opts = drop_opts,
                                      .cfg_size = sizeof(drop_cfg),
                                      .start = drop_start,
                                      .end = mem_free,
                                      .batch = drop_batch};

/* ---- strike: the batch, with a pass before the step's ------------------------------------- */

/* Of each text a copy whose word with the largest gradient is unknown: what adversarial training
 * with discrete words needs. */
static stet_status strike_batch(void *state, const step_view *v, step_texts *t)
{
    (void)state;
    const size_t n_own = t->n_own, D = v->m->dim;
    batch shared, own;
    stet_status st = texts_batch(v, t, &shared);
    if (st == STET_OK)
        st = batch_spread(&shared, v->mem, &own);
    probe p = {.x = &own};
    if (st == STET_OK)
        st = probe_run(v, &p);
    real *g = st == STET_OK ? arena_new(v->mem, real, own.seq.n_rows * D) : NULL;
    if (st == STET_OK)
        st = g ? tape_download(v->p->t, p.drows, g) : STET_ENOMEM;
    for (size_t b = 0; st == STET_OK && b < n_own; b++) {
        const size_t first = own.seq.start[b], n = own.seq.start[b + 1] - first;
        uint32_t *ids = arena_new(t->mem, uint32_t, n);
        size_t worst = 0;
        double most = -1;
        for (size_t i = 0; i < n; i++) {
            double size = 0;
            for (size_t k = 0; k < D; k++)
                size += fabs((double)g[(first + i) * D + k]);
            if (size > most)
                most = size, worst = i;
        }
        if (!ids)
            return STET_ENOMEM;
        memcpy(ids, t->v[own.order[b]].ids, n * sizeof *ids);
        ids[worst] = STET_UNK;
        st = texts_add(t, ids, n, t->v[own.order[b]].label);
    }
    return st;
}

static const stet_opt no_opts[] = {STET_OPT_END};
static const defense_desc toy_strike = {.name = "strike",
                                        .summary = "copies without the word that matters most",
                                        .opts = no_opts,
                                        .batch = strike_batch};

/* ---- blank: the words of the texts -------------------------------------------------------- */

/* Every word of the data's texts becomes one word: what a later defence adds is not changed. */
static stet_status blank_batch(void *state, const step_view *v, step_texts *t)
{
    (void)state, (void)v;
    for (size_t i = 0; i < t->n_own; i++) {
        uint32_t *ids = arena_new(t->mem, uint32_t, t->v[i].n);
        if (!ids)
            return STET_ENOMEM;
        for (size_t k = 0; k < t->v[i].n; k++)
            ids[k] = STET_UNK;
        t->v[i].ids = ids;
    }
    return STET_OK;
}

static const defense_desc toy_blank = {
    .name = "blank", .summary = "texts of unknown words", .opts = no_opts, .batch = blank_batch};

/* ---- push: the forward pass --------------------------------------------------------------- */

typedef struct push_cfg {
    double eps;
    int64_t steps;
    bool free;
} push_cfg;
static const stet_opt push_opts[] = {
    STET_OPT_REAL("push", push_cfg, eps, "0.1", 0, 9, "EPS", "length of a step of the rows"),
    STET_OPT_INT("push-steps", push_cfg, steps, "1", 1, 99, "K", "steps"),
    STET_OPT_FLAG("push-free", push_cfg, free, "the passes on the way train, too (FreeLB)"),
    STET_OPT_END};

typedef struct push_state {
    push_cfg cfg;
    node *first; /* loss before the first step */
} push_state;

static stet_status push_start(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    push_state *p = *state = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    p->cfg = *(const push_cfg *)cfg;
    return STET_OK;
}

/* g (T, D) over the norm that it has in its text. */
static node *unit(const step_view *v, const seq_index *seq, node *g)
{
    tape *t = v->p->t;
    const size_t T = seq->n_tokens, D = v->m->dim, B = seq->n_texts;
    uint32_t *text = arena_new(v->mem, uint32_t, T);
    real *len = arena_new(v->mem, real, B), *tiny = arena_new(v->mem, real, B),
         *ones = arena_new(v->mem, real, D);
    if (!text || !len || !tiny || !ones) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (size_t b = 0; b < B; b++) {
        len[b] = (real)(seq->start[b + 1] - seq->start[b]);
        tiny[b] = (real)1e-12;
        for (size_t i = seq->start[b]; i < seq->start[b + 1]; i++)
            text[i] = (uint32_t)b;
    }
    for (size_t k = 0; k < D; k++)
        ones[k] = 1;
    node *mean = op_row_sum(t, op_seq_mean(t, op_mul(t, g, g), seq));
    node *sumsq = op_add(t, op_mul(t, mean, tape_numbers(t, shape1(B), len)),
                         tape_numbers(t, shape1(B), tiny));
    node *inverse = op_exp(t, op_scale(t, op_log(t, sumsq), -0.5)); /* (B) */
    node *wide = op_matmul(t, inverse, true, tape_numbers(t, shape2(1, D), ones), false);
    return op_mul(t, g, op_gather(t, wide, text, T));
}

/* Rows, one a position, moved along the gradient of the loss: each text by `eps` a step. */
static node *push_rows(push_state *s, const step_view *v, const batch *own)
{
    const double passes = (double)s->cfg.steps + 1;
    node *rows = NULL;
    for (int64_t k = 0; k < s->cfg.steps; k++) {
        probe p = {.x = own, .rows = rows, .weight = s->cfg.free ? 1 / passes : 0};
        const stet_status st = probe_run(v, &p);
        if (st != STET_OK) {
            tape_fail(v->p->t, st);
            return NULL;
        }
        if (k == 0)
            s->first = p.value;
        rows = op_add(v->p->t, p.at, op_scale(v->p->t, unit(v, &own->seq, p.drows), s->cfg.eps));
    }
    return rows;
}

static node *push_forward(void *state, const step_view *v)
{
    batch *own = arena_new(v->mem, batch, 1);
    const stet_status st = own ? batch_spread(v->x, v->mem, own) : STET_ENOMEM;
    if (st != STET_OK) {
        tape_fail(v->p->t, st);
        return NULL;
    }
    pass p = *v->p;
    p.rows = push_rows(state, v, own);
    p.word = own->word;
    p.seq = &own->seq;
    return p.rows ? model_forward(v->m, &p) : NULL;
}

static node *push_loss(void *state, const step_view *v, node *base)
{
    const push_state *s = state;
    return s->cfg.free ? op_scale(v->p->t, base, 1 / ((double)s->cfg.steps + 1)) : base;
}

static void push_metrics(void *state, step_metrics *out)
{
    metric_node(out, "before", ((const push_state *)state)->first);
}

static const defense_desc toy_push = {.name = "push",
                                      .summary = "rows moved along their gradient",
                                      .opts = push_opts,
                                      .cfg_size = sizeof(push_cfg),
                                      .start = push_start,
                                      .end = mem_free,
                                      .forward = push_forward,
                                      .loss = push_loss,
                                      .metrics = push_metrics};

/* ---- scale: parameters -------------------------------------------------------------------- */

typedef struct scale_cfg {
    double target, weight;
} scale_cfg;
static const stet_opt scale_opts[] = {
    STET_OPT_REAL("target", scale_cfg, target, "3", -9, 9, "X", "where the tensor is drawn"),
    STET_OPT_REAL("pull", scale_cfg, weight, "1", 0, 9, "X", "how strongly"), STET_OPT_END};

/* A tensor of two numbers; the network's first tensor is frozen. */
static stet_status scale_parameters(const void *cfg, model *m, rng *r)
{
    (void)cfg;
    const stet_status st = model_add_param(m, "scale.two", shape1(2), PARAM_PLAIN);
    if (st != STET_OK)
        return st;
    init_uniform(m, (int)(m->n_params + m->n_added) - 1, 1, r);
    m->params[0].frozen = true;
    return STET_OK;
}

typedef struct scale_state {
    scale_cfg cfg;
    real target[2];
} scale_state;

static stet_status scale_start(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    scale_state *p = *state = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    p->cfg = *(const scale_cfg *)cfg;
    p->target[0] = p->target[1] = (real)p->cfg.target;
    return STET_OK;
}

static node *scale_loss(void *state, const step_view *v, node *base)
{
    scale_state *s = state;
    tape *t = v->p->t;
    node *own = v->p->param[model_param_id(v->m, "scale.two")];
    node *away = op_sub(t, own, tape_numbers(t, shape1(2), s->target));
    return op_add(t, base, op_scale(t, op_sum(t, op_mul(t, away, away)), s->cfg.weight));
}

static const defense_desc toy_scale = {.name = "scale",
                                       .summary = "a tensor that is drawn to a number",
                                       .opts = scale_opts,
                                       .cfg_size = sizeof(scale_cfg),
                                       .parameters = scale_parameters,
                                       .start = scale_start,
                                       .end = mem_free,
                                       .loss = scale_loss};

/* ---- clip: after the step, with a state that is saved ------------------------------------- */

typedef struct clip_cfg {
    double limit;
} clip_cfg;
static const stet_opt clip_opts[] = {
    STET_OPT_REAL("clip-bias", clip_cfg, limit, "0.01", 0, 9, "X", "largest bias of the answer"),
    STET_OPT_END};

typedef struct clip_state {
    real kept[2]; /* the limit, which shrinks by a hundredth a step; steps that were clipped */
} clip_state;

static stet_status clip_start(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    clip_state *p = *state = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    p->kept[0] = (real)((const clip_cfg *)cfg)->limit;
    return STET_OK;
}

static stet_status clip_after(void *state, const step_view *v)
{
    clip_state *s = state;
    tape *t = v->p->t;
    const size_t id = v->m->n_params - 1;
    node *bias = v->p->param[id];
    node *clipped = op_clamp(t, bias, -(double)s->kept[0], (double)s->kept[0]);
    node *moved = op_sum(t, op_abs(t, op_sub(t, bias, clipped)));
    double by;
    const stet_status st = tape_read(t, &moved, 1, &by);
    if (st != STET_OK)
        return st;
    real *to = (v->w ? v->w->value : v->m->value) + v->m->params[id].first;
    store_copy(t->store, to, clipped->value, v->m->n_classes * sizeof *to);
    s->kept[1] += by > 0;
    s->kept[0] *= (real)0.99;
    return STET_OK;
}

static stet_status clip_saved(void *state, real **block, size_t *n)
{
    *n = 2;
    *block = ((clip_state *)state)->kept;
    return STET_OK;
}

static void clip_metrics(void *state, step_metrics *out)
{
    metric_add(out, "clipped", (double)((const clip_state *)state)->kept[1]);
}

static const defense_desc toy_clip = {.name = "clip",
                                      .summary = "a bias that stays small",
                                      .opts = clip_opts,
                                      .cfg_size = sizeof(clip_cfg),
                                      .start = clip_start,
                                      .end = mem_free,
                                      .after_step = clip_after,
                                      .metrics = clip_metrics,
                                      .saved = clip_saved};

/* ---- vote: the rule ----------------------------------------------------------------------- */

typedef struct vote_cfg {
    double share, confidence;
    int64_t votes;
} vote_cfg;
static const stet_opt vote_opts[] = {
    STET_OPT_REAL("vote-drop", vote_cfg, share, "0.4", 0, 1, "SHARE", "words a vote does not see"),
    STET_OPT_REAL("confidence", vote_cfg, confidence, "0.99", 0, 1, "P", "of the certificate"),
    STET_OPT_INT("votes", vote_cfg, votes, "25", 1, 999, "N", "votes"), STET_OPT_END};

/* A number for each class that is added to the shares' logarithms: stays 0 as drawn, for tests to
 * set. */
static stet_status vote_parameters(const void *cfg, model *m, rng *r)
{
    (void)cfg, (void)r;
    return model_add_param(m, "vote.bias", shape1(m->n_classes), PARAM_PLAIN);
}

/* The salt of the draws: a number that only the folder knows. */
static stet_status vote_make(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)cfg, (void)m, (void)s;
    uint64_t *salt = *state = mem_zalloc(1, sizeof *salt);
    if (!salt)
        return STET_ENOMEM;
    *salt = 4711;
    return STET_OK;
}

static void vote_path(const char *dir, char path[512])
{
    snprintf(path, 512, "%s/salt.txt", dir);
}

static stet_status vote_save(const void *state, const char *dir)
{
    char path[512];
    vote_path(dir, path);
    FILE *f = fopen(path, "w");
    if (!f)
        return error_set(STET_EIO, "%s: %s", path, strerror(errno));
    fprintf(f, "%llu\n", (unsigned long long)*(const uint64_t *)state);
    fclose(f);
    return STET_OK;
}

static stet_status vote_load(const void *cfg, const model *m, const char *dir, void **state)
{
    (void)cfg, (void)m;
    char path[512];
    vote_path(dir, path);
    FILE *f = fopen(path, "r");
    if (!f)
        return error_set(STET_EIO, "%s: %s", path, strerror(errno));
    unsigned long long salt = 0;
    const bool read = fscanf(f, "%llu", &salt) == 1;
    fclose(f);
    uint64_t *own = *state = read ? mem_zalloc(1, sizeof *own) : NULL;
    if (!own)
        return read ? STET_ENOMEM : error_set(STET_EFORMAT, "%s: expected a number", path);
    *own = salt;
    return STET_OK;
}

/* Copies that lack words, their answers counted. */
static stet_status vote_count(const rule *r, const model *m, const uint32_t *ids, size_t n,
                              size_t *count)
{
    const vote_cfg *c = r->cfg;
    const size_t votes = (size_t)c->votes, K = m->n_classes;
    arena mem = {0};
    uint32_t *drawn = arena_new(&mem, uint32_t, votes * n);
    uint64_t *start = arena_new(&mem, uint64_t, votes + 1), salt = *(const uint64_t *)r->state;
    int32_t *label = arena_znew(&mem, int32_t, votes);
    float *logits = arena_new(&mem, float, votes *K);
    stet_status st = drawn && start && label && logits ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        for (size_t i = 0; i < n; i++) /* the same text, the same draws */
            salt = salt * 31 + ids[i];
        rng random = rng_stream(salt, STREAM_DEFENSE, n);
        start[0] = 0;
        for (size_t v = 0; v < votes; v++) {
            start[v + 1] = start[v];
            for (size_t i = 0; i < n; i++)
                if (rng_double(&random) >= c->share)
                    drawn[start[v + 1]++] = ids[i];
        }
        const stet_corpus texts = {votes, start[votes], K, drawn, start, label};
        st = model_network_logits(m, &texts, logits);
    }
    for (size_t v = 0; st == STET_OK && v < votes; v++)
        count[stet_argmax(logits + v * K, K)]++;
    arena_deinit(&mem);
    return st;
}

static stet_status vote_predict(const rule *r, const model *m, const uint32_t *ids, size_t n,
                                float *logits)
{
    size_t count[8] = {0};
    const stet_status st = vote_count(r, m, ids, n, count);
    const real *bias = model_value(m, model_param_id(m, "vote.bias"));
    for (size_t k = 0; st == STET_OK && k < m->n_classes; k++)
        logits[k] = logf((float)count[k] + 0.5F) + (float)bias[k];
    return st;
}

static double vote_confidence(const void *cfg, size_t n_classes)
{
    (void)n_classes;
    return ((const vote_cfg *)cfg)->confidence;
}

/* Nothing that would hold: nine votes of ten. What matters is where it is counted. */
static stet_status vote_certify(const rule *r, const model *m, const uint32_t *ids,
                                const stet_choices *choices, const stet_certify_how *how, int label,
                                stet_certificate *out, buf *evidence)
{
    (void)how;
    const vote_cfg *c = r->cfg;
    size_t count[8] = {0};
    const stet_status st = vote_count(r, m, ids, choices->n ? choices->n : 1, count);
    out->verdict = (double)count[label] >= 0.9 * (double)c->votes ? STET_LIKELY : STET_UNDECIDED;
    buf_printf(evidence, "\"agree\":%zu,\"confidence\":%g", count[label], c->confidence);
    if (out->verdict == STET_LIKELY) {
        out->margin = 1;
        out->budget = STET_ANY;
    }
    return st;
}

static const rule_desc vote_rule = {.name = "vote",
                                    .opts = vote_opts,
                                    .cfg_size = sizeof(vote_cfg),
                                    .parameters = vote_parameters,
                                    .make = vote_make,
                                    .load = vote_load,
                                    .save = vote_save,
                                    .end = mem_free,
                                    .predict = vote_predict,
                                    .certify = vote_certify,
                                    .confidence = vote_confidence};
static const defense_desc toy_vote = {.name = "vote",
                                      .summary = "votes of texts without some words",
                                      .opts = vote_opts,
                                      .cfg_size = sizeof(vote_cfg),
                                      .rule = &vote_rule};

/* Another rule, without a certificate: the classes in reverse. */
static stet_status reverse_predict(const rule *r, const model *m, const uint32_t *ids, size_t n,
                                   float *logits)
{
    (void)r;
    uint64_t start[2] = {0, n};
    int32_t none = -1;
    uint32_t copy[256];
    memcpy(copy, ids, n * sizeof *ids);
    const stet_corpus one = {1, n, m->n_classes, copy, start, &none};
    const stet_status st = model_network_logits(m, &one, logits);
    for (size_t k = 0; st == STET_OK && 2 * k + 1 < m->n_classes; k++) {
        const float other = logits[k];
        logits[k] = logits[m->n_classes - 1 - k];
        logits[m->n_classes - 1 - k] = other;
    }
    return st;
}

static const rule_desc reverse_rule = {
    .name = "reverse", .opts = no_opts, .predict = reverse_predict};
static const defense_desc toy_reverse = {
    .name = "reverse", .summary = "the other answer", .opts = no_opts, .rule = &reverse_rule};

__attribute__((constructor)) static void register_toys(void)
{
    static const defense_desc *const toys[] = {&toy_mirror, &toy_drop,    &toy_blank,
                                               &toy_push,   &toy_scale,   &toy_clip,
                                               &toy_vote,   &toy_reverse, &toy_strike};
    for (size_t i = 0; i < sizeof toys / sizeof *toys; i++)
        defense_register(toys[i]);
}

#endif
