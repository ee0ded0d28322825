/* The same as test_cert_cnn_samples.c with ten times as many samples: slow. */
#define SAMPLES 10000000
#include "test_cert_cnn_samples.c"
