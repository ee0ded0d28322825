/* base/codec.h - the decompressors behind base/stream.h, all with one shape. */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include "base/error.h"

typedef struct codec codec;

enum { CODEC_MAGIC_MAX = 6 }; /* bytes that tell the format */

/* A decoder for data that begins with head[0, n); *out is NULL when it is not compressed. */
stet_status codec_new(const unsigned char *head, size_t n, codec **out);
/* Take from in[0, in_n), give to out[0, out_n). `in_end`: no input will follow; then *done tells
 * that the data is complete, and anything short of complete is STET_EFORMAT. */
stet_status codec_decode(codec *c, const unsigned char *in, size_t in_n, size_t *used, char *out,
                         size_t out_n, size_t *made, bool in_end, bool *done);
void codec_free(codec *c); /* NULL is fine */

#endif
