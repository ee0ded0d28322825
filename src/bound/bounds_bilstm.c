/* bound/bounds_bilstm.c - all bounds of the BiLSTM. */
#include <stdio.h>

#include "base/log.h"
#include "bound/batch_sets.h"
#include "bound/bounds.h"
#include "bound/gbm_gain.h"
#include "bound/gbm_lstm_ops.h"
#include "bound/hulls.h"
#include "bound/lstm_ranges.h"
#include "lexicon/sets.h"
#include "model/bilstm.h"

/* ---- growth bounds ------------------------------------------------------------------------ */

/* They bound states, after one step or many, so they hold for the largest and for the mean of a
 * unit's states as they do for the last. */

static node *term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                  gbm_report *report)
{
    node *omega = a->of == GBM_OF_LOGITS || a->of == GBM_OF_GAIN ? gbm_head(m, t, params) : NULL;
    return gbm_lstm_term(t, params, omega, a, report);
}

/* Both directions: v, h, c of H units each. */
static double entries(const model *m, bool logits)
{
    const double D = (double)m->dim, F = (double)m->desc->n_features(m), H = F / 2;
    return logits ? 2 * (D + 2 * H) : F * (D + H + 1);
}

/* ---- states ------------------------------------------------------------------------------- */

static size_t units(const model *m)
{
    return (size_t)((const bilstm_cfg *)m->cfg)->hidden;
}

static node *const *direction_of(const pass *p, int direction)
{
    return p->param + direction * LSTM_PER_DIRECTION;
}

static node *observed(const model *m, const pass *p, int direction, const box_words *w, node *box,
                      double forget, bool first)
{
    (void)m;
    return op_lstm_observed(p->t, direction_of(p, direction), w, box, forget, first);
}

static node *invariant(const model *m, const pass *p, int direction, node *words)
{
    return op_lstm_invariant(p->t, direction_of(p, direction), words, model_steps(m));
}

static node *around(const model *m, const pass *p, int direction, const box_words *w, double radius)
{
    (void)m;
    return op_lstm_around(p->t, direction_of(p, direction), w, radius);
}

static const state_bounds states = {units, observed, invariant, around};

/* ---- ranges over substitution sets -------------------------------------------------------- */

/* The texts as they are, where these are bounded, read the same products of their words. */
static void ranges(const model *m, pass *p, const worst_args *a, node *out[RANGE_SIDES])
{
    const size_t F = m->desc->n_features(m);
    const bilstm_pool pool = bilstm_pool_of(m);
    node *ends, *of;
    if (pool == POOL_LAST) {
        ends = of = op_bilstm_ranges(p->t, a->s, p->param, a->eps);
    } else { /* both only grow, so ends are made of ends */
        const spans cut = spans_cut(p->t, a->s->seq, model_span(m));
        const batch_sets *s = batch_sets_cut(p->t, a->s, &cut);
        of = op_bilstm_states_ranges(p->t, s, p->param, a->eps);
        ends = (pool == POOL_MAX ? op_seq_max : op_seq_mean)(p->t, spans_join(p->t, &cut, of),
                                                             a->s->seq);
    }
    if (a->s->seq == p->seq && !p->made)
        p->made = bilstm_ranges_made(p->t, of);
    out[RANGE_LOWER] = op_slice(p->t, ends, 0, F);
    out[RANGE_UPPER] = op_slice(p->t, ends, F, F);
}

/* ---- the matrix, over boxes of words and states ------------------------------------------- */

typedef struct lstm_job {
    const model *m;
    const stet_gbm_options *how;
    stet_gbm *g;
    arena mem;
    size_t H, D;
    real *v_lo, *v_hi;  /* (D), one after the other */
    real *states;       /* (2, 4, H) */
    state_box state[2]; /* the same: boxes of both directions' states */
    real *mv, *mh, *mc; /* of one direction */
    word_sets sets;
} lstm_job;

