/* defense/infobert.c - InfoBERT (Wang et al. 2021): FreeLB, where each point's loss has two more terms. One
 * draws the vectors of words together, so that they say less about the word (an upper bound of the
 * information kept). The other asks a small network to tell which text's features belong to an anchor
 * word, one whose gradient is neither small nor among the largest (InfoNCE, a lower bound).
 * docs/defences.md. */
#include "defense/infobert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "defense/defenses.h"

static const stet_opt opts[] = {
    STET_OPT_INT("infobert-steps", infobert_cfg, adv.steps, "3", 1, 50, "K",
                 "infobert: points, whose losses are averaged"),
    STET_OPT_REAL("infobert-step", infobert_cfg, adv.step, "0.04", 0, 1e6, "SIZE",
                  "infobert: how far a step moves the vectors of a text"),
    STET_OPT_REAL("infobert-start", infobert_cfg, adv.start, "0.08", 0, 1e6, "SIZE",
                  "infobert: size of the random start"),
    STET_OPT_REAL("infobert-radius", infobert_cfg, adv.radius, "0", 0, 1e6, "R",
                  "infobert: how far from the text's own vectors it may go; 0: any way"),
    STET_OPT_REAL("infobert-keep", infobert_cfg, keep, "0.005", 0, 1e6, "X",
                  "infobert: weight of what vectors keep of their words"),
    STET_OPT_REAL("infobert-share", infobert_cfg, share, "0.005", 0, 1e6, "X",
                  "infobert: weight of what features share with anchor words"),
    STET_OPT_REAL("infobert-low", infobert_cfg, low, "0.5", 0, 1, "SHARE",
                  "infobert: words with smaller gradients are no anchors"),
    STET_OPT_REAL("infobert-high", infobert_cfg, high, "0.9", 0, 1, "SHARE",
                  "infobert: nor are those with larger ones"),
    STET_OPT_INT("infobert-hidden", infobert_cfg, hidden, "300", 1, 65536, "N",
                 "infobert: units of the network that tells texts apart"),
    STET_OPT_END,
};

/* ---- the scorer: softplus(w2 relu(w1 [word; features] + b1) + b2) -------------------------- */

enum { W1, B1, W2, B2, SCORER };
static const char *const names[SCORER] = {"infobert.hidden.weight", "infobert.hidden.bias",
                                          "infobert.score.weight", "infobert.score.bias"};

static stet_status parameters(const void *cfg, model *m, rng *r)
{
    const size_t h = (size_t)((const infobert_cfg *)cfg)->hidden;
    if (!m->desc->features)
        return error_set(STET_EUSAGE,
                         "defence 'infobert' needs a model with features; one of kind "
                         "'%s' has none",
                         m->desc->name);
    const size_t in = m->dim + m->desc->n_features(m);
    const shape s[SCORER] = {shape2(h, in), shape1(h), shape2(1, h), shape1(1)};
    for (int i = 0; i < SCORER; i++) {
        TRY(model_add_param(m, names[i], s[i], i == B1 || i == B2 ? PARAM_BARE : PARAM_PLAIN));
        const size_t id = m->n_params + m->n_added - 1;
        const double width = 1 / sqrt((double)(i < W2 ? in : h)); /* as nn.Linear */
        for (size_t k = 0; k < shape_count(s[i]); k++)
            model_value(m, (int)id)[k] = (real)rng_range(r, -width, width);
    }
    return STET_OK;
}

static node *ones(tape *t, shape s, arena *mem)
{
    real *x = arena_new(mem, real, shape_count(s));
    for (size_t i = 0; x && i < shape_count(s); i++)
        x[i] = 1;
    if (x)
        return tape_numbers(t, s, x);
    tape_fail(t, STET_ENOMEM);
    return NULL;
}

static node *softplus(tape *t, node *x, arena *mem)
{
    node *rest = x ? op_exp(t, op_scale(t, op_abs(t, x), -1)) : NULL;
    return rest ? op_add(t, op_relu(t, x), op_log(t, op_add(t, rest, ones(t, rest->shape, mem))))
                : NULL;
}

/* Pairs of a word and a text, in chunks of n. */
typedef struct info_pairs {
    const uint32_t *at, *text; /* (count) */
    size_t count;
} info_pairs;

