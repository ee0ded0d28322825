/* defense/atfl.c - adversarial training with first-order word swaps and logit pairing (ATFL: Wang et
 * al. 2021): every text has a copy in which words are swapped to raise the loss, both are trained
 * on, and their logits are drawn together. docs/defences.md. */
#include "defense/atfl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "defense/ascc.h"
#include "defense/defenses.h"

static const stet_opt opts[] = {
    STET_OPT_INT("atfl-most", atfl_cfg, most, "20", 0, 1000, "N",
                 "atfl: the first N substitutes of a word are tried"),
    STET_OPT_INT("atfl-rounds", atfl_cfg, rounds, "30", 0, 10000, "N",
                 "atfl: rounds of the attack, a pass each"),
    STET_OPT_INT("atfl-at-once", atfl_cfg, at_once, "1", 1, 1000, "N",
                 "atfl: words of a text that a round swaps"),
    STET_OPT_REAL("atfl-cap", atfl_cfg, cap, "0.25", 0, 1, "SHARE",
                  "atfl: largest share of a text's words that is swapped"),
    STET_OPT_REAL("atfl-pairing", atfl_cfg, pairing, "0.5", 0, 1e6, "X",
                  "atfl: weight of the squared difference between the logits of text and copy"),
    STET_OPT_END,
};

/* ---- the attack --------------------------------------------------------------------------- */

/* Everything about the attack of one batch. Positions are those of the whole batch of clean texts;
 * rows are those of its words and their substitutes. */
typedef struct attack {
    const atfl_state *s;
    hulls h;
    batch clean;
    const real *vector; /* (h.n_rows, D) */
    node *made; /* what the model makes of these (model_desc.make), for all rounds; or NULL */
    size_t D, K;
    uint32_t *now;  /* (T) the row of each position's word */
    bool *used;     /* (h.n_slots) */
    int64_t *round; /* (T) in which it was changed last; 0: never */
    bool *done;     /* (texts) */
    size_t *count;  /* (texts) positions changed */
    /* of a round */
    uint32_t *text; /* which texts are asked, as places of `clean` */
    int64_t turn;   /* 1, 2, ... */
    batch asked;
    const real *slope, *logits; /* (its positions, D), (its texts, K) */
} attack;

static size_t words_of(const attack *a, size_t b)
{
    return a->clean.seq.start[b + 1] - a->clean.seq.start[b];
}

/* No more words may change. */
static bool is_full(const attack *a, size_t b)
{
    return (double)(a->count[b] + 1) > a->s->cfg.cap * (double)words_of(a, b);
}

double swap_score(const real *from, const real *to, const real *g, size_t dim)
{
    double score = 0;
    for (size_t d = 0; d < dim; d++)
        score += (double)((to[d] - from[d]) * g[d]);
    return score;
}

/* The unused slot of a position whose vector lies farthest along g; its score, -INFINITY: none. */
static double best_slot(const attack *a, size_t pos, const real *g, size_t *slot)
{
    const uint32_t word = a->clean.seq.row[pos];
    const size_t n = a->h.first[word + 1] - a->h.first[word] - 1; /* the last is the word itself */
    const real *from = a->vector + a->now[pos] * a->D;
    double best = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        const real *to = a->vector + a->h.row[a->h.first[word] + j] * a->D;
        if (a->used[a->h.start[pos] + j])
            continue;
        const double score = swap_score(from, to, g, a->D);
        if (score > best) {
            best = score;
            *slot = j;
        }
    }
    return best;
}

static void swap_word(attack *a, size_t b, size_t pos, size_t slot)
{
    a->now[pos] = a->h.row[a->h.first[a->clean.seq.row[pos]] + slot];
    a->used[a->h.start[pos] + slot] = true;
    a->count[b] += a->round[pos] == 0;
    a->round[pos] = a->turn;
}

/* One round for one text, place `i` of those asked. */
static void attack_text(void *ctx, size_t i, int worker)
{
    (void)worker;
    attack *a = ctx;
    const size_t b = a->text[a->asked.order[i]], first = a->clean.seq.start[b], n = words_of(a, b);
    size_t answer = 0;
    for (size_t k = 1; k < a->K; k++)
        if (a->logits[i * a->K + k] > a->logits[i * a->K + answer])
            answer = k;
    a->done[b] = answer != (size_t)a->clean.label[b];
    for (int64_t swap = 0; swap < a->s->cfg.at_once && !a->done[b]; swap++) {
        double most = -INFINITY;
        size_t at = 0, with = 0, slot = 0;
        for (size_t p = 0; p < n; p++) {
            const real *g = a->slope + (a->asked.seq.start[i] + p) * a->D;
            const double score = best_slot(a, first + p, g, &slot);
            if (score > most && a->round[first + p] != a->turn) {
                most = score;
                at = first + p;
                with = slot;
            }
        }
        if (most == -INFINITY)
            a->done[b] = true; /* nothing is left to try */
        else
            swap_word(a, b, at, with);
        a->done[b] |= is_full(a, b);
    }
}

