/* model/bilstm.h - configuration of the BiLSTM, shared with its views and bounds. */
#ifndef MODEL_BILSTM_H
#define MODEL_BILSTM_H

#include "model/model_impl.h"

typedef struct bilstm_cfg {
    int64_t hidden; /* per direction */
} bilstm_cfg;

/* Order of the parameters. */
enum { LSTM_W_IH, LSTM_W_HH, LSTM_B_IH, LSTM_B_HH, LSTM_PER_DIRECTION };

/* Views (bilstm_view.c). */
stet_status bilstm_compile(const model *m, void **out);
void bilstm_compiled_free(void *compiled);
stet_status bilstm_view_new(const model *m, void **view);
stet_status bilstm_view_open(void *view, const uint32_t *ids, size_t n);
const float *bilstm_view_logits(const void *view);
stet_status bilstm_view_edits(void *view, const stet_edit *edits, const size_t *start, size_t n,
                              float *logits);
void bilstm_view_free(void *view);

#endif
