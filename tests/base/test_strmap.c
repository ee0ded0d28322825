/* tests/base/test_strmap.c */
#include "test.h"

#include "alloc_fail.h"
#include "base/rng.h"
#include "base/strmap.h"

static uint32_t add(strmap *m, const char *s)
{
    uint32_t id = STRMAP_NONE;
    CHECK_OK(strmap_add(m, s, strlen(s), &id));
    return id;
}

TEST(strings_are_numbered_in_order_of_arrival)
{
    strmap m = {0};
    CHECK_EQ(strmap_find(&m, "a", 1), STRMAP_NONE);
    CHECK_EQ(add(&m, "good"), 0);
    CHECK_EQ(add(&m, ""), 1);
    CHECK_EQ(add(&m, "bad"), 2);
    CHECK_EQ(add(&m, "good"), 0);
    CHECK_OK(strmap_add(&m, "bad", 3, NULL));
    CHECK_EQ(m.n, 3);
    CHECK_EQ(strmap_find(&m, "bad", 3), 2);
    CHECK_EQ(strmap_find(&m, "ba", 2), STRMAP_NONE);
    CHECK_EQ(strmap_find(&m, "", 0), 1);
    CHECK_STR(strmap_text(&m, 0), "good");
    CHECK_EQ(strmap_len(&m, 0), 4);
    strmap_deinit(&m);
    CHECK_EQ(m.n, 0);
}

TEST(bytes_after_the_length_do_not_count_and_nul_bytes_do)
{
    strmap m = {0};
    uint32_t a, b, c;
    CHECK_OK(strmap_add(&m, "word+x", 4, &a));
    CHECK_OK(strmap_add(&m, "word-y", 4, &b));
    CHECK_OK(strmap_add(&m, "word\0z", 6, &c));
    CHECK(a == b && a != c);
    CHECK_STR(strmap_text(&m, a), "word");
    strmap_deinit(&m);
}

TEST(many_strings_keep_their_numbers)
{
    enum { N = 200000 };
    strmap m = {0};
    char word[32];
    for (uint32_t i = 0; i < N; i++) {
        snprintf(word, sizeof word, "w%u", i);
        CHECK_EQ(add(&m, word), i);
    }
    for (uint32_t i = 0; i < N; i++) {
        snprintf(word, sizeof word, "w%u", i);
        CHECK_EQ(strmap_find(&m, word, strlen(word)), i);
        CHECK_STR(strmap_text(&m, i), word);
        word[0] = 'v';
        CHECK_EQ(strmap_find(&m, word, strlen(word)), STRMAP_NONE);
    }
    strmap_deinit(&m);
}

TEST(strings_of_every_length_are_kept)
{
    enum { N = 20000 };
    static char text[N + 1];
    memset(text, 'z', N);
    strmap m = {0};
    uint32_t id;
    for (size_t n = 0; n <= N; n += n < 100 ? 1 : 997) {
        CHECK_OK(strmap_add(&m, text, n, &id));
        CHECK_EQ(id, m.n - 1);
    }
    for (uint32_t i = 0; i < m.n; i++)
        CHECK_EQ(strlen(strmap_text(&m, i)), strmap_len(&m, i));
    strmap_deinit(&m);
}

static stet_status add_some(void *ctx)
{
    (void)ctx;
    strmap m = {0};
    stet_status st = STET_OK;
    char word[32];
    for (int i = 0; i < 500 && st == STET_OK; i++) {
        snprintf(word, sizeof word, "%d", i);
        st = strmap_add(&m, word, strlen(word), NULL);
    }
    static const char large[9000];
    if (st == STET_OK)
        st = strmap_add(&m, large, sizeof large, NULL);
    for (uint32_t i = 0; i < m.n; i++) /* a failed addition leaves the others alone */
        if (strmap_find(&m, strmap_text(&m, i), strmap_len(&m, i)) != i)
            st = STET_EINTERNAL;
    if (st == STET_OK && m.n != 501)
        st = STET_EINTERNAL;
    strmap_deinit(&m);
    return st;
}

TEST(a_map_survives_every_failed_allocation)
{
    CHECK_LE(8, ALLOC_FAIL_LOOP(add_some, NULL));
}

/* Fingerprints are written into results: these values may never change. */
TEST(the_hash_is_fixed_for_all_time)
{
    const char text[] = "The quick brown fox jumps over the lazy dog";
    static const struct {
        size_t n;
        uint64_t seed, hash;
    } known[] = {{0, 0, UINT64_C(0x9e30a533dc894ea2)},  {1, 0, UINT64_C(0xb1181d913ba6a014)},
                 {2, 0, UINT64_C(0x9497d09c74bddb74)},  {3, 0, UINT64_C(0xa895bf8cde05a67d)},
                 {4, 0, UINT64_C(0xec2fb9ac7614681b)},  {7, 0, UINT64_C(0xa3fc0b2a68ed7d30)},
                 {8, 0, UINT64_C(0x87121dfda3ddadc4)},  {15, 0, UINT64_C(0x13e52177e5da4298)},
                 {16, 0, UINT64_C(0x0d48a5a2ebb4c592)}, {17, 0, UINT64_C(0x74944d65ab4a4c5a)},
                 {32, 0, UINT64_C(0xa4635aaea3345185)}, {33, 0, UINT64_C(0x04db7794f32c214a)},
                 {43, 0, UINT64_C(0x113915d7937a3c5d)}, {43, 1, UINT64_C(0x7d954e39a60429d1)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_EQ(hash_bytes(text, known[i].n, known[i].seed), known[i].hash);
    CHECK_EQ(hash_bytes(NULL, 0, 0), hash_bytes("", 0, 0));
}

TEST(the_hash_sees_every_bit_and_the_length)
{
    unsigned char data[80] = {0};
    for (size_t n = 1; n <= sizeof data; n++) {
        const uint64_t h = hash_bytes(data, n, 1);
        CHECK_NE(h, hash_bytes(data, n - 1, 1));
        CHECK_NE(h, hash_bytes(data, n, 2));
        for (size_t bit = 0; bit < 8 * n; bit++) {
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK_NE(h, hash_bytes(data, n, 1));
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

TEST(the_hash_reads_only_its_bytes)
{
    for (size_t n = 0; n < 50; n++) {
        unsigned char *a = malloc(n + 1), *b = malloc(n + 8); /* ASan watches the ends */
        memset(a, 7, n);
        memset(b, 7, n + 8);
        CHECK_EQ(hash_bytes(a, n, 0), hash_bytes(b + 3, n, 0)); /* whatever the alignment */
        free(a);
        free(b);
    }
}

TEST(hashes_of_numbers_fill_their_cells_evenly)
{
    enum { N = 1 << 16, CELLS = 1 << 12 };
    static unsigned low[CELLS], high[CELLS];
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t h = hash_bytes(&i, sizeof i, 0);
        low[h % CELLS]++;
        high[h >> 52]++;
    }
    double chi_low = 0, chi_high = 0;
    for (int i = 0; i < CELLS; i++) {
        chi_low += (low[i] - 16.0) * (low[i] - 16.0) / 16;
        chi_high += (high[i] - 16.0) * (high[i] - 16.0) / 16;
    }
    CHECK_NEAR(chi_low, CELLS, 500); /* standard deviation 90 */
    CHECK_NEAR(chi_high, CELLS, 500);
}
