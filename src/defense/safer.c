/* defense/safer.c - random synonyms (SAFER: Ye et al. 2020): the model answers by the votes of copies
 * of the text in which every word is drawn from its neighbourhood. A word and its substitute share
 * most of their neighbourhoods, so a swap changes few copies, which bounds, with a stated
 * confidence, what swaps can do to the votes. docs/defences.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "defense/defenses.h"
#include "defense/groups.h"
#include "defense/kept_sets.h"
#include "defense/votes.h"

typedef struct safer_cfg {
    vote_cfg vote;
    int64_t most;
} safer_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT("safer-most", safer_cfg, most, "100", 2, 100000, "N",
                 "safer: words of a neighbourhood, at most"),
    VOTE_OPTS("safer", safer_cfg, 0.25),
    STET_OPT_END,
};

/* ---- neighbourhoods ----------------------------------------------------------------------- */

/* The neighbourhood of a word is what it can reach by substitutions; of a large group, the words whose
 * vectors are nearest. It is kept without the word itself, as a substitution set. */
typedef struct near_job {
    const model *m;
    const uint32_t *code, *order, *first; /* words by group, where a group begins in that order */
    size_t n_words, most;
    uint32_t **near; /* (n_words) blocks: how many, then they; NULL: none */
    bool *failed;    /* (n_words) */
} near_job;

typedef struct neighbour {
    double far;
    uint32_t word;
} neighbour;

static int nearer(const void *a, const void *b)
{
    const neighbour *x = a, *y = b;
    return x->far != y->far ? (x->far > y->far) - (x->far < y->far)
                            : (x->word > y->word) - (x->word < y->word);
}

static void find_near(void *ctx, size_t w, int worker)
{
    (void)worker;
    near_job *job = ctx;
    const uint32_t g = job->code[w];
    const size_t n = job->first[g + 1] - job->first[g], D = job->m->dim;
    if (w < STET_FIRST_WORD || n < 2)
        return;
    neighbour *all = mem_alloc(n, sizeof *all);
    size_t found = 0;
    for (size_t i = 0; all && i < n; i++) {
        const uint32_t other = job->order[job->first[g] + i];
        if (other == w)
            continue;
        all[found] = (neighbour){0, other};
        for (size_t d = 0; n > job->most && d < D; d++) {
            const double by =
                (double)job->m->table[other * D + d] - (double)job->m->table[w * D + d];
            all[found].far += by * by;
        }
        found++;
    }
    const size_t kept = n > job->most ? job->most - 1 : found;
    uint32_t *near = job->near[w] = all ? mem_alloc(kept + 1, sizeof *near) : NULL;
    job->failed[w] = !near;
    if (near) {
        qsort(all, found, sizeof *all, nearer);
        near[0] = (uint32_t)kept;
        for (size_t i = 0; i < kept; i++)
            near[i + 1] = all[i].word;
    }
    mem_free(all);
}

/* Words by group: a counting sort. */
static void by_group(const uint32_t *code, size_t n, uint32_t *first, uint32_t *order)
{
    for (size_t w = 0; w < n; w++)
        first[code[w] + 1]++;
    for (size_t g = 0; g < n; g++)
        first[g + 1] += first[g];
    for (size_t w = n; w-- > 0;)
        order[--first[code[w] + 1]] = (uint32_t)w;
    for (size_t g = 0; g < n; g++) /* each has become its group's beginning, one place on */
        first[g] = first[g + 1];
    first[n] = (uint32_t)n;
}

static const uint32_t *near_of(const void *ctx, size_t w, size_t *n)
{
    const uint32_t *near = ((const near_job *)ctx)->near[w];
    *n = near ? near[0] : 0;
    return near ? near + 1 : NULL;
}

static stet_status neighbourhoods(const safer_cfg *c, const model *m, const word_sets *s,
                                  kept_sets *out)
{
    const size_t n = m->n_words;
    uint32_t *code = mem_zalloc(3 * n + 1, sizeof *code), *order = code + n, *first = order + n;
    uint32_t **near = mem_zalloc(n, sizeof *near);
    bool *failed = mem_zalloc(n, sizeof *failed);
    stet_status st = code && near && failed ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        groups_closed(s, code);
        code[STET_UNK] = STET_UNK;
        by_group(code, n, first, order);
        near_job job = {m, code, order, first, n, (size_t)c->most, near, failed};
        pool_run(n, find_near, &job);
        for (size_t w = 0; w < n; w++)
            st = failed[w] ? STET_ENOMEM : st;
        if (st == STET_OK)
            st = kept_sets_make(m, near_of, &job, out);
    }
    for (size_t w = 0; near && w < n; w++)
        mem_free(near[w]);
    mem_free(near);
    mem_free(failed);
    mem_free(code);
    return st;
}

/* ---- the rule ----------------------------------------------------------------------------- */

static const char file_name[] = "safer.subst";

static void rule_end(void *state)
{
    if (state)
        kept_sets_deinit(state);
    mem_free(state);
}

