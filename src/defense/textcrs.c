/* defense/textcrs.c - Text-CRS (Zhang et al. 2024), its noise for substitutions: the model answers by the
 * votes of copies in which every word is replaced by one near it, the nearer the likelier. Its published
 * radius counts shifts of ranks in lists of neighbours and rests on an assumption about how lists of
 * neighbouring words agree, so no certificate over substitution sets is made of it. docs/defences.md. */
#include <math.h>

#include "base/mem.h"
#include "defense/near_words.h"
#include "defense/textcrs.h"

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

void crs_chances(double scale, size_t n, double *upto)
{
    for (size_t k = 0; k < n; k++)
        upto[k] = -expm1(-5 / scale * (double)(k + 1));
}

size_t crs_rank(rng *r, const double *upto, size_t n)
{
    const double x = rng_double(r) * upto[n - 1];
    size_t k = 0;
    for (size_t half; n > 1; n -= half) { /* the first that is above x is one of k .. k + n */
        half = n / 2;
        k += upto[k + half - 1] <= x ? half : 0;
    }
    return k;
}

static size_t draw_near(const near_words *s, rng *r, size_t n)
{
    return crs_rank(r, s->chance, n < s->n_chances ? n + 1 : s->n_chances);
}

static const near_kind kind = {"text-crs", "textcrs.subst", draw_near};

static stet_status know_chances(const crs_cfg *c, near_words *s)
{
    s->n_chances = (size_t)c->most;
    s->chance = mem_alloc(s->n_chances, sizeof *s->chance);
    if (!s->chance)
        return STET_ENOMEM;
    crs_chances(c->scale, s->n_chances, s->chance);
    return STET_OK;
}

static stet_status make(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    near_words *s;
    TRY(near_words_begin(&kind, m, state, &s));
    TRY(know_chances(cfg, s));
    TRY(kept_sets_copy(subst, &s->lists));
    return near_words_bind(s, m);
}

static stet_status load(const void *cfg, const model *m, const char *dir, void **state)
{
    TRY(near_words_load(&kind, m, dir, state));
    return know_chances(cfg, *state);
}

static const rule_desc crs_rule_desc = {
    .name = "text-crs",
    .opts = opts,
    .cfg_size = sizeof(crs_cfg),
    .make = make,
    .load = load,
    .save = near_words_save,
    .end = near_words_end,
    .predict_all = near_words_predict,
    .answers_draw = true,
    .on_device = true,
};

const defense_desc defense_textcrs = {
    .name = "text-crs",
    .summary = "votes of copies with near words, the nearer the likelier (Text-CRS)",
    .opts = opts,
    .cfg_size = sizeof(crs_cfg),
    .needs_sets = "--defense text-crs needs --synonyms: words near others, nearest first",
    .batch = near_words_batch,
    .rule = &crs_rule_desc,
};