/* The texts that are not done as a batch of their own, one row per position; how many. */
static stet_status ask(attack *a, const step_view *v, size_t *n)
{
    step_texts t = {.mem = v->mem};
    *n = 0;
    for (size_t b = 0; b < a->clean.seq.n_texts; b++) {
        if (a->done[b])
            continue;
        const size_t first = a->clean.seq.start[b], words = words_of(a, b);
        uint32_t *ids = arena_new(v->mem, uint32_t, words);
        if (!ids)
            return STET_ENOMEM;
        for (size_t i = 0; i < words; i++)
            ids[i] = a->h.word[a->now[first + i]];
        TRY(texts_add(&t, ids, words, a->clean.label[b]));
        a->text[(*n)++] = (uint32_t)b;
    }
    batch shared;
    if (*n == 0)
        return STET_OK;
    TRY(texts_batch(v, &t, &shared));
    return batch_spread(&shared, v->mem, &a->asked);
}

static stet_status host_copy(const step_view *v, const node *x, const real **out)
{
    real *copy = x ? arena_new(v->mem, real, shape_count(x->shape)) : NULL;
    *out = copy;
    TRY(tape_status(v->p->t));
    return copy ? tape_download(v->p->t, x, copy) : STET_ENOMEM;
}

/* The same of the words that are asked, position by position. */
static stet_status made_of_asked(const attack *a, const step_view *v, size_t n, node **out)
{
    uint32_t *row = arena_new(v->mem, uint32_t, a->asked.seq.n_tokens);
    *out = NULL;
    if (!row)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        memcpy(row + a->asked.seq.start[i],
               a->now + a->clean.seq.start[a->text[a->asked.order[i]]],
               (a->asked.seq.start[i + 1] - a->asked.seq.start[i]) * sizeof *row);
    tape *t = v->p->t;
    if (a->made)
        *out = op_gather(t, tape_constant(t, a->made->shape, a->made->value), row,
                         a->asked.seq.n_tokens);
    return tape_status(t);
}

static stet_status attack_round(attack *a, const step_view *v, bool *more)
{
    size_t n;
    TRY(ask(a, v, &n));
    *more = n > 0;
    if (n == 0)
        return STET_OK;
    probe p = {.x = &a->asked};
    TRY(made_of_asked(a, v, n, &p.made));
    TRY(probe_run(v, &p));
    TRY(host_copy(v, p.drows, &a->slope));
    TRY(host_copy(v, p.logits, &a->logits));
    pool_run(n, attack_text, a);
    return STET_OK;
}

/* Rounds on a tape of their own, whose memory is given back after each. */
static stet_status attack_all(attack *a, const step_view *v)
{
    bool more = true;
    for (a->turn = 1; a->turn <= a->s->cfg.rounds && more; a->turn++) {
        store_arena *values = v->p->t->values;
        const arena_mark mark = arena_save(v->mem);
        const store_mark held = values ? store_arena_save(values) : (store_mark){0};
        tape t;
        pass p = {.t = &t};
        step_view beside = *v;
        tape_init(&t, v->mem, values, false);
        beside.p = &p;
        const stet_status st = attack_round(a, &beside, &more);
        if (values)
            store_arena_restore(values, held);
        arena_restore(v->mem, mark);
        TRY(st);
    }
    return STET_OK;
}

static stet_status attack_begin(attack *a, atfl_state *s, const step_view *v, const step_texts *t)
{
    step_texts own = *t;
    own.n = t->n_own;
    *a = (attack){.s = s, .D = v->m->dim, .K = v->m->n_classes};
    TRY(texts_batch(v, &own, &a->clean));
    TRY(hulls_make(&s->sets, &a->clean, (size_t)s->cfg.most, s->slot, v->mem, &a->h));
    pass q = {.t = v->p->t};
    TRY(pass_params(&q, v->m, v->w, NULL));
    node *rows = pass_rows(&q, a->h.word, a->h.n_rows);
    TRY(host_copy(v, rows, &a->vector));
    a->made = v->m->desc->make ? v->m->desc->make(v->m, &q, rows) : NULL;
    const size_t T = a->clean.seq.n_tokens, B = a->clean.seq.n_texts;
    a->now = arena_new(v->mem, uint32_t, T);
    a->used = arena_znew(v->mem, bool, a->h.n_slots);
    a->round = arena_znew(v->mem, int64_t, T);
    a->done = arena_new(v->mem, bool, B);
    a->count = arena_znew(v->mem, size_t, B);
    a->text = arena_new(v->mem, uint32_t, B);
    if (!a->now || !a->used || !a->round || !a->done || !a->count || !a->text)
        return STET_ENOMEM;
    memcpy(a->now, a->clean.seq.row, T * sizeof *a->now); /* the batch's words come first */
    for (size_t b = 0; b < B; b++)
        a->done[b] = is_full(a, b);
    return STET_OK;
}

