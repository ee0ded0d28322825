/* tests/model/toy_list.c - model/model_list.c with one line more. */
#include "model/kind_list.h"
#include "toy_subword.h"

#define ROW(kind) &model_##kind,
const model_desc *const model_descs[] = {MODEL_KINDS(ROW) ROW(toy) NULL};
