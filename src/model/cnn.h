/* model/cnn.h - configuration of the text CNN, shared with its views and bounds. */
#ifndef MODEL_CNN_H
#define MODEL_CNN_H

#include "model/model_impl.h"

enum { CNN_MAX_KERNELS = 8, CNN_MAX_TAPS = 64 };
typedef struct cnn_cfg {
    const char *kernels; /* "3,4,5" */
    int64_t filters;     /* per kernel size */
} cnn_cfg;

/* Kernel sizes from the configuration: their number, or 0 with a message. */
size_t cnn_kernels(const model *m, size_t out[CNN_MAX_KERNELS]);

/* What stet_model_compile makes of a CNN (model.compiled): the projection of every word for every
 * tap of every filter; row w, then kernel, tap, filter. */
typedef struct cnn_compiled {
    size_t n_kernels, filters, width; /* width: sum of k * filters */
    size_t k[CNN_MAX_KERNELS], first[CNN_MAX_KERNELS];
    real *word; /* (n_words, width) */
} cnn_compiled;

extern const answer_desc cnn_answers; /* cuda/; only in a build with CUDA */
/* Views (cnn_view.c). */
stet_status cnn_compile(const model *m, void **out);
void cnn_compiled_free(void *compiled);
stet_view *cnn_view_new(void);
stet_status cnn_view_open(stet_view *v);
stet_status cnn_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                           float *logits);

#endif