stet_status fgpm(atfl_state *s, const step_view *v, const step_texts *t, uint32_t **ids)
{
    attack a;
    TRY(attack_begin(&a, s, v, t));
    TRY(attack_all(&a, v));
    s->n_changed = 0;
    s->n_words = a.clean.seq.n_tokens;
    for (size_t b = 0; b < a.clean.seq.n_texts; b++) {
        const step_text *own = &t->v[a.clean.order[b]];
        uint32_t *copy = ids[a.clean.order[b]] = arena_new(v->mem, uint32_t, own->n + 1);
        if (!copy)
            return STET_ENOMEM;
        memcpy(copy, own->ids, own->n * sizeof *copy);
        for (size_t i = 0; i < words_of(&a, b) && i < own->n; i++)
            copy[i] = a.h.word[a.now[a.clean.seq.start[b] + i]];
        s->n_changed += a.count[b];
    }
    return STET_OK;
}

/* ---- hooks -------------------------------------------------------------------------------- */

static void end(void *state)
{
    atfl_state *s = state;
    if (!s)
        return;
    word_sets_deinit(&s->sets);
    mem_free(s->slot);
    mem_free(s);
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    atfl_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->cfg = *(const atfl_cfg *)cfg;
    if (m->reader.rows)
        return error_set(STET_ENOTSUP,
                         "defence 'atfl' needs a model that reads one vector per word, not a %s",
                         m->desc->name);
    TRY(mixing_sets("atfl", m, subst, &s->sets));
    s->slot = mem_zalloc(m->n_words, sizeof *s->slot);
    return s->slot ? STET_OK : STET_ENOMEM;
}

static stet_status make_copies(void *state, const step_view *v, step_texts *t)
{
    atfl_state *s = state;
    uint32_t **ids = arena_new(v->mem, uint32_t *, t->n_own + 1);
    if (!ids)
        return STET_ENOMEM;
    TRY(fgpm(s, v, t, ids));
    s->first_copy = t->n;
    for (size_t i = 0; i < t->n_own; i++)
        TRY(texts_add(t, ids[i], t->v[i].n, t->v[i].label));
    return STET_OK;
}

/* The mean of the texts' losses is that of texts and copies already. */
static node *loss(void *state, const step_view *v, node *base)
{
    atfl_state *s = state;
    tape *t = v->p->t;
    uint32_t *text = arena_new(v->mem, uint32_t, 2 * v->n_own), *copy = text + v->n_own;
    if (!text) {
        tape_fail(t, STET_ENOMEM);
        return NULL;
    }
    for (uint32_t b = 0; b < v->x->seq.n_texts; b++) {
        const size_t i = v->x->order[b];
        if (i < v->n_own)
            text[i] = b;
        else if (i >= s->first_copy && i < s->first_copy + v->n_own)
            copy[i - s->first_copy] = b;
    }
    node *apart =
        op_sub(t, op_gather(t, v->logits, copy, v->n_own), op_gather(t, v->logits, text, v->n_own));
    const double n = (double)v->n_own * (double)v->m->n_classes;
    s->pairing = op_scale(t, op_sum(t, op_mul(t, apart, apart)), 1 / n);
    return op_add(t, base, op_scale(t, s->pairing, s->cfg.pairing));
}

static void metrics(void *state, step_metrics *out)
{
    const atfl_state *s = state;
    metric_node(out, "atfl_pairing", s->pairing);
    metric_add(out, "atfl_swapped", (double)s->n_changed / (double)s->n_words);
}

const defense_desc defense_atfl = {
    .name = "atfl",
    .summary = "copies with swapped words, and logits drawn together (ATFL)",
    .opts = opts,
    .cfg_size = sizeof(atfl_cfg),
    .needs_sets = "--defense atfl needs --synonyms: the swaps that its attack may make",
    .start = start,
    .end = end,
    .batch = make_copies,
    .loss = loss,
    .metrics = metrics,
};
