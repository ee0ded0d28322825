/* defense/dne.c - Dirichlet neighbourhood ensemble (DNE: Zhou et al. 2021): training reads random
 * mixtures of each word, its substitutes and theirs, moved up the loss a few times. How the model
 * answers is in dne_rule.c. docs/defences.md. */
#include "defense/dne.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "defense/defenses.h"
#include "tensor/host/ranges.h"

const stet_opt dne_opts[] = {
    STET_OPT_REAL("dne-alpha", dne_cfg, alpha, "1", 0, 1e6, "A",
                  "dne: parameter of the mixtures; the smaller, the fewer words are in one"),
    STET_OPT_REAL("dne-decay", dne_cfg, decay, "0.5", 0, 1, "X",
                  "dne: times this for substitutes of substitutes"),
    STET_OPT_REAL("dne-step", dne_cfg, step, "10", 0, 1e6, "SIZE",
                  "dne: how far a move goes up the loss"),
    STET_OPT_INT("dne-rounds", dne_cfg, rounds, "3", 0, 100, "R", "dne: moves of a training step"),
    STET_OPT_INT("dne-most", dne_cfg, most, "64", 1, 1000, "N",
                 "dne: words of a mixture at most, the word itself among them"),
    STET_OPT_INT("dne-draws", dne_cfg, draws, "16", 1, 10000, "M",
                 "dne: mixtures of a text that an answer averages"),
    STET_OPT_END,
};

/* ---- mixtures ----------------------------------------------------------------------------- */

void dirichlet(const dne_cfg *c, rng *r, size_t n, size_t n_near, double *eta)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += eta[j] = rng_gamma(r, j < n_near || j + 1 == n ? c->alpha : c->alpha * c->decay);
    if (!(sum > 0)) { /* alpha is 0, or nearly */
        memset(eta, 0, n * sizeof *eta);
        eta[rng_below(r, n)] = sum = 1;
    }
    for (size_t j = 0; j < n; j++)
        eta[j] /= sum;
}

/* The words of two steps from w into `out`, or only counted. `seen` comes and goes zeroed. */
static size_t list_two(const word_sets *s, uint32_t w, size_t most, uint8_t *seen, uint32_t *out,
                       uint32_t *near)
{
    size_t n = 0;
    seen[w] = 1;
    for (uint32_t k = s->start[w]; k < s->start[w + 1] && n < most; k++)
        if (!seen[s->word[k]]) {
            seen[s->word[k]] = 1;
            out[n++] = s->word[k];
        }
    *near = (uint32_t)n;
    for (size_t i = 0; i < *near; i++) {
        if (out[i] < STET_FIRST_WORD)
            continue; /* the unknown word is many words */
        for (uint32_t k = s->start[out[i]]; k < s->start[out[i] + 1] && n < most; k++)
            if (!seen[s->word[k]]) {
                seen[s->word[k]] = 1;
                out[n++] = s->word[k];
            }
    }
    seen[w] = 0;
    for (size_t i = 0; i < n; i++)
        seen[out[i]] = 0;
    return n;
}

stet_status two_steps(const word_sets *s, size_t most, word_sets *out, uint32_t *near)
{
    uint8_t *seen = mem_zalloc(s->n_words, sizeof *seen);
    uint32_t *list = mem_alloc(most + 1, sizeof *list);
    stet_status st = seen && list ? STET_OK : STET_ENOMEM;
    *out = (word_sets){.n_words = s->n_words};
    out->start = mem_zalloc(s->n_words + 1, sizeof *out->start);
    st = out->start ? st : STET_ENOMEM;
    for (uint32_t w = 0; st == STET_OK && w < s->n_words; w++)
        out->start[w + 1] = out->start[w] + (uint32_t)list_two(s, w, most, seen, list, &near[w]);
    if (st == STET_OK) {
        out->word = mem_alloc(out->start[s->n_words] + 1, sizeof *out->word);
        st = out->word ? STET_OK : STET_ENOMEM;
    }
    for (uint32_t w = 0; st == STET_OK && w < s->n_words; w++)
        list_two(s, w, out->start[w + 1] - out->start[w], seen, out->word + out->start[w],
                 &(uint32_t){0});
    mem_free(seen);
    mem_free(list);
    return st;
}

