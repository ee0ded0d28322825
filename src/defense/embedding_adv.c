/* defense/embedding_adv.c - adversarial training on the word vectors: PGD-K (Madry et al. 2018, as
 * used for text), FreeLB (Zhu et al. 2020) and FreeLB++ (Li et al. 2021). docs/defences.md.
 *
 * All climb from a random start: a step along the gradient of the loss, then back into a ball. PGD-K
 * trains at the last of K + 1 points alone, FreeLB on the mean of all K, FreeLB++ has no ball and
 * more points. */
#include "defense/embedding_adv.h"

#include <math.h>

#include "base/mem.h"
#include "bound/bound_ops.h"
#include "defense/defenses.h"
#include "tensor/host/ranges.h"

/* ---- where it begins ---------------------------------------------------------------------- */

static void draw(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    rng r = {((const adv_noise_args *)n->args)->key, begin};
    for (size_t i = begin; i < end; i++)
        n->value[i] = (real)rng_range(&r, -1, 1);
}

static stet_status noise_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(shape_count(n->shape), RANGE_ELEMENTS, draw, n);
    return STET_OK;
}

static stet_status noise_infer(const node *n, shape *out)
{
    *out = ((const adv_noise_args *)n->args)->s;
    return STET_OK;
}

static const op_desc noise_op = {
    .name = "adv_noise",
    .n_in = 0,
    .constant = true,
    .infer = noise_infer,
    .forward = {[DEV_CPU] = noise_fwd, CUDA_KERNEL(cuda_adv_noise_fwd)},
};

node *adv_noise(tape *t, shape s, rng stream)
{
    const adv_noise_args a = {s, stream.key};
    return tape_push(t, &noise_op, (node *[1]){0}, 0, &a, sizeof a);
}

static stet_status begin_fwd(tape *t, node *n)
{
    (void)t;
    const adv_move_args *a = n->args;
    const size_t D = shape_cols(n->shape);
    for (size_t b = 0; b < a->at->n_texts; b++) {
        const size_t first = a->at->start[b] * D, end = a->at->start[b + 1] * D;
        const double size = a->norm == ADV_LINF ? a->step : a->step / sqrt((double)(end - first));
        for (size_t i = first; i < end; i++)
            n->value[i] = (real)((double)n->in[0]->value[i] * size);
    }
    return STET_OK;
}

static stet_status begin_infer(const node *n, shape *out)
{
    *out = n->in[0]->shape;
    return STET_OK;
}

static const op_desc begin_op = {
    .name = "adv_begin",
    .n_in = 1,
    .constant = true,
    .infer = begin_infer,
    .forward = {[DEV_CPU] = begin_fwd, CUDA_KERNEL(cuda_adv_begin_fwd)},
};

node *adv_begin(tape *t, const adv_cfg *c, const seq_index *seq, node *u)
{
    const adv_move_args a = {c->start, 0, c->norm, tape_seq(t, seq)};
    return tape_push(t, &begin_op, (node *[]){u}, 1, &a, sizeof a);
}

node *adv_first(const adv_state *s, const step_view *v, const batch *own)
{
    tape *t = v->p->t;
    const shape each = shape2(own->seq.n_tokens, v->m->dim);
    if (s->cfg.start == 0)
        return tape_zeros(t, each);
    return adv_begin(t, &s->cfg, &own->seq,
                     adv_noise(t, each, step_stream(v)));
}

/* ---- moves -------------------------------------------------------------------------------- */

static double norm_of(const real *x, size_t n, bool largest)
{
    double sum = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const double at = fabs((double)x[i]);
        most = at > most || isnan(at) ? at : most;
        sum += at * at;
    }
    return largest ? most : sqrt(sum);
}

/* n numbers that have one norm together. */
static void step_block(const adv_move_args *c, const real *delta, const real *g, size_t n,
                       real *out)
{
    const double by = c->step / fmax(norm_of(g, n, c->norm == ADV_LINF), 1e-8);
    for (size_t i = 0; i < n; i++)
        out[i] = (real)((double)delta[i] + by * (double)g[i]);
}

