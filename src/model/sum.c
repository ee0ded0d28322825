/* model/sum.c - no network: every word has a score for every class, and a text's logits are the sum
 * of its words' (word_scores.h). Optionally a small network of each word's vector adds to its score,
 * so that words that training hardly saw are not left at zero. Nothing depends on the order of words,
 * training is convex without the small network, and the worst case over substitution sets is exact:
 * the first thing to try, and what every other model has to beat. */
#include <math.h>

#include "base/mem.h"
#include "model/kind_list.h"
#include "model/word_scores.h"

typedef struct sum_cfg {
    int64_t hidden;
} sum_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT("score-hidden", sum_cfg, hidden, "0", 0, 65536, "N",
                 "sum: units of a small network that adds a score from the word's vector; 0: none"),
    STET_OPT_END,
};

enum { W1, B1, W2 };

static size_t hidden(const model *m)
{
    return (size_t)((const sum_cfg *)m->cfg)->hidden;
}

static stet_status layout(model *m)
{
    if (hidden(m) == 0)
        return STET_OK;
    TRY(model_param(m, "word.0.weight", shape2(hidden(m), m->dim), PARAM_PLAIN));
    TRY(model_param(m, "word.0.bias", shape1(hidden(m)), PARAM_PLAIN));
    return model_param(m, "word.1.weight", shape2(m->n_classes, hidden(m)), PARAM_PLAIN);
}

static stet_status init(const model *m, rng *r)
{
    if (hidden(m) == 0)
        return STET_OK;
    const double bound = 1 / sqrt((double)m->dim);
    init_uniform(m, W1, bound, r);
    init_uniform(m, B1, bound, r);
    init_uniform(m, W2, 1 / sqrt((double)hidden(m)), r);
    return STET_OK;
}

static node *word_scores(const model *m, const pass *p, node *rows)
{
    if (hidden(m) == 0)
        return tape_zeros(p->t, shape2(shape_rows(rows->shape), m->n_classes));
    node *x = op_relu(p->t, op_linear(p->t, rows, p->param[W1], p->param[B1]));
    return op_matmul(p->t, x, false, p->param[W2], true);
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
    RECIPE_ROBUST, "--score-hidden", "64",   "--smooth", "4", "--kappa", "0.7", "--ramp",
    "0",           "--lr",           "1e-3", "--epochs", "6", NULL};
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
    .word_scores = word_scores,
    .n_features = n_features,
    .compile = compile,
    .compiled_free = compiled_free,
    .view_new = view_new,
    .view_open = view_open,
    .view_edits = view_edits,
};
