/* model/device_args.h - what kernels that answer for many texts at once, or assemble batches, are given:
 * addresses of a device and sizes, in C that CUDA's compiler reads too. See answers.h and slabs.h. */
#ifndef MODEL_DEVICE_ARGS_H
#define MODEL_DEVICE_ARGS_H

#include "base/error.h"
#include "stet/model.h"

/* Variants of texts. Those of one text stand together, in the order of the texts. A text that is asked
 * about as it is has one variant without edits. */
typedef struct edit_batch {
    size_t n_texts, n_words, n_variants, n_tiles, n_classes;
    const uint32_t *word;    /* (n_words) rows of the table, text by text */
    const uint32_t *first;   /* (n_texts + 1) where a text begins */
    const uint32_t *of;      /* (n_variants) its text */
    const uint32_t *edit_at; /* (n_variants + 1) */
    const stet_edit *edit;   /* ascending positions in each variant */
    const uint32_t *tile;    /* (n_tiles, 2) first variant and number, of texts of one length each */
    float *logits;           /* (n_variants, n_classes) */
} edit_batch;

/* Texts in which each word is a mixture of rows of the table, read `copies` times with weights of their
 * own. Of a mixture of several rows the weights have a symmetric Dirichlet distribution: copy c of
 * the t-th word of a text draws them from the stream mixture_stream(c, t) of the text's seed. */
enum { MIXTURE_LANES = 8 }; /* copies that a thread has; the weights of a slot are a multiple of it */
typedef struct mixed_batch {
    size_t n_texts, n_words, n_slots, n_classes, copies, stride;
    double alpha;            /* of the distribution; 0: one of the rows, all of them alike */
    const uint32_t *first;   /* (n_texts + 1) where a text begins */
    const uint32_t *slot_at; /* (n_words + 1) where the rows of a word begin */
    const uint32_t *slot;    /* (n_slots) */
    const uint64_t *seed;    /* (n_texts) */
    float *weight;           /* (n_slots, stride); cuda_mixture_weights() fills it */
    float *logits;           /* (n_texts, copies, n_classes) */
} mixed_batch;

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

/* Texts of a corpus, and what stands around each where they are framed. */
typedef struct text_source {
    const uint32_t *ids;
    const uint64_t *start; /* text i is ids[start[i] .. start[i + 1]) */
    bool framed;
    uint32_t before, after;
} text_source;

/* For every word of a model's vocabulary, the ids that may stand in its place as the model reads
 * them: substitutes without a vector are <unk>. The word itself is not listed, and none twice. */
typedef struct word_sets {
    size_t n_words;
    uint32_t *start; /* (n_words + 1) */
    uint32_t *word;  /* (start[n_words]) */
} word_sets;

#ifdef __CUDACC__
#define SLAB_FN static inline __host__ __device__
#else
#define SLAB_FN static inline
#endif

/* The rows of a batch of V words and T tokens, and of what may stand in it: see bound/batch_sets.h. */
typedef struct set_rows {
    uint32_t *word;    /* (n_rows) the V words of the texts, then the others */
    uint32_t *start;   /* (V + 1) */
    uint32_t *alt;     /* (n_alt) */
    uint32_t *moving;  /* (n_moving) */
    uint32_t *lo, *hi; /* (T) */
    uint32_t *rank;    /* (V) how many of the words before it move: scratch */
} set_rows;
typedef struct set_counts {
    size_t n_rows, n_alt, n_moving;
} set_counts;
/* All of them in one piece, for at most so many words and substitutes. */
SLAB_FN size_t set_rows_size(size_t words, size_t tokens, size_t alts)
{
    return 4 * words + 1 + 2 * tokens + 2 * alts;
}
SLAB_FN set_rows set_rows_at(uint32_t *at, size_t words, size_t tokens, size_t alts)
{
    uint32_t *start = at + words + alts, *alt = start + words + 1, *moving = alt + alts,
             *lo = moving + words, *hi = lo + tokens;
    const set_rows r = {at, start, alt, moving, lo, hi, hi + tokens};
    return r;
}

