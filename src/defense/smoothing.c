/* defense/smoothing.c - synonym-smoothed vectors (lexicon/smooth.c): words that may replace each
 * other move together, so that a swap moves the model's input less. docs/lexicon.md. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "defense/defenses.h"

typedef struct smooth_cfg {
    double lambda, frequency;
} smooth_cfg;

static const stet_opt opts[] = {
    STET_OPT_REAL("smooth", smooth_cfg, lambda, "4", 0, 1e9, "LAMBDA",
                  "smooth the vectors over the substitution graph"),
    STET_OPT_REAL("smooth-frequency", smooth_cfg, frequency, "0", 0, 2, "P",
                  "frequent words keep more of their own vector: weight by count to the power P"),
    STET_OPT_END,
};

/* How firmly each word holds on to its vector: ((1 + count) / geometric mean of that) to the power asked for. */
static stet_status word_weights(const stet_counter *c, const stet_vocab *v, double power,
                                double **out)
{
    const size_t n = stet_vocab_size(v), n_words = n - STET_FIRST_WORD;
    double *weight = *out = mem_zalloc(n, sizeof *weight);
    if (!weight)
        return STET_ENOMEM;
    for (size_t i = 0; i < stet_counter_size(c); i++) {
        const char *word = stet_counter_word(c, i);
        weight[stet_vocab_id(v, word, strlen(word))] = (double)stet_counter_count(c, i);
    }
    double mean = 0;
    for (size_t i = STET_FIRST_WORD; i < n; i++)
        mean += log(1 + weight[i]) / (double)n_words;
    for (size_t i = 0; i < n; i++)
        weight[i] = i < STET_FIRST_WORD ? 1 : exp(power * (log(1 + weight[i]) - mean));
    return STET_OK;
}

static stet_status vectors(const void *cfg, const vector_view *v)
{
    const smooth_cfg *c = cfg;
    double *weight = NULL, residual = 0;
    if (c->lambda == 0)
        return STET_OK;
    stet_status st =
        c->frequency != 0 ? word_weights(v->counts, v->vocab, c->frequency, &weight) : STET_OK;
    if (st == STET_OK)
        st = stet_vectors_smooth(v->t, v->vocab, v->subst, c->lambda, weight, &residual);
    mem_free(weight);
    metric_add(v->told, "smooth_residual", residual);
    return st;
}

const defense_desc defense_smooth = {
    .name = "smooth",
    .summary = "word vectors smoothed over the substitution sets",
    .opts = opts,
    .cfg_size = sizeof(smooth_cfg),
    .needs_sets = "--smooth needs --synonyms",
    .vectors = vectors,
};
