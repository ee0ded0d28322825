/* defense/tavat.c - token-aware adversarial training (TA-VAT: Li and Qiu 2021): as FreeLB, but a word's
 * perturbation begins with what it gathered in earlier texts, and moves by its own norm.
 * docs/defences.md. */
#include "defense/tavat.h"

#include <math.h>

#include "base/mem.h"
#include "bound/bound_ops.h"
#include "defense/defenses.h"
#include "tensor/host/ranges.h"

static const stet_opt opts[] = {
    STET_OPT_INT("ta-vat-steps", adv_cfg, steps, "2", 1, 50, "K",
                 "ta-vat: points, whose losses are added"),
    STET_OPT_REAL("ta-vat-step", adv_cfg, step, "0.05", 0, 1e6, "SIZE",
                  "ta-vat: how far a step moves a text, and each of its words"),
    STET_OPT_REAL("ta-vat-start", adv_cfg, start, "0.2", 0, 1e6, "SIZE",
                  "ta-vat: size of the random start"),
    STET_OPT_REAL("ta-vat-radius", adv_cfg, radius, "0.5", 0, 1e6, "R",
                  "ta-vat: how far from the text's own vectors it may go; 0: any way"),
    STET_OPT_END,
};

/* ---- a move ------------------------------------------------------------------------------- */

enum { OF_TEXT, OF_WORDS, SLOPE };

static double norm_of(const real *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static void move_text(const node *n, size_t first, size_t end)
{
    const adv_move_args *a = n->args;
    const size_t D = shape_cols(n->shape) / 2;
    const real *g = n->in[SLOPE]->value;
    const double by = a->step / fmax(norm_of(g + first * D, (end - first) * D), 1e-8);
    double largest = 0, both = 0;
    for (size_t i = first; i < end; i++) {
        const double by_word = a->step / fmax(norm_of(g + i * D, D), 1e-8);
        real *to = n->value + 2 * i * D;
        for (size_t d = 0; d < D; d++) {
            const double slope = (double)g[i * D + d];
            to[d] = (real)((double)n->in[OF_TEXT]->value[i * D + d] + by * slope);
            to[D + d] = (real)((double)n->in[OF_WORDS]->value[i * D + d] + by_word * slope);
        }
        largest = fmax(largest, norm_of(to + D, D));
    }
    for (size_t i = first; i < end; i++) {
        real *to = n->value + 2 * i * D;
        const double share = norm_of(to + D, D) / fmax(largest, 1e-30);
        for (size_t d = 0; d < D; d++) {
            to[D + d] = (real)((double)to[D + d] * share);
            const double sum = (double)to[d] + (double)to[D + d];
            both += sum * sum;
        }
    }
    if (!(a->radius > 0) || !(sqrt(both) > a->radius))
        return;
    for (size_t i = 2 * first * D; i < 2 * end * D; i++)
        n->value[i] = (real)((double)n->value[i] * (a->radius / sqrt(both)));
}

static void move_texts(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    const uint32_t *start = ((const adv_move_args *)n->args)->at->start;
    for (size_t b = begin; b < end; b++)
        move_text(n, start[b], start[b + 1]);
}

static stet_status move_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(((const adv_move_args *)n->args)->at->n_texts, 1, move_texts, n);
    return STET_OK;
}

static stet_status move_infer(const node *n, shape *out)
{
    const shape s = n->in[OF_TEXT]->shape;
    *out = shape2(shape_rows(s), 2 * shape_cols(s));
    TRY(op_expect_shape(n, OF_WORDS, s, "the words' part"));
    return op_expect_shape(n, SLOPE, s, "the gradient");
}

static const op_desc move_op = {
    .name = "tavat_move",
    .n_in = SLOPE + 1,
    .constant = true,
    .infer = move_infer,
    .forward = {[DEV_CPU] = move_fwd, CUDA_KERNEL(cuda_tavat_move_fwd)},
};

node *tavat_move(tape *t, const adv_cfg *c, const seq_index *seq, node *of_text, node *of_words,
                 node *g)
{
    const adv_move_args a = {c->step, c->radius, ADV_TOKEN, tape_seq(t, seq)};
    return tape_push(t, &move_op, (node *[]){of_text, of_words, g}, SLOPE + 1, &a, sizeof a);
}

/* ---- a step ------------------------------------------------------------------------------- */

static node *move(adv_state *adv, tape *t, const seq_index *seq, node *delta, node *g)
{
    (void)delta; /* the sum of the parts */
    tavat_state *s = (tavat_state *)adv;
    node *parts = tavat_move(t, &adv->cfg, seq, s->of_text, s->of_words, g);
    s->of_text = op_slice(t, parts, 0, s->dim);
    s->of_words = op_slice(t, parts, s->dim, s->dim);
    return op_add(t, s->of_text, s->of_words);
}

