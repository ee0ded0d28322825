/* bound/bounds.h - what a kind of model knows of its own bounds. Adding a kind: a file that defines
 * a model_bounds; a hook that is NULL says that the model has nothing of the sort, and callers turn
 * that into a message. An empty descriptor is a model without bounds. */
#ifndef BOUND_BOUNDS_H
#define BOUND_BOUNDS_H

#include "bound/gbm_ops.h"
#include "bound/lstm_box_ops.h"
#include "bound/worst_case.h"
#include "model/kind_list.h"
#include "stet/bound.h"

/* A model that reads word by word, in two directions (0 from the start, 1 from the end): its growth
 * bounds hold over boxes of words and states, and add up over steps (gain, rho). */
typedef struct state_bounds {
    size_t (*units)(const model *m); /* H of one direction */
    /* Boxes of states (4, H), lstm_box_ops.h: `box` after taking in the states of some words; every
     * state of a text with vectors in `words` (2, D); around the state after some words. */
    node *(*observed)(const model *m, const pass *p, int direction, const box_words *w, node *box,
                      double forget, bool first);
    node *(*invariant)(const model *m, const pass *p, int direction, node *words);
    node *(*around)(const model *m, const pass *p, int direction, const box_words *w,
                    double radius);
} state_bounds;

typedef struct model_bounds {
    /* Growth bounds: gbm_term for what gbm_supported allows; gbm_entries of the layer's M, or of
     * that of the logits. */
    node *(*term)(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                  gbm_report *report);
    double (*entries)(const model *m, bool logits);
    const state_bounds *states; /* NULL: the bounds hold everywhere */

    /* Worst cases over substitution sets. The ends of the features of the texts of a->s; also their
     * values, where the texts are those of the pass and the bounds come with them. */
    void (*ranges)(const model *m, pass *p, const worst_args *a, node *out[RANGE_SIDES]);
    /* The worst logits by one bound of all features together. `mask`: dropout's factors (B,
     * features), or NULL; w, b: the last layer. *value as in `ranges`. */
    node *(*joint)(const model *m, pass *p, const worst_args *a, const node *mask, node *w, node *b,
                   node **value);
    bool (*no_joint)(const model *m); /* of these settings there is none after all; NULL: there is */

    /* stet_gbm_of: everything but sums and constants; and the names of its rows and columns. */
    stet_status (*matrix)(const model *m, const stet_gbm_options *how, stet_gbm *g);
    void (*row_name)(const stet_gbm *g, size_t row, char *out, size_t size);
    void (*col_name)(const stet_gbm *g, size_t col, char *out, size_t size);
} model_bounds;

#define BOUNDS_DECLARE(kind) extern const model_bounds bounds_##kind;
MODEL_KINDS(BOUNDS_DECLARE)
#undef BOUNDS_DECLARE

/* Never NULL: an empty one where nothing is known. */
const model_bounds *bounds_of(const model *m);
const model_bounds *bounds_named(const char *kind);

/* ---- for `matrix` (inspect.c) ------------------------------------------------------------- */

/* What a matrix is before its entries. Rows come in groups (kernel sizes, directions, layers), and
 * norms belong to maps of `map` rows; columns come in parts, of `cols[part]` each. */
typedef struct matrix_shape {
    size_t rows, group, map;
    size_t cols[STET_GBM_PARTS];
} matrix_shape;
stet_status matrix_init(stet_gbm *g, const model *m, const matrix_shape *s);
/* The logits' term; over words (2, D) and states (2, 4, H), or NULL where the bounds need none. */
stet_status matrix_logit_sum(const model *m, const real *words, const real *states, double *out);

#endif
