/* defense/ranmask.c - random masks (RanMASK: Zeng et al. 2023): the model answers by the votes of
 * copies of the text in which most words are masked. Whoever changes r words is not seen by copies
 * that mask all of them, which bounds, with a stated confidence, what such changes can do to the
 * votes. docs/defences.md.
 *
 * A masked word is read as <unk>, or as what the model's reader has for that. */
#include <string.h>

#include "base/mem.h"
#include "defense/defenses.h"
#include "defense/votes.h"

typedef struct ranmask_cfg {
    vote_cfg vote;
    double rate;
} ranmask_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL("ranmask-rate", ranmask_cfg, rate, "0.7", 0, 1, "SHARE",
                  "ranmask: share of a text's words that a copy masks"),
    VOTE_OPTS("ranmask", ranmask_cfg, 0.5),
    STET_OPT_END,
};

/* ---- masks -------------------------------------------------------------------------------- */

typedef struct masks {
    size_t masked;
    uint32_t row; /* what a masked word is read as */
} masks;

/* `masked` of the words, each choice of them alike: one pass that takes what is still needed of what is
 * still there. */
static size_t mask(const void *ctx, rng *r, const vote_text *t, uint32_t *copy)
{
    const masks *c = ctx;
    size_t left = c->masked, made = 0;
    /* Where a word is a row: the same choice without a branch, which no processor foresees. */
    if (t->at[t->n] == t->n) {
        for (; left && made < t->n; made++) {
            const double there = (double)(int64_t)(t->n - made);
            const uint32_t masked = rng_double(r) * there < (double)(int64_t)left;
            copy[made] = t->rows[made] ^ ((t->rows[made] ^ c->row) & -masked);
            left -= masked;
        }
        memcpy(copy + made, t->rows + made, (t->n - made) * sizeof *copy);
        return t->n;
    }
    for (size_t i = 0; i < t->n; i++) {
        if (left && rng_below(r, t->n - i) < left) {
            copy[made++] = c->row;
            left--;
            continue;
        }
        for (uint32_t k = t->at[i]; k < t->at[i + 1]; k++)
            copy[made++] = t->rows[k];
    }
    return made;
}

static masks masks_of(const ranmask_cfg *c, const model *m, const vote_text *t)
{
    masks of = {masked_words(t->n, c->rate), STET_UNK};
    if (m->reader.rows)
        m->reader.rows(&m->reader, "<unk>", 5, &of.row);
    return of;
}

/* A copy has at most the rows of the text: a masked word is one. */
static stet_status copies_of(const rule *r, const model *m, const vote_text *t, arena *mem,
                             vote_of *out)
{
    masks *of = arena_new(mem, masks, 1);
    if (!of)
        return STET_ENOMEM;
    *of = masks_of(r->cfg, m, t);
    *out = (vote_of){t, t->at[t->n], mask, of};
    return STET_OK;
}

/* ---- the rule ----------------------------------------------------------------------------- */

static stet_status make(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)cfg, (void)s, (void)state;
    return votes_can_read(m, "ranmask");
}

static stet_status predict_all(const rule *r, const model *m, const stet_corpus *c, float *logits)
{
    return votes_answer(copies_of, r, m, c, logits);
}

/* Votes for a certificate, and how many words the text has. */
static stet_status votes_of(const rule *r, const model *m, const uint32_t *ids,
                            const stet_choices *choices, size_t *L, uint64_t **votes)
{
    arena mem = {0};
    vote_text t;
    vote_of copies;
    stet_status st = vote_text_asked(m, ids, choices, &mem, &t);
    if (st == STET_OK)
        st = copies_of(r, m, &t, &mem, &copies);
    if (st == STET_OK) {
        *L = t.n;
        st = votes_certificate(r->cfg, m, &copies, votes);
    }
    arena_deinit(&mem);
    return st;
}

static double confidence(const void *cfg, size_t n_classes)
{
    (void)n_classes;
    return 1 - ((const ranmask_cfg *)cfg)->vote.error;
}

static stet_status certify(const rule *r, const model *m, const uint32_t *ids,
                           const stet_choices *choices, const stet_certify_how *how, int label,
                           stet_certificate *out, buf *evidence)
{
    const ranmask_cfg *c = r->cfg;
    size_t L;
    uint64_t *votes;
    TRY(votes_of(r, m, ids, choices, &L, &votes));
    const double p = share_lower(votes[label], (uint64_t)c->vote.draws, c->vote.error);
    const size_t masked = masked_words(L, c->rate), kept = L - masked;
    const vote_finding f = {votes, m->n_classes, confidence(c, m->n_classes),
                            masked_radius(L, kept, p)};
    votes_tell(&c->vote, &f, choices, how->budget, out, evidence);
    buf_printf(evidence, ",\"words\":%zu,\"masked\":%zu", L, masked);
    if (out->verdict == STET_LIKELY)
        out->margin = p - kept_chance(L, kept, votes_asked(choices, how->budget)) - 0.5;
    mem_free(votes);
    return buf_status(evidence);
}

static const rule_desc ranmask_rule = {
    .name = "ranmask",
    .opts = opts,
    .cfg_size = sizeof(ranmask_cfg),
    .make = make,
    .predict_all = predict_all,
    .on_device = true,
    .certify = certify,
    .confidence = confidence,
    .answers_draw = true,
};

/* ---- training ----------------------------------------------------------------------------- */

typedef struct ranmask_state {
    ranmask_cfg cfg;
} ranmask_state;

static stet_status start(const void *cfg, const model *m, const stet_subst *s, void **state)
{
    (void)m, (void)s;
    ranmask_state *own = *state = mem_zalloc(1, sizeof *own);
    if (!own)
        return STET_ENOMEM;
    own->cfg = *(const ranmask_cfg *)cfg;
    return STET_OK;
}

/* A masked copy in place of each text, those that others added included. */
static stet_status mask_texts(void *state, const step_view *v, step_texts *t)
{
    const ranmask_state *s = state;
    rng r = step_stream(v);
    for (size_t i = 0; i < t->n; i++) {
        vote_text text;
        uint32_t *copy = arena_new(t->mem, uint32_t, t->v[i].n + 1);
        if (!copy)
            return STET_ENOMEM;
        TRY(vote_text_make(v->m, t->v[i].ids, t->v[i].n, t->mem, &text));
        const masks of = masks_of(&s->cfg, v->m, &text);
        t->v[i].n = mask(&of, &r, &text, copy);
        t->v[i].ids = copy;
    }
    return STET_OK;
}

const defense_desc defense_ranmask = {
    .name = "ranmask",
    .summary = "votes of copies with masked words (RanMASK)",
    .opts = opts,
    .cfg_size = sizeof(ranmask_cfg),
    .start = start,
    .end = mem_free,
    .batch = mask_texts,
    .rule = &ranmask_rule,
};