static void draw_back(const adv_move_args *c, real *x, size_t n)
{
    const double R = c->radius, size = norm_of(x, n, c->norm == ADV_LINF);
    if (!(R > 0) || !(size > R))
        return;
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(c->norm == ADV_LINF ? fmin(fmax((double)x[i], -R), R)
                                          : (double)x[i] * (R / size));
}

static void move_texts(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ctx;
    const adv_move_args *a = n->args;
    const size_t D = shape_cols(n->shape);
    for (size_t b = begin; b < end; b++) {
        const size_t first = a->at->start[b] * D, last = a->at->start[b + 1] * D,
                     block = a->norm == ADV_TOKEN ? D : last - first;
        for (size_t i = first; i < last; i += block)
            step_block(a, n->in[0]->value + i, n->in[1]->value + i, block, n->value + i);
        draw_back(a, n->value + first, last - first);
    }
}

static stet_status move_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(((const adv_move_args *)n->args)->at->n_texts, 1, move_texts, n);
    return STET_OK;
}

static stet_status move_infer(const node *n, shape *out)
{
    *out = n->in[0]->shape;
    return op_expect_shape(n, 1, *out, "the gradient");
}

static const op_desc move_op = {
    .name = "adv_move",
    .n_in = 2,
    .constant = true,
    .infer = move_infer,
    .forward = {[DEV_CPU] = move_fwd, CUDA_KERNEL(cuda_adv_move_fwd)},
};

node *adv_move(tape *t, const adv_cfg *c, const seq_index *seq, node *delta, node *g)
{
    const adv_move_args a = {c->step, c->radius, c->norm, tape_seq(t, seq)};
    return tape_push(t, &move_op, (node *[]){delta, g}, 2, &a, sizeof a);
}

/* ---- a step ------------------------------------------------------------------------------- */

static stet_status begin(const void *cfg, bool is_free, void **state)
{
    adv_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const adv_cfg *)cfg;
    s->free = is_free;
    return STET_OK;
}

static stet_status start_pgd(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    return begin(cfg, false, state);
}

static stet_status start_free(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    return begin(cfg, true, state);
}

/* The last perturbation of the batch, whose rows are one per position. */
static node *climb(adv_state *s, const step_view *v, const batch *own, node *rows, node *delta)
{
    tape *t = v->p->t;
    const int64_t moves = s->free ? s->cfg.steps - 1 : s->cfg.steps;
    node *at = tape_constant(t, rows->shape, rows->value), *sum = NULL, *drows = NULL,
         *grad = s->free && moves ? tape_zeros(t, shape1(v->m->n_values)) : NULL;
    s->before = s->first = NULL;
    model_weights fixed;
    const step_view beside = step_beside(v, grad, &fixed);
    for (int64_t k = 0; k < moves && delta; k++) {
        probe p = {
            .x = own, .rows = op_add(t, at, delta), .weight = s->free ? 1 : 0, .dropout = true};
        const stet_status st = tape_status(t) == STET_OK ? probe_run(&beside, &p) : tape_status(t);
        if (st != STET_OK) {
            tape_fail(t, st);
            return NULL;
        }
        s->first = k == 0 ? p.value : s->first;
        sum = sum ? op_add(t, sum, p.value) : p.value;
        drows = drows ? op_add(t, drows, p.drows) : p.drows;
        delta = s->move ? s->move(s, t, &own->seq, delta, p.drows)
                        : adv_move(t, &s->cfg, &own->seq, delta, p.drows);
    }
    if (s->free && sum) {
        s->before = slopes_add(v, sum, grad);
        s->before = rows->needs_grad ? slope_add(t, s->before, rows, drows) : s->before;
    }
    return delta;
}

node *adv_forward(adv_state *s, const step_view *v, const batch *own, node *delta)
{
    tape *t = v->p->t;
    /* through the step's rows, so that vectors can learn */
    node *rows = op_gather(t, pass_text_rows(v->p), v->x->seq.row, v->x->seq.n_tokens);
    if (rows)
        delta = climb(s, v, own, rows, delta);
    pass p = *v->p;
    p.rows = op_add(t, rows, delta);
    p.word = own->word;
    p.seq = &own->seq;
    return p.rows ? model_forward(v->m, &p) : NULL;
}

