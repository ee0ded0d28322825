/* base/sha1.h - SHA-1, by which Git names what a file holds. Not for anything that somebody might forge:
 * two files with one SHA-1 can be made; one more with a given SHA-1 cannot. */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include "base/error.h"

enum { SHA1_HEX = 41 };

typedef struct sha1 {
    uint32_t state[5];
    uint64_t size;
    unsigned char block[64];
} sha1;

void sha1_init(sha1 *h);
void sha1_add(sha1 *h, const void *data, size_t n);
void sha1_hex(sha1 *h, char out[SHA1_HEX]);

#endif
