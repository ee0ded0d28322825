/* model/cnn.h - configuration of the text CNN, shared with its views and bounds. */
#ifndef MODEL_CNN_H
#define MODEL_CNN_H

#include "model/model_impl.h"

enum { CNN_MAX_KERNELS = 8, CNN_MAX_TAPS = 64 };
typedef struct cnn_cfg {
    const char *kernels; /* "3,4,5" */
    int64_t filters;     /* per kernel size */
    int64_t score_hidden; /* word_scores.h */
    int64_t dense; /* units of a layer with ReLU before the last one; 0: none */
} cnn_cfg;

/* Kernel sizes from the configuration: their number, or 0 with a message. */
size_t cnn_kernels(const model *m, size_t out[CNN_MAX_KERNELS]);
size_t cnn_pooled(const model *m); /* filters of all sizes: what comes out of the maximum */
/* The id of "dense.weight" (units, pooled), with "dense.bias" behind it; -1: there is no such layer,
 * and the last one reads what was pooled. */
int cnn_dense(const model *m);

/* A CNN ready for views (model.compiled): what every tap of every filter makes of a word, for the words
 * that somebody has needed; row w, then kernel, tap, filter. */
typedef struct cnn_compiled {
    size_t n_kernels, filters, width; /* width: sum of k * filters */
    size_t k[CNN_MAX_KERNELS], first[CNN_MAX_KERNELS];
    real *word;          /* (n_words, width) */
    real *panels;        /* the filters, packed (tensor/host/panel.h) */
    size_t dense;        /* units of the layer before the last; 0: none */
    real *dense_panels;  /* its weights, packed; or NULL */
    atomic_uchar *state; /* (n_words) of its row */
    atomic_bool all;     /* every row is there */
} cnn_compiled;

/* cnn_words.c. cnn_need: rows of these words (word[0], word[step], ...), which must be known to the
 * model, before they are read. Any thread may. */
stet_status cnn_need(const model *m, const uint32_t *word, size_t step, size_t n);
stet_status cnn_compile_words(const model *m); /* all of them, on all threads */
stet_status cnn_compile(const model *m, void **out);
void cnn_compiled_free(void *compiled);

extern const answer_desc cnn_answers; /* cuda/; only in a build with CUDA */
/* The network. A kind whose filters come from elsewhere begins its settings with a cnn_cfg and its
 * parameters with cnn_layout()'s, and takes these hooks and CNN_VIEWS. */
stet_status cnn_layout(model *m);
size_t cnn_n_features(const model *m);
size_t cnn_score_hidden(const model *m);
node *cnn_features(const model *m, pass *p);

/* Views (cnn_view.c). */
stet_view *cnn_view_new(void);
stet_status cnn_view_open(stet_view *v);
stet_status cnn_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                           float *logits);
/* Of a compiled model, what the layers behind the maximum make of features (n, cnn_pooled()). */
stet_status cnn_logits(const model *m, const real *y, size_t n, float *logits);
/* Whole texts (cnn_texts.c). */
stet_status cnn_texts(const model *m, const stet_corpus *c, float *logits);
stet_status cnn_mixtures(const model *m, const struct mixed_texts *t, const real *weight,
                         float *logits);

#ifdef STET_HAVE_CUDA
#define CNN_ANSWERS &cnn_answers
#else
#define CNN_ANSWERS NULL
#endif
#define CNN_VIEWS                                                                                  \
    .compile = cnn_compile, .compile_words = cnn_compile_words,                                    \
    .compiled_free = cnn_compiled_free, .view_new = cnn_view_new, .view_open = cnn_view_open,      \
    .view_edits = cnn_view_edits, .texts = cnn_texts, .mixtures = cnn_mixtures,    \
    .answers = CNN_ANSWERS

#endif
