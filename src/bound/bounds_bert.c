/* bound/bounds_bert.c - nothing is known of how fast BERT grows: the defences that need bounds say so. */
#include "bound/bounds.h"

const model_bounds bounds_bert = {0};
