/* bound/inspect.c - see stet/bound.h: one matrix for every model, and the constants that follow
 * from it. */
#include "stet/bound.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "bound/gbm_cnn.h"
#include "bound/gbm_gain.h"
#include "bound/gbm_ops.h"
#include "bound/gbm_s4.h"
#include "bound/hulls.h"
#include "bound/lstm_boxes.h"
#include "model/bilstm.h"
#include "model/cnn.h"
#include "model/kinds.h"
#include "model/s4.h"

/* ---- memory ------------------------------------------------------------------------------- */

static stet_status shape_up(stet_gbm *g, const char *kind, size_t rows, size_t cols, size_t group)
{
    snprintf(g->kind, sizeof g->kind, "%s", kind);
    g->rows = rows;
    g->cols = cols;
    g->group = group;
    size_t cells;
    if (!size_mul(rows, cols, &cells))
        return error_set(STET_ENOMEM, "growth bound matrix of %zu x %zu is too large", rows, cols);
    g->m = mem_zalloc(cells, sizeof *g->m);
    g->row_sum = mem_zalloc(rows, sizeof *g->row_sum);
    g->col_sum = mem_zalloc(cols, sizeof *g->col_sum);
    return g->m && g->row_sum && g->col_sum ? STET_OK : STET_ENOMEM;
}

void stet_gbm_deinit(stet_gbm *g)
{
    mem_free(g->m);
    mem_free(g->row_sum);
    mem_free(g->col_sum);
    *g = (stet_gbm){0};
}

static void part_ends(stet_gbm *g, size_t input, size_t state, size_t cell)
{
    g->part_end[STET_GBM_INPUT] = input;
    g->part_end[STET_GBM_STATE] = input + state;
    g->part_end[STET_GBM_CELL] = input + state + cell;
}

/* Value of the logits' term; `boxes` is a bilstm's. */
static stet_status logit_sum(const model *m, const lstm_boxes *boxes, double *out)
{
    arena mem = {0};
    tape t;
    node **params;
    gbm_report report;
    tape_init(&t, &mem, false);
    stet_status st = model_nodes(m, &t, NULL, &params);
    if (st == STET_OK) {
        const gbm_term_args a = {.of = GBM_OF_LOGITS, .k = {1, 1, 1}, .boxes = boxes};
        const node *y = gbm_term(m, &t, params, &a, &report);
        st = tape_status(&t);
        *out = st == STET_OK ? (double)y->value[0] : 0;
    }
    arena_deinit(&mem);
    return st;
}

/* ---- CNN ---------------------------------------------------------------------------------- */

static stet_status cnn_matrix(const model *m, stet_gbm *g)
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k), F = (size_t)((const cnn_cfg *)m->cfg)->filters, D = m->dim;
    TRY(shape_up(g, "cnn", n * F, D, F));
    part_ends(g, D, 0, 0);
    snprintf(g->boxes, sizeof g->boxes, "all words");
    real *part = mem_alloc(F * D, sizeof *part);
    if (!part)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        gbm_conv(&(conv_weights){F, D, k[i], model_value(m, (int)(2 * i))}, part);
        g->group_tag[i] = k[i];
        for (size_t e = 0; e < F * D; e++)
            g->m[i * F * D + e] = (float)part[e];
    }
    mem_free(part);
    return logit_sum(m, NULL, &g->logit_sum);
}

/* ---- S4 ----------------------------------------------------------------------------------- */

/* Channels do not mix in the state space: a row holds its channel's input and modes, and nothing
 * else is not zero. */
