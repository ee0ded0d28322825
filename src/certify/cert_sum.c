/* certify/cert_sum.c - certificates of the sum model. */
#include "certify/certify_impl.h"

const cert_family cert_sum = {0};