/* (rows, n): how well word j of row i's chunk goes with the text of row i. Scores of all pairs stand in
 * one column first; a column of the result is every n-th of them. */
static node *score_table(const infobert_state *s, const pass *q, const info_pairs *of, size_t n,
                         arena *mem)
{
    tape *t = q->t;
    node *const *w = q->param + s->scorer;
    const size_t rows = of->count, D = shape_cols(q->rows->shape),
                 F = shape_cols(q->features->shape);
    uint32_t *word = arena_new(mem, uint32_t, 3 * rows * n), *text = word + rows * n,
             *pick = text + rows * n;
    node **column = arena_new(mem, node *, n);
    if (!word || !column) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            word[i * n + j] = (uint32_t)(i / n * n + j);
            text[i * n + j] = (uint32_t)i;
            pick[j * rows + i] = (uint32_t)(i * n + j);
        }
    node *of_word =
        op_matmul(t, op_gather(t, q->rows, of->at, rows), false, op_slice(t, w[W1], 0, D), true);
    node *of_text =
        op_linear(t, op_gather(t, q->features, of->text, rows), op_slice(t, w[W1], D, F), w[B1]);
    node *h = op_relu(
        t, op_add(t, op_gather(t, of_word, word, rows * n), op_gather(t, of_text, text, rows * n)));
    node *score = softplus(t, op_linear(t, h, w[W2], w[B2]), mem);
    for (size_t j = 0; j < n; j++)
        column[j] = op_gather(t, score, pick + j * rows, rows);
    return tape_status(t) == STET_OK ? op_concat(t, column, (int)n) : NULL;
}

/* chunks times (the mean of F(t_j, g_j) less that of log mean exp F(t_j, g_i)): a cross-entropy. */
static node *nce(const infobert_state *s, const pass *q, const info_pairs *of, size_t n, arena *mem)
{
    int32_t *own = arena_new(mem, int32_t, of->count);
    node *table = own ? score_table(s, q, of, n, mem) : NULL;
    if (!table) {
        tape_fail(q->t, STET_ENOMEM); /* an earlier failure stays */
        return NULL;
    }
    for (size_t i = 0; i < of->count; i++)
        own[i] = (int32_t)(i % n);
    const double chunks = (double)(of->count / n);
    node *ce = op_cross_entropy(q->t, table, own), *most = ones(q->t, shape1(1), mem);
    most = most ? op_sum(q->t, op_scale(q->t, most, log((double)n))) : NULL;
    return op_scale(q->t, op_sub(q->t, most, ce), chunks);
}

/* The mean over chunks; the last may be short, and one of a single pair says nothing. NULL: no pairs. */
static node *shared(const infobert_state *s, const pass *q, const info_pairs *of, arena *mem)
{
    const size_t n = s->chunk ? s->chunk : q->seq->n_texts, rest = of->count % n,
                 whole = of->count - rest;
    const double chunks = (double)((of->count + n - 1) / n);
    node *sum = NULL;
    if (whole && n > 1)
        sum = nce(s, q, &(info_pairs){of->at, of->text, whole}, n, mem);
    if (rest > 1) {
        node *more = nce(s, q, &(info_pairs){of->at + whole, of->text + whole, rest}, rest, mem);
        sum = sum ? op_add(q->t, sum, more) : more;
    }
    return sum ? op_scale(q->t, sum, 1 / chunks) : NULL;
}

/* ---- what vectors keep -------------------------------------------------------------------- */

/* The mean of half the squared distance between the vector of a word and that of another. */
static node *kept(const pass *q, const uint32_t *other)
{
    const size_t T = q->seq->n_tokens;
    node *by = op_sub(q->t, q->rows, op_gather(q->t, q->rows, other, T));
    return op_scale(q->t, op_sum(q->t, op_mul(q->t, by, by)), 0.5 / (double)T);
}

/* ---- anchors ------------------------------------------------------------------------------ */

typedef struct ranked {
    double size;
    uint32_t at;
} ranked;

