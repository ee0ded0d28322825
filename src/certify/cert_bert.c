/* certify/cert_bert.c - BERT has no bounds; a rule that votes brings its own certificate. */
#include "certify/certifier.h"

const cert_family cert_bert = {0};
