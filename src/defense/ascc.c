/* defense/ascc.c - adversarial sparse convex combination (Dong et al. 2021): training asks that the
 * answer stays where each word is a mixture of itself and its substitutes, at the worst mixture
 * that some steps of Adam find, drawn to mixtures of few words. docs/defences.md. */
#include "defense/ascc.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/simd.h"
#include "bound/bound_ops.h"
#include "defense/defenses.h"
#include "tensor/host/ranges.h"

static const stet_opt opts[] = {
    STET_OPT_INT("ascc-steps", ascc_cfg, steps, "10", 0, 1000, "K",
                 "ascc: steps of the search for the worst mixtures"),
    STET_OPT_REAL("ascc-rate", ascc_cfg, rate, "10", 0, 1e6, "RATE",
                  "ascc: step size of the search"),
    STET_OPT_REAL("ascc-alpha", ascc_cfg, alpha, "10", 0, 1e6, "A",
                  "ascc: how strongly the search is drawn to mixtures of few words"),
    STET_OPT_REAL("ascc-kl", ascc_cfg, kl, "4", 0, 1e6, "X",
                  "ascc: weight of the divergence between the answers"),
    STET_OPT_REAL("ascc-adv", ascc_cfg, adv, "0", 0, 1e6, "X",
                  "ascc: weight of the loss at the worst mixtures"),
    STET_OPT_INT("ascc-most", ascc_cfg, most, "19", 0, 1000, "N",
                 "ascc: the first N substitutes of a word are in its mixtures"),
    STET_OPT_END,
};

/* ---- sets -------------------------------------------------------------------------------- */

stet_status mixing_sets(const char *defense, const model *m, const stet_subst *s, word_sets *out)
{
    if (m->reader.rows)
        return piece_sets_make(s, m, out);
    if (m->scores >= 0)
        return error_set(STET_EUSAGE,
                         "defence '%s' cannot be combined with word scores: it looks "
                         "at vectors alone",
                         defense);
    return word_sets_make(s, m->vocab, out);
}

/* ---- slots -------------------------------------------------------------------------------- */

/* Slots of the batch's words; rows beyond them are numbered in order of first use. */
static void fill_slots(const word_sets *s, size_t V, size_t most, uint32_t *slot, uint32_t *word,
                       uint32_t *first, uint32_t *row, size_t *n_rows)
{
    for (uint32_t v = 0; v < V; v++)
        slot[word[v]] = v + 1;
    size_t R = V;
    first[0] = 0;
    for (uint32_t v = 0; v < V; v++) {
        uint32_t at = first[v];
        const uint32_t begin = s->start[word[v]], end = s->start[word[v] + 1];
        for (uint32_t k = begin; k < end && k - begin < most; k++) {
            if (!slot[s->word[k]]) {
                word[R++] = s->word[k];
                slot[s->word[k]] = (uint32_t)R;
            }
            row[at++] = slot[s->word[k]] - 1;
        }
        row[at++] = v;
        first[v + 1] = at;
    }
    for (size_t i = 0; i < R; i++)
        slot[word[i]] = 0;
    *n_rows = R;
}

stet_status hulls_make(const word_sets *s, const batch *x, size_t most, uint32_t *slot, arena *mem,
                       hulls *out)
{
    const size_t V = x->seq.n_rows, T = x->seq.n_tokens;
    size_t n = V;
    for (size_t v = 0; v < V; v++) {
        const size_t has = s->start[x->word[v] + 1] - s->start[x->word[v]];
        n += has < most ? has : most;
    }
    uint32_t *word = arena_new(mem, uint32_t, n), *first = arena_new(mem, uint32_t, V + 1),
             *row = arena_new(mem, uint32_t, n), *start = arena_new(mem, uint32_t, T + 1);
    if (!word || !first || !row || !start)
        return STET_ENOMEM;
    *out = (hulls){.word = word,
                   .first = first,
                   .row = row,
                   .of = x->seq.row,
                   .start = start,
                   .n_tokens = T,
                   .n_words = V,
                   .n_points = T};
    memcpy(word, x->word, V * sizeof *word);
    fill_slots(s, V, most, slot, word, first, row, &out->n_rows);
    start[0] = 0;
    for (size_t i = 0; i < T; i++)
        start[i + 1] = start[i] + first[x->seq.row[i] + 1] - first[x->seq.row[i]];
    out->n_slots = start[T];
    return STET_OK;
}

