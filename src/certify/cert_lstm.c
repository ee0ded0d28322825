/* certify/cert_lstm.c - certificates for the BiLSTM: which tube and which form of the margin each
 * method stands for. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "certify/cert_lstm.h"
#include "certify/cert_scores.h"
#include "model/bilstm.h"
#include "model/spans.h"

enum { IBP, SLOPE, ADJOINT, LINEAR, GBM, AFFINE, METHODS };
static const char *const methods[] = {
    [IBP] = "ibp", [SLOPE] = "slope",   [ADJOINT] = "adjoint", [LINEAR] = "linear",
    [GBM] = "gbm", [AFFINE] = "affine", [METHODS] = NULL};

typedef struct shared {
    const model *m;
    arena mem;
    lstm_cell64 cell[2];
    cert_encoder *words; /* (2) */
} shared;

typedef struct work {
    const shared *s;
    const cert_task *task;
    arena mem;
    lstm_pair pair;
    double *om, *size; /* (2H) */
    double *scratch;   /* (n) */
    cert_scores scores;
} work;

/* ---- weights ------------------------------------------------------------------------------ */

static stet_status widen_cell(shared *s, int d)
{
    const model *m = s->m;
    const int first = d * LSTM_PER_DIRECTION;
    const size_t H = (size_t)((const bilstm_cfg *)m->cfg)->hidden;
    arena scratch = {0};
    double *part[LSTM_PER_DIRECTION];
    stet_status st = STET_OK;
    for (int k = 0; k < LSTM_PER_DIRECTION; k++)
        if (!(part[k] = cert_param(m, first + k, &scratch)))
            st = STET_ENOMEM;
    if (st == STET_OK)
        st = lstm_cell64_init(&s->cell[d], m->dim, H, part[LSTM_W_IH], part[LSTM_W_HH],
                              part[LSTM_B_IH], part[LSTM_B_HH], &s->mem);
    arena_deinit(&scratch);
    return st;
}

static void shared_free(void *p)
{
    shared *s = p;
    if (!s)
        return;
    for (int d = 0; s->words && d < 2; d++)
        cert_encoder_deinit(&s->words[d]);
    mem_free(s->words);
    arena_deinit(&s->mem);
    mem_free(s);
}

/* Beyond this the program's float32 might overflow in a logit. */
static stet_status check_head(const model *m)
{
    double size = 0; /* not finite as soon as one weight is not */
    for (int id = (int)m->n_params - 2; id < (int)m->n_params; id++)
        for (size_t i = 0; i < shape_count(m->params[id].shape); i++)
            size += fabs((double)model_value(m, id)[i]);
    return size < 1e30 ? STET_OK
                       : error_set(STET_EFORMAT, "%s: not finite, or too large for float32",
                                   m->params[m->n_params - 2].name);
}

static stet_status prepare(const model *m, void **out)
{
    shared *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->m = m;
    s->words = mem_zalloc(2, sizeof *s->words);
    stet_status st = s->words ? check_head(m) : STET_ENOMEM;
    for (int d = 0; d < 2 && st == STET_OK; d++) {
        st = widen_cell(s, d);
        if (st == STET_OK)
            st = cert_encoder_init(&s->words[d], m, s->cell[d].wt, 4 * s->cell[d].H);
    }
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
    const size_t H = w->s->cell[0].H;
    arena_restore(&w->mem, (arena_mark){0});
    w->task = t;
    w->om = arena_new(&w->mem, double, 2 * H);
    w->size = arena_new(&w->mem, double, 2 * H);
    w->scratch = arena_new(&w->mem, double, t->n);
    cert_encoded words[2];
    if (!w->om || !w->size || !w->scratch)
        return STET_ENOMEM;
    TRY(cert_scores_open(&w->scores, m, t, &w->mem));
    for (int d = 0; d < 2; d++)
        TRY(cert_encode(&w->s->words[d], t, &w->mem, &words[d]));
    return lstm_pair_open(&w->pair, w->s->cell, lstm_float32, t->n, model_span(m), t->start, words,
                          &w->mem);
}

/* ---- bounds ------------------------------------------------------------------------------- */