static stet_status lstm_alloc(lstm_job *j)
{
    const size_t H = j->H, D = j->D;
    j->v_lo = arena_new(&j->mem, real, 2 * D);
    j->mv = arena_new(&j->mem, real, H * (D + H + 1));
    j->states = arena_new(&j->mem, real, 8 * H);
    if (!j->v_lo || !j->mv || !j->states)
        return STET_ENOMEM;
    j->v_hi = j->v_lo + D;
    j->mh = j->mv + H * D;
    j->mc = j->mh + H * H;
    for (size_t d = 0; d < 2; d++)
        j->state[d] = box_in(j->states + 4 * d * H, H);
    return STET_OK;
}

/* Rows of the words that a text holds, one by position. */
static stet_status observe_text(lstm_job *j, const uint32_t *ids, size_t n, bool first)
{
    const arena_mark mark = arena_save(&j->mem);
    real *rows = arena_new(&j->mem, real, n * j->D),
         *h = arena_new(&j->mem, real, 2 * (n + 1) * j->H);
    uint32_t *index = arena_new(&j->mem, uint32_t, n);
    stet_status st = rows && h && index ? STET_OK : STET_ENOMEM;
    for (size_t t = 0; st == STET_OK && t < n; t++) {
        if (ids[t] >= j->m->n_words)
            st = error_set(STET_EUSAGE, "word id %u outside the vocabulary of %zu", ids[t],
                           j->m->n_words);
        index[t] = (uint32_t)t;
        for (size_t i = 0; st == STET_OK && i < j->D; i++)
            rows[t * j->D + i] = (real)j->m->table[ids[t] * j->D + i];
    }
    for (int d = 0; st == STET_OK && d < 2; d++) {
        real *c = h + (n + 1) * j->H;
        const lstm_weights w = gbm_lstm_weights(j->m, d);
        st = lstm_read(&w, rows, index, n, d == 1, &j->mem, h, c);
        if (st == STET_OK)
            box_observe(&j->state[d], j->H, h, c, n, 0, first);
    }
    arena_restore(&j->mem, mark);
    return st;
}

static stet_status state_boxes(lstm_job *j)
{
    const stet_corpus *c = j->how->texts;
    const size_t span = model_span(j->m);
    bool first = true;
    for (size_t i = 0; c && i < c->n_texts; i++) {
        const size_t len = (size_t)(c->start[i + 1] - c->start[i]),
                     n = len < j->m->max_len ? len : j->m->max_len;
        if (n == 0)
            continue;
        TRY(interrupt_status());
        for (size_t p = 0; p < n; p = span_end(span, n, p)) { /* pieces are read by themselves */
            TRY(observe_text(j, c->ids + c->start[i] + p, span_end(span, n, p) - p, first));
            first = false;
        }
    }
    for (int d = 0; first && d < 2; d++) {
        const lstm_weights w = gbm_lstm_weights(j->m, d);
        TRY(box_invariant(&w, j->v_lo, j->v_hi, model_steps(j->m), &j->mem, &j->state[d]));
    }
    char held[48] = "states that no text leaves";
    if (!first)
        snprintf(held, sizeof held, "states of %zu texts", c->n_texts);
    snprintf(j->g->boxes, sizeof j->g->boxes, "%s, %s",
             j->how->synonyms ? "synonyms of drawn words" : "all words", held);
    return STET_OK;
}

