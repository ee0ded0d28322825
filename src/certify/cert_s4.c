/* certify/cert_s4.c - the family of bounds of S4 models. */
#include "certify/cert_s4.h"

#include <jansson.h>
#include <math.h>

#include "base/mem.h"
#include "certify/cert_scores.h"
#include "model/s4.h"
#include "model/spans.h"

enum { IBP, ADJOINT };
static const char *const methods[] = {"ibp", "adjoint", NULL};

typedef struct shared {
    const model *m;
    arena mem;
    s4_net64 net;
    cert_encoder *words;
} shared;

typedef struct work {
    const shared *s;
    const cert_task *task;
    arena mem;
    s4_text text;
    double *clean;        /* (H) mean over the clean text */
    s4_range pooled;      /* (H) its box */
    double *om;           /* (H) */
    double *contribution; /* (words) */
    double *scratch;      /* (n) */
    cert_scores scores;
} work;

/* ---- weights ------------------------------------------------------------------------------ */

/* The kernels that the program convolves with, in float, D added at lag 0. Another evaluation has its
 * own error, a checker's is as large, and both are rounded to float once. */
static stet_status read_kernel(const model *m, int first, const s4_net64 *net, s4_layer64 *l,
                               arena *a)
{
    const size_t len = net->lags, H = net->H;
    l->K = arena_new(a, double, len *H);
    l->K_err = arena_new(a, double, len *H);
    if (!l->K || !l->K_err)
        return STET_ENOMEM;
    const s4_space space = {model_value(m, first + S4_A),
                            model_value(m, first + S4_W),
                            model_value(m, first + S4_P),
                            model_value(m, first + S4_B),
                            model_value(m, first + S4_C),
                            model_value(m, first + S4_LOG_DT),
                            H,
                            (size_t)((const s4_cfg *)m->cfg)->state / 2};
    arena scratch = {0};
    tape t;
    tape_init(&t, &scratch, NULL, false);
    node **p;
    stet_status st = model_nodes(m, &t, NULL, &p);
    node **w = st == STET_OK ? p + first : NULL;
    const node *k = st == STET_OK ? op_s4_kernel(&t, w[S4_A], w[S4_W], w[S4_P], w[S4_B], w[S4_C],
                                                 w[S4_LOG_DT], len)
                                  : NULL;
    if (st == STET_OK)
        st = tape_status(&t);
    for (size_t h = 0; st == STET_OK && h < H; h++) {
        double at, step;
        s4_kernel_error(&space, h, len, &at, &step);
        for (size_t i = 0; i < len; i++) {
            const double x = (double)k->value[h * len + i];
            l->K[i * H + h] = x + (i ? 0 : (double)model_value(m, first + S4_D)[h]);
            l->K_err[i * H + h] =
                (4 * (at + (double)i * step) + 3 * s4_float32.unit * fabs(x)) * (1 + S4_OUTWARD);
        }
    }
    arena_deinit(&scratch);
    return st;
}

static stet_status read_layer(const model *m, size_t k, const s4_net64 *net, s4_layer64 *l,
                              arena *a)
{
    const int first = s4_layer_at(m->cfg, (int)k);
    if (net->bare)
        return read_kernel(m, first, net, l, a);
    l->mix = cert_param(m, first + S4_MIX_W, a);
    l->mix_b = cert_param(m, first + S4_MIX_B, a);
    if (!l->mix || !l->mix_b)
        return STET_ENOMEM;
    if (!net->relu) {
        l->gamma = cert_param(m, first + S4_NORM_W, a);
        l->beta = cert_param(m, first + S4_NORM_B, a);
        if (!l->gamma || !l->beta)
            return STET_ENOMEM;
    }
    return read_kernel(m, first, net, l, a);
}

static stet_status read_net(shared *s)
{
    const model *m = s->m;
    const s4_cfg *cfg = m->cfg;
    s4_net64 *net = &s->net;
    *net = (s4_net64){.D = m->dim,
                      .H = (size_t)cfg->channels,
                      .layers = (size_t)cfg->layers,
                      .lags = model_steps(m),
                      .span = model_span(m),
                      .relu = cfg->block != BLOCK_GLU,
                      .bare = cfg->block == BLOCK_BARE,
                      .max = cfg->pool == S4_MAX,
                      .eps = S4_NORM_EPS};
    net->enc_t = arena_new(&s->mem, double, net->D * net->H);
    net->enc_b = cert_param(m, S4_ENC_B, &s->mem);
    net->layer = arena_znew(&s->mem, s4_layer64, net->layers);
    if (!net->enc_t || !net->enc_b || !net->layer)
        return STET_ENOMEM;
    for (size_t h = 0; h < net->H; h++)
        for (size_t d = 0; d < net->D; d++)
            net->enc_t[d * net->H + h] = model_value(m, S4_ENC_W)[h * net->D + d];
    for (size_t k = 0; k < net->layers; k++)
        TRY(read_layer(m, k, net, &net->layer[k], &s->mem));
    return s4_net64_finish(net, &s->mem);
}

static void shared_free(void *p)
{
    shared *s = p;
    if (!s)
        return;
    if (s->words)
        cert_encoder_deinit(s->words);
    mem_free(s->words);
    arena_deinit(&s->mem);
    mem_free(s);
}

static stet_status prepare(const model *m, void **out)
{
    shared *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->m = m;
    s->words = mem_zalloc(1, sizeof *s->words);
    stet_status st = s->words ? read_net(s) : STET_ENOMEM;
    if (st == STET_OK)
        st = cert_encoder_init(s->words, m, s->net.enc_t, s->net.H);
    if (st == STET_OK)
        *out = s;
    else
        shared_free(s);
    return st;
}

