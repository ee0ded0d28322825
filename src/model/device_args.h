/* model/device_args.h - what kernels that answer for many texts at once are given: addresses of a
 * device and sizes, in C that CUDA's compiler reads too. See answers.h. */
#ifndef MODEL_DEVICE_ARGS_H
#define MODEL_DEVICE_ARGS_H

#include "base/error.h"
#include "stet/model.h"

/* Variants of texts. Those of one text stand together, in the order of the texts. */
typedef struct edit_batch {
    size_t n_texts, n_words, n_variants, n_tiles, n_classes;
    const uint32_t *word;    /* (n_words) rows of the table, text by text */
    const uint32_t *first;   /* (n_texts + 1) where a text begins */
    const uint32_t *of;      /* (n_variants) its text */
    const uint32_t *edit_at; /* (n_variants + 1) */
    const stet_edit *edit;   /* ascending positions in each variant */
    const uint32_t *tile;    /* (n_tiles, 2) first variant and number, of one text each */
    float *logits;           /* (n_variants, n_classes) */
} edit_batch;

/* Texts with a set of words at each position, for a CNN. */
typedef struct range_batch {
    size_t n_texts;
    const uint32_t *first; /* (n_texts + 1) where a text's positions begin */
    const uint32_t *at;    /* (positions + 1) where a position's words begin */
    const uint32_t *word;
    const float *pad; /* (n_texts, features) */
    float *top;       /* (n_texts, 2, features): the largest window from below, and from above */
} range_batch;

enum { CNN_ON_KERNELS = 8 };
typedef struct cnn_on {
    size_t n_kernels, filters, width, features; /* as cnn_compiled */
    size_t k[CNN_ON_KERNELS], first[CNN_ON_KERNELS];
    const float *word; /* (n_words, width) */
    const float *bias; /* (features) */
    /* A layer before the last, transposed: (features, dense), and (dense); 0: none */
    size_t dense;
    const float *dense_weight, *dense_bias;
    const float *fc, *fc_bias; /* (classes, dense or features) */
} cnn_on;

typedef struct lstm_on {
    size_t H, G; /* units; entries of a word's projection */
    size_t span; /* words after which a walk starts anew; 0: never */
    int pool;    /* bilstm_pool */
    const float *word[2]; /* (n_words, G) */
    const float *bias[2]; /* (4H) */
    const float *u[2];    /* (H, H, 4): unit read, unit written, gate */
    const float *fc, *fc_bias;
} lstm_on;

/* word (n_words, width) of a cnn_on: table (n_words, dim) by the filters, in panels of CNN_ON_PANEL columns
 * (tensor/host/panel.h). Sums go through dim in order and round as the host's do: `fuses`. */
enum { CNN_ON_PANEL = 64 };
typedef struct cnn_words_on {
    size_t n_words, dim, width;
    const float *table, *panels;
    float *word;
    bool fuses;
} cnn_words_on;

/* cuda/; between store_enter and store_leave. `room` of the second has 3 n_words features numbers, that of
 * the last n_variants 2H. */
stet_status cuda_cnn_words(const cnn_words_on *w);
stet_status cuda_cnn_edits(const cnn_on *m, const edit_batch *b, float *room);
stet_status cuda_cnn_ranges(const cnn_on *m, const range_batch *b);
stet_status cuda_lstm_edits(const lstm_on *m, const edit_batch *b, float *room);
/* Variants that a block of cuda_lstm_edits has in hand; 0: not for so many units. */
size_t cuda_lstm_tile(size_t units);

#endif