static void end(void *state)
{
    tavat_state *s = state;
    if (s)
        mem_free(s->table);
    mem_free(s);
}

/* The table begins as the random start of a text does, and with the same numbers in every run. */
static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)subst;
    tavat_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->adv = (adv_state){.cfg = *(const adv_cfg *)cfg, .free = true, .move = move};
    s->n_words = m->n_words;
    s->dim = m->dim;
    s->table = mem_alloc(s->n_words * s->dim, sizeof *s->table);
    if (!s->table)
        return STET_ENOMEM;
    rng r = rng_stream(0, STREAM_DEFENSE, UINT64_MAX);
    const double size = s->adv.cfg.start / sqrt((double)s->dim);
    for (size_t i = 0; i < s->n_words * s->dim; i++)
        s->table[i] = (real)(rng_range(&r, -1, 1) * size);
    return STET_OK;
}

/* Rows of the distinct words, spread over the positions where they are needed. */
stet_status tavat_begin(const tavat_state *s, const step_view *v, node **out)
{
    const seq_index *seq = &v->x->seq;
    const size_t V = seq->n_rows, D = s->dim;
    real *x = arena_new(v->mem, real, V * D);
    double *norm = arena_new(v->mem, double, V), sum = 0;
    if (!x || !norm)
        return STET_ENOMEM;
    for (size_t w = 0; w < V; w++)
        norm[w] = norm_of(s->table + v->x->word[w] * D, D);
    for (size_t i = 0; i < seq->n_tokens; i++)
        sum += norm[seq->row[i]] * norm[seq->row[i]];
    const double size = fmax(sqrt(sum), 1e-30);
    for (size_t w = 0; w < V; w++)
        for (size_t d = 0; d < D; d++)
            x[w * D + d] = (real)((double)s->table[v->x->word[w] * D + d] / size);
    *out = op_gather(v->p->t, tape_numbers(v->p->t, shape2(V, D), x), seq->row, seq->n_tokens);
    return tape_status(v->p->t);
}

/* Repeated words add up. */
static stet_status gather(tavat_state *s, const step_view *v, const batch *own)
{
    const size_t T = own->seq.n_tokens, D = s->dim;
    real *x = arena_new(v->mem, real, T * D);
    if (!x)
        return STET_ENOMEM;
    TRY(tape_download(v->p->t, s->of_words, x));
    for (size_t i = 0; i < T; i++) {
        real *to = s->table + own->word[i] * D;
        for (size_t d = 0; d < D; d++)
            to[d] += x[i * D + d];
    }
    return STET_OK;
}

node *tavat_forward(tavat_state *s, const step_view *v, const batch *own, node *of_text,
                    node *of_words)
{
    s->of_text = of_text;
    s->of_words = of_words;
    node *z = adv_forward(&s->adv, v, own, op_add(v->p->t, of_text, of_words));
    const stet_status st = z ? gather(s, v, own) : tape_status(v->p->t);
    if (st != STET_OK)
        tape_fail(v->p->t, st);
    return z;
}

static node *forward(void *state, const step_view *v)
{
    batch *own = arena_new(v->mem, batch, 1);
    node *of_words = NULL;
    stet_status st = own ? batch_spread(v->x, v->mem, own) : STET_ENOMEM;
    if (st == STET_OK)
        st = tavat_begin(state, v, &of_words);
    if (st != STET_OK) {
        tape_fail(v->p->t, st);
        return NULL;
    }
    return tavat_forward(state, v, own, adv_first(&((tavat_state *)state)->adv, v, own), of_words);
}

/* The losses of all points, not their mean: as published. */
static node *loss(void *state, const step_view *v, node *base)
{
    const adv_state *s = state;
    expect_plain_loss(v->p->t, base, "ta-vat");
    return s->before ? op_add(v->p->t, base, s->before) : base;
}

static stet_status saved(void *state, real **block, size_t *n)
{
    tavat_state *s = state;
    *block = s->table;
    *n = s->n_words * s->dim;
    return STET_OK;
}

const defense_desc defense_tavat = {
    .name = "ta-vat",
    .summary = "FreeLB with perturbations that words keep from text to text (TA-VAT)",
    .opts = opts,
    .cfg_size = sizeof(adv_cfg),
    .start = start,
    .end = end,
    .forward = forward,
    .loss = loss,
    .metrics = adv_metrics,
    .saved = saved,
};
