/* Every family of bounds, one a kind of model. The registry is a plain array: a static link would
 * drop a file that nobody refers to, and its family would silently vanish. */
#include "certify/certify_impl.h"

const cert_family *const cert_families[] = { NULL };
