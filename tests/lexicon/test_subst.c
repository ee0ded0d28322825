/* tests/lexicon/test_subst.c - the object and its file: what goes in comes out, and nothing damaged
 * comes in. */
#include "alloc_fail.h"
#include "stet/option.h"
#include "subst_test.h"

#define SMALL "{\"good\": [\"fine\", \"nice\"], \"film\": [\"movie\"], \"the\": []}"

/* ---- lists -------------------------------------------------------------------------------- */

TEST(a_map_becomes_lists_in_its_own_order)
{
    stet_subst *s = built(builder_of(SMALL));
    CHECK_EQ(stet_subst_words(s), 5); /* "the" takes part in no pair */
    CHECK_EQ(stet_subst_pairs(s), 3);
    CHECK_LIST(s, "good", "fine nice");
    CHECK_LIST(s, "film", "movie");
    CHECK_LIST(s, "movie", "");
    CHECK_EQ(stet_subst_word_id(s, "the", 3), UINT32_MAX);
    stet_subst_free(s);
}

TEST(words_are_found_by_their_exact_bytes)
{
    stet_subst *s = built(builder_of("{\"ab\": [\"abc\", \"b\", \"caf\\u00e9\"]}"));
    for (uint32_t w = 0; w < stet_subst_words(s); w++) {
        const char *word = stet_subst_word(s, w);
        CHECK_EQ(stet_subst_word_id(s, word, strlen(word)), w);
    }
    CHECK_EQ(stet_subst_word_id(s, "abcd", 2), stet_subst_word_id(s, "ab", 2));
    CHECK_EQ(stet_subst_word_id(s, "a", 1), UINT32_MAX);
    CHECK_EQ(stet_subst_word_id(s, "abcd", 4), UINT32_MAX);
    CHECK_EQ(stet_subst_word_id(s, "", 0), UINT32_MAX);
    CHECK_EQ(stet_subst_word_id(s, "ab\0c", 4), UINT32_MAX);
    CHECK_EQ(stet_subst_word_id(s, "zz", 2), UINT32_MAX);
    CHECK(stet_subst_word(s, 4) == NULL);
    size_t n = 1;
    CHECK(stet_subst_of(s, UINT32_MAX, &n) == NULL);
    CHECK_EQ(n, 0);
    stet_subst_free(s);
}

TEST(an_empty_set_is_a_set)
{
    stet_subst *s = built(builder_of("{}")), *again;
    CHECK_EQ(stet_subst_words(s), 0);
    CHECK_EQ(stet_subst_word_id(s, "x", 1), UINT32_MAX);
    CHECK_OK(stet_subst_save(s, test_path("s")));
    CHECK_OK(stet_subst_load(test_path("s"), &again));
    CHECK_EQ(stet_subst_pairs(again), 0);
    stet_subst_free(again);
    stet_subst_free(s);
}

TEST(a_saved_set_loads_with_the_same_lists_and_fingerprint)
{
    stet_subst *s = built(builder_of(SMALL)), *again;
    CHECK_OK(stet_subst_save(s, test_path("s")));
    CHECK_OK(stet_subst_load(test_path("s"), &again));
    CHECK(stet_subst_fingerprint(again) == stet_subst_fingerprint(s));
    CHECK_LIST(again, "good", "fine nice");
    CHECK_OK(stet_subst_save(again, test_path("t"))); /* a mapped set can be saved too */
    stet_subst_free(again);
    char *a, *b;
    size_t na, nb;
    CHECK_OK(file_read_all(test_path("s"), 1 << 20, &a, &na));
    CHECK_OK(file_read_all(test_path("t"), 1 << 20, &b, &nb));
    CHECK(na == nb && memcmp(a, b, na) == 0);
    mem_free(a);
    mem_free(b);
    stet_subst_free(s);
}

TEST(the_fingerprint_is_that_of_the_pairs_alone)
{
    stet_subst *a = built(builder_of("{\"x\": [\"y\", \"z\"], \"the\": [], \"z\": [\"x\"]}"));
    stet_subst *b = built(builder_of("{\"z\": [\"x\"], \"x\": [\"y\", \"y\", \"x\", \"z\"]}"));
    stet_subst *c = built(builder_of("{\"z\": [\"x\"], \"x\": [\"z\", \"y\"]}"));
    CHECK(stet_subst_fingerprint(a) == stet_subst_fingerprint(b));
    CHECK(stet_subst_fingerprint(a) != stet_subst_fingerprint(c)); /* the order counts */
    stet_subst_free(a);
    stet_subst_free(b);
    stet_subst_free(c);
}