static stet_status make(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    kept_sets *s = *state = mem_zalloc(1, sizeof *s);
    word_sets given = {0};
    if (!s)
        return STET_ENOMEM;
    if (m->reader.rows)
        return error_set(STET_ENOTSUP,
                         "defence 'safer' needs a model that reads one row a word, not a %s",
                         m->desc->name);
    TRY(word_sets_make(subst, m->vocab, &given));
    const stet_status st = neighbourhoods(cfg, m, &given, s);
    word_sets_deinit(&given);
    return st;
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    (void)cfg;
    *state = mem_zalloc(1, sizeof(kept_sets));
    return *state ? kept_sets_load(m, dir, file_name, *state) : STET_ENOMEM;
}

static stet_status save(const void *state, const char *dir)
{
    return kept_sets_save(state, dir, file_name);
}

typedef struct swaps {
    const word_sets *near;
    size_t L;
} swaps;

static void swap_words(const void *ctx, rng *r, uint32_t *copy)
{
    const swaps *c = ctx;
    for (size_t i = 0; i < c->L; i++) {
        const uint32_t *near = c->near->word + c->near->start[copy[i]];
        const size_t n = c->near->start[copy[i] + 1] - c->near->start[copy[i]];
        const size_t k = n ? rng_below(r, n + 1) : n;
        copy[i] = k < n ? near[k] : copy[i];
    }
}

static swaps swaps_of(const rule *r, const model *m, size_t n)
{
    return (swaps){&((const kept_sets *)r->state)->words, n < m->max_len ? n : m->max_len};
}

static stet_status predict(const rule *r, const model *m, const uint32_t *ids, size_t n,
                           float *logits)
{
    const safer_cfg *c = r->cfg;
    const swaps of = swaps_of(r, m, n);
    return votes_answer(&c->vote, m, &(vote_of){ids, of.L, swap_words, &of}, logits);
}

/* The least that each position's word shares with one of its substitutes. */
static void least_overlaps(const word_sets *s, const uint32_t *ids, const stet_choices *c,
                           double *q)
{
    for (size_t i = 0; i < c->n; i++) {
        q[i] = 1;
        for (uint32_t k = c->start[i]; k < c->start[i + 1]; k++)
            q[i] = fmin(q[i], draws_shared(s, ids[i], c->word[k]));
    }
}

static stet_status certify(const rule *r, const model *m, const uint32_t *ids,
                           const stet_choices *choices, const stet_certify_how *how, int label,
                           stet_certificate *out)
{
    const safer_cfg *c = r->cfg;
    const size_t n = choices->n ? choices->n : 1;
    const swaps of = swaps_of(r, m, n);
    uint64_t *votes;
    TRY(votes_certificate(&c->vote, m, &(vote_of){ids, of.L, swap_words, &of}, &votes));
    double *q = mem_zalloc(n, sizeof *q);
    const stet_status st = q ? STET_OK : STET_ENOMEM;
    out->verdict = STET_UNDECIDED; /* also where too few votes agree: it abstains */
    out->confidence = 1 - (m->n_classes > 2 ? 2 : 1) * c->vote.error;
    if (st == STET_OK) {
        least_overlaps(&((const kept_sets *)r->state)->words, ids, choices, q);
        const size_t asked = choices->n < how->budget ? choices->n : how->budget;
        size_t R = 0;
        vote_bounds b = votes_bound(votes, m->n_classes, (size_t)label, c->vote.error, 0);
        while (b.holds && R < asked) {
            b = votes_bound(votes, m->n_classes, (size_t)label, c->vote.error,
                            swapped_chance(q, choices->n, R + 1));
            R += b.holds;
        }
        out->budget = R;
        if (b.holds) {
            const double changed = swapped_chance(q, choices->n, asked);
            out->verdict = STET_LIKELY;
            out->margin = (b.own - changed) - (b.other + changed);
            out->budget = how->budget == STET_ANY || asked < how->budget ? STET_ANY : R;
        }
    }
    mem_free(votes);
    mem_free(q);
    return st;
}

static const rule_desc safer_rule_desc = {
    .name = "safer",
    .opts = opts,
    .cfg_size = sizeof(safer_cfg),
    .make = make,
    .load = load,
    .save = save,
    .end = rule_end,
    .predict = predict,
    .certify = certify,
};

/* ---- training ----------------------------------------------------------------------------- */

/* A drawn copy in place of each text, those that others added included. */
static stet_status swap_texts(void *state, const step_view *v, step_texts *t)
{
    (void)state;
    const kept_sets *s = v->m->rule->state;
    rng r = rng_stream(v->seed, STREAM_DEFENSE, v->step);
    for (size_t i = 0; i < t->n; i++) {
        uint32_t *copy = arena_new(t->mem, uint32_t, t->v[i].n + 1);
        if (!copy)
            return STET_ENOMEM;
        memcpy(copy, t->v[i].ids, t->v[i].n * sizeof *copy);
        swap_words(&(swaps){&s->words, t->v[i].n}, &r, copy);
        t->v[i].ids = copy;
    }
    return STET_OK;
}

const defense_desc defense_safer = {
    .name = "safer",
    .summary = "votes of copies with random synonyms (SAFER)",
    .opts = opts,
    .cfg_size = sizeof(safer_cfg),
    .needs_sets = "--defense safer needs --synonyms: what neighbourhoods are made of",
    .batch = swap_texts,
    .rule = &safer_rule_desc,
};
