/* defense/safer.c - random synonyms (SAFER: Ye et al. 2020): the model answers by the votes of copies
 * of the text in which every word is drawn from its neighbourhood. A word and its substitute share
 * most of their neighbourhoods, so a swap changes few copies, which bounds, with a stated
 * confidence, what swaps can do to the votes. docs/defences.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "defense/groups.h"
#include "defense/near_words.h"
#include "lexicon/nearest.h"
#include "model/word_layer.h"

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
 * vectors are nearest. Where a word is several rows it has no vector (a mean over rows is near to
 * everything, least of all to what it means), and the words that the fewest substitutions reach are
 * taken. It is kept without the word itself, as a substitution set. */
typedef struct near_job {
    const real *vector; /* (n_words, D); NULL: words have none */
    size_t D;
    const word_sets *to; /* substitutes, and words that have a word as a substitute */
    word_sets from;
    uint32_t *seen;                /* (n_words) by which word's search, + 1 */
    const uint32_t *order, *first; /* words by group, where a group begins in that order */
    size_t n_words, most;
    uint32_t **near; /* (n_words) blocks: how many, then they; NULL: none */
} near_job;

static uint32_t *near_new(near_job *job, uint32_t w, size_t n)
{
    uint32_t *near = job->near[w] = mem_alloc(n + 1, sizeof *near);
    if (near)
        near[0] = (uint32_t)n;
    return near;
}

/* All words of group g, each other's neighbours. */
static stet_status join_all(near_job *job, uint32_t g)
{
    const uint32_t *word = job->order + job->first[g];
    const size_t n = job->first[g + 1] - job->first[g];
    for (size_t i = 0; i < n; i++) {
        uint32_t *near = near_new(job, word[i], n - 1);
        if (!near)
            return STET_ENOMEM;
        memcpy(near + 1, word, i * sizeof *near);
        memcpy(near + 1 + i, word + i + 1, (n - 1 - i) * sizeof *near);
    }
    return STET_OK;
}

/* Of a large group, the words whose vectors are nearest. */
static stet_status find_near(near_job *job, uint32_t g)
{
    const uint32_t *word = job->order + job->first[g];
    const size_t n = job->first[g + 1] - job->first[g], D = job->D, k = job->most - 1;
    float *x = mem_alloc(n * D, sizeof *x);
    uint32_t *ids = mem_alloc(n * k, sizeof *ids);
    stet_status st = x && ids ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n * D; i++)
        x[i] = (float)job->vector[word[i / D] * D + i % D];
    if (st == STET_OK)
        st = nearest_find(x, n, D, &(nearest_options){k, STET_L2SQ, INFINITY, false}, ids, NULL);
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        uint32_t *near = near_new(job, word[i], k);
        st = near ? STET_OK : STET_ENOMEM;
        for (size_t j = 0; near && j < k; j++)
            near[j + 1] = word[ids[i * k + j]];
    }
    mem_free(x);
    mem_free(ids);
    return st;
}

/* The words that have each word as a substitute. */
static stet_status turn_sets(const word_sets *s, word_sets *out)
{
    const size_t n = s->n_words, pairs = s->start[n];
    *out = (word_sets){n, mem_zalloc(n + 2, sizeof *out->start),
                       mem_alloc(pairs + 1, sizeof *out->word)};
    if (!out->start || !out->word)
        return STET_ENOMEM;
    for (size_t k = 0; k < pairs; k++)
        out->start[s->word[k] + 2]++;
    for (size_t w = 2; w < n + 2; w++)
        out->start[w] += out->start[w - 1];
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t k = s->start[w]; k < s->start[w + 1]; k++)
            out->word[out->start[s->word[k] + 1]++] = w;
    return STET_OK;
}

/* Words one step from `at` that the search for w has not met, at most `room`; their number. */
static size_t step_from(near_job *job, const word_sets *s, uint32_t at, uint32_t w, size_t room,
                        uint32_t *out)
{
    size_t n = 0;
    for (uint32_t k = s->start[at]; k < s->start[at + 1] && n < room; k++) {
        const uint32_t x = s->word[k];
        if (x >= STET_FIRST_WORD && job->seen[x] != w + 1) {
            job->seen[x] = w + 1;
            out[n++] = x;
        }
    }
    return n;
}