stet_status hulls_share(const batch *x, arena *mem, hulls *h, batch *own)
{
    const size_t T = x->seq.n_tokens;
    uint32_t *row = arena_new(mem, uint32_t, T), *of = arena_new(mem, uint32_t, T),
             *word = arena_new(mem, uint32_t, T), *start = arena_new(mem, uint32_t, T + 1),
             *shared = arena_znew(mem, uint32_t, h->n_words); /* point + 1 */
    if (!row || !of || !word || !start || !shared)
        return STET_ENOMEM;
    size_t n = 0;
    start[0] = 0;
    for (size_t i = 0; i < T; i++) {
        const uint32_t v = x->seq.row[i], slots = h->first[v + 1] - h->first[v];
        if (slots == 1 && shared[v]) {
            row[i] = shared[v] - 1;
            continue;
        }
        row[i] = (uint32_t)n;
        of[n] = v;
        word[n] = x->word[v];
        start[n + 1] = start[n] + slots;
        shared[v] = (uint32_t)++n;
    }
    h->of = of;
    h->start = start;
    h->n_points = n;
    h->n_slots = start[n];
    *own = *x;
    own->seq.n_rows = n;
    own->seq.row = row;
    own->word = word;
    return STET_OK;
}

double hull_weights(const real *w, size_t stride, size_t n, double *p)
{
    double most = -INFINITY, sum = 0, entropy = 0;
    for (size_t j = 0; j < n; j++)
        most = fmax(most, (double)w[j * stride]);
    for (size_t j = 0; j < n; j++)
        sum += p[j] = exp((double)w[j * stride] - most);
    for (size_t j = 0; j < n; j++) {
        p[j] /= sum;
        if (p[j] > 0)
            entropy -= p[j] * log(p[j]);
    }
    return entropy;
}

/* ---- ops ---------------------------------------------------------------------------------- */

enum { MOST_SLOTS = 1001 }; /* ascc-most and the word itself */
enum { STATE, ROWS, SLOPE };
enum { LANES = 16 }; /* of a sum, whatever the machine: the same bits everywhere */

hulls hulls_twin(tape *t, const hulls *h)
{
    hulls at = *h;
    at.first = tape_twin(t, h->first, (h->n_words + 1) * sizeof *h->first);
    at.row = tape_twin(t, h->row, h->first[h->n_words] * sizeof *h->row);
    at.of = tape_twin(t, h->of, h->n_points * sizeof *h->of);
    at.start = tape_twin(t, h->start, (h->n_points + 1) * sizeof *h->start);
    return at;
}

/* The slots of point i: their rows, their number, their softmax. */
static size_t slots_of(const node *n, size_t i, const uint32_t **row, double *p)
{
    const hulls *h = &((const hull_args *)n->args)->at;
    *row = h->row + h->first[h->of[i]];
    const size_t count = h->start[i + 1] - h->start[i];
    hull_weights(n->in[STATE]->value + h->start[i] * HULL_STATE + HULL_W, HULL_STATE, count, p);
    return count;
}

static SIMD_CLONES void points_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    const size_t D = shape_cols(n->shape);
    double p[MOST_SLOTS];
    for (size_t i = begin; i < end; i++) {
        const uint32_t *row;
        const size_t count = slots_of(n, i, &row, p);
        real *RESTRICT out = n->value + i * D;
        memset(out, 0, D * sizeof *out);
        for (size_t j = 0; j < count; j++) {
            const real *RESTRICT e = n->in[ROWS]->value + row[j] * D;
            const real by = (real)p[j];
            for (size_t d = 0; by != 0 && d < D; d++)
                out[d] += by * e[d];
        }
    }
}

static stet_status points_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(shape_rows(n->shape), 64, points_rows, n);
    return STET_OK;
}