static stet_status s4_matrix(const model *m, stet_gbm *g)
{
    const s4_cfg *cfg = m->cfg;
    const size_t H = (size_t)cfg->channels, n = (size_t)cfg->state / 2,
                 layers = (size_t)cfg->layers;
    TRY(shape_up(g, "s4", layers * H, 1 + n, H));
    part_ends(g, 1, n, 0);
    snprintf(g->boxes, sizeof g->boxes, "all inputs and states");
    arena mem = {0};
    real *input = arena_new(&mem, real, H), *state = arena_new(&mem, real, H * n);
    stet_status st = input && state ? STET_OK : STET_ENOMEM;
    for (size_t l = 0; st == STET_OK && l < layers; l++) {
        const int first = S4_FIRST_LAYER + (int)l * S4_PER_LAYER;
        const s4_weights w = {H,
                              n,
                              model_value(m, first + S4_A),
                              model_value(m, first + S4_W),
                              model_value(m, first + S4_P),
                              model_value(m, first + S4_B),
                              model_value(m, first + S4_C),
                              model_value(m, first + S4_LOG_DT),
                              model_value(m, first + S4_D)};
        st = gbm_s4(&w, &mem, input, state);
        for (size_t h = 0; st == STET_OK && h < H; h++) {
            float *row = g->m + (l * H + h) * (1 + n);
            row[0] = (float)input[h];
            for (size_t i = 0; i < n; i++)
                row[1 + i] = (float)state[h * n + i];
        }
    }
    arena_deinit(&mem);
    return st == STET_OK ? logit_sum(m, NULL, &g->logit_sum) : st;
}

/* ---- BiLSTM ------------------------------------------------------------------------------- */

typedef struct lstm_job {
    const model *m;
    const stet_gbm_options *how;
    stet_gbm *g;
    arena mem;
    size_t H, D;
    real *v_lo, *v_hi;  /* (D) */
    state_box state[2]; /* boxes of both directions' states */
    real *mv, *mh, *mc; /* of one direction */
    word_sets sets;
} lstm_job;

static stet_status lstm_alloc(lstm_job *j)
{
    const size_t H = j->H, D = j->D;
    j->v_lo = arena_new(&j->mem, real, 2 * D);
    j->mv = arena_new(&j->mem, real, H * (D + H + 1));
    real *box = arena_new(&j->mem, real, 8 * H);
    if (!j->v_lo || !j->mv || !box)
        return STET_ENOMEM;
    j->v_hi = j->v_lo + D;
    j->mh = j->mv + H * D;
    j->mc = j->mh + H * H;
    for (size_t d = 0; d < 2; d++)
        j->state[d] = (state_box){box + (4 * d) * H, box + (4 * d + 1) * H, box + (4 * d + 2) * H,
                                  box + (4 * d + 3) * H};
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
        const lstm_weights w = gbm_lstm_weights(j->m, d);
        real *c = h + (n + 1) * j->H;
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
    bool first = true;
    for (size_t i = 0; c && i < c->n_texts; i++) {
        const size_t len = (size_t)(c->start[i + 1] - c->start[i]),
                     n = len < j->m->max_len ? len : j->m->max_len;
        if (n == 0)
            continue;
        TRY(interrupt_status());
        TRY(observe_text(j, c->ids + c->start[i], n, first));
        first = false;
    }
    for (int d = 0; first && d < 2; d++) {
        const lstm_weights w = gbm_lstm_weights(j->m, d);
        TRY(box_invariant(&w, j->v_lo, j->v_hi, j->m->max_len, &j->mem, &j->state[d]));
    }
    char states[48] = "states that no text leaves";
    if (!first)
        snprintf(states, sizeof states, "states of %zu texts", c->n_texts);
    snprintf(j->g->boxes, sizeof j->g->boxes, "%s, %s",
             j->how->synonyms ? "synonyms of drawn words" : "all words", states);
    return STET_OK;
}

