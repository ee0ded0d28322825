/* defense/textcrs.c - Text-CRS (Zhang et al. 2024), its noise for substitutions: the model answers by the
 * votes of copies in which every word is replaced by one near it, the nearer the likelier. Its published
 * radius counts shifts of ranks in lists of neighbours and rests on an assumption about how lists of
 * neighbouring words agree, so no certificate over substitution sets is made of it. docs/defences.md. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "defense/defenses.h"
#include "defense/kept_sets.h"
#include "defense/set_words.h"
#include "defense/textcrs.h"
#include "defense/votes.h"

typedef struct crs_cfg {
    vote_cfg vote; /* its draws are for certificates, which this has none of */
    double scale;
    int64_t most;
} crs_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL("crs-scale", crs_cfg, scale, "100", 1, 100000, "S",
                  "text-crs: a word of rank k is drawn with a chance that falls as exp(-5k/S)"),
    STET_OPT_INT("crs-most", crs_cfg, most, "250", 1, 100000, "N",
                 "text-crs: words of a list, at most, the word itself among them"),
    STET_OPT_INT("crs-votes", crs_cfg, vote.votes, "100", 1, 1000000, "N",
                 "text-crs: copies that vote on an answer"),
    STET_OPT_END,
};

size_t crs_rank(rng *r, double scale, size_t n)
{
    /* the staircase from 0 on, cut off behind n: by its distribution function */
    const double fall = 5 / scale, all = -expm1(-fall * (double)n);
    const double k = -log1p(-rng_double(r) * all) / fall;
    return k < (double)n ? (size_t)k : n - 1;
}

/* ---- the rule ----------------------------------------------------------------------------- */

typedef struct crs_rule {
    kept_sets near;
    set_words words;
} crs_rule;

static const char file_name[] = "textcrs.subst";

static void rule_end(void *state)
{
    crs_rule *s = state;
    if (s) {
        kept_sets_deinit(&s->near);
        set_words_deinit(&s->words);
    }
    mem_free(s);
}

static stet_status begin(const model *m, void **state, crs_rule **out)
{
    *out = *state = mem_zalloc(1, sizeof **out);
    return *out ? votes_can_read(m, "text-crs") : STET_ENOMEM;
}

static stet_status know_words(crs_rule *s, const model *m)
{
    TRY(set_words_make(m, s->near.subst, &s->words));
    return kept_sets_bind(&s->near, s->words.vocab);
}

static stet_status make(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)cfg;
    crs_rule *s;
    TRY(begin(m, state, &s));
    TRY(kept_sets_copy(subst, &s->near));
    return know_words(s, m);
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    (void)cfg;
    crs_rule *s;
    TRY(begin(m, state, &s));
    TRY(kept_sets_load(NULL, dir, file_name, &s->near));
    return know_words(s, m);
}

static stet_status save(const void *state, const char *dir)
{
    return kept_sets_save(&((const crs_rule *)state)->near, dir, file_name);
}

/* ---- copies ------------------------------------------------------------------------------- */

typedef struct swaps {
    const crs_rule *s;
    const crs_cfg *cfg;
    const uint32_t *word; /* (n) of the text */
} swaps;

static stet_status swaps_make(const crs_rule *s, const crs_cfg *cfg, const model *m,
                              const vote_text *t, arena *mem, swaps *out)
{
    uint32_t *word = arena_new(mem, uint32_t, t->n + 1);
    if (!word)
        return STET_ENOMEM;
    for (size_t i = 0; i < t->n; i++)
        word[i] = set_word_of(&s->words, m, t->rows + t->at[i], t->at[i + 1] - t->at[i]);
    *out = (swaps){s, cfg, word};
    return STET_OK;
}

static size_t swap_words(const void *ctx, rng *r, const vote_text *t, uint32_t *copy)
{
    const swaps *c = ctx;
    const set_words *w = &c->s->words;
    const word_sets *all = &c->s->near.words;
    size_t made = 0;
    for (size_t i = 0; i < t->n; i++) {
        const uint32_t *near = all->word + all->start[c->word[i]];
        const size_t has = all->start[c->word[i] + 1] - all->start[c->word[i]] + 1;
        const size_t n = has < (size_t)c->cfg->most ? has : (size_t)c->cfg->most;
        const size_t rank = n > 1 ? crs_rank(r, c->cfg->scale, n) : 0;
        const uint32_t *from = t->rows + t->at[i];
        size_t many = t->at[i + 1] - t->at[i];
        if (rank && w->own) {
            from = w->row + w->at[near[rank - 1]];
            many = w->at[near[rank - 1] + 1] - w->at[near[rank - 1]];
        } else if (rank) {
            from = near + rank - 1;
        }
        memcpy(copy + made, from, many * sizeof *copy);
        made += many;
    }
    return made;
}

static size_t room_of(const crs_rule *s, const vote_text *t)
{
    return t->at[t->n] + t->n * s->words.longest;
}

static stet_status predict(const rule *r, const model *m, const uint32_t *ids, size_t n,
                           float *logits)
{
    const crs_cfg *c = r->cfg;
    arena mem = {0};
    vote_text t;
    swaps of;
    stet_status st = vote_text_make(m, ids, n, &mem, &t);
    if (st == STET_OK)
        st = swaps_make(r->state, c, m, &t, &mem, &of);
    if (st == STET_OK)
        st = votes_answer(&c->vote, m, &(vote_of){&t, room_of(r->state, &t), swap_words, &of},
                          logits);
    arena_deinit(&mem);
    return st;
}

static const rule_desc crs_rule_desc = {
    .name = "text-crs",
    .opts = opts,
    .cfg_size = sizeof(crs_cfg),
    .make = make,
    .load = load,
    .save = save,
    .end = rule_end,
    .predict = predict,
    .on_device = true,
};

/* ---- training ----------------------------------------------------------------------------- */

static stet_status swap_texts(void *state, const step_view *v, step_texts *t)
{
    (void)state;
    const rule *by = v->m->rule;
    rng r = rng_stream(v->seed, STREAM_DEFENSE, v->step);
    for (size_t i = 0; i < t->n; i++) {
        vote_text text;
        swaps of;
        TRY(vote_text_make(v->m, t->v[i].ids, t->v[i].n, t->mem, &text));
        TRY(swaps_make(by->state, by->cfg, v->m, &text, t->mem, &of));
        uint32_t *copy = arena_new(t->mem, uint32_t, room_of(by->state, &text) + 1);
        if (!copy)
            return STET_ENOMEM;
        t->v[i].n = swap_words(&of, &r, &text, copy);
        t->v[i].ids = copy;
    }
    return STET_OK;
}

const defense_desc defense_textcrs = {
    .name = "text-crs",
    .summary = "votes of copies with near words, the nearer the likelier (Text-CRS)",
    .opts = opts,
    .cfg_size = sizeof(crs_cfg),
    .needs_sets = "--defense text-crs needs --synonyms: words near others, nearest first",
    .batch = swap_texts,
    .rule = &crs_rule_desc,
};