/* Of a large group, the words that the fewest substitutions reach, in either direction. */
static stet_status find_steps(near_job *job, uint32_t g)
{
    const size_t k = job->most - 1;
    for (uint32_t i = job->first[g]; i < job->first[g + 1]; i++) {
        const uint32_t w = job->order[i];
        uint32_t *near = near_new(job, w, k);
        if (!near)
            return STET_ENOMEM;
        job->seen[w] = w + 1;
        size_t n = 0;
        for (size_t done = 0; n < k && done <= n; done++) { /* a group is connected: k are found */
            const uint32_t at = done ? near[done] : w;
            n += step_from(job, job->to, at, w, k - n, near + 1 + n);
            n += step_from(job, &job->from, at, w, k - n, near + 1 + n);
        }
        near[0] = (uint32_t)n;
    }
    return STET_OK;
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

static stet_status neighbourhoods(const safer_cfg *c, const stet_vocab *v, const real *vector,
                                  size_t D, const word_sets *s, kept_sets *out)
{
    const size_t n = s->n_words;
    uint32_t *code = mem_zalloc(4 * n + 1, sizeof *code), *order = code + n, *first = order + n;
    uint32_t **near = mem_zalloc(n, sizeof *near);
    near_job job = {.vector = vector, .D = D, .to = s, .n_words = n, .most = (size_t)c->most};
    stet_status st = code && near ? STET_OK : STET_ENOMEM;
    if (st == STET_OK && !vector)
        st = turn_sets(s, &job.from);
    if (st == STET_OK) {
        groups_closed(s, code);
        code[STET_UNK] = STET_UNK;
        by_group(code, n, first, order);
        job.order = order, job.first = first, job.near = near, job.seen = first + n + 1;
        for (uint32_t g = STET_FIRST_WORD; st == STET_OK && g < n; g++) {
            const size_t words = first[g + 1] - first[g];
            if (words > 1)
                st = words <= job.most ? join_all(&job, g)
                     : vector          ? find_near(&job, g)
                                       : find_steps(&job, g);
        }
        if (st == STET_OK)
            st = kept_sets_make(v, near_of, &job, out);
    }
    for (size_t w = 0; near && w < n; w++)
        mem_free(near[w]);
    mem_free(near);
    mem_free(code);
    word_sets_deinit(&job.from);
    return st;
}

/* ---- the rule ----------------------------------------------------------------------------- */

/* Any word of the neighbourhood, the word itself among them. */
static size_t draw_any(const near_words *s, rng *r, size_t n)
{
    (void)s;
    const size_t k = rng_below(r, n + 1);
    return k == n ? 0 : k + 1;
}

static const near_kind kind = {"safer", "safer.subst", draw_any};

static stet_status find_neighbourhoods(const safer_cfg *c, const model *m, const stet_subst *subst,
                                       kept_sets *out)
{
    set_words words;
    word_sets given = {0};
    TRY(set_words_make(m, subst, &words));
    stet_status st = word_sets_make(subst, words.vocab, &given);
    if (st == STET_OK)
        st = neighbourhoods(c, words.vocab, words.own ? NULL : model_vectors(m),
                            model_vector_dim(m), &given, out);
    word_sets_deinit(&given);
    set_words_deinit(&words);
    return st;
}

static stet_status make(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    near_words *s;
    TRY(near_words_begin(&kind, m, state, &s));
    TRY(find_neighbourhoods(cfg, m, subst, &s->lists));
    return near_words_bind(s, m);
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    (void)cfg;
    return near_words_load(&kind, m, dir, state);
}

/* The number of a word that a certificate is asked about. It goes by the word's rows, as the votes do:
 * what cannot be told from those has no neighbourhood there either. */
static uint32_t number_of(const set_words *w, const model *m, const stet_choices *c, uint32_t id,
                          uint32_t *scratch)
{
    return w->own ? set_word_of(w, m, scratch, words_rows(c->words, &id, 1, scratch)) : id;
}

/* The least that each position's word shares with one of its substitutes. */
static stet_status least_overlaps(const near_words *s, const model *m, const uint32_t *ids,
                                  const stet_choices *c, double *q)
{
    uint32_t *scratch = mem_alloc(m->reader.most_rows, sizeof *scratch);
    if (!scratch)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t word = number_of(&s->words, m, c, ids[i], scratch);
        q[i] = 1;
        for (uint32_t k = c->start[i]; k < c->start[i + 1]; k++) {
            const uint32_t other = number_of(&s->words, m, c, c->word[k], scratch);
            /* where unknown words are different words, they share nothing */
            const bool apart = s->words.own && (word == STET_UNK || other == STET_UNK);
            q[i] = fmin(q[i], apart ? 0 : draws_shared(&s->lists.words, word, other));
        }
    }
    mem_free(scratch);
    return STET_OK;
}