/* Rows are shared by points, so pieces are columns: sums are in the order of the points. */
static SIMD_CLONES void points_columns(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    const size_t D = shape_cols(n->shape);
    double p[MOST_SLOTS];
    for (size_t i = 0; i < shape_rows(n->shape); i++) {
        const uint32_t *row;
        const size_t count = slots_of(n, i, &row, p);
        for (size_t j = 0; j < count; j++) {
            real *RESTRICT to = n->in[ROWS]->grad + row[j] * D;
            const real *RESTRICT dy = n->grad + i * D;
            const real by = (real)p[j];
            for (size_t d = begin; by != 0 && d < end; d++)
                to[d] += by * dy[d];
        }
    }
}

static stet_status points_bwd(tape *t, node *n)
{
    (void)t;
    if (n->in[ROWS]->needs_grad)
        ranges_run(shape_cols(n->shape), 64, points_columns, n);
    return STET_OK;
}

static stet_status hull_infer(const node *n, shape *out)
{
    const hulls *h = &((const hull_args *)n->args)->at;
    *out = n->in[STATE]->shape;
    TRY(op_expect_shape(n, STATE, shape2(h->n_slots, HULL_STATE), "the slots"));
    return op_expect_shape(n, ROWS, shape2(h->n_rows, shape_cols(n->in[ROWS]->shape)), "the rows");
}

static stet_status points_infer(const node *n, shape *out)
{
    TRY(hull_infer(n, out));
    *out = shape2(((const hull_args *)n->args)->at.n_points, shape_cols(n->in[ROWS]->shape));
    return STET_OK;
}

static const op_desc points_op = {
    .name = "hull_points",
    .n_in = ROWS + 1,
    .infer = points_infer,
    .forward = {[DEV_CPU] = points_fwd, CUDA_KERNEL(cuda_hull_points_fwd)},
    .backward = {[DEV_CPU] = points_bwd, CUDA_KERNEL(cuda_hull_points_bwd)},
};

node *hull_points(tape *t, const hulls *h, node *state, node *rows)
{
    const hull_args a = {.at = hulls_twin(t, h)};
    return tape_push(t, &points_op, (node *[]){state, rows}, ROWS + 1, &a, sizeof a);
}

SIMD_CLONES double hull_slope(const real *RESTRICT g, const real *RESTRICT e, size_t D)
{
    double lane[LANES] = {0}, sum = 0;
    size_t d = 0;
    for (; d + LANES <= D; d += LANES)
        for (size_t i = 0; i < LANES; i++)
            lane[i] += (double)(g[d + i] * e[d + i]);
    for (size_t i = 0; d + i < D; i++)
        lane[i] += (double)(g[d + i] * e[d + i]);
    for (size_t i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

/* Adam as PyTorch has it, the decay part of the gradient; by_m, by_v divide its moments. */
static void adam_slot(double rate, double by_m, double by_v, const real *from, double gradient,
                      real *to)
{
    const double w = (double)from[HULL_W], g = gradient + 2e-5 * w;
    const double m = 0.9 * (double)from[HULL_M] + 0.1 * g,
                 v = 0.999 * (double)from[HULL_V] + 0.001 * g * g;
    to[HULL_W] = (real)(w - rate * (m / by_m) / (sqrt(v / by_v) + 1e-8));
    to[HULL_M] = (real)m;
    to[HULL_V] = (real)v;
    to[HULL_GRAD] = (real)gradient;
}

static void step_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    const hull_args *a = n->args;
    const size_t D = shape_cols(n->in[ROWS]->shape);
    const double by_m = 1 - pow(0.9, (double)a->k), by_v = 1 - pow(0.999, (double)a->k);
    double p[MOST_SLOTS], along[MOST_SLOTS];
    for (size_t i = begin; i < end; i++) {
        const uint32_t *row;
        const size_t count = slots_of(n, i, &row, p);
        const real *g = n->in[SLOPE]->value + i * D;
        double mean = 0, entropy = 0;
        for (size_t j = 0; j < count; j++) {
            along[j] = hull_slope(g, n->in[ROWS]->value + row[j] * D, D);
            mean += p[j] * along[j];
            entropy -= p[j] > 0 ? p[j] * log(p[j]) : 0;
        }
        const double share = a->alpha / (double)a->at.n_tokens;
        for (size_t j = 0; j < count; j++) {
            const double less = p[j] > 0 ? p[j] * (log(p[j]) + entropy) : 0;
            const size_t at = (a->at.start[i] + j) * HULL_STATE;
            adam_slot(a->rate, by_m, by_v, n->in[STATE]->value + at,
                      p[j] * (along[j] - mean) - share * less, n->value + at);
        }
    }
}

static stet_status step_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(((const hull_args *)n->args)->at.n_points, 64, step_rows, n);
    return STET_OK;
}