/* A slab of batches (slabs.h): their heads are there, the kernel makes row and word of each, with what may
 * stand in it where there are sets, and the sizes of these. */
enum { SLAB_BATCHES = 64 };
/* The sizes; without sets the first alone. */
enum { SLAB_WORDS, SLAB_ROWS, SLAB_ALT, SLAB_MOVING, SLAB_SIZES };
typedef struct slab_on {
    size_t n;                                               /* batches */
    size_t text[SLAB_BATCHES + 1], token[SLAB_BATCHES + 1]; /* before each */
    size_t alt[SLAB_BATCHES + 1]; /* the same for substitutes, at most; zeros without sets */
    text_source from;
    word_sets sets;  /* start NULL: none */
    uint32_t *head;  /* of all: slab_head says where one begins */
    uint32_t *row;   /* of all: row (T) and word (at most T) of each; with sets a set_rows for it */
    uint32_t *count; /* (SLAB_SIZES, SLAB_BATCHES) */
    /* Zeros before and after: so many tables (n_words), of which a batch in hand needs one */
    uint32_t *slot;
    size_t n_slots, n_words;
} slab_on;

/* Where the head of batch b begins: each has batch_head(n) numbers. */
SLAB_FN size_t slab_head(const slab_on *s, size_t b)
{
    return 4 * s->text[b] + b;
}

/* And its rows: how many numbers those of the batches before it take, so many in all. */
SLAB_FN size_t slab_room(const slab_on *s, size_t batches, size_t tokens, size_t alts)
{
    return s->sets.start ? 7 * tokens + 2 * alts + batches : 2 * tokens;
}

typedef struct slab_batch {
    size_t n_texts, n_tokens;
    const uint32_t *head; /* start (n_texts + 1), then which text of the corpus (n_texts) */
    uint32_t *row, *word;
    set_rows sets; /* where there are sets; its word is this one */
} slab_batch;
SLAB_FN slab_batch slab_batch_of(const slab_on *s, size_t b)
{
    const size_t n = s->token[b + 1] - s->token[b];
    uint32_t *row = s->row + slab_room(s, b, s->token[b], s->alt[b]);
    const slab_batch x = {s->text[b + 1] - s->text[b],
                          n,
                          s->head + slab_head(s, b),
                          row,
                          row + n,
                          set_rows_at(row + n, n, n, s->alt[b + 1] - s->alt[b])};
    return x;
}

/* The stream (base/rng.h) of a mixture's draws. */
SLAB_FN uint64_t mixture_stream(size_t copy, size_t word)
{
    return (uint64_t)copy << 32 | (uint64_t)word;
}

/* cuda/; between store_enter and store_leave. `room` of cuda_cnn_edits has 3 n_words features numbers,
 * that of cuda_lstm_edits n_variants 2H, that of texts and mixtures features or 2H for each answer. */
stet_status cuda_slab(const slab_on *s);
stet_status cuda_reorder(const uint32_t *x, const uint32_t *from, size_t n, uint32_t *out);
stet_status cuda_cnn_words(const cnn_words_on *w);
stet_status cuda_cnn_edits(const cnn_on *m, const edit_batch *b, float *room);
stet_status cuda_cnn_texts(const cnn_on *m, const edit_batch *b, float *room); /* no edits */
stet_status cuda_cnn_ranges(const cnn_on *m, const range_batch *b);
stet_status cuda_lstm_edits(const lstm_on *m, const edit_batch *b, float *room);
stet_status cuda_mixture_weights(const mixed_batch *b);
stet_status cuda_cnn_mixtures(const cnn_on *m, const mixed_batch *b, float *room);
stet_status cuda_lstm_mixtures(const lstm_on *m, const mixed_batch *b, float *room);
/* Variants that a block of cuda_lstm_edits has in hand; 0: not for so many units. */
size_t cuda_lstm_tile(size_t units);

#endif