/* Adds share times the bounds over one box of words. */
static stet_status add_bounds(lstm_job *j, const real *v_lo, const real *v_hi, double share)
{
    const size_t H = j->H, D = j->D;
    lstm_boxes both[2];
    for (int d = 0; d < 2; d++) {
        const lstm_weights w = gbm_lstm_weights(j->m, d);
        const state_box *s = &j->state[d];
        both[d] = (lstm_boxes){v_lo, v_hi, s->h_lo, s->h_hi, s->c_lo, s->c_hi};
        TRY(gbm_lstm(&w, &both[d], GBM_CELL_BOTH,
                     &(lstm_gbm){.mv = j->mv, .mh = j->mh, .mc = j->mc}));
        for (size_t i = 0; i < H; i++) {
            float *row = j->g->m + ((size_t)d * H + i) * j->g->cols;
            for (size_t c = 0; c < D; c++)
                row[c] += (float)(share * (double)j->mv[i * D + c]);
            for (size_t c = 0; c < H; c++)
                row[D + c] += (float)(share * (double)j->mh[i * H + c]);
            row[D + H + i] += (float)(share * (double)j->mc[i]);
        }
        double rho;
        TRY(gbm_lstm_rho(&(lstm_cell_bounds){&w, &both[d], GBM_CELL_BOTH}, 1, NULL, &j->mem, &rho));
        j->g->contraction[d] += share * rho;
    }
    double logits;
    TRY(logit_sum(j->m, both, &logits));
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
        return add_bounds(j, j->v_lo, j->v_hi, 1);
    TRY(word_sets_make(j->how->synonyms, j->m->vocab, &j->sets));
    rng r = rng_stream(j->how->seed, STREAM_SAMPLE, 0);
    const size_t words = j->how->words ? j->how->words : 1;
    for (size_t k = 0; k < words; k++) {
        TRY(interrupt_status());
        progress("words", k, words, NULL);
        word_hull(&j->sets, j->m, draw_word(j, &r), j->v_lo, j->v_hi);
        TRY(add_bounds(j, j->v_lo, j->v_hi, 1 / (double)words));
    }
    progress("words", words, words, NULL);
    return STET_OK;
}

static stet_status lstm_matrix(const model *m, const stet_gbm_options *how, stet_gbm *g)
{
    lstm_job j = {
        .m = m, .how = how, .g = g, .H = (size_t)((const bilstm_cfg *)m->cfg)->hidden, .D = m->dim};
    TRY(shape_up(g, "bilstm", 2 * j.H, j.D + 2 * j.H, j.H));
    part_ends(g, j.D, j.H, j.H);
    g->n_contraction = 2;
    const stet_status st = lstm_fill(&j);
    word_sets_deinit(&j.sets);
    arena_deinit(&j.mem);
    return st;
}

/* ---- constants ---------------------------------------------------------------------------- */

/* The largest singular value of rows [from, from + n) by power iteration on M^T M; from below, to
 * about 1e-9. */
static stet_status norm2(const stet_gbm *g, size_t from, size_t n, double *out)
{
    enum { STEPS = 1000 };
    double *x = mem_alloc(2 * g->cols + n, sizeof *x);
    if (!x)
        return STET_ENOMEM;
    double *next = x + g->cols, *y = next + g->cols, last = 0;
    for (size_t c = 0; c < g->cols; c++)
        x[c] = 1 / sqrt((double)g->cols);
    *out = 0;
    for (int k = 0; k < STEPS; k++) {
        double size = 0;
        memset(next, 0, g->cols * sizeof *next);
        for (size_t r = 0; r < n; r++) {
            const float *row = g->m + (from + r) * g->cols;
            y[r] = 0;
            for (size_t c = 0; c < g->cols; c++)
                y[r] += (double)row[c] * x[c];
            for (size_t c = 0; c < g->cols; c++)
                next[c] += (double)row[c] * y[r];
        }
        for (size_t c = 0; c < g->cols; c++)
            size += next[c] * next[c];
        size = sqrt(size); /* |M^T M x| grows towards the square of the norm */
        *out = sqrt(size);
        if (!(size > 0) || !isfinite(size) || fabs(size - last) < 1e-13 * size)
            break;
        last = size;
        for (size_t c = 0; c < g->cols; c++)
            x[c] = next[c] / size;
    }
    mem_free(x);
    return STET_OK;
}

