/* defense/dne_rule.c - how a model trained by dne.c answers: by the mean over several random mixtures of
 * each word and its substitutes. A compiled model mixes what it keeps of words; where a device answers
 * for it, that also draws. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"
#include "defense/dne.h"
#include "defense/kept_sets.h"
#include "model/answers.h"

/* ---- the sets that it keeps --------------------------------------------------------------- */

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

/* ---- answers ------------------------------------------------------------------------------ */

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

/* The draws of a text derive from its words. */
static uint64_t seed_of(const rule *r, const uint32_t *ids, size_t n)
{
    return hash_bytes(ids, n * sizeof *ids, 1 + r->redraw);
}

/* A mixture for each point, as logarithms. */
static void draw_mixtures(const rule *r, const dne_copies *c, real *state)
{
    const dne_cfg *cfg = r->cfg;
    const seq_index *q = &c->own.seq;
    double eta[MOST_SLOTS];
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t seed = seed_of(r, c->ids[i], c->len[i]);
        for (size_t copy = 0; copy < c->draws; copy++) {
            const uint32_t *begin = q->start + c->place[i * c->draws + copy];
            for (uint32_t t = begin[0]; t < begin[1]; t++) {
                const size_t first = c->h.start[q->row[t]], n = c->h.start[q->row[t] + 1] - first;
                if (n == 1)
                    continue; /* the word itself */
                rng draws = rng_stream(seed, STREAM_DEFENSE, mixture_stream(copy, t - begin[0]));
                dirichlet(cfg, &draws, n, n, eta);
                for (size_t j = 0; j < n; j++)
                    state[(first + j) * HULL_STATE + HULL_W] = (real)log(eta[j] + 1e-30);
            }
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
    node *rows = pass_rows(&p, c->h.word, c->h.n_rows),
         *slots = tape_numbers(&t, shape2(c->h.n_slots, HULL_STATE), state);
    TRY(tape_status(&t));
    /* Where the network begins with something linear, what that makes of the words is mixed: then a
     * mixture has no product of its own, and nobody reads its vector. */
    node *made = m->desc->make ? m->desc->make(m, &p, rows) : NULL;
    p.made = made ? hull_points(&t, &c->h, slots, made) : NULL;
    p.rows = made ? tape_constant(&t, shape2(c->h.n_points, m->dim), rows->value)
                  : hull_points(&t, &c->h, slots, rows);
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

/* One answer of what M copies of a text say: share (M, K), and room for another K behind it. */
static void join(double *share, size_t M, size_t K, float *logits)
{
    double *mean = share + M * K;
    dne_ensemble(share, M, K, mean);
    for (size_t k = 0; k < K; k++)
        logits[k] = (float)log(mean[k] + 1e-30);
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
    double *share = arena_new(mem, double, (M + 1) * K);
    if (!state || !z || !share)
        return STET_ENOMEM;
    draw_mixtures(r, &c, state);
    TRY(answer_at(m, &c, state, mem, z));
    for (size_t i = 0; i < c.n; i++) {
        for (size_t k = 0; k < M; k++)
            hull_weights(z + c.place[i * M + k] * K, 1, K, share + k * K);
        join(share, M, K, logits + i * K);
    }
    return STET_OK;
}

/* ---- the same of a compiled model, here or on a device (model/answers.h) --------------------- */

static size_t substitutes(const dne_cfg *cfg, const word_sets *s, uint32_t w)
{
    const size_t n = s->start[w + 1] - s->start[w], most = (size_t)cfg->most - 1;
    return n < most ? n : most;
}

/* The slots of each word in the order of hulls_make: its substitutes, then itself. */
static stet_status mixed_make(const rule *r, const model *m, const stet_corpus *c, arena *mem,
                              mixed_texts *out)
{
    const dne_cfg *cfg = r->cfg;
    const word_sets *s = &((const kept_sets *)r->state)->words;
    size_t words = 0, slots = 0;
    for (size_t i = 0; i < c->n_texts; i++) {
        size_t n;
        const uint32_t *ids = corpus_rows(m, c, i, &n);
        words += n;
        for (size_t t = 0; t < n; t++)
            slots += substitutes(cfg, s, ids[t]) + 1;
    }
    uint64_t *start = arena_new(mem, uint64_t, c->n_texts + 1),
             *seed = arena_new(mem, uint64_t, c->n_texts + 1);
    uint32_t *slot_at = arena_new(mem, uint32_t, words + 1),
             *slot = arena_new(mem, uint32_t, slots + 1);
    if (!start || !seed || !slot_at || !slot)
        return STET_ENOMEM;
    *out = (mixed_texts){c->n_texts, (size_t)cfg->draws, cfg->alpha, start, slot_at, slot, seed};
    size_t word = 0;
    slot_at[0] = 0;
    start[0] = 0;
    for (size_t i = 0; i < c->n_texts; i++) {
        size_t n;
        const uint32_t *ids = corpus_rows(m, c, i, &n);
        seed[i] = seed_of(r, ids, n);
        for (size_t t = 0; t < n; t++) {
            uint32_t *to = slot + slot_at[word];
            const size_t others = substitutes(cfg, s, ids[t]);
            memcpy(to, s->word + s->start[ids[t]], others * sizeof *to);
            to[others] = ids[t];
            slot_at[word + 1] = slot_at[word] + (uint32_t)others + 1;
            word++;
        }
        start[i + 1] = word;
    }
    return STET_OK;
}

/* weight (copies, slots) of the mixtures, as a device draws them. */
static void draw_weights(const dne_cfg *cfg, const mixed_texts *t, real *weight)
{
    const size_t slots = t->slot_at[t->start[t->n]];
    double eta[MOST_SLOTS];
    for (size_t i = 0; i < t->n; i++)
        for (size_t copy = 0; copy < t->copies; copy++)
            for (size_t w = t->start[i]; w < t->start[i + 1]; w++) {
                const size_t n = t->slot_at[w + 1] - t->slot_at[w];
                real *const to = weight + copy * slots + t->slot_at[w];
                rng r =
                    rng_stream(t->seed[i], STREAM_DEFENSE, mixture_stream(copy, w - t->start[i]));
                eta[0] = 1;
                if (n > 1)
                    dirichlet(cfg, &r, n, n, eta);
                for (size_t k = 0; k < n; k++)
                    to[k] = (real)eta[k];
            }
}

static stet_status ask_mixtures(const dne_cfg *cfg, const model *m, const mixed_texts *t,
                                arena *mem, float *z)
{
    if (m->place)
        return answers_mixtures(m->place->on, t, z);
    real *weight = arena_new(mem, real, t->copies * t->slot_at[t->start[t->n]]);
    if (!weight)
        return STET_ENOMEM;
    draw_weights(cfg, t, weight);
    return m->desc->mixtures(m, t, weight, z);
}

static stet_status answer_compiled(const rule *r, const model *m, const stet_corpus *c, arena *mem,
                                   float *logits)
{
    const dne_cfg *cfg = r->cfg;
    const size_t M = (size_t)cfg->draws, K = m->n_classes;
    mixed_texts t;
    TRY(mixed_make(r, m, c, mem, &t));
    float *z = arena_new(mem, float, c->n_texts *M *K);
    double *share = arena_new(mem, double, (M + 1) * K);
    real *row = arena_new(mem, real, K);
    if (!z || !share || !row)
        return STET_ENOMEM;
    TRY(ask_mixtures(cfg, m, &t, mem, z));
    for (size_t i = 0; i < c->n_texts; i++) {
        for (size_t k = 0; k < M; k++) {
            for (size_t j = 0; j < K; j++)
                row[j] = (real)z[(i * M + k) * K + j];
            hull_weights(row, 1, K, share + k * K);
        }
        join(share, M, K, logits + i * K);
    }
    return STET_OK;
}

static stet_status predict_all(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    enum { ROWS_AT_ONCE = 1 << 15, COMPILED_AT_ONCE = 1 << 17 }; /* or those of a text */
    const size_t M = (size_t)((const dne_cfg *)r->cfg)->draws;
    const bool there = m->place && answers_mixtures_there(m->place->on),
               compiled = there || (m->desc->mixtures && model_compiled_here(m));
    const size_t most = compiled ? COMPILED_AT_ONCE : ROWS_AT_ONCE;
    arena mem = {0};
    batcher b = {0};
    stet_status st = compiled ? STET_OK : batcher_init(&b, m);
    for (size_t i = 0, n; st == STET_OK && i < c->n_texts; i += n) {
        n = there ? c->n_texts : 1;
        while (i + n < c->n_texts && M * (c->start[i + n] - c->start[i]) < most)
            n++;
        const stet_corpus piece = corpus_piece(c, i, n);
        float *const to = logits + i * m->n_classes;
        st =
            compiled ? answer_compiled(r, m, &piece, &mem, to) : answer(r, m, &piece, &b, &mem, to);
        arena_restore(&mem, (arena_mark){0});
    }
    batcher_deinit(&b);
    arena_deinit(&mem);
    return st;
}

const rule_desc dne_rule = {
    .name = "dne",
    .opts = dne_opts,
    .cfg_size = sizeof(dne_cfg),
    .make = make,
    .load = load,
    .save = save,
    .end = rule_end,
    .predict_all = predict_all,
    .on_device = true,
    .mixes = true,
    .answers_draw = true,
};
