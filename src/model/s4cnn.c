/* model/s4cnn.c - S4 as a convolution over windows of words: a TextCNN whose filters are made by state
 * spaces. A filter is the sum of a few of them, each with a kernel over the words of the window, as in
 * S4, and a direction of the vectors that it reads:
 *
 *     y_f[t] = ReLU(b_f + sum over the h of f of (K_h * (e_h . v))[t] + d_h e_h . v_t),   max over t
 *
 * S4's bare block with several state spaces a channel that are added up before the ReLU, and with
 * windows that move on word by word where that cuts the text into spans.
 *
 * The filters that come out, convs.I.weight, are parameters that others make (model_desc.derive): they
 * are saved with the model, and all but training reads them alone. So everything that is known of a
 * TextCNN, its views, bounds, certificates and proofs, is this model's too. */
#include <math.h>
#include <stdio.h>

#include "model/cnn.h"
#include "model/kind_list.h"
#include "model/s4.h"
#include "model/word_scores.h"

typedef struct s4cnn_cfg {
    cnn_cfg cnn; /* first: see cnn.h */
    int64_t rank, state, memory;
} s4cnn_cfg;

static const stet_opt opts[] = {
    STET_OPT_STR("kernels", s4cnn_cfg, cnn.kernels, "8", "K,K,...", "s4cnn: widths of the windows"),
    STET_OPT_INT("filters", s4cnn_cfg, cnn.filters, "256", 1, 65536, "N",
                 "s4cnn: filters of each width"),
    STET_OPT_INT("rank", s4cnn_cfg, rank, "4", 1, 64, "N", "s4cnn: state spaces of a filter"),
    STET_OPT_INT("state", s4cnn_cfg, state, "16", 2, 1024, "N",
                 "s4cnn: state size, stored as conjugate pairs (even)"),
    STET_OPT_INT("s4-memory", s4cnn_cfg, memory, "8", 1, 1000000, "N",
                 "s4cnn: words that the slowest state space remembers at the start of training"),
    SCORE_HIDDEN_OPT(s4cnn_cfg, cnn.score_hidden),
    STET_OPT_END,
};

/* What makes a kernel size: a state space (S4_A .. S4_D), then its directions. */
enum { MAKER_ENC = S4_D + 1, PER_MAKER };

static size_t maker_at(size_t n_kernels, size_t kernel)
{
    return 2 * n_kernels + PER_MAKER * kernel;
}

static stet_status layout(model *m)
{
    const s4cnn_cfg *cfg = m->cfg;
    size_t k[CNN_MAX_KERNELS];
    if (cfg->state % 2)
        return error_set(STET_EUSAGE, "--state %lld: expected an even number (conjugate pairs)",
                         (long long)cfg->state);
    TRY(cnn_layout(m));
    const size_t n_kernels = cnn_kernels(m, k), h = (size_t)(cfg->cnn.filters * cfg->rank),
                 n = (size_t)cfg->state / 2;
    for (size_t i = 0; i < n_kernels; i++) {
        const struct {
            const char *name;
            shape s;
            param_kind kind;
        } rows[PER_MAKER] = {
            [S4_A] = {"log_a_real", shape2(h, n), PARAM_STATE},
            [S4_W] = {"a_imag", shape2(h, n), PARAM_STATE},
            [S4_P] = {"p", shape3(h, n, 2), PARAM_STATE},
            [S4_B] = {"b", shape3(h, n, 2), PARAM_STATE},
            [S4_C] = {"c", shape3(h, n, 2), PARAM_STATE},
            [S4_LOG_DT] = {"log_dt", shape1(h), PARAM_STATE},
            [S4_D] = {"d", shape1(h), PARAM_PLAIN},
            [MAKER_ENC] = {"encoder.weight", shape2(h, m->dim), PARAM_PLAIN},
        };
        m->params[2 * i].frozen = true;
        for (int part = 0; part < PER_MAKER; part++) {
            char name[64];
            snprintf(name, sizeof name, "s4.%zu.%s", i, rows[part].name);
            TRY(model_param(m, name, rows[part].s, rows[part].kind));
        }
    }
    return STET_OK;
}

static void derive(const model *m, tape *t, node **nodes)
{
    const s4cnn_cfg *cfg = m->cfg;
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k);
    for (size_t i = 0; i < n; i++) {
        node **s = nodes + maker_at(n, i);
        node *kernel =
            op_s4_kernel(t, s[S4_A], s[S4_W], s[S4_P], s[S4_B], s[S4_C], s[S4_LOG_DT], k[i]);
        nodes[2 * i] = op_s4_filters(t, s[MAKER_ENC], kernel, s[S4_D], (size_t)cfg->rank);
    }
}

/* Directions start so small that filters are about those of a new TextCNN. */
static stet_status init(const model *m, rng *r)
{
    const s4cnn_cfg *cfg = m->cfg;
    size_t k[CNN_MAX_KERNELS];
    const size_t n = cnn_kernels(m, k);
    for (size_t i = 0; i < n; i++) {
        const int at = (int)maker_at(n, i);
        const double bound = 1 / sqrt((double)(m->dim * k[i]));
        init_uniform(m, (int)(2 * i + 1), bound, r);
        TRY(s4_init_states(m, at, (size_t)(cfg->cnn.filters * cfg->rank), (size_t)cfg->state,
                           cfg->memory, r));
        init_uniform(m, at + MAKER_ENC, bound / sqrt((double)cfg->rank), r);
    }
    arena mem = {0};
    const stet_status st = weights_derive(NULL, m, &mem, NULL);
    arena_deinit(&mem);
    return st;
}

/* Chosen with teachers (docs/results.md). */
static const char *const robust[] = {
    RECIPE_ROBUST,   "--kernels", "3,4,5",   "--rank",         "3",    "--kappa",    "0.85",
    "--ramp",        "0.3",       "--lr",    "1e-3",           "--state-lr", "3e-3", "--clip",
    "1",             "--batch",   "32",      "--dropout",      "0.2",  "--smooth",   "3",
    "--word-scores", "--score-lr", "0.005",  "--tune-vectors", "3e-4", "--epochs",   "4",
    "--weight-decay", "1",        NULL};
static const model_recipe recipes[] = {{"robust", robust}, {NULL, NULL}};

const model_desc model_s4cnn = {
    .name = "s4cnn",
    .summary = "S4 over windows of words: a TextCNN whose filters are made by state spaces",
    .opts = opts,
    .cfg_size = sizeof(s4cnn_cfg),
    .train = {.decoupled = true, .rate = {5e-4, 5e-3}, .decay = {1e-2, 0}, .dropout = 0.2},
    .recipes = recipes,
    .layout = layout,
    .init = init,
    .derive = derive,
    .features = cnn_features,
    .n_features = cnn_n_features,
    .score_hidden = cnn_score_hidden,
    CNN_VIEWS,
};