static int by_size(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size) - (x->size < y->size)
                              : (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

size_t infobert_anchors(const infobert_cfg *c, const real *size, size_t first, size_t n,
                        uint32_t *out)
{
    ranked *all = mem_alloc(n, sizeof *all);
    if (!all)
        return SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        all[i] = (ranked){size[i], (uint32_t)(first + i)};
    qsort(all, n, sizeof *all, by_size);
    /* a share that is a decimal fraction must not be rounded up past a whole number */
    const size_t from = (size_t)ceil(c->low * (double)n - 1e-9),
                 to = (size_t)ceil(c->high * (double)n - 1e-9);
    size_t found = 0;
    for (size_t i = from; i < to && i < n; i++)
        out[found++] = all[i].at;
    mem_free(all);
    qsort(out, found, sizeof *out, by_place);
    return found;
}

/* All anchors of the batch by the gradient of its rows, shuffled. */
static stet_status find_pairs(const infobert_state *s, const step_view *v, const seq_index *seq,
                              node *drows, const infobert_draws *draws, int64_t k, info_pairs *out)
{
    const size_t T = seq->n_tokens;
    tape *t = v->p->t;
    const node *squares = op_row_sum(t, op_mul(t, drows, drows));
    real *size = arena_new(v->mem, real, T); /* squared: the order is that of the lengths */
    uint32_t *at = arena_new(v->mem, uint32_t, 4 * T), *text = at + T, *in = text + T, *of = in + T;
    if (!size || !at)
        return STET_ENOMEM;
    TRY(tape_status(t));
    TRY(tape_download(t, squares, size));
    size_t n = 0;
    for (size_t b = 0; b < seq->n_texts; b++) {
        const size_t first = seq->start[b],
                     found = infobert_anchors(&s->cfg, size + first, first,
                                              seq->start[b + 1] - first, in + n);
        if (found == SIZE_MAX)
            return STET_ENOMEM;
        for (size_t i = 0; i < found; i++)
            of[n + i] = (uint32_t)b;
        n += found;
    }
    if (n)
        s->draw(s, k, T, n, draws);
    for (size_t i = 0; i < n; i++) {
        at[i] = in[draws->order[i]];
        text[i] = of[draws->order[i]];
    }
    *out = (info_pairs){at, text, n};
    return STET_OK;
}

/* ---- a step ------------------------------------------------------------------------------- */

/* A point of the climb. */
typedef struct info_point {
    const infobert_state *s;
    const step_view *v;
    const batch *own;
    int64_t k;
    infobert_draws draws;
    probe *probe;
    info_pairs pairs;
    node *share; /* the second loss */
} info_point;

static node *first_loss(void *ctx, const pass *q, node *logits)
{
    const info_point *at = ctx;
    return op_add(q->t, op_cross_entropy(q->t, logits, at->own->label),
                  op_scale(q->t, kept(q, at->draws.other), at->s->cfg.keep));
}

static node *second_loss(void *ctx, const pass *q)
{
    info_point *at = ctx;
    const stet_status st =
        find_pairs(at->s, at->v, &at->own->seq, at->probe->drows, &at->draws, at->k, &at->pairs);
    if (st != STET_OK) {
        tape_fail(q->t, st);
        return NULL;
    }
    node *i = shared(at->s, q, &at->pairs, at->v->mem);
    return at->share = i ? op_scale(q->t, i, -at->s->cfg.share) : NULL;
}

/* One point, which trains unless it is the last: that one is the step's own pass. */
static stet_status visit(infobert_state *s, const step_view *v, const batch *own, node *rows,
                         int64_t k, probe *p, info_point *at)
{
    const size_t T = own->seq.n_tokens;
    const bool last = k + 1 == s->cfg.adv.steps;
    uint32_t *drawn = arena_new(v->mem, uint32_t, 2 * T);
    if (!drawn)
        return STET_ENOMEM;
    *at = (info_point){.s = s, .v = v, .own = own, .k = k, .draws = {drawn, drawn + T}, .probe = p};
    s->draw(s, k, T, 0, &at->draws);
    *p = (probe){.x = own,
                 .rows = rows,
                 .loss = first_loss,
                 .second = last ? NULL : second_loss,
                 .ctx = at,
                 .weight = last ? 0 : 1,
                 .dropout = true};
    TRY(tape_status(v->p->t));
    TRY(probe_run(v, p));
    return last ? find_pairs(s, v, &own->seq, p->drows, &at->draws, k, &at->pairs) : STET_OK;
}

static node *climb(infobert_state *s, const step_view *v, const batch *own, node *rows, node *delta,
                   info_point *last)
{
    tape *t = v->p->t;
    const int64_t K = s->cfg.adv.steps;
    node *at = tape_constant(t, rows->shape, rows->value), *sum = NULL, *drows = NULL,
         *grad = K > 1 ? tape_zeros(t, shape1(v->m->n_values)) : NULL;
    model_weights fixed;
    const step_view beside = step_beside(v, grad, &fixed);
    s->before = s->first = s->last = NULL;
    for (int64_t k = 0; k < K; k++) {
        probe p;
        const stet_status st = visit(s, &beside, own, op_add(t, at, delta), k, &p, last);
        if (st != STET_OK) {
            tape_fail(t, st);
            return NULL;
        }
        s->first = k == 0 ? p.value : s->first;
        if (k + 1 == K)
            break;
        sum = sum ? op_add(t, sum, p.value_all) : p.value_all;
        drows = drows ? op_add(t, drows, p.drows_all) : p.drows_all;
        delta = adv_move(t, &s->cfg.adv, &own->seq, delta, p.drows);
    }
    if (sum) {
        s->before = slopes_add(v, sum, grad);
        s->before = rows->needs_grad ? slope_add(t, s->before, rows, drows) : s->before;
    }
    return delta;
}

node *infobert_forward(infobert_state *s, const step_view *v, const batch *own, node *delta)
{
    tape *t = v->p->t;
    info_point last;
    node *rows = op_gather(t, pass_text_rows(v->p), v->x->seq.row, v->x->seq.n_tokens);
    delta = rows && delta ? climb(s, v, own, rows, delta, &last) : NULL;
    if (!delta)
        return NULL;
    pass p = *v->p;
    p.rows = op_add(t, rows, delta);
    p.word = own->word;
    p.seq = &own->seq;
    node *z = p.rows ? model_forward(v->m, &p) : NULL;
    if (!z)
        return NULL;
    s->last = op_scale(t, kept(&p, last.draws.other), s->cfg.keep);
    node *i = shared(s, &p, &last.pairs, v->mem);
    s->last = i ? op_sub(t, s->last, op_scale(t, i, s->cfg.share)) : s->last;
    return z;
}

/* A stream for each point and purpose, apart from that of the random start. */
static void draw_own(const infobert_state *s, int64_t k, size_t T, size_t n,
                     const infobert_draws *to)
{
    rng start = rng_stream(s->seed, STREAM_DEFENSE, s->step);
    rng r = rng_stream(rng_u64(&start) + 2 * (uint64_t)k + (n > 0), STREAM_DEFENSE, s->step);
    if (n)
        rng_permutation(&r, to->order, n);
    else
        for (size_t i = 0; i < T; i++)
            to->other[i] = (uint32_t)rng_below(&r, T);
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)subst;
    infobert_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const infobert_cfg *)cfg;
    s->draw = draw_own;
    for (size_t i = 0; i < m->n_params + m->n_added; i++)
        if (strcmp(m->params[i].name, names[W1]) == 0)
            s->scorer = (int)i;
    return STET_OK;
}

