/* base/sha1.c - FIPS 180-4, section 6.1. */
#include "base/sha1.h"

#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static void add_block(sha1 *h, const unsigned char *p)
{
    uint32_t w[80], a = h->state[0], b = h->state[1], c = h->state[2], d = h->state[3],
                    e = h->state[4];
    for (int t = 0; t < 16; t++, p += 4)
        w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (int t = 0; t < 80; t++) {
        const uint32_t f = t < 20   ? (b & c) | (~b & d)
                           : t < 40 ? b ^ c ^ d
                           : t < 60 ? (b & c) | (b & d) | (c & d)
                                    : b ^ c ^ d;
        static const uint32_t k[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        const uint32_t next = rotate(a, 5) + f + e + k[t / 20] + w[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h->state[0] += a;
    h->state[1] += b;
    h->state[2] += c;
    h->state[3] += d;
    h->state[4] += e;
}

void sha1_init(sha1 *h)
{
    *h = (sha1){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void sha1_add(sha1 *h, const void *data, size_t n)
{
    const unsigned char *p = data;
    while (n > 0) {
        const size_t at = h->size % sizeof h->block, room = sizeof h->block - at,
                     some = n < room ? n : room;
        memcpy(h->block + at, p, some);
        h->size += some;
        p += some;
        n -= some;
        if (some == room)
            add_block(h, h->block);
    }
}

void sha1_hex(sha1 *h, char out[SHA1_HEX])
{
    const uint64_t bits = 8 * h->size;
    sha1_add(h, "\x80", 1);
    while (h->size % sizeof h->block != 56)
        sha1_add(h, "", 1);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha1_add(h, length, sizeof length);
    for (int i = 0; i < 5; i++)
        snprintf(out + 8 * i, 9, "%08x", (unsigned)h->state[i]);
}
