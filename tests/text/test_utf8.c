/* tests/text/test_utf8.c - validation and classes of characters. */
#include "text/utf8.h"

#include "base/rng.h"
#include "test.h"

#define CHECKED(literal) utf8_check(literal, sizeof literal - 1)

TEST(valid_text_is_valid_to_its_end)
{
    CHECK_EQ(CHECKED(""), 0);
    CHECK_EQ(CHECKED("plain ASCII, longer than eight bytes"), 36);
    CHECK_EQ(CHECKED("12345678\xc3\xa9"), 10);
    CHECK_EQ(CHECKED("\xf0\x9f\x98\x80"), 4);
    CHECK_EQ(CHECKED("\xef\xbf\xbf"), 3);
}

TEST(the_first_bad_byte_is_found)
{
    CHECK_EQ(CHECKED("abcdefghij\xff"), 10);
    CHECK_EQ(CHECKED("abcdefgh\0ij"), 8);
    CHECK_EQ(CHECKED("\0"), 0);
    CHECK_EQ(CHECKED("a\xc3"), 1);             /* cut off */
    CHECK_EQ(CHECKED("a\xc0\xaf"), 1);         /* overlong */
    CHECK_EQ(CHECKED("a\xed\xa0\x80"), 1);     /* a surrogate */
    CHECK_EQ(CHECKED("a\xf4\x90\x80\x80"), 1); /* beyond U+10FFFF */
    CHECK_EQ(CHECKED("\x80"), 0);
}

/* The definition, byte by byte, without tricks. */
static size_t check_slowly(const unsigned char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        const unsigned c = s[i];
        const size_t len = c == 0                  ? 0
                           : c < 0x80              ? 1
                           : c >= 0xc2 && c < 0xe0 ? 2
                           : c >= 0xe0 && c < 0xf0 ? 3
                           : c >= 0xf0 && c < 0xf5 ? 4
                                                   : 0;
        if (len == 0 || i + len > n)
            return i;
        for (size_t k = 1; k < len; k++)
            if ((s[i + k] & 0xc0) != 0x80)
                return i;
        if ((c == 0xe0 && s[i + 1] < 0xa0) || (c == 0xed && s[i + 1] > 0x9f) ||
            (c == 0xf0 && s[i + 1] < 0x90) || (c == 0xf4 && s[i + 1] > 0x8f))
            return i;
        i += len;
    }
    return n;
}

TEST(validation_agrees_with_its_definition_on_random_bytes)
{
    rng r = rng_stream(3, STREAM_TEST, 0);
    size_t valid = 0;
    for (int trial = 0; trial < 300000; trial++) {
        unsigned char s[40];
        const size_t n = rng_below(&r, sizeof s);
        for (size_t i = 0; i < n; i++) {
            const uint64_t kind = rng_below(&r, 16);
            s[i] = (unsigned char)(kind < 11   ? 32 + rng_below(&r, 95)
                                   : kind < 13 ? 0xc2 + rng_below(&r, 51)
                                               : 0x80 + rng_below(&r, 64));
        }
        const size_t expected = check_slowly(s, n);
        valid += expected == n;
        CHECK_EQ(utf8_check((const char *)s, n), expected);
    }
    CHECK_LE(1000, valid);
}

TEST(the_last_character_is_the_one_that_reading_forward_ends_with)
{
    CHECK_EQ(utf8_last_glyph("ab", 2).code, 'b');
    CHECK_EQ(utf8_last_glyph("a\xc3\xa9", 3).code, 0xe9);
    CHECK_EQ(utf8_last_glyph("a\xf0\x9f\x98\x80", 5).bytes, 4);
    CHECK_EQ(utf8_last_glyph("\x80\x80\x80\x80\x80", 5).code, 0xfffd);
    CHECK_EQ(utf8_last_glyph("a\xff", 2).bytes, 1);
    CHECK_EQ(utf8_last_glyph("\xe2\x80\x99", 3).class, CHAR_APOS);
}

TEST(composition_joins_marks_and_leaves_long_words_alone)
{
    char s[2048] = "e\xcc\x81";
    CHECK_EQ(utf8_compose(s, 3, sizeof s), 2);
    CHECK(memcmp(s, "\xc3\xa9", 2) == 0);
    size_t n = 0;
    while (n < 1500)
        n += (size_t)snprintf(s + n, sizeof s - n, "e\xcc\x81");
    CHECK_EQ(utf8_compose(s, n, sizeof s), n);
}