static node *forward(void *state, const step_view *v)
{
    infobert_state *s = state;
    batch *own = arena_new(v->mem, batch, 1);
    const stet_status st = own ? batch_spread(v->x, v->mem, own) : STET_ENOMEM;
    if (st != STET_OK) {
        tape_fail(v->p->t, st);
        return NULL;
    }
    s->seed = step_seed(v);
    s->step = v->step;
    return infobert_forward(s, v, own, adv_first(&(adv_state){.cfg = s->cfg.adv}, v, own));
}

static node *loss(void *state, const step_view *v, node *base)
{
    const infobert_state *s = state;
    tape *t = v->p->t;
    expect_plain_loss(t, base, "infobert");
    node *sum = op_add(t, base, s->last);
    return op_scale(t, s->before ? op_add(t, sum, s->before) : sum, 1 / (double)s->cfg.adv.steps);
}

static void metrics(void *state, step_metrics *out)
{
    const infobert_state *s = state;
    metric_node(out, "adv_first", s->first);
    metric_node(out, "infobert_terms", s->last);
}

const defense_desc defense_infobert = {
    .name = "infobert",
    .summary = "FreeLB with terms on what vectors and features say of words (InfoBERT)",
    .opts = opts,
    .cfg_size = sizeof(infobert_cfg),
    .parameters = parameters,
    .start = start,
    .end = mem_free,
    .forward = forward,
    .loss = loss,
    .metrics = metrics,
};
