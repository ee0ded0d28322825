/* The checker's reader of words against the tokenisers: it was written apart from them, and says the
 * same of every string. */
#include "base/rng.h"
#include "stet/text.h"
#include "test.h"
#include "verify/ver_impl.h"

static bool reads_alone(stet_tokenizer kind, const char *word, stet_tokens *t)
{
    CHECK_OK(stet_tokenize(kind, word, strlen(word), t));
    return t->n == 1 && strcmp(stet_token_word(t, 0), word) == 0;
}

static void compare(const char *word, size_t *yes)
{
    static stet_tokens tokens;
    static const char *const names[] = {"word", "keras"};
    for (int kind = 0; kind < 2; kind++) {
        ver_reader *reads;
        CHECK_OK(ver_reader_find(names[kind], &reads));
        const bool truth = reads_alone(kind ? STET_TOK_KERAS : STET_TOK_WORD, word, &tokens);
        if (reads(word) != truth)
            test_fail(__FILE__, __LINE__, "'%s' by %s: the tokeniser says %d, the checker %d", word,
                      names[kind], truth, !truth);
        yes[kind] += truth;
    }
}

TEST(words_that_people_put_into_sets_are_told_apart)
{
    static const char *const good[] = {"fine", "o'brien",     "7.5",   "1,000", "n't", "'s",
                                       "...",  "--",          "3d",    "\"",    "-",   "'",
                                       "!",    "caf\xc3\xa9", "x'n't", "5n't"};
    static const char *const bad[] = {"Boring",
                                      "mind-numbing",
                                      "<pad>",
                                      "<unk>",
                                      "don't",
                                      "it's",
                                      "....",
                                      "",
                                      "two words",
                                      "cafe\xcc\x81",
                                      "\xe2\x80\x99s",
                                      "\xe2\x80\xa6",
                                      "`",
                                      ("a\xe2\x80\x8b"
                                       "b"),
                                      "10/10",
                                      "\xff",
                                      "can\xe2\x80\x99t",
                                      "<br>",
                                      "\xc2\x92",
                                      "1,000x",
                                      "'em"};
    ver_reader *reads;
    size_t yes[2] = {0};
    CHECK_OK(ver_reader_find("word", &reads));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(reads(good[i]));
        compare(good[i], yes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!reads(bad[i]));
        if (*bad[i])
            compare(bad[i], yes);
    }
    CHECK_FAILS(ver_reader_find("wordpiece", &reads), STET_EFORMAT, "wordpiece");
}

/* Strings of pieces that tokenisers care about. */
TEST(every_string_is_read_as_the_tokenisers_read_it)
{
    static const char *const piece[] = {"a",
                                        "n",
                                        "t",
                                        "s",
                                        "d",
                                        "ll",
                                        "re",
                                        "ve",
                                        "m",
                                        "b",
                                        "'",
                                        "'",
                                        "`",
                                        "\xe2\x80\x99",
                                        "1",
                                        "23",
                                        ".",
                                        ",",
                                        "-",
                                        "--",
                                        "...",
                                        "A",
                                        "Z",
                                        "\xc3\xa9",
                                        "\xc3\x89",
                                        "e\xcc\x81",
                                        "\xcc\x81",
                                        "\xe2\x80\x8b",
                                        "\xe2\x80\xa6",
                                        "\xe2\x80\x9c",
                                        "\"",
                                        "<br>",
                                        "<",
                                        ">",
                                        "/",
                                        " ",
                                        "\t",
                                        "_",
                                        "#",
                                        "\xd0\xb6",
                                        "\xd0\x96",
                                        "\xe4\xb8\xad",
                                        "\xc2\x92",
                                        "\xc2\x96",
                                        "\xca\xbc",
                                        "\xcd\x85",
                                        "\xe1\x84\x80\xe1\x85\xa1",
                                        "\xef\xac\x81",
                                        "\xc4\xb0",
                                        "\xe2\x84\xab",
                                        "\xd9\xa3",
                                        "\xf0\x9f\x98\x80",
                                        "\xe0\xa4\x95\xe0\xa4\xbe",
                                        "\xff",
                                        "\xc2\xb4",
                                        "$",
                                        "\xe2\x82\xac",
                                        "\xc2\xa0",
                                        "\xe1\xba\x9e"};
    rng r = rng_stream(1, STREAM_TEST, 41);
    size_t yes[2] = {0};
    for (size_t i = 0; i < 400000; i++) {
        char word[64] = "";
        for (size_t n = 1 + rng_below(&r, 5); n > 0; n--)
            strcat(word, piece[rng_below(&r, sizeof piece / sizeof *piece)]);
        compare(word, yes);
    }
    printf("%zu and %zu of 400000 read as themselves\n", yes[0], yes[1]);
    CHECK_LE(4000, yes[0]);
    CHECK_LE(4000, yes[1]);
}
