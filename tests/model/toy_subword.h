/* tests/model/toy_subword.h - a model that is not in the program's list. */
#ifndef TESTS_MODEL_TOY_SUBWORD_H
#define TESTS_MODEL_TOY_SUBWORD_H

#include "model/model_impl.h"

extern const model_desc model_toy;

#endif
