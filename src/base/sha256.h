/* base/sha256.h - SHA-256 (FIPS 180-4), for downloads and certificate files. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t size; /* bytes so far */
    unsigned char block[64];
} sha256;

enum { SHA256_HEX = 65 }; /* 64 digits and a NUL */

void sha256_init(sha256 *h);
void sha256_add(sha256 *h, const void *data, size_t n);
void sha256_hex(sha256 *h, char out[SHA256_HEX]); /* ends the computation */

#endif