static stet_status step_infer(const node *n, shape *out)
{
    TRY(hull_infer(n, out));
    return op_expect_shape(
        n, SLOPE, shape2(((const hull_args *)n->args)->at.n_points, shape_cols(n->in[ROWS]->shape)),
        "the slope");
}

static const op_desc step_op = {
    .name = "hull_step",
    .n_in = SLOPE + 1,
    .constant = true,
    .infer = step_infer,
    .forward = {[DEV_CPU] = step_fwd, CUDA_KERNEL(cuda_hull_step_fwd)},
};

node *hull_step(tape *t, const ascc_cfg *c, const hulls *h, node *state, node *rows, node *g,
                int64_t k)
{
    const hull_args a = {.at = hulls_twin(t, h), .rate = c->rate, .alpha = c->alpha, .k = k};
    return tape_push(t, &step_op, (node *[]){state, rows, g}, SLOPE + 1, &a, sizeof a);
}

/* ---- a step of training ------------------------------------------------------------------- */

/* Minus the divergence of all texts together; ctx is the clean logits. */
static node *minus_kl(void *ctx, const pass *q, node *logits)
{
    const node *clean = ctx;
    tape *t = q->t;
    node *was = op_log_softmax(t, tape_constant(t, clean->shape, clean->value));
    return op_scale(t, op_kl(t, was, op_log_softmax(t, logits)), -(double)clean->shape.dim[0]);
}

/* Steps on a tape of their own, whose memory is given back after each. */
node *ascc_search(const ascc_cfg *c, const step_view *v, const batch *own, const hulls *h,
                  node *rows, node *clean, node *state)
{
    if (!rows || !clean || !state)
        return NULL;
    tape t;
    step_view beside = *v;
    pass q = {.t = &t};
    beside.p = &q;
    tape_init(&t, v->mem, v->p->t->values, false);
    stet_status st = pass_params(&q, v->m, v->w, NULL);
    node *fixed = tape_constant(&t, rows->shape, rows->value), *last = tape_zeros(&t, state->shape),
         *made = v->m->desc->make ? v->m->desc->make(v->m, &q, fixed) : NULL,
         *unread = made ? tape_zeros(&t, shape2(h->n_points, v->m->dim)) : NULL;
    hulls_twin(&t, h); /* so that it stays while steps come and go */
    const tape_mark mark = tape_save(&t);
    st = st == STET_OK ? tape_status(&t) : st;
    for (int64_t k = 1; k <= c->steps && st == STET_OK; k++) {
        probe p = {.x = own,
                   .rows = made ? unread : hull_points(&t, h, state, fixed),
                   .made = made ? hull_points(&t, h, state, made) : NULL,
                   .loss = minus_kl,
                   .ctx = clean};
        st = tape_status(&t) == STET_OK ? probe_run(&beside, &p) : tape_status(&t);
        if (st == STET_OK) {
            node *next = hull_step(&t, c, h, state, fixed, p.drows, k);
            state = next ? tape_carry(&t, mark, next, last) : NULL;
            st = tape_status(&t);
        }
    }
    if (st != STET_OK)
        tape_fail(v->p->t, st);
    return st == STET_OK ? tape_constant(v->p->t, state->shape, state->value) : NULL;
}

