/* model/s4.h - configuration of the S4 classifier, shared with its views and bounds. */
#ifndef MODEL_S4_H
#define MODEL_S4_H

#include "model/model_impl.h"

/* What follows a layer's state space, y = K * u + d u, at each position:
 *
 *     BLOCK_GLU    u <- LayerNorm(u + GLU(mix(GELU(y)))), mix (2H, H)
 *     BLOCK_RELU   u <- mix(ReLU(y)), mix (H, H), and no norm
 *     BLOCK_BARE   u <- ReLU(y)
 *
 * The second loses less in box arithmetic: ReLU keeps the order, no box is counted twice as by the
 * residual, and a norm that only centres would be part of the linear map. The third loses nothing
 * after the first linear map: with the maximum over the text it is a convolution whose filters
 * share one direction over all their words. */
typedef enum s4_block { BLOCK_GLU, BLOCK_RELU, BLOCK_BARE } s4_block;
typedef enum s4_pool { S4_MEAN, S4_MAX } s4_pool; /* over the text */

typedef struct s4_cfg {
    int64_t channels, state, layers;
    int block, pool;
    int64_t span;   /* spans.h */
    int64_t memory; /* words, at the start of training */
    int64_t score_hidden; /* word_scores.h */
} s4_cfg;

/* Parameters: encoder.weight, encoder.bias, then S4_PER_LAYER a layer. */
enum { S4_ENC_W, S4_ENC_B, S4_FIRST_LAYER };
enum {
    S4_A,
    S4_W,
    S4_P,
    S4_B,
    S4_C,
    S4_LOG_DT,
    S4_D, /* the state space */
    S4_MIX_W,
    S4_MIX_B,
    S4_NORM_W,
    S4_NORM_B,
    S4_PER_LAYER /* of BLOCK_GLU */
};
/* Parameters of a layer, and the first of them. */
static inline int s4_per_layer(const s4_cfg *cfg)
{
    static const int count[] = {
        [BLOCK_GLU] = S4_PER_LAYER, [BLOCK_RELU] = S4_NORM_W, [BLOCK_BARE] = S4_MIX_W};
    return count[cfg->block];
}
static inline int s4_layer_at(const s4_cfg *cfg, int layer)
{
    return S4_FIRST_LAYER + layer * s4_per_layer(cfg);
}
#define S4_NORM_EPS 1e-5

/* First values of `channels` state spaces whose parameters begin with `first` (S4_A .. S4_D): every
 * channel starts from the same HiPPO matrix; C, the steps and D are drawn. A step of 1 / N remembers
 * about N words, and the slowest of them `memory`; none starts above 1, where it would forget the
 * word itself. */
stet_status s4_init_states(const model *m, int first, size_t channels, size_t state, int64_t memory,
                           rng *r);

/* Views (s4_view.c). */
stet_status s4_compile(const model *m, void **out);
void s4_compiled_free(void *compiled);
stet_view *s4_view_new(void);
stet_status s4_view_open(stet_view *v);
stet_status s4_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                          float *logits);

#endif
