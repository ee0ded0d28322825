/* stet/bound.h - the growth bound matrix of a loaded model: how far each unit can move per unit of
 * change of each input.
 *
 *     stet_gbm g;
 *     if (stet_gbm_of(model, &(stet_gbm_options)STET_GBM_DEFAULTS, &g) != STET_OK) ...
 *     printf("sum %g, Lipschitz constant %g\n", g.sum, g.lipschitz.inf_inf);
 *     stet_gbm_deinit(&g);
 *
 * What is bounded depends on the model (docs/gbm.md):
 *
 *     cnn     pooled features by the coordinates of any one word: |dy_f / dv_c| <= M_fc. Holds
 *             everywhere. s4cnn is one.
 *     bilstm  the next hidden state of a cell by word, hidden state and cell, over boxes of the
 *             three.
 *     s4      the output of a channel's step by its input and the modes of its state. Holds
 *             everywhere.
 *
 * Computed in round-to-nearest: statements "up to rounding", not certificates. */
#ifndef STET_BOUND_H
#define STET_BOUND_H

#include "stet/lexicon.h"
#include "stet/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Boxes of a bilstm's bounds; other models need none. */
typedef struct stet_gbm_options {
    size_t size; /* of this struct; 0 counts as what this header says */
    const stet_corpus *texts;   /* states between those that these texts have; NULL: states that no
                                   text of max_len words leaves */
    const stet_subst *synonyms; /* a word between itself and its substitutes, mean over words drawn;
                                   NULL: anywhere in the table */
    size_t words;               /* how many are drawn: from the texts, or from the vocabulary */
    uint64_t seed;
} stet_gbm_options;
#ifdef __cplusplus
#define STET_GBM_DEFAULTS STET_DEFAULTS_CXX(stet_gbm_options)
#else
#define STET_GBM_DEFAULTS                                                                          \
    {                                                                                              \
        .size = sizeof(stet_gbm_options),                                                          \
        .words = 32, .seed = 1                                                                     \
    }
#endif
STET_API void stet_gbm_options_init(stet_gbm_options *a, size_t size); /* sizeof(stet_gbm_options) */

enum { STET_GBM_INPUT, STET_GBM_STATE, STET_GBM_CELL, STET_GBM_PARTS };

typedef struct stet_gbm {
    size_t rows, cols;
    float *m;                        /* (rows, cols) */
    size_t part_end[STET_GBM_PARTS]; /* columns of a part end here; equal ends: the model has no
                                        such part */
    double by_part[STET_GBM_PARTS], sum;
    double logit_sum; /* of the same for the difference of two logits, mean over pairs of classes */
    double *row_sum, *col_sum; /* (rows), (cols) */

    /* Constants of the layer's step: |F(x) - F(x')| in the second norm <= constant |x - x'| in the
     * first. */
    struct {
        double inf_inf, one_inf, one_one, two_two;
    } lipschitz;
    double contraction[2]; /* bilstm: of the deviation of its states, a step of each direction;
                              below 1 it dies out */
    size_t n_contraction;

    char boxes[80]; /* what the bounds hold over */
    char kind[16];
    size_t group;        /* rows of a kernel size, a direction, a layer */
    size_t map;          /* rows whose column sums and norms belong together */
    size_t group_tag[8]; /* cnn: the kernel sizes */
} stet_gbm;

/* Does a kind of model ("cnn", ...) have growth bounds? */
STET_API bool stet_gbm_known(const char *kind);
/* On failure *out holds nothing. STET_ENOTSUP for a model without growth bounds. */
STET_API stet_status stet_gbm_of(const stet_model *m, const stet_gbm_options *how, stet_gbm *out);
STET_API void stet_gbm_deinit(stet_gbm *g);

/* "width 3, filter 17", "forward, unit 4"; "word coordinate 12", "h 4". */
STET_API const char *stet_gbm_row_name(const stet_gbm *g, size_t row, char *out, size_t size);
STET_API const char *stet_gbm_col_name(const stet_gbm *g, size_t col, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
