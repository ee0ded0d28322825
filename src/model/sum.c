/* model/sum.c - no network: every word has a score for every class, and a text's logits are the sum
 * of its words' (word_scores.h). Nothing depends on the order of words, training is convex without the
 * small network, and the worst case over substitution sets is exact: the first thing to try, and what
 * every other model has to beat. */
#include "base/mem.h"
#include "model/kind_list.h"
#include "model/word_scores.h"

typedef struct sum_cfg {
    int64_t hidden;
} sum_cfg;

static const stet_opt opts[] = {
    SCORE_HIDDEN_OPT(sum_cfg, hidden),
    STET_OPT_END,
};

static size_t hidden(const model *m)
{
    return (size_t)((const sum_cfg *)m->cfg)->hidden;
}

static stet_status layout(model *m)
{
    return hidden(m) ? word_scores_lay(m, model_param) : STET_OK;
}

static stet_status init(const model *m, rng *r)
{
    if (hidden(m))
        word_scores_start(m, 0, r);
    return STET_OK;
}

static size_t n_features(const model *m)
{
    (void)m;
    return 0;
}

/* The scores are added by the frame of views; what is left is the bias. */
static stet_view *view_new(void)
{
    return mem_zalloc(1, sizeof(stet_view));
}

static void bias_of(const model *m, float *logits)
{
    const real *b = model_value(m, (int)m->n_params - 1);
    for (size_t k = 0; k < m->n_classes; k++)
        logits[k] = (float)b[k];
}

static stet_status view_open(stet_view *v)
{
    bias_of(v->m, v->logits);
    return STET_OK;
}

static stet_status view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                              float *logits)
{
    (void)edits, (void)start;
    for (size_t i = 0; i < n; i++)
        bias_of(v->m, logits + i * v->m->n_classes);
    return STET_OK;
}

/* Nothing beside the table of scores. */
static stet_status compile(const model *m, void **out)
{
    (void)m;
    *out = NULL;
    return STET_OK;
}

static void compiled_free(void *compiled)
{
    (void)compiled;
}

static const char *const robust[] = {
    RECIPE_ROBUST, "--score-hidden", "128",  "--score-lr", "0.005", "--tune-vectors",
    "3e-4",        "--smooth",       "3",    "--kappa",    "0.85",  "--ramp",
    "0.3",         "--lr",           "1e-3", "--batch",    "32",    "--length-pool",
    "1",           "--epochs",       "3",    NULL};
static const model_recipe recipes[] = {{"robust", robust}, {NULL, NULL}};

const model_desc model_sum = {
    .name = "sum",
    .summary = "a score for every word, summed over the text: exact certificates",
    .opts = opts,
    .cfg_size = sizeof(sum_cfg),
    .train = {.rate = {1e-3, 1e-3}, .decay = {1e-4, 0}, .dropout = 0},
    .recipes = recipes,
    .layout = layout,
    .init = init,
    .score_hidden = hidden,
    .n_features = n_features,
    .compile = compile,
    .compiled_free = compiled_free,
    .view_new = view_new,
    .view_open = view_open,
    .view_edits = view_edits,
};