static lstm_head head_of(work *w, int label, int other)
{
    const model *m = w->s->m;
    const size_t H2 = 2 * w->pair.H;
    const real *fc = model_value(m, (int)m->n_params - 2),
               *bias = model_value(m, (int)m->n_params - 1);
    const real *a = fc + (size_t)label * H2, *b = fc + (size_t)other * H2;
    for (size_t k = 0; k < H2; k++) {
        w->om[k] = (double)a[k] - (double)b[k];
        w->size[k] = fabs((double)a[k]) + fabs((double)b[k]);
    }
    const double bias_a = bias[label], bias_b = bias[other];
    return (lstm_head){
        w->om, bias_a - bias_b, false, w->size, fabs(bias_a) + fabs(bias_b), bilstm_pool_of(m)};
}

static void by_box(work *w, tube_level level, const lstm_head *head, cert_bound *out)
{
    const lstm_margin m = lstm_box_margin(&w->pair, level, head);
    out->margin = m.base;
    out->slack = m.slack;
    out->additive = false;
    cert_scores_add(&w->scores, out);
}

/* Each position's worst word, and the sum within the budget. */
static void by_sum(work *w, tube_level level, lstm_form form, const lstm_head *head,
                   cert_bound *out)
{
    const lstm_margin m = lstm_sum_margin(&w->pair, level, form, head);
    out->base = m.base;
    out->slack = m.slack;
    out->additive = false;
    out->margin = -INFINITY;
    if (m.base > -INFINITY) {
        cert_scores_add_words(&w->scores, out, w->pair.contribution);
        cert_sum_up(out, w->task, w->pair.contribution, w->scratch);
    }
}

/* The best of some forms. A sum says which words do harm, so boxes win only where they prove what
 * no sum does. */
static void by_best(work *w, tube_level level, const lstm_form *forms, size_t n,
                    const lstm_head *head, cert_bound *out)
{
    size_t best = 0;
    double most = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        by_sum(w, level, forms[k], head, out);
        if (out->margin > most) {
            most = out->margin;
            best = k;
        }
    }
    if (best != n - 1)
        by_sum(w, level, forms[best], head, out);
    const cert_bound sum = *out;
    by_box(w, level, head, out);
    if (sum.additive && !(sum.margin <= 0 && out->margin > 0))
        *out = sum;
}

static stet_status bound(void *p, size_t method, int other, size_t refine, cert_bound *out)
{
    (void)refine;
    static const tube_level levels[METHODS] = {
        [IBP] = TUBE_BOX,       [SLOPE] = TUBE_SLOPE, [ADJOINT] = TUBE_SLOPE,
        [LINEAR] = TUBE_LINEAR, [GBM] = TUBE_GBM,     [AFFINE] = TUBE_AFFINE};
    work *w = p;
    const tube_level level = levels[method];
    const lstm_head head = head_of(w, w->task->label, other);
    cert_scores_against(&w->scores, other);
    if (!w->pair.built[level])
        TRY(lstm_pair_build(&w->pair, level));
    switch (method) {
    case IBP:
    case SLOPE:
        by_box(w, level, &head, out);
        break;
    case GBM:
    case ADJOINT:
        by_sum(w, level, FORM_ADJOINT, &head, out);
        break;
    case AFFINE:
        by_best(w, level, (const lstm_form[]){FORM_ADJOINT, FORM_AFFINE},
                head.pool == POOL_LAST ? 2 : 1, &head, out); /* generators end with the text */
        break;
    case LINEAR:
        by_best(w, level, (const lstm_form[]){FORM_WORDS, FORM_ADJOINT, FORM_LINES}, 3, &head, out);
    }
    if (!(out->margin > -1e100)) /* NaN, too, proves nothing */
        out->margin = -INFINITY;
    return STET_OK;
}

const cert_family cert_bilstm = {
    .methods = methods,
    .n_auto = GBM, /* adjoint and linear are better than what follows */
    .dear = LINEAR,
    .prepare = prepare,
    .shared_free = shared_free,
    .work_new = work_new,
    .work_free = work_free,
    .open = open,
    .bound = bound,
};
