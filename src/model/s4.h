/* model/s4.h - configuration of the S4 classifier, shared with its views and bounds. */
#ifndef MODEL_S4_H
#define MODEL_S4_H

#include "model/model_impl.h"

typedef struct s4_cfg {
    int64_t channels, state, layers;
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
    S4_PER_LAYER
};
#define S4_NORM_EPS 1e-5

/* Views (s4_view.c). */
stet_status s4_compile(const model *m, void **out);
void s4_compiled_free(void *compiled);
stet_view *s4_view_new(void);
stet_status s4_view_open(stet_view *v);
stet_status s4_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                          float *logits);

#endif
