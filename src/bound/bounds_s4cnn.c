/* bound/bounds_s4cnn.c - a convolution, wherever its filters come from. */
#include "bound/bounds_cnn.h"

const model_bounds bounds_s4cnn = CNN_BOUNDS;