/* The format is fixed for all time: docs/formats.md describes these bytes. */
TEST(the_file_has_the_documented_bytes)
{
    stet_subst *s = built(builder_of("{\"b\": [\"a\"]}"));
    CHECK_OK(stet_subst_save(s, test_path("s")));
    unsigned char *data,
        expected[] = {
            'S', 'T', 'E', 'T', 'S', 'U', 'B', 'S', 1, 0, 0, 0, 0, 0, 0, 0, /* magic, version */
            0,   0,   0,   0,   0,   0,   0,   0,                           /* fingerprint */
            2,   0,   0,   0,   0,   0,   0,   0,                           /* words */
            1,   0,   0,   0,   0,   0,   0,   0,                           /* pairs */
            4,   0,   0,   0,   0,   0,   0,   0,                           /* bytes of text */
            0,   0,   0,   0,   0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0, /* reserved */
            0,   0,   0,   0,   2,   0,   0,   0,   4, 0, 0, 0,             /* where words begin */
            0,   0,   0,   0,   0,   0,   0,   0,   1, 0, 0, 0,             /* where lists begin */
            0,   0,   0,   0,                                               /* b: a */
            'a', 0,   'b', 0,
        };
    size_t n;
    CHECK_OK(file_read_all(test_path("s"), 1 << 20, (char **)&data, &n));
    CHECK_EQ(n, sizeof expected);
    const uint64_t fingerprint = stet_subst_fingerprint(s);
    CHECK(fingerprint == 0x4aba60709ff5c91b);
    memcpy(expected + 16, &fingerprint, 8);
    CHECK(memcmp(data, expected, n) == 0);
    mem_free(data);
    stet_subst_free(s);
}

/* ---- damaged files ------------------------------------------------------------------------ */

/* A good image in memory that a test may spoil; sealed again unless `torn`. */
typedef struct spoiled {
    unsigned char data[512];
    size_t n;
} spoiled;

static spoiled good_image(void)
{
    stet_subst *s = built(builder_of("{\"b\": [\"a\", \"c\"], \"c\": [\"b\"]}"));
    spoiled image = {.n = s->image_size};
    CHECK(image.n <= sizeof image.data);
    memcpy(image.data, s->image, image.n);
    stet_subst_free(s);
    return image;
}

static void put32(spoiled *image, size_t at, uint32_t value)
{
    memcpy(image->data + at, &value, sizeof value);
}

static void reseal(spoiled *image)
{
    const uint64_t h = hash_bytes(image->data + 24, image->n - 24, 0);
    memcpy(image->data + 16, &h, sizeof h);
}

static void check_refused(const spoiled *image, const char *part)
{
    const char *path = test_path("bad");
    CHECK_OK(file_write_all(path, image->data, image->n));
    stet_subst *s;
    CHECK_FAILS(stet_subst_load(path, &s), STET_EFORMAT, part);
    CHECK(strstr(stet_last_error(), path) != NULL);
    CHECK(s == NULL);
}

TEST(a_file_cut_anywhere_is_refused)
{
    spoiled image = good_image();
    for (image.n--; image.n > 8; image.n--)
        check_refused(&image,
                      image.n < 64 ? "expected a header of 64" : "but its header announces");
    check_refused(&image, "expected a header of 64");
    image.n = 7; /* not even the magic: taken for JSON */
    check_refused(&image, ":1:");
}

TEST(an_edited_byte_anywhere_is_refused)
{
    const spoiled good = good_image();
    for (size_t i = 8; i < good.n; i++) {
        spoiled image = good;
        image.data[i] ^= 0x20;
        check_refused(&image, i < 12                            ? "version"
                              : i >= 24 && i < 48               ? "header" /* counts */
                              : (i < 16) || (i >= 48 && i < 64) ? "reserved"
                                                                : "fingerprint mismatch");
    }
    spoiled image = good;
    image.data[0] = 's';
    check_refused(&image, ":1:");
}