/* ---- the climb ---------------------------------------------------------------------------- */

enum { STATE, ROWS, SLOPE };

static void climb_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    const climb_args *a = n->args;
    const size_t D = shape_cols(n->in[ROWS]->shape);
    double p[MOST_SLOTS], slope[MOST_SLOTS];
    for (size_t i = begin; i < end; i++) {
        const size_t first = a->at.start[i] * HULL_STATE,
                     count = a->at.start[i + 1] - a->at.start[i];
        const uint32_t *row = a->at.row + a->at.first[a->at.of[i]];
        const real *g = n->in[SLOPE]->value + i * D, *from = n->in[STATE]->value + first;
        real *to = n->value + first;
        double mean = 0, size = 0, most = -INFINITY;
        hull_weights(from + HULL_W, HULL_STATE, count, p);
        for (size_t j = 0; j < count; j++) {
            slope[j] = hull_slope(g, n->in[ROWS]->value + row[j] * D, D);
            mean += p[j] * slope[j];
        }
        for (size_t j = 0; j < count; j++) {
            slope[j] = a->scale * p[j] * (slope[j] - mean);
            size += slope[j] * slope[j];
        }
        const double by = a->step / (sqrt(size) + 1e-6);
        memcpy(to, from, count * HULL_STATE * sizeof *to);
        for (size_t j = 0; j < count; j++)
            most = fmax(most, (double)from[j * HULL_STATE + HULL_W] + by * slope[j]);
        for (size_t j = 0; j < count; j++) {
            to[j * HULL_STATE + HULL_W] =
                (real)((double)from[j * HULL_STATE + HULL_W] + by * slope[j] - most);
            to[j * HULL_STATE + HULL_GRAD] = (real)slope[j];
        }
    }
}

static stet_status climb_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(((const climb_args *)n->args)->at.n_points, 64, climb_rows, n);
    return STET_OK;
}

static stet_status climb_infer(const node *n, shape *out)
{
    const hulls *h = &((const climb_args *)n->args)->at;
    const size_t D = shape_cols(n->in[ROWS]->shape);
    *out = n->in[STATE]->shape;
    TRY(op_expect_shape(n, STATE, shape2(h->n_slots, HULL_STATE), "the slots"));
    TRY(op_expect_shape(n, ROWS, shape2(h->n_rows, D), "the rows"));
    return op_expect_shape(n, SLOPE, shape2(h->n_points, D), "the slope");
}

static const op_desc climb_op = {
    .name = "hull_climb",
    .n_in = SLOPE + 1,
    .constant = true,
    .infer = climb_infer,
    .forward = {[DEV_CPU] = climb_fwd, CUDA_KERNEL(cuda_hull_climb_fwd)},
};

node *hull_climb(tape *t, double step, double scale, const hulls *h, node *state, node *rows,
                 node *g)
{
    const climb_args a = {hulls_twin(t, h), step, scale};
    return tape_push(t, &climb_op, (node *[]){state, rows, g}, SLOPE + 1, &a, sizeof a);
}

/* ---- a step of training ------------------------------------------------------------------- */

static void end(void *state)
{
    dne_state *s = state;
    if (!s)
        return;
    word_sets_deinit(&s->sets);
    mem_free(s->near);
    mem_free(s);
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    dne_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const dne_cfg *)cfg;
    s->near = mem_zalloc(2 * m->n_words, sizeof *s->near);
    if (!s->near)
        return STET_ENOMEM;
    s->slot = s->near + m->n_words;
    word_sets given = {0};
    TRY(mixing_sets("dne", m, subst, &given));
    const stet_status st = two_steps(&given, (size_t)s->cfg.most - 1, &s->sets, s->near);
    word_sets_deinit(&given);
    return st;
}

