/* model/model_list.c - the kinds of model (kind_list.h). Nothing else is in this file, so that a test
 * may link a list of its own. */
#include "model/kind_list.h"

#define ROW(kind) &model_##kind,
const model_desc *const model_descs[] = {MODEL_KINDS(ROW) NULL};
