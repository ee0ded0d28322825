/* model/variants.h - variants of a text by full evaluation: the slow truth beside the views, and the way of models that
 * have no shortcut. */
#ifndef MODEL_VARIANTS_H
#define MODEL_VARIANTS_H

#include "model/model_impl.h"

stet_status variants_whole(const model *m, const uint32_t *ids, size_t len, const stet_edit *edits,
                           const size_t *start, size_t n, float *logits);

#endif
