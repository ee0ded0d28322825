/* model/kinds.h - the model descriptors; see models.c. */
#ifndef MODEL_KINDS_H
#define MODEL_KINDS_H

#include "model/kind_list.h"
#include "model/model_impl.h"

#define MODEL_DECLARE(kind) extern const model_desc model_##kind;
MODEL_KINDS(MODEL_DECLARE)
#undef MODEL_DECLARE

#endif