node *ascc_loss(const ascc_cfg *c, const step_view *v, const batch *own, node *points, node *base,
                node **kl)
{
    tape *t = v->p->t;
    if (!points)
        return NULL;
    pass p = *v->p;
    p.rows = points;
    p.word = own->word;
    p.seq = &own->seq;
    node *z = model_forward(v->m, &p);
    *kl = op_kl(t, op_log_softmax(t, v->logits), op_log_softmax(t, z));
    node *y = op_add(t, base, op_scale(t, *kl, c->kl));
    return c->adv > 0 ? op_add(t, y, op_scale(t, op_cross_entropy(t, z, v->x->label), c->adv)) : y;
}

typedef struct ascc_state {
    ascc_cfg cfg;
    word_sets sets;
    uint32_t *slot; /* (vocabulary) scratch */
    node *kl;       /* of this step */
} ascc_state;

static void end(void *state)
{
    ascc_state *s = state;
    if (!s)
        return;
    word_sets_deinit(&s->sets);
    mem_free(s->slot);
    mem_free(s);
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    ascc_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const ascc_cfg *)cfg;
    TRY(mixing_sets("ascc", m, subst, &s->sets));
    s->slot = mem_zalloc(m->n_words, sizeof *s->slot);
    return s->slot ? STET_OK : STET_ENOMEM;
}

/* He's initialisation for a padded block of slots, as published. */
static node *first_state(const ascc_cfg *c, const step_view *v, const batch *own, const hulls *h)
{
    real *state = arena_znew(v->mem, real, h->n_slots * HULL_STATE);
    if (!state) {
        tape_fail(v->p->t, STET_ENOMEM);
        return NULL;
    }
    rng r = step_stream(v);
    const double size = sqrt(2 / ((double)own->seq.max_len * (double)(c->most + 1)));
    for (size_t i = 0; i < h->n_tokens; i++)
        for (size_t k = h->start[own->seq.row[i]]; k < h->start[own->seq.row[i] + 1]; k++)
            state[k * HULL_STATE + HULL_W] = (real)(size * rng_normal(&r));
    return tape_numbers(v->p->t, shape2(h->n_slots, HULL_STATE), state);
}

/* The logits of the step's texts, without dropout. */
static stet_status answers(const step_view *v, const node *out)
{
    tape t;
    pass q;
    TRY(tape_status(v->p->t));
    tape_init(&t, v->mem, v->p->t->values, false);
    const tape_mark mark = tape_save(&t);
    TRY(pass_init(&q, v->m, &t, v->w, NULL, v->x));
    node *z = model_forward(v->m, &q);
    if (z)
        tape_carry(&t, mark, z, out);
    return tape_status(&t);
}

static node *loss(void *state, const step_view *v, node *base)
{
    ascc_state *s = state;
    tape *t = v->p->t;
    batch *own = arena_new(v->mem, batch, 1);
    hulls *h = arena_new(v->mem, hulls, 1);
    node *clean = tape_zeros(t, shape2(v->x->seq.n_texts, v->m->n_classes));
    stet_status st = own && h ? hulls_make(&s->sets, v->x, (size_t)s->cfg.most, s->slot, v->mem, h)
                              : STET_ENOMEM;
    if (st == STET_OK)
        st = hulls_share(v->x, v->mem, h, own);
    if (st == STET_OK)
        st = answers(v, clean);
    if (st != STET_OK) {
        tape_fail(t, st);
        return NULL;
    }
    node *rows = pass_rows(v->p, h->word, h->n_rows);
    node *found = ascc_search(&s->cfg, v, own, h, rows, clean, first_state(&s->cfg, v, own, h));
    return ascc_loss(&s->cfg, v, own, hull_points(t, h, found, rows), base, &s->kl);
}

static void metrics(void *state, step_metrics *out)
{
    metric_node(out, "ascc_kl", ((const ascc_state *)state)->kl);
}

const defense_desc defense_ascc = {
    .name = "ascc",
    .summary = "the worst mixtures of words and their substitutes (ASCC)",
    .opts = opts,
    .cfg_size = sizeof(ascc_cfg),
    .needs_sets = "--defense ascc needs --synonyms: the words of its mixtures",
    .start = start,
    .end = end,
    .loss = loss,
    .metrics = metrics,
};
