/* certify/cert_encode.h - words past the first linear map of a network, in double. The products of a
 * word do not depend on the text, so they are kept. */
#ifndef CERTIFY_CERT_ENCODE_H
#define CERTIFY_CERT_ENCODE_H

#include "base/arena.h"
#include "certify/cert_kept.h"
#include "certify/certify_impl.h"

/* Of the words of a text, in memory of an arena. */
typedef struct cert_encoded {
    double *x;      /* (words, width) */
    double *length; /* (words) of their vectors, rounded to nearest */
} cert_encoded;

/* For n vectors (n, D), with the map wt (D, width). */
stet_status cert_encode_vectors(const double *vectors, size_t n, size_t D, const double *wt,
                                size_t width, arena *a, cert_encoded *out);

typedef struct cert_encoder {
    const model *m;
    const double *wt; /* borrowed */
    size_t width;
    cert_kept kept;
} cert_encoder;
stet_status cert_encoder_init(cert_encoder *e, const model *m, const double *wt, size_t width);
void cert_encoder_deinit(cert_encoder *e); /* a zeroed one, too */
/* The words of a task. STET_EUSAGE where an id is outside the vocabulary. */
stet_status cert_encode(cert_encoder *e, const cert_task *t, arena *a, cert_encoded *out);

#endif
