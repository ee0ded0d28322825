/* model/cnn.c - TextCNN (Kim 2014): convolutions of several widths over the words, ReLU, max over
 * time, dropout, linear. Parameters as nn.Conv1d: convs.I.weight (F, D, k), convs.I.bias (F). With
 * --dense a layer with ReLU, and its own dropout before it, comes before the last one: dense.weight
 * (units, pooled), dense.bias (units). */
#include "model/cnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/kind_list.h"
#include "model/word_scores.h"
#include "tensor/joined.h"

static const stet_opt opts[] = {
    STET_OPT_STR("kernels", cnn_cfg, kernels, "3,4,5", "K,K,...",
                 "cnn: widths of the convolutions; s4cnn: of the windows, 8 unless given"),
    STET_OPT_INT("filters", cnn_cfg, filters, "128", 1, 65536, "N",
                 "cnn, s4cnn: filters of each width; s4cnn has 256 unless given"),
    STET_OPT_INT("dense", cnn_cfg, dense, "0", 0, 65536, "N",
                 "cnn: units of a layer with ReLU between the pooled filters and the last layer; "
                 "0: none"),
    SCORE_HIDDEN_OPT(cnn_cfg, score_hidden),
    STET_OPT_END,
};

size_t cnn_kernels(const model *m, size_t out[CNN_MAX_KERNELS])
{
    const char *text = ((const cnn_cfg *)m->cfg)->kernels;
    size_t n = 0;
    for (const char *s = text;; s++) {
        char *end;
        const long k = strtol(s, &end, 10);
        if (end == s || k < 1 || k > CNN_MAX_TAPS || n == CNN_MAX_KERNELS ||
            (*end != ',' && *end != '\0')) {
            error_set(STET_EUSAGE,
                      "--kernels %s: expected at most %d widths from 1 to %d, such as 3,4,5", text,
                      CNN_MAX_KERNELS, CNN_MAX_TAPS);
            return 0;
        }
        out[n++] = (size_t)k;
        if (*end == '\0')
            return n;
        s = end;
    }
}

stet_status cnn_layout(model *m)
{
    const cnn_cfg *cfg = m->cfg;
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k);
    if (n == 0)
        return STET_EUSAGE;
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "convs.%zu.weight", i);
        TRY(model_param(m, name, shape3((size_t)cfg->filters, m->dim, k[i]), PARAM_PLAIN));
        snprintf(name, sizeof name, "convs.%zu.bias", i);
        TRY(model_param(m, name, shape1((size_t)cfg->filters), PARAM_PLAIN));
    }
    if (cfg->dense == 0)
        return STET_OK;
    TRY(model_param(m, "dense.weight", shape2((size_t)cfg->dense, cnn_pooled(m)), PARAM_PLAIN));
    return model_param(m, "dense.bias", shape1((size_t)cfg->dense), PARAM_PLAIN);
}

size_t cnn_score_hidden(const model *m)
{
    return (size_t)((const cnn_cfg *)m->cfg)->score_hidden;
}

size_t cnn_pooled(const model *m)
{
    size_t k[CNN_MAX_KERNELS];
    return cnn_kernels(m, k) * (size_t)((const cnn_cfg *)m->cfg)->filters;
}

int cnn_dense(const model *m)
{
    size_t k[CNN_MAX_KERNELS];
    return ((const cnn_cfg *)m->cfg)->dense ? (int)(2 * cnn_kernels(m, k)) : -1;
}

size_t cnn_n_features(const model *m)
{
    const cnn_cfg *cfg = m->cfg;
    return cfg->dense ? (size_t)cfg->dense : cnn_pooled(m);
}

static stet_status init(const model *m, rng *r)
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k);
    for (size_t i = 0; i < n; i++) {
        const double bound =
            1 / sqrt((double)(m->dim * k[i])); /* PyTorch's default for convolutions */
        init_uniform(m, (int)(2 * i), bound, r);
        init_uniform(m, (int)(2 * i + 1), bound, r);
    }
    const int dense = cnn_dense(m);
    for (int i = 0; dense >= 0 && i < 2; i++)
        init_uniform(m, dense + i, 1 / sqrt((double)cnn_pooled(m)), r);
    return STET_OK;
}

/* Filters and biases of every width; how many. */
static size_t weights(const model *m, const pass *p, node **w, node **b)
{
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k);
    for (size_t i = 0; i < n; i++) {
        w[i] = p->param[2 * i];
        b[i] = p->param[2 * i + 1];
    }
    return n;
}

node *cnn_features(const model *m, pass *p)
{
    node *w[CNN_MAX_KERNELS], *b[CNN_MAX_KERNELS];
    const size_t n = weights(m, p, w, b);
    node *x = op_conv_pools(p->t, p->rows, w, b, n, p->seq, p->made);
    const int dense = cnn_dense(m);
    if (dense < 0)
        return x;
    if (p->dropout > 0)
        x = op_dropout(p->t, x, p->dropout, p->stream);
    return op_relu(p->t, op_linear(p->t, x, p->param[dense], p->param[dense + 1]));
}

static node *make(const model *m, const pass *p, node *rows)
{
    node *w[CNN_MAX_KERNELS], *b[CNN_MAX_KERNELS];
    const size_t n = weights(m, p, w, b);
    return op_conv_made(p->t, rows, w, n);
}

static const char *const robust[] = {
    RECIPE_ROBUST, "--defense",     "certified,gbm",  "--gbm-of", "logits",         "--beta",
    "1e-4",        "--filters",     "256",            "--kappa",  "0.8",            "--ramp",
    "0.3",         "--word-scores", "--score-lr",     "0.005",    "--tune-vectors", "3e-4",
    "--smooth",    "3",             "--lr",           "1e-3",     "--batch",        "32",
    "--dropout",   "0.2",           "--weight-decay", "5e-4",     "--epochs",       "4",
    NULL};
/* EIBC (Wang et al., Findings of ACL 2023): its network and its training. */
static const char *const eibc[] = {"--defense",
                                   "certified,box-width",
                                   "--box-alone",
                                   "yes",
                                   "--box-weight",
                                   "1",
                                   "--box-alpha",
                                   "10",
                                   "--kernels",
                                   "2,3,4",
                                   "--filters",
                                   "200",
                                   "--word-layer",
                                   "200",
                                   "--dense",
                                   "600",
                                   "--kappa",
                                   "1",
                                   "--ramp",
                                   "0.667",
                                   "--eps-ramp",
                                   "0.667",
                                   "--epochs",
                                   "30",
                                   "--batch",
                                   "32",
                                   "--lr",
                                   "1e-3",
                                   "--schedule",
                                   "cosine",
                                   "--hold",
                                   "0.667",
                                   "--max-len",
                                   "1000",
                                   "--dropout",
                                   "0.2",
                                   "--weight-decay",
                                   "1e-4",
                                   "--tune-vectors",
                                   "1e-3",
                                   NULL};
static const model_recipe recipes[] = {{"robust", robust}, {"eibc", eibc}, {NULL, NULL}};

const model_desc model_cnn = {
    .name = "cnn",
    .summary = "TextCNN: convolutions over words, max over time",
    .opts = opts,
    .cfg_size = sizeof(cnn_cfg),
    .train = {.rate = {1e-4, 1e-4}, .decay = {1e-4, 0}, .dropout = 0.5},
    .recipes = recipes,
    .layout = cnn_layout,
    .init = init,
    .features = cnn_features,
    .make = make,
    .n_features = cnn_n_features,
    .score_hidden = cnn_score_hidden,
    CNN_VIEWS,
};