/* ---- a text ------------------------------------------------------------------------------- */

static stet_status work_new(const void *p, void **out)
{
    work *w = mem_zalloc(1, sizeof *w);
    if (w)
        w->s = p;
    *out = w;
    return w ? STET_OK : STET_ENOMEM;
}

static void work_free(void *p)
{
    work *w = p;
    if (w)
        arena_deinit(&w->mem);
    mem_free(w);
}

static stet_status open(void *p, const cert_task *t)
{
    work *w = p;
    const model *m = w->s->m;
    const size_t H = w->s->net.H;
    arena_restore(&w->mem, (arena_mark){0});
    w->task = t;
    if (t->n > m->max_len)
        return error_set(STET_EUSAGE, "%zu words, but the model reads %zu", t->n, m->max_len);
    w->clean = arena_new(&w->mem, double, 4 * H);
    w->contribution = arena_new(&w->mem, double, t->start[t->n]);
    w->scratch = arena_new(&w->mem, double, t->n);
    if (!w->clean || !w->contribution || !w->scratch)
        return STET_ENOMEM;
    cert_encoded words;
    TRY(cert_scores_open(&w->scores, m, t, &w->mem));
    TRY(cert_encode(w->s->words, t, &w->mem, &words));
    w->pooled = (s4_range){w->clean + H, w->clean + 2 * H};
    w->om = w->clean + 3 * H;
    TRY(s4_text_read(&w->text, &w->s->net, s4_float32, t->n, t->start, &words, &w->mem));
    s4_pooled(&w->text, w->clean, w->pooled);
    return STET_OK;
}

/* ---- bounds ------------------------------------------------------------------------------- */

/* The head: om, the difference of biases, and the rounding of both logits; INFINITY where they might
 * overflow. */
static double head_of(work *w, int other, double *bias)
{
    const model *m = w->s->m;
    const size_t H = w->s->net.H;
    const real *fc = model_value(m, (int)m->n_params - 2),
               *b = model_value(m, (int)m->n_params - 1);
    const int label = w->task->label;
    double size = fabs((double)b[label]) + fabs((double)b[other]);
    for (size_t h = 0; h < H; h++) {
        const double x = fc[(size_t)label * H + h], y = fc[(size_t)other * H + h];
        w->om[h] = x - y;
        size += (fabs(x) + fabs(y)) * (fabs(w->pooled.mid[h]) + w->pooled.rad[h]);
    }
    *bias = (double)b[label] - (double)b[other];
    const double nu = (double)(H + 4) * s4_float32.unit;
    return size < 1e30 ? nu / (1 - nu) * size * (1 + 0x1p-16) + 1e-30 : INFINITY;
}

static void by_box(work *w, int other, cert_bound *out)
{
    const double slack = head_of(w, other, &out->margin);
    for (size_t h = 0; h < w->s->net.H; h++)
        out->margin += w->om[h] * w->pooled.mid[h] - fabs(w->om[h]) * w->pooled.rad[h];
    out->additive = false;
    out->slack = slack;
    out->margin -= slack;
    cert_scores_add(&w->scores, out);
}

/* Each position's worst word, and the sum within the budget. */
static void by_sum(work *w, int other, cert_bound *out)
{
    const double head = head_of(w, other, &out->base);
    double loss;
    const bool fine = s4_adjoint(&w->text, w->om, w->contribution, &loss, &out->slack);
    out->slack += head;
    out->additive = false;
    out->margin = -INFINITY;
    if (!fine)
        return;
    for (size_t h = 0; h < w->s->net.H; h++)
        out->base += w->om[h] * w->clean[h];
    out->base -= out->slack + loss;
    cert_scores_add_words(&w->scores, out, w->contribution);
    cert_sum_up(out, w->task, w->contribution, w->scratch);
}

/* A sum says which words do harm, so the box wins only where it proves what the sum does not. */
static stet_status bound(void *p, size_t method, int other, size_t refine, cert_bound *out)
{
    (void)refine;
    work *w = p;
    cert_scores_against(&w->scores, other);
    if (method == ADJOINT)
        by_sum(w, other, out);
    if (method == IBP || !(out->margin > 0)) {
        const cert_bound sum = *out;
        by_box(w, other, out);
        if (method == ADJOINT && sum.additive && !(out->margin > 0))
            *out = sum;
    }
    if (!(out->margin > -1e100)) /* NaN, too, proves nothing */
        out->margin = -INFINITY;
    return STET_OK;
}

/* Where the way back ended: a checker that decided by its own rounding might end it elsewhere. */
static struct json_t *witness(const void *p, size_t method, int other)
{
    (void)other;
    const work *w = p;
    if (method != ADJOINT)
        return NULL;
    json_t *layers = json_array();
    for (size_t k = 0; layers && k < w->s->net.layers; k++) {
        json_t *cut = json_array();
        for (size_t i = 0; i < w->task->n; i++)
            if (w->text.cut[k * w->task->n + i])
                json_array_append_new(cut, json_integer((json_int_t)i));
        json_array_append_new(layers, cut);
    }
    return json_pack("{s:o}", "cut", layers);
}

const cert_family cert_s4 = {
    .methods = methods,
    .prepare = prepare,
    .shared_free = shared_free,
    .work_new = work_new,
    .work_free = work_free,
    .open = open,
    .bound = bound,
    .witness = witness,
};
