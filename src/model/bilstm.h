/* model/bilstm.h - configuration of the BiLSTM, shared with its views and bounds. */
#ifndef MODEL_BILSTM_H
#define MODEL_BILSTM_H

#include "model/model_impl.h"
#include "tensor/host/lstm_step.h"

/* What is made of a direction's states: the last one, or over all words. */
typedef enum bilstm_pool { POOL_LAST, POOL_MAX, POOL_MEAN } bilstm_pool;

typedef struct bilstm_cfg {
    int64_t hidden; /* per direction */
    int pool;       /* bilstm_pool */
    int64_t span;   /* spans.h */
    int64_t score_hidden; /* word_scores.h */
} bilstm_cfg;
static inline bilstm_pool bilstm_pool_of(const model *m)
{
    return (bilstm_pool)((const bilstm_cfg *)m->cfg)->pool;
}

/* Order of the parameters. */
enum { LSTM_W_IH, LSTM_W_HH, LSTM_B_IH, LSTM_B_HH, LSTM_PER_DIRECTION };

/* What stet_model_compile makes of a BiLSTM (model.compiled). */
typedef struct bilstm_compiled {
    size_t H, G, P; /* units; entries of a projection and of a state, padded */
    size_t span;    /* words of a walk; 0: all */
    bilstm_pool pool;
    lstm_cell cell[2];
    real *block;   /* biases and packed weights of both cells */
    real *word[2]; /* (n_words, G): the input projection of every word, by direction */
} bilstm_compiled;

extern const answer_desc bilstm_answers; /* cuda/; only in a build with CUDA */
/* Views (bilstm_view.c). */
stet_status bilstm_compile(const model *m, void **out);
void bilstm_compiled_free(void *compiled);
stet_view *bilstm_view_new(void);
stet_status bilstm_view_open(stet_view *v);
stet_status bilstm_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                              float *logits);
struct mixed_texts;
/* model_desc.mixtures (bilstm_mixtures.c). */
stet_status bilstm_mixtures(const model *m, const struct mixed_texts *t, const real *weight,
                            float *logits);

/* What views and mixtures do with states (bilstm_view.c): n entries pooled over no state; one more
 * state; the logits of a text of n words from what is pooled of both directions. */
void bilstm_pool_none(bilstm_pool pool, size_t n, real *all);
void bilstm_pool_add(bilstm_pool pool, size_t n, const real *h, real *all);
void bilstm_head(const model *m, size_t n, const real *forward, const real *backward, float *out);
/* Does the recurrence of direction d start anew with the i-th word that it reads, of n? */
bool bilstm_starts(size_t span, size_t n, int d, size_t i);

#endif
