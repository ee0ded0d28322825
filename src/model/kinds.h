/* model/kinds.h - the model descriptors; see models.c. */
#ifndef MODEL_KINDS_H
#define MODEL_KINDS_H

#include "model/model_impl.h"

extern const model_desc model_cnn, model_bilstm, model_s4;

#endif
