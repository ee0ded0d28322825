/* model/answers_impl.h - what answers.c (who asks, who waits, who has the device) and answers_batch.c (what
 * the device is given) share. */
#ifndef MODEL_ANSWERS_IMPL_H
#define MODEL_ANSWERS_IMPL_H

#include "model/answers.h"

typedef enum topic { EDITS, TEXTS, RANGES, MIXTURES } topic;

typedef struct waiter waiter; /* answers.c: who asks */

/* One of its questions. */
typedef struct question {
    waiter *by;
    topic what;
    size_t room;         /* numbers of the device that it needs */
    const uint32_t *ids; /* of n_texts texts, text i being ids[text_at[i] .. text_at[i + 1]) */
    const uint64_t *text_at;
    size_t n_texts;
    const stet_edit *edits; /* variants of one text; for whole texts there are none of these */
    const size_t *start;
    size_t n_variants; /* or texts */
    float *logits;
    mixed_texts mixed; /* this for mixtures */
    size_t n;          /* these for ranges: words */
    const uint32_t *at, *word;
    size_t features;
    const real *pad;
    real *lo, *hi;

    stet_status status;
    char message[256];
    struct question *next;
} question;

struct answers {
    const model *m;
    const answer_desc *d; /* NULL: the forward pass answers */
    store *store;
    void *own;       /* d's */
    model_weights w; /* of the forward pass */
    store_arena passes;
    store_arena values; /* of what d answers */
    model_place place;
    model there; /* the model, whose network answers in that place */
    arena mem;
    pthread_mutex_t lock; /* of what follows */
    pthread_mutex_t pass; /* of the forward pass */
    question *first;      /* still to be taken up */
    bool busy;            /* some thread has the device */
    size_t turns;         /* to compute that nobody has; there are as many as threads */
    waiter *line, **end;  /* with nothing to wait for but a turn */
};

/* The copies of a mixture, as kernels have them. */
static inline size_t mixture_lanes(size_t copies)
{
    return (copies + MIXTURE_LANES - 1) / MIXTURE_LANES * MIXTURE_LANES;
}

/* Answers to questions on one topic, by whoever has the device. */
stet_status answers_batch(answers *a, question *list);

#endif
