/* model/bilstm.c - one bidirectional LSTM layer; the last state of both directions at the true ends of
 * the text, or the largest or mean over all words, unit by unit; dropout, linear. Parameters as nn.LSTM(bidirectional=True). */
#include "model/bilstm.h"

#include <math.h>
#include <stdio.h>

#include "model/kind_list.h"
#include "model/spans.h"
#include "model/word_scores.h"

static const stet_opt opts[] = {
    STET_OPT_INT("hidden", bilstm_cfg, hidden, "64", 1, 8192, "N",
                 "bilstm: units of each direction"),
    STET_OPT_CHOICE("pool", bilstm_cfg, pool, "last", "last|max|mean",
                    "bilstm: what the classifier sees of each unit, its last state or its largest "
                    "or mean over the text"),
    SPAN_OPT(bilstm_cfg, span),
    SCORE_HIDDEN_OPT(bilstm_cfg, score_hidden),
    STET_OPT_END,
};

static stet_status layout(model *m)
{
    if (model_span(m) && bilstm_pool_of(m) == POOL_LAST)
        return error_set(STET_EUSAGE,
                         "--span %zu: the last states would be those of the last words "
                         "alone; give --pool max or --pool mean",
                         model_span(m));
    const size_t h = (size_t)((const bilstm_cfg *)m->cfg)->hidden;
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    for (int direction = 0; direction < 2; direction++)
        for (int i = 0; i < LSTM_PER_DIRECTION; i++) {
            char name[64];
            snprintf(name, sizeof name, "lstm.%s_l0%s", names[i], direction ? "_reverse" : "");
            const shape s = i == LSTM_W_IH   ? shape2(4 * h, m->dim)
                            : i == LSTM_W_HH ? shape2(4 * h, h)
                                             : shape1(4 * h);
            TRY(model_param(m, name, s, PARAM_PLAIN));
        }
    return STET_OK;
}

static size_t score_hidden(const model *m)
{
    return (size_t)((const bilstm_cfg *)m->cfg)->score_hidden;
}

static size_t n_features(const model *m)
{
    return 2 * (size_t)((const bilstm_cfg *)m->cfg)->hidden;
}

static size_t span(const model *m)
{
    return (size_t)((const bilstm_cfg *)m->cfg)->span;
}

static stet_status init(const model *m, rng *r)
{
    const double bound =
        1 / sqrt((double)((const bilstm_cfg *)m->cfg)->hidden); /* PyTorch's default */
    for (int i = 0; i < 2 * LSTM_PER_DIRECTION; i++)
        init_uniform(m, i, bound, r);
    return STET_OK;
}

static node *features(const model *m, pass *p)
{
    const bilstm_pool pool = bilstm_pool_of(m);
    if (pool == POOL_LAST)
        return op_bilstm(p->t, p->rows, p->param, p->seq, p->made);
    const spans cut = spans_cut(p->t, p->seq, model_span(m));
    node *states =
        spans_join(p->t, &cut, op_bilstm_states(p->t, p->rows, p->param, cut.seq, p->made));
    return (pool == POOL_MAX ? op_seq_max : op_seq_mean)(p->t, states, p->seq);
}

static node *make(const model *m, const pass *p, node *rows)
{
    (void)m;
    return op_bilstm_made(p->t, rows, p->param);
}

static const char *const robust[] = {RECIPE_SPANS, "--pool", "max",  "--hidden", "128",
                                     "--kappa",    "0.5",    "--lr", "1e-3",     NULL};
static const model_recipe recipes[] = {{"robust", robust}, {NULL, NULL}};

const model_desc model_bilstm = {
    .name = "bilstm",
    .summary = "bidirectional LSTM: last states of both directions, or pooled over the text",
    .opts = opts,
    .cfg_size = sizeof(bilstm_cfg),
    .train = {.rate = {1e-3, 1e-3}, .decay = {1e-4, 0}, .dropout = 0.5},
    .slow_edits = true,
    .recipes = recipes,
    .layout = layout,
    .init = init,
    .features = features,
    .make = make,
    .n_features = n_features,
    .score_hidden = score_hidden,
    .span = span,
    .compile = bilstm_compile,
    .compiled_free = bilstm_compiled_free,
    .view_new = bilstm_view_new,
    .view_open = bilstm_view_open,
    .view_edits = bilstm_view_edits,
    .mixtures = bilstm_mixtures,
#ifdef STET_HAVE_CUDA
    .answers = &bilstm_answers,
#endif
};