static double max2(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* Column sums and norms belong to one map: a direction of a bilstm, all filters of a cnn, a channel
 * of s4. */
static stet_status constants(stet_gbm *g)
{
    const bool diagonal = strcmp(g->kind, "s4") == 0;
    const size_t map = diagonal ? 1 : strcmp(g->kind, "cnn") == 0 ? g->rows : g->group;
    double *col = mem_alloc(g->cols, sizeof *col);
    if (!col)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    for (size_t from = 0; st == STET_OK && from < g->rows; from += map) {
        memset(col, 0, g->cols * sizeof *col);
        for (size_t r = from; r < from + map; r++)
            for (size_t c = 0; c < g->cols; c++) {
                const double v = (double)g->m[r * g->cols + c];
                const int part = c < g->part_end[0]   ? STET_GBM_INPUT
                                 : c < g->part_end[1] ? STET_GBM_STATE
                                                      : STET_GBM_CELL;
                g->by_part[part] += v;
                g->row_sum[r] += v;
                g->col_sum[c] += v;
                col[c] += v;
                g->lipschitz.one_inf = max2(g->lipschitz.one_inf, v);
            }
        for (size_t r = from; r < from + map; r++)
            g->lipschitz.inf_inf = max2(g->lipschitz.inf_inf, g->row_sum[r]);
        for (size_t c = 0; c < g->cols; c++)
            g->lipschitz.one_one = max2(g->lipschitz.one_one, col[c]);
        double norm = 0;
        st = norm2(g, from, map, &norm);
        g->lipschitz.two_two = max2(g->lipschitz.two_two, norm);
    }
    mem_free(col);
    g->sum = g->by_part[STET_GBM_INPUT] + g->by_part[STET_GBM_STATE] + g->by_part[STET_GBM_CELL];
    return st;
}

stet_status stet_gbm_of(const stet_model *m, const stet_gbm_options *how, stet_gbm *out)
{
    *out = (stet_gbm){0};
    stet_status st =
        m->desc == &model_cnn      ? cnn_matrix(m, out)
        : m->desc == &model_bilstm ? lstm_matrix(m, how, out)
        : m->desc == &model_s4
            ? s4_matrix(m, out)
            : error_set(STET_ENOTSUP, "no growth bounds are known for a %s", m->desc->name);
    if (st == STET_OK)
        st = constants(out);
    if (st != STET_OK)
        stet_gbm_deinit(out);
    return st;
}

/* ---- names -------------------------------------------------------------------------------- */

const char *stet_gbm_row_name(const stet_gbm *g, size_t row, char *out, size_t size)
{
    const size_t group = row / g->group, at = row % g->group;
    if (strcmp(g->kind, "cnn") == 0)
        snprintf(out, size, "width %zu, filter %zu", g->group_tag[group], at);
    else if (strcmp(g->kind, "bilstm") == 0)
        snprintf(out, size, "%s, unit %zu", group ? "reverse" : "forward", at);
    else
        snprintf(out, size, "layer %zu, channel %zu", group, at);
    return out;
}

const char *stet_gbm_col_name(const stet_gbm *g, size_t col, char *out, size_t size)
{
    const bool s4 = strcmp(g->kind, "s4") == 0;
    if (col < g->part_end[STET_GBM_INPUT])
        s4 ? snprintf(out, size, "input") : snprintf(out, size, "word coordinate %zu", col);
    else if (col < g->part_end[STET_GBM_STATE])
        snprintf(out, size, s4 ? "mode %zu" : "h %zu", col - g->part_end[STET_GBM_INPUT]);
    else
        snprintf(out, size, "c %zu", col - g->part_end[STET_GBM_STATE]);
    return out;
}
