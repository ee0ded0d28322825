/* model/s4.c - S4 (Gu, Goel, Re 2022): encoder, then layers of a diagonal-plus-low-rank state space in
 * convolution form, GELU, a gated linear map, residual, layer norm; mean over the text, linear.
 *
 * One layer, post-norm:   y = K * u + d u;   u <- LayerNorm(u + GLU(mix(GELU(y)))); or as s4.h says.
 *
 * State space per channel (docs/gbm.md): Lambda = -exp(a) - i w, P, B, C complex, step exp(log_dt). Start: HiPPO-LegS. */
#include "model/s4.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "model/hippo.h"
#include "model/kind_list.h"
#include "model/spans.h"
#include "model/word_scores.h"

static const stet_opt opts[] = {
    STET_OPT_INT("channels", s4_cfg, channels, "256", 1, 8192, "N", "s4: width of the layers"),
    STET_OPT_INT("state", s4_cfg, state, "64", 2, 1024, "N",
                 "s4, s4cnn: state size, stored as conjugate pairs (even); s4cnn has 16 unless "
                 "given"),
    STET_OPT_INT("layers", s4_cfg, layers, "1", 1, 8, "N", "s4: number of layers"),
    STET_OPT_CHOICE("s4-block", s4_cfg, block, "glu", "glu|relu|bare",
                    "s4: what follows the state space: GELU, a gated map, residual and norm; ReLU "
                    "and a linear map; or ReLU alone, which loses least in certified training"),
    STET_OPT_CHOICE("s4-pool", s4_cfg, pool, "mean", "mean|max",
                    "s4: what the classifier sees of each channel, its mean over the text or its "
                    "largest value"),
    SPAN_OPT(s4_cfg, span),
    STET_OPT_INT("s4-memory", s4_cfg, memory, "1000", 1, 1000000, "N",
                 "s4, s4cnn: words that the slowest state space remembers at the start of "
                 "training; of s4cnn 8 unless given"),
    SCORE_HIDDEN_OPT(s4_cfg, score_hidden),
    STET_OPT_END,
};

static stet_status layout(model *m)
{
    const s4_cfg *cfg = m->cfg;
    if (cfg->state % 2)
        return error_set(STET_EUSAGE, "--state %lld: expected an even number (conjugate pairs)",
                         (long long)cfg->state);
    const size_t h = (size_t)cfg->channels, n = (size_t)cfg->state / 2,
                 mixed = cfg->block == BLOCK_RELU ? h : 2 * h;
    TRY(model_param(m, "encoder.weight", shape2(h, m->dim), PARAM_PLAIN));
    TRY(model_param(m, "encoder.bias", shape1(h), PARAM_PLAIN));
    for (int64_t l = 0; l < cfg->layers; l++) {
        const struct {
            const char *name;
            shape s;
            param_kind kind;
        } rows[S4_PER_LAYER] = {
            [S4_A] = {"s4.log_a_real", shape2(h, n), PARAM_STATE},
            [S4_W] = {"s4.a_imag", shape2(h, n), PARAM_STATE},
            [S4_P] = {"s4.p", shape3(h, n, 2), PARAM_STATE},
            [S4_B] = {"s4.b", shape3(h, n, 2), PARAM_STATE},
            [S4_C] = {"s4.c", shape3(h, n, 2), PARAM_STATE},
            [S4_LOG_DT] = {"s4.log_dt", shape1(h), PARAM_STATE},
            [S4_D] = {"s4.d", shape1(h), PARAM_PLAIN},
            [S4_MIX_W] = {"mix.weight", shape2(mixed, h), PARAM_PLAIN},
            [S4_MIX_B] = {"mix.bias", shape1(mixed), PARAM_PLAIN},
            [S4_NORM_W] = {"norm.weight", shape1(h), PARAM_PLAIN},
            [S4_NORM_B] = {"norm.bias", shape1(h), PARAM_PLAIN},
        };
        for (int i = 0; i < s4_per_layer(cfg); i++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%lld.%s", (long long)l, rows[i].name);
            TRY(model_param(m, name, rows[i].s, rows[i].kind));
        }
    }
    return STET_OK;
}

static size_t score_hidden(const model *m)
{
    return (size_t)((const s4_cfg *)m->cfg)->score_hidden;
}

static size_t n_features(const model *m)
{
    return (size_t)((const s4_cfg *)m->cfg)->channels;
}

static size_t span(const model *m)
{
    return (size_t)((const s4_cfg *)m->cfg)->span;
}