TEST(lies_about_lengths_are_found)
{
    spoiled image = good_image();
    put32(&image, 24, 1u << 30); /* words */
    check_refused(&image, "announces");
    image = good_image();
    put32(&image, 28, 1); /* 2^32 words */
    check_refused(&image, "above 2^32");
    image = good_image();
    put32(&image, 32, 2); /* one pair less, one more word's worth of text */
    put32(&image, 40, 10);
    reseal(&image);
    check_refused(&image, "word");
}

/* Offsets of good_image(): header 64, text_at 4 x 4, start 4 x 4, subs 3 x 4, text 6. */
enum { TEXT_AT = 64, START = 80, SUBS = 96, TEXT = 108 };

TEST(lies_about_words_are_found)
{
    static const struct {
        size_t at;
        uint32_t value;
        const char *part;
    } lies[] = {
        {TEXT_AT, 1, "does not fill"},
        {TEXT_AT + 12, 5, "does not fill"},
        {TEXT_AT + 4, 1, "bad offset"},
        {TEXT_AT + 4, 100000, "bad offset"},
        {TEXT_AT + 8, 1, "bad offset"},
        {TEXT_AT + 4, UINT32_MAX, "bad offset"},
        {TEXT_AT + 4, 3, "NUL"},
        {TEXT, 0x00620063, "out of order"},
        {TEXT, 0x00620062, "out of order"},
        {TEXT, 0x006200ff, "invalid UTF-8"},
        {TEXT, 0x00620020, "a space"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        spoiled image = good_image();
        put32(&image, lies[i].at, lies[i].value);
        reseal(&image);
        check_refused(&image, lies[i].part);
    }
}

TEST(lies_about_lists_are_found)
{
    static const struct {
        size_t at;
        uint32_t value;
        const char *part;
    } lies[] = {
        {START, 1, "do not fill"},    {START + 12, 2, "do not fill"}, {START + 4, 7, "bad offset"},
        {START + 8, 5, "bad offset"}, {SUBS, 3, "no word"},           {SUBS, UINT32_MAX, "no word"},
        {SUBS, 1, "the word"},        {SUBS, 2, "repeated"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        spoiled image = good_image();
        put32(&image, lies[i].at, lies[i].value);
        reseal(&image);
        check_refused(&image, lies[i].part);
    }
}

TEST(a_missing_file_is_named)
{
    stet_subst *s;
    CHECK_FAILS(stet_subst_load(test_path("none"), &s), STET_EIO, "none");
}

/* ---- JSON maps ---------------------------------------------------------------------------- */

TEST(bad_maps_name_the_file_and_the_word)
{
    static const struct {
        const char *json, *part;
    } bad[] = {
        {"[1]", "expected a map"},
        {"{\"a\": 1}", "\"a\": expected a list"},
        {"{\"a\": [\"b\", 2]}", "\"a\": item 2: expected a word"},
        {"{\"a\": [\"b c\"]}", "\"a\": item 1: expected a word, found a space"},
        {"{\"a\": [\"\"]}", "\"a\": item 1: expected a word, found an empty word"},
        {"{\"\": []}", "\"\": expected a word, found an empty word"},
        {"{\"a\": [\"b\"]", "bad.json:1:"},
        {"{\"a\": [], \"a\": []}", "bad.json:1:"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stet_subst *s;
        CHECK_FAILS(stet_subst_load(test_write("bad.json", bad[i].json), &s), STET_EFORMAT,
                    bad[i].part);
        CHECK(strstr(stet_last_error(), "bad.json") != NULL);
    }
}

/* ---- memory ------------------------------------------------------------------------------- */

static stet_status load_both(void *ctx)
{
    (void)ctx;
    stet_subst *s;
    stet_status st = stet_subst_load(test_path("map.json"), &s);
    if (st == STET_OK)
        stet_subst_free(s);
    if (st == STET_OK && (st = stet_subst_load(test_path("s"), &s)) == STET_OK)
        stet_subst_free(s);
    return st;
}

TEST(loading_survives_every_failed_allocation)
{
    stet_subst *s = built(builder_of(SMALL));
    CHECK_OK(stet_subst_save(s, test_path("s")));
    stet_subst_free(s);
    CHECK_LE(10, ALLOC_FAIL_LOOP(load_both, NULL));
}
