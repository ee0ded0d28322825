/* defense/dne.c - Dirichlet neighbourhood ensemble (DNE: Zhou et al. 2021): training reads random
 * mixtures of each word, its substitutes and theirs, moved up the loss a few times; the model answers
 * by the mean over several random mixtures. docs/defences.md. */
#include "defense/dne.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"
#include "defense/defenses.h"
#include "defense/kept_sets.h"
#include "tensor/host/ranges.h"

static const stet_opt opts[] = {
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

enum { MOST_SLOTS = 1001 }; /* dne-most */
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
    rng r = rng_stream(v->seed, STREAM_DEFENSE, v->step);
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
    if (base && base->op != &op_table[OP_cross_entropy])
        tape_fail(v->p->t, error_set(STET_EUSAGE, "defence 'dne' must be listed before those that "
                                                  "change the loss"));
    return dne_loss(state, v->p->t, base);
}

static void metrics(void *state, step_metrics *out)
{
    const dne_state *s = state;
    if (s->first)
        metric_node(out, "dne_first", s->first);
}

/* ---- the rule: the mean over random mixtures of words and substitutes ---------------------- */

static const char file_name[] = "dne.subst";

static void rule_end(void *state)
{
    if (state)
        kept_sets_deinit(state);
    mem_free(state);
}

/* The substitutes that have a vector; a list of the model's ids may hold the unknown word last. */
static const uint32_t *known_of(const void *ctx, size_t w, size_t *n)
{
    const word_sets *s = ctx;
    uint32_t *list = s->word + s->start[w];
    *n = 0;
    for (uint32_t k = s->start[w]; k < s->start[w + 1]; k++)
        if (s->word[k] >= STET_FIRST_WORD)
            list[(*n)++] = s->word[k];
    return list;
}

static stet_status make(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)cfg;
    kept_sets *s = *state = mem_zalloc(1, sizeof *s);
    word_sets given = {0};
    if (!s)
        return STET_ENOMEM;
    if (m->reader.rows) {
        TRY(kept_sets_copy(subst, s));
        return kept_sets_bind_rows(s, m);
    }
    TRY(mixing_sets("dne", m, subst, &given));
    const stet_status st = kept_sets_make(m->vocab, known_of, &given, s);
    word_sets_deinit(&given);
    return st;
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    (void)cfg;
    *state = mem_zalloc(1, sizeof(kept_sets));
    if (!*state)
        return STET_ENOMEM;
    if (!m->reader.rows)
        return kept_sets_load(m->vocab, dir, file_name, *state);
    TRY(kept_sets_load(NULL, dir, file_name, *state));
    return kept_sets_bind_rows(*state, m);
}

static stet_status save(const void *state, const char *dir)
{
    return kept_sets_save(state, dir, file_name);
}

void dne_ensemble(const double *p, size_t M, size_t K, double *out)
{
    double all = 0;
    memset(out, 0, K * sizeof *out);
    for (size_t m = 0; m < M; m++) {
        double most = 0, weight = 1e-6;
        for (size_t k = 0; k < K; k++)
            most = fmax(most, p[m * K + k]);
        for (size_t k = 0; k < K; k++)
            weight += pow(most - p[m * K + k], 3);
        for (size_t k = 0; k < K; k++)
            out[k] += weight * p[m * K + k];
        all += weight;
    }
    for (size_t k = 0; k < K; k++)
        out[k] /= all;
}

/* Texts of a corpus, each as often as it is drawn. */
typedef struct dne_copies {
    size_t n, draws;      /* texts, copies of each */
    const uint32_t **ids; /* (n) */
    size_t *len;          /* (n) rows that are read */
    uint32_t *place;      /* (n draws) of a copy in the batch */
    batch x, own;         /* of all copies; with a row for each point */
    hulls h;
} dne_copies;

static stet_status copies_make(const dne_cfg *cfg, const model *m, const word_sets *s,
                               const stet_corpus *c, batcher *b, arena *mem, dne_copies *out)
{
    const size_t n = c->n_texts, M = (size_t)cfg->draws;
    size_t rows = 0;
    *out = (dne_copies){.n = n, .draws = M};
    out->ids = arena_new(mem, const uint32_t *, n);
    out->len = arena_new(mem, size_t, n);
    out->place = arena_new(mem, uint32_t, n * M);
    uint64_t *start = arena_znew(mem, uint64_t, n * M + 1);
    uint32_t *pick = arena_new(mem, uint32_t, n * M);
    int32_t *label = arena_znew(mem, int32_t, n * M);
    if (!out->ids || !out->len || !out->place || !start || !pick || !label)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        out->ids[i] = corpus_rows(m, c, i, &len);
        out->len[i] = len < m->max_len ? len : m->max_len;
        rows += M * out->len[i];
    }
    uint32_t *all = arena_new(mem, uint32_t, rows + 1);
    if (!all)
        return STET_ENOMEM;
    for (size_t k = 0; k < n * M; k++) {
        const size_t len = out->len[k / M];
        memcpy(all + start[k], out->ids[k / M], len * sizeof *all);
        start[k + 1] = start[k] + len;
        pick[k] = (uint32_t)k;
    }
    const stet_corpus texts = {n * M, rows, m->n_classes, all, start, label};
    TRY(batch_make(b, m, &texts, pick, n * M, mem, &out->x));
    for (uint32_t k = 0; k < n * M; k++)
        out->place[out->x.order[k]] = k;
    TRY(hulls_make(s, &out->x, (size_t)cfg->most - 1, b->slot, mem, &out->h));
    return hulls_share(&out->x, mem, &out->h, &out->own);
}