stet_status s4_init_states(const model *m, int first, size_t channels, size_t state, int64_t memory,
                           rng *r)
{
    const size_t n = state / 2;
    const double slowest = 1 / (double)memory, fastest = fmin(1, 100 / (double)memory);
    double *w = mem_alloc(5 * n, sizeof *w);
    if (!w)
        return STET_ENOMEM;
    double *p = w + n, *b = w + 3 * n;
    const stet_status st = hippo_legs(state, w, p, b);
    for (size_t h = 0; st == STET_OK && h < channels; h++) {
        for (size_t i = 0; i < n; i++) {
            const size_t at = h * n + i;
            model_value(m, first + S4_A)[at] = (real)log(0.5);
            model_value(m, first + S4_W)[at] = (real)-w[i]; /* Lambda = -exp(a) - i w */
            for (size_t part = 0; part < 2; part++) {
                model_value(m, first + S4_P)[2 * at + part] = (real)p[2 * i + part];
                model_value(m, first + S4_B)[2 * at + part] = (real)b[2 * i + part];
                model_value(m, first + S4_C)[2 * at + part] = (real)(rng_normal(r) * sqrt(0.5));
            }
        }
        model_value(m, first + S4_LOG_DT)[h] = (real)rng_range(r, log(slowest), log(fastest));
        model_value(m, first + S4_D)[h] = (real)rng_normal(r);
    }
    mem_free(w);
    return st;
}

static stet_status init(const model *m, rng *r)
{
    const s4_cfg *cfg = m->cfg;
    init_uniform(m, S4_ENC_W, 1 / sqrt((double)m->dim), r);
    init_uniform(m, S4_ENC_B, 1 / sqrt((double)m->dim), r);
    for (int l = 0; l < (int)cfg->layers; l++) {
        const int first = s4_layer_at(cfg, l);
        TRY(s4_init_states(m, first, (size_t)cfg->channels, (size_t)cfg->state, cfg->memory, r));
        for (int i = S4_MIX_W; i < s4_per_layer(cfg) && i <= S4_MIX_B; i++)
            init_uniform(m, first + i, 1 / sqrt((double)cfg->channels), r);
        if (cfg->block == BLOCK_GLU)
            init_constant(m, first + S4_NORM_W, 1);
    }
    return STET_OK;
}

static node *features(const model *m, pass *p)
{
    const s4_cfg *cfg = m->cfg;
    tape *t = p->t;
    node *u = op_linear(t, p->rows, p->param[S4_ENC_W], p->param[S4_ENC_B]);
    const spans cut = spans_cut(t, p->seq, model_span(m));
    u = op_gather(t, u, cut.seq->row, cut.seq->n_tokens);
    for (int l = 0; l < (int)cfg->layers; l++) {
        node **w = p->param + s4_layer_at(cfg, l);
        node *k = op_s4_kernel(t, w[S4_A], w[S4_W], w[S4_P], w[S4_B], w[S4_C], w[S4_LOG_DT],
                               cut.seq->max_len);
        node *y = op_s4_conv(t, u, k, w[S4_D], cut.seq);
        if (cfg->block != BLOCK_GLU) {
            u = op_relu(t, y);
            if (cfg->block == BLOCK_RELU)
                u = op_linear(t, u, w[S4_MIX_W], w[S4_MIX_B]);
            continue;
        }
        y = op_gelu(t, y);
        node *z = op_glu(t, op_linear(t, y, w[S4_MIX_W], w[S4_MIX_B]));
        u = op_layer_norm(t, op_add(t, u, z), w[S4_NORM_W], w[S4_NORM_B], S4_NORM_EPS);
    }
    u = spans_join(t, &cut, u);
    return (cfg->pool == S4_MAX ? op_seq_max : op_seq_mean)(t, u, p->seq);
}

/* What a changed word does past the first layer has no shortcut. */
static bool deep(const model *m)
{
    return ((const s4_cfg *)m->cfg)->layers > 1;
}

static const char *const robust[] = {RECIPE_SPANS, "--s4-block", "relu",    "--s4-pool", "max",
                                     "--channels", "256",        "--state", "16",        "--kappa",
                                     "0.7",        "--lr",       "3e-3",    NULL};
static const model_recipe recipes[] = {{"robust", robust}, {NULL, NULL}};

const model_desc model_s4 = {
    .name = "s4",
    .summary = "S4: structured state space, mean or maximum over the text",
    .opts = opts,
    .cfg_size = sizeof(s4_cfg),
    .train = {.decoupled = true, .rate = {5e-4, 5e-3}, .decay = {1e-2, 0}, .dropout = 0.2},
    .slow_edits = true,
    .recipes = recipes,
    .layout = layout,
    .init = init,
    .features = features,
    .n_features = n_features,
    .score_hidden = score_hidden,
    .span = span,
    .whole = deep,
    .compile = s4_compile,
    .compiled_free = s4_compiled_free,
    .view_new = s4_view_new,
    .view_open = s4_view_open,
    .view_edits = s4_view_edits,
};
