/* model/kind_list.h - one line a kind of model, in the order of `stet train --help`. The list makes
 * the table of models and those of the layers above; the linker then names each descriptor still to
 * be written: model_X (model_impl.h), bounds_X (bound/bounds.h), cert_X (certify/certify_impl.h).
 * A kind without bounds or certificates defines an empty one. Nothing else above model/ names a
 * kind. */
#ifndef MODEL_KIND_LIST_H
#define MODEL_KIND_LIST_H

#include "model/model_impl.h"

#define MODEL_KINDS(KIND)                                                                          \
    KIND(sum)                                                                                      \
    KIND(cnn)                                                                                      \
    KIND(bilstm)                                                                                   \
    KIND(s4)                                                                                       \
    KIND(s4cnn)                                                                                    \
    KIND(bert)

#define MODEL_DECLARE(kind) extern const model_desc model_##kind;
MODEL_KINDS(MODEL_DECLARE)
#undef MODEL_DECLARE

#endif