/* A mixture for each point, as logarithms. The draws of a text derive from its words. */
static void draw_mixtures(const dne_cfg *cfg, const dne_copies *c, real *state)
{
    const seq_index *q = &c->own.seq;
    double eta[MOST_SLOTS];
    for (size_t i = 0; i < c->n; i++) {
        rng r =
            rng_stream(hash_bytes(c->ids[i], c->len[i] * sizeof **c->ids, 1), STREAM_DEFENSE, 0);
        for (size_t k = i * c->draws; k < (i + 1) * c->draws; k++)
            for (size_t t = q->start[c->place[k]]; t < q->start[c->place[k] + 1]; t++) {
                const size_t first = c->h.start[q->row[t]], n = c->h.start[q->row[t] + 1] - first;
                if (n == 1)
                    continue; /* the word itself */
                dirichlet(cfg, &r, n, n, eta);
                for (size_t j = 0; j < n; j++)
                    state[(first + j) * HULL_STATE + HULL_W] = (real)log(eta[j] + 1e-30);
            }
    }
}

/* Logits of all copies, as the batch has them. */
static stet_status pass_at(const model *m, const model_weights *w, store_arena *values,
                           const dne_copies *c, const real *state, arena *mem, real *z)
{
    tape t;
    pass p;
    tape_init(&t, mem, values, false);
    TRY(pass_init(&p, m, &t, w, NULL, &c->x));
    p.rows = hull_points(&t, &c->h, tape_numbers(&t, shape2(c->h.n_slots, HULL_STATE), state),
                         pass_rows(&p, c->h.word, c->h.n_rows));
    p.seq = &c->own.seq;
    p.word = c->own.word;
    const node *out = p.rows ? model_forward(m, &p) : NULL;
    TRY(tape_status(&t));
    return tape_download(&t, out, z);
}

static stet_status answer_at(const model *m, const dne_copies *c, const real *state, arena *mem,
                             real *z)
{
    const model_place *at = m->place;
    if (!at)
        return pass_at(m, NULL, NULL, c, state, mem, z);
    pthread_mutex_lock(at->lock);
    const store_mark held = store_arena_save(at->values);
    const stet_status st = pass_at(m, at->w, at->values, c, state, mem, z);
    store_arena_restore(at->values, held);
    pthread_mutex_unlock(at->lock);
    return st;
}

static stet_status answer(const rule *r, const model *m, const stet_corpus *texts, batcher *b,
                          arena *mem, float *logits)
{
    const dne_cfg *cfg = r->cfg;
    const size_t M = (size_t)cfg->draws, K = m->n_classes;
    dne_copies c;
    TRY(copies_make(cfg, m, &((const kept_sets *)r->state)->words, texts, b, mem, &c));
    real *state = arena_znew(mem, real, c.h.n_slots * HULL_STATE),
         *z = arena_new(mem, real, c.n * M * K);
    double *share = arena_new(mem, double, (M + 1) * K), *mean = share + M * K;
    if (!state || !z || !share)
        return STET_ENOMEM;
    draw_mixtures(cfg, &c, state);
    TRY(answer_at(m, &c, state, mem, z));
    for (size_t i = 0; i < c.n; i++) {
        for (size_t k = 0; k < M; k++)
            hull_weights(z + c.place[i * M + k] * K, 1, K, share + k * K);
        dne_ensemble(share, M, K, mean);
        for (size_t k = 0; k < K; k++)
            logits[i * K + k] = (float)log(mean[k] + 1e-30);
    }
    return STET_OK;
}

static stet_status predict_all(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    enum { ROWS_AT_ONCE = 1 << 15 }; /* or those of a text */
    const size_t M = (size_t)((const dne_cfg *)r->cfg)->draws;
    arena mem = {0};
    batcher b = {0};
    stet_status st = batcher_init(&b, m);
    for (size_t i = 0, n; st == STET_OK && i < c->n_texts; i += n) {
        for (n = 1; i + n < c->n_texts && M * (c->start[i + n] - c->start[i]) < ROWS_AT_ONCE; n++)
            ;
        const stet_corpus piece = corpus_piece(c, i, n);
        st = answer(r, m, &piece, &b, &mem, logits + i * m->n_classes);
        arena_restore(&mem, (arena_mark){0});
    }
    batcher_deinit(&b);
    arena_deinit(&mem);
    return st;
}

static const rule_desc dne_rule = {
    .name = "dne",
    .opts = opts,
    .cfg_size = sizeof(dne_cfg),
    .make = make,
    .load = load,
    .save = save,
    .end = rule_end,
    .predict_all = predict_all,
    .on_device = true,
};

const defense_desc defense_dne = {
    .name = "dne",
    .summary = "random mixtures of words and their neighbours, and their mean (DNE)",
    .opts = opts,
    .cfg_size = sizeof(dne_cfg),
    .needs_sets = "--defense dne needs --synonyms: the words of its mixtures",
    .start = start,
    .end = end,
    .forward = forward,
    .loss = loss,
    .metrics = metrics,
    .rule = &dne_rule,
};