static stet_status votes_of(const rule *r, const model *m, const uint32_t *ids,
                            const stet_choices *choices, uint64_t **votes)
{
    const safer_cfg *c = r->cfg;
    arena mem = {0};
    vote_text t;
    vote_of copies;
    stet_status st = vote_text_asked(m, ids, choices, &mem, &t);
    if (st == STET_OK)
        st = near_words_copies(r, m, &t, &mem, &copies);
    if (st == STET_OK)
        st = votes_certificate(&c->vote, m, &copies, votes);
    arena_deinit(&mem);
    return st;
}

/* The most swaps, up to those asked about, after which the answer is still sure to hold; SIZE_MAX:
 * it is not sure even without one. Sorts q. */
static size_t radius_of(const vote_finding *f, size_t label, double error, double *q, size_t n,
                        size_t asked, vote_bounds *last)
{
    *last = votes_bound(f->count, f->n_classes, label, error, 0);
    size_t R = last->holds ? 0 : SIZE_MAX;
    while (last->holds && R < asked) {
        *last = votes_bound(f->count, f->n_classes, label, error, swapped_chance(q, n, R + 1));
        R += last->holds;
    }
    return R;
}

/* "shared":[...]: q of the words that can change, in their order. */
static void put_shared(buf *b, const double *q, const stet_choices *choices)
{
    bool first = true;
    buf_str(b, ",\"shared\":[");
    for (size_t i = 0; i < choices->n; i++)
        if (choices->start[i + 1] > choices->start[i]) {
            buf_str(b, first ? "" : ",");
            buf_real(b, q[i]);
            first = false;
        }
    buf_char(b, ']');
}

/* Of more than two classes it bounds two shares. */
static double confidence(const void *cfg, size_t n_classes)
{
    return 1 - (n_classes > 2 ? 2 : 1) * ((const safer_cfg *)cfg)->vote.error;
}

static stet_status certify(const rule *r, const model *m, const uint32_t *ids,
                           const stet_choices *choices, const stet_certify_how *how, int label,
                           stet_certificate *out, buf *evidence)
{
    const safer_cfg *c = r->cfg;
    const size_t n = choices->n, asked = votes_asked(choices, how->budget);
    uint64_t *votes;
    TRY(votes_of(r, m, ids, choices, &votes));
    double *q = mem_zalloc(2 * n + 1, sizeof *q), *sorted = q ? q + n : NULL;
    stet_status st = q ? least_overlaps(r->state, m, ids, choices, q) : STET_ENOMEM;
    if (st == STET_OK) {
        vote_finding f = {votes, m->n_classes, confidence(c, m->n_classes), 0};
        vote_bounds b;
        memcpy(sorted, q, n * sizeof *q);
        f.radius = radius_of(&f, (size_t)label, c->vote.error, sorted, n, asked, &b);
        votes_tell(&c->vote, &f, choices, how->budget, out, evidence);
        put_shared(evidence, q, choices);
        if (out->verdict == STET_LIKELY) {
            const double changed = swapped_chance(sorted, n, asked);
            out->margin = (b.own - changed) - (b.other + changed);
        }
        st = buf_status(evidence);
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
    .save = near_words_save,
    .end = near_words_end,
    .predict_all = near_words_predict,
    .on_device = true,
    .certify = certify,
    .confidence = confidence,
    .answers_draw = true,
    .lists = near_words_lists,
};

const defense_desc defense_safer = {
    .name = "safer",
    .summary = "votes of copies with random synonyms (SAFER)",
    .opts = opts,
    .cfg_size = sizeof(safer_cfg),
    .needs_sets = "--defense safer needs --synonyms: what neighbourhoods are made of",
    .batch = near_words_batch,
    .rule = &safer_rule_desc,
};