static node *first_state(const dne_state *s, const step_view *v, const batch *own, const hulls *h)
{
    real *state = arena_znew(v->mem, real, h->n_slots * HULL_STATE);
    if (!state) {
        tape_fail(v->p->t, STET_ENOMEM);
        return NULL;
    }
    rng r = step_stream(v);
    for (size_t i = 0; i < h->n_tokens; i++) {
        double eta[MOST_SLOTS], most = 0;
        const size_t at = own->seq.row[i], n = h->start[at + 1] - h->start[at];
        dirichlet(&s->cfg, &r, n, s->near[own->word[at]], eta);
        for (size_t j = 0; j < n; j++)
            most = fmax(most, eta[j]);
        for (size_t j = 0; j < n; j++)
            state[(h->start[at] + j) * HULL_STATE + HULL_W] =
                (real)(log(eta[j] + 1e-6) - log(most + 1e-6));
    }
    return tape_numbers(v->p->t, shape2(h->n_slots, HULL_STATE), state);
}

node *dne_forward(dne_state *s, const step_view *v, const batch *own, const hulls *h, node *rows,
                  node *state)
{
    tape *t = v->p->t;
    const int64_t R = s->cfg.rounds;
    s->before = s->first = NULL;
    if (!rows || !state)
        return NULL;
    node *fixed_rows = tape_constant(t, rows->shape, rows->value), *sum = NULL,
         *grad = R ? tape_zeros(t, shape1(v->m->n_values)) : NULL;
    model_weights fixed;
    const step_view beside = step_beside(v, grad, &fixed);
    for (int64_t k = 0; k < R && state; k++) {
        const double weight = k ? 1 / (double)R : 1;
        node *points = hull_points(t, h, state, rows);
        probe p = {.x = own, .rows = points, .weight = weight, .dropout = true};
        const stet_status st = tape_status(t) == STET_OK ? probe_run(&beside, &p) : tape_status(t);
        if (st != STET_OK) {
            tape_fail(t, st);
            return NULL;
        }
        s->first = k ? s->first : p.value;
        node *term = op_scale(t, p.value, weight);
        sum = sum ? op_add(t, sum, term) : term;
        if (points->needs_grad)
            sum = slope_add(t, sum, points, op_scale(t, p.drows, weight));
        state = hull_climb(t, s->cfg.step, weight, h, state, fixed_rows, p.drows);
    }
    s->before = sum ? slopes_add(v, sum, grad) : NULL;
    pass last = *v->p;
    last.rows = hull_points(t, h, state, rows);
    last.word = own->word;
    last.seq = &own->seq;
    return last.rows ? model_forward(v->m, &last) : NULL;
}

node *dne_loss(const dne_state *s, tape *t, node *base)
{
    return s->before ? op_add(t, s->before, op_scale(t, base, 1 / (double)s->cfg.rounds)) : base;
}

static node *forward(void *state, const step_view *v)
{
    dne_state *s = state;
    batch *own = arena_new(v->mem, batch, 1);
    hulls *h = arena_new(v->mem, hulls, 1);
    stet_status st = own && h ? hulls_make(&s->sets, v->x, (size_t)s->cfg.most - 1, s->slot,
                                           v->mem, h)
                              : STET_ENOMEM;
    if (st == STET_OK)
        st = hulls_share(v->x, v->mem, h, own);
    if (st != STET_OK) {
        tape_fail(v->p->t, st);
        return NULL;
    }
    return dne_forward(s, v, own, h, pass_rows(v->p, h->word, h->n_rows),
                       first_state(s, v, own, h));
}

static node *loss(void *state, const step_view *v, node *base)
{
    expect_plain_loss(v->p->t, base, "dne");
    return dne_loss(state, v->p->t, base);
}

static void metrics(void *state, step_metrics *out)
{
    const dne_state *s = state;
    if (s->first)
        metric_node(out, "dne_first", s->first);
}

const defense_desc defense_dne = {
    .name = "dne",
    .summary = "random mixtures of words and their neighbours, and their mean (DNE)",
    .opts = dne_opts,
    .cfg_size = sizeof(dne_cfg),
    .needs_sets = "--defense dne needs --synonyms: the words of its mixtures",
    .start = start,
    .end = end,
    .forward = forward,
    .loss = loss,
    .metrics = metrics,
    .rule = &dne_rule,
};