/* Adds share times the bounds over the present box of words. */
static stet_status add_bounds(lstm_job *j, double share)
{
    const size_t H = j->H, D = j->D;
    for (int d = 0; d < 2; d++) {
        const lstm_weights w = gbm_lstm_weights(j->m, d);
        const state_box *s = &j->state[d];
        const lstm_boxes box = {j->v_lo, j->v_hi, s->h_lo, s->h_hi, s->c_lo, s->c_hi};
        TRY(gbm_lstm(&w, &box, GBM_CELL_BOTH, &(lstm_gbm){.mv = j->mv, .mh = j->mh, .mc = j->mc}));
        for (size_t i = 0; i < H; i++) {
            float *row = j->g->m + ((size_t)d * H + i) * j->g->cols;
            for (size_t c = 0; c < D; c++)
                row[c] += (float)(share * (double)j->mv[i * D + c]);
            for (size_t c = 0; c < H; c++)
                row[D + c] += (float)(share * (double)j->mh[i * H + c]);
            row[D + H + i] += (float)(share * (double)j->mc[i]);
        }
        double rho;
        TRY(gbm_lstm_rho(&(lstm_cell_bounds){&w, &box, GBM_CELL_BOTH}, 1, NULL, &j->mem, &rho));
        j->g->contraction[d] += share * rho;
    }
    double logits;
    TRY(matrix_logit_sum(j->m, j->v_lo, j->states, &logits));
    j->g->logit_sum += share * logits;
    return STET_OK;
}

/* A word that can be replaced, from the texts or the vocabulary; any word if many draws find none.
 */
static uint32_t draw_word(const lstm_job *j, rng *r)
{
    enum { DRAWS = 4096 };
    const stet_corpus *c = j->how->texts;
    uint32_t w = STET_UNK;
    for (int k = 0; k < DRAWS; k++) {
        w = c && c->n_tokens ? c->ids[rng_below(r, c->n_tokens)]
                             : (uint32_t)rng_below(r, j->m->n_words);
        if (w < j->sets.n_words && j->sets.start[w + 1] > j->sets.start[w])
            return w;
    }
    return w < j->m->n_words ? w : STET_UNK;
}

static stet_status lstm_fill(lstm_job *j)
{
    TRY(lstm_alloc(j));
    table_hull(j->m, j->v_lo, j->v_hi);
    TRY(state_boxes(j));
    if (!j->how->synonyms)
        return add_bounds(j, 1);
    stet_subst *own; /* without words that no text can hold */
    TRY(subst_typed(j->how->synonyms, &j->m->reader, &own));
    const stet_status st = word_sets_make(own ? own : j->how->synonyms, j->m->vocab, &j->sets);
    stet_subst_free(own);
    TRY(st);
    rng r = rng_stream(j->how->seed, STREAM_SAMPLE, 0);
    const size_t words = j->how->words ? j->how->words : 1;
    for (size_t k = 0; k < words; k++) {
        TRY(interrupt_status());
        progress("words", k, words, NULL);
        word_hull(&j->sets, j->m, draw_word(j, &r), j->v_lo, j->v_hi);
        TRY(add_bounds(j, 1 / (double)words));
    }
    progress("words", words, words, NULL);
    return STET_OK;
}

static stet_status matrix(const model *m, const stet_gbm_options *how, stet_gbm *g)
{
    lstm_job j = {.m = m, .how = how, .g = g, .H = units(m), .D = m->dim};
    TRY(matrix_init(
        g, m, &(matrix_shape){.rows = 2 * j.H, .group = j.H, .map = j.H, .cols = {j.D, j.H, j.H}}));
    g->n_contraction = 2;
    const stet_status st = lstm_fill(&j);
    word_sets_deinit(&j.sets);
    arena_deinit(&j.mem);
    return st;
}

static void row_name(const stet_gbm *g, size_t row, char *out, size_t size)
{
    snprintf(out, size, "%s, unit %zu", row / g->group ? "reverse" : "forward", row % g->group);
}

static void col_name(const stet_gbm *g, size_t col, char *out, size_t size)
{
    if (col < g->part_end[STET_GBM_INPUT])
        snprintf(out, size, "word coordinate %zu", col);
    else if (col < g->part_end[STET_GBM_STATE])
        snprintf(out, size, "h %zu", col - g->part_end[STET_GBM_INPUT]);
    else
        snprintf(out, size, "c %zu", col - g->part_end[STET_GBM_STATE]);
}

const model_bounds bounds_bilstm = {
    .term = term,
    .entries = entries,
    .states = &states,
    .ranges = ranges,
    .matrix = matrix,
    .row_name = row_name,
    .col_name = col_name,
};