static node *forward(void *state, const step_view *v)
{
    batch *own = arena_new(v->mem, batch, 1);
    const stet_status st = own ? batch_spread(v->x, v->mem, own) : STET_ENOMEM;
    if (st != STET_OK) {
        tape_fail(v->p->t, st);
        return NULL;
    }
    return adv_forward(state, v, own, adv_first(state, v, own));
}

/* The mean of all points instead of the last one's loss alone. */
static node *free_loss(void *state, const step_view *v, node *base)
{
    const adv_state *s = state;
    tape *t = v->p->t;
    expect_plain_loss(t, base, "freelb, freelb++");
    return s->before ? op_scale(t, op_add(t, base, s->before), 1 / (double)s->cfg.steps) : base;
}

void adv_metrics(void *state, step_metrics *out)
{
    const adv_state *s = state;
    if (s->first)
        metric_node(out, "adv_first", s->first);
}

/* ---- three defences ----------------------------------------------------------------------- */

#define ADV_STEPS(name, least, def, help)                                                          \
    STET_OPT_INT(name "-steps", adv_cfg, steps, def, least, 50, "K", name ": " help)
#define ADV_STEP(name, def)                                                                        \
    STET_OPT_REAL(name "-step", adv_cfg, step, def, 0, 1e6, "SIZE",                                \
                  name ": how far a step moves the vectors of a text")
#define ADV_START(name, def)                                                                       \
    STET_OPT_REAL(name "-start", adv_cfg, start, def, 0, 1e6, "SIZE",                              \
                  name ": size of the random start")
#define ADV_RADIUS(name, def)                                                                      \
    STET_OPT_REAL(name "-radius", adv_cfg, radius, def, 0, 1e6, "R",                               \
                  name ": how far it may move from the text's own vectors; 0: no limit")
#define ADV_NORM(name)                                                                             \
    STET_OPT_CHOICE(name "-norm", adv_cfg, norm, "l2", "l2|linf|token",                            \
                    name                                                                           \
                    ": a step is measured over a whole text, by its largest entry, or by word")

static const stet_opt pgd_opts[] = {
    ADV_STEPS("pgd", 0, "5", "steps along the gradient"),
    ADV_STEP("pgd", "0.03"),
    ADV_START("pgd", "0.05"),
    ADV_RADIUS("pgd", "0"),
    ADV_NORM("pgd"),
    STET_OPT_END,
};
const defense_desc defense_pgd = {
    .name = "pgd",
    .summary = "word vectors moved K steps along the gradient (PGD-K)",
    .opts = pgd_opts,
    .cfg_size = sizeof(adv_cfg),
    .start = start_pgd,
    .end = mem_free,
    .forward = forward,
    .metrics = adv_metrics,
};

static const stet_opt freelb_opts[] = {
    ADV_STEPS("freelb", 1, "3", "points, whose losses are averaged"),
    ADV_STEP("freelb", "0.1"),
    ADV_START("freelb", "0.5"),
    ADV_RADIUS("freelb", "0.4"),
    ADV_NORM("freelb"),
    STET_OPT_END,
};
const defense_desc defense_freelb = {
    .name = "freelb",
    .summary = "the mean loss over K such points (FreeLB)",
    .opts = freelb_opts,
    .cfg_size = sizeof(adv_cfg),
    .start = start_free,
    .end = mem_free,
    .forward = forward,
    .loss = free_loss,
    .metrics = adv_metrics,
};

static const stet_opt freelb_more_opts[] = {
    ADV_STEPS("freelb++", 1, "10", "points, whose losses are averaged"),
    ADV_STEP("freelb++", "0.03"),
    ADV_START("freelb++", "0.05"),
    ADV_NORM("freelb++"),
    STET_OPT_END,
};
const defense_desc defense_freelb_more = {
    .name = "freelb++",
    .summary = "FreeLB without a ball and with more points",
    .opts = freelb_more_opts,
    .cfg_size = sizeof(adv_cfg),
    .start = start_free,
    .end = mem_free,
    .forward = forward,
    .loss = free_loss,
    .metrics = adv_metrics,
};
