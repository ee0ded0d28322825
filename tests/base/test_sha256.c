/* tests/base/test_sha256.c - the two ways to compute a block agree; test_fetch.c has the published digests. */
#include "../../src/base/sha256.c"

#include "base/rng.h"
#include "test.h"

TEST(the_processors_instructions_give_the_same_state)
{
#if defined(__x86_64__)
    if (!has_sha())
        SKIP("this processor has no SHA instructions");
    rng r = rng_stream(1, (rng_purpose)0, 0);
    for (int i = 0; i < 1000; i++) {
        unsigned char block[64];
        uint32_t a[8], b[8];
        for (int k = 0; k < 64; k++)
            block[k] = (unsigned char)rng_u64(&r);
        for (int k = 0; k < 8; k++)
            a[k] = b[k] = (uint32_t)rng_u64(&r);
        compress_plain(a, block);
        compress_sha(b, block);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
#endif
}
