/* tests/text/test_rebuild.c - a text with words replaced: case, spacing, and the same tokens again.
 */
#include "base/rng.h"
#include "stet/option.h"
#include "stet/text.h"
#include "test.h"

/* `text` with token number `at` replaced; a static buffer. */
static const char *replaced(const char *text, size_t at, const char *with)
{
    static char out[1024];
    stet_tokens t = {0};
    char *new_text;
    CHECK_OK(stet_tokenize(STET_TOK_WORD, text, strlen(text), &t));
    CHECK_OK(stet_text_rebuild(text, strlen(text), &t, &at, &with, 1, &new_text));
    snprintf(out, sizeof out, "%s", new_text);
    stet_free(new_text);
    stet_tokens_deinit(&t);
    return out;
}

TEST(nothing_replaced_gives_the_original_bytes)
{
    const char *text = "  A\ttext<br />with 'odd'   spacing \n";
    stet_tokens t = {0};
    char *out;
    CHECK_OK(stet_tokenize(STET_TOK_WORD, text, strlen(text), &t));
    CHECK_OK(stet_text_rebuild(text, strlen(text), &t, NULL, NULL, 0, &out));
    CHECK_STR(out, text);
    stet_free(out);
    CHECK_OK(stet_text_rebuild("", 0, &t, NULL, NULL, 0, &out));
    CHECK_STR(out, "");
    stet_free(out);
    stet_tokens_deinit(&t);
}

TEST(case_and_spacing_are_kept)
{
    CHECK_STR(replaced("a  good\tfilm", 1, "fine"), "a  fine\tfilm");
    CHECK_STR(replaced("A GOOD film", 1, "fine"), "A FINE film");
    CHECK_STR(replaced("Good film", 0, "fine"), "Fine film");
    CHECK_STR(replaced("I saw", 0, "we"), "We saw");
    CHECK_STR(replaced("iPod", 0, "player"), "player");
    CHECK_STR(replaced("\xc3\x89T\xc3\x89", 0,
                       "\xc3\xa9"
                       "clair"),
              "\xc3\x89"
              "CLAIR");
    CHECK_STR(replaced("\"Great\", he said", 1, "super"), "\"Super\", he said");
    CHECK_STR(replaced("one<br />TWO", 1, "three"), "one<br />THREE");
    CHECK_STR(replaced("go!", 0, ""), "!");
}

TEST(contractions_stay_attached_to_a_new_word)
{
    CHECK_STR(replaced("I didn't", 1, "does"), "I doesn't");
    CHECK_STR(replaced("It's", 0, "that"), "That's");
    CHECK_STR(replaced("the film's end", 1, "movie"), "the movie's end");
}

TEST(a_space_appears_where_two_words_would_run_together)
{
    CHECK_STR(replaced("didn't", 1, "not"), "did not");
    CHECK_STR(replaced("it's", 1, "is"), "it is");
    CHECK_STR(replaced("mind-numbing", 1, "and"), "mind and numbing");
    CHECK_STR(replaced("end.Start", 1, "now"), "end now Start");
    CHECK_STR(replaced("dogs'-x", 2, "y"), "dogs' y x");
    CHECK_STR(replaced("-'hello'", 0, "oh"), "oh 'hello'");
    CHECK_STR(replaced("'ok'", 1, "s"), "' s'");
    CHECK_STR(replaced("'fine'", 1, "good"), "'good'");
}

/* Found by fuzzing: what is cut off one word must not depend on another. */
TEST(odd_contractions_stay_what_they_were)
{
    CHECK_STR(replaced(")'d'v't", 0, "oh"), "oh 'd'v't");
    CHECK_STR(replaced("'mn't", 1, "not"), "'m not");
    CHECK_STR(replaced("1.5n't", 2, "so"), "1.so");
    CHECK_STR(replaced("1,000.5x", 1, "or"), "1,000 or 5x");
}

TEST(several_words_are_replaced_at_once)
{
    const char *text = "I didn't like it";
    const size_t at[] = {1, 2, 4};
    const char *const with[] = {"do", "not", "this"};
    stet_tokens t = {0};
    char *out;
    CHECK_OK(stet_tokenize(STET_TOK_WORD, text, strlen(text), &t));
    CHECK_OK(stet_text_rebuild(text, strlen(text), &t, at, with, 3, &out));
    CHECK_STR(out, "I do not like this");
    stet_free(out);
    stet_tokens_deinit(&t);
}

TEST(wrong_positions_are_refused)
{
    const size_t beyond = 3, twice[] = {1, 1};
    const char *const with[] = {"x", "y"};
    stet_tokens t = {0};
    char *out;
    CHECK_OK(stet_tokenize(STET_TOK_WORD, "a b c", 5, &t));
    CHECK_FAILS(stet_text_rebuild("a b c", 5, &t, &beyond, with, 1, &out), STET_EUSAGE,
                "token 3 of 3");
    CHECK(out == NULL);
    CHECK_FAILS(stet_text_rebuild("a b c", 5, &t, twice, with, 2, &out), STET_EUSAGE, "ascend");
    CHECK_FAILS(stet_text_rebuild("a", 1, &t, twice, with, 1, &out), STET_EUSAGE, "of this text");
    stet_tokens_deinit(&t);
}

/* Replace tokens `at` of a text and tokenise again: the same tokens but for those. */
static void check_in_place(stet_tokenizer kind, stet_str text, const stet_tokens *t,
                           const size_t *at, size_t n, const char *const *with,
                           stet_tokens *again)
{
    char *new_text;
    CHECK_OK(stet_text_rebuild(text.data, text.len, t, at, with, n, &new_text));
    CHECK_OK(stet_tokenize(kind, new_text, strlen(new_text), again));
    bool same = again->n == t->n;
    for (size_t i = 0, k = 0; same && i < t->n; i++) {
        const bool changed = k < n && at[k] == i;
        same = strcmp(stet_token_word(again, i), changed ? with[k] : stet_token_word(t, i)) == 0;
        k += changed;
    }
    if (!same)
        test_fail(__FILE__, __LINE__, "token %zu of %zu replaced by %s:\n%s\n%s", at[0], t->n, with[0],
                  text.data, new_text);
    stet_free(new_text);
}

/* Pieces that touch each other in every order, and words that are read as themselves. */
TEST(every_word_can_stand_in_every_place)
{
    static const char *const piece[] = {"x",  "5",   ".", ",", "'", "n't", "'s", "-", "--", "...",
                                        "do", "<",   ">", "/", "br", " ",  "\"", "`", "1,000", "!",
                                        "t",  "don", "s", "A", "Bc", "DE", "''", "\xe2\x80\x99"};
    static const char *const word[] = {"zebra", "3",   "7.5", "o'brien", "br", "...", "--",
                                       "s",     "n't", "'s",  "'",       "\"", ".",   "-",
                                       "x2",    "re",  "t",   "\xc4\xb1x", "\xcf\x82", "<", "1,000"};
    enum { PIECES = sizeof piece / sizeof *piece, WORDS = sizeof word / sizeof *word };
    stet_tokens t = {0}, again = {0};
    rng r = rng_stream(11, STREAM_TEST, 2);
    for (int turn = 0; turn < 300000; turn++) {
        char text[128] = "";
        for (size_t n = 1 + rng_below(&r, 7); n > 0; n--)
            strcat(text, piece[rng_below(&r, PIECES)]);
        CHECK_OK(stet_tokenize(STET_TOK_WORD, text, strlen(text), &t));
        if (t.n == 0)
            continue;
        const char *with[64];
        size_t at[64], n = 0;
        for (size_t i = 0; i < t.n; i++)
            if (rng_below(&r, 3) == 0) {
                with[n] = word[rng_below(&r, WORDS)];
                at[n++] = i;
            }
        check_in_place(STET_TOK_WORD, (stet_str){text, strlen(text)}, &t, at, n, with, &again);
    }
    stet_tokens_deinit(&t);
    stet_tokens_deinit(&again);
}

static void check_reviews(const char *path, stet_tokenizer kind)
{
    enum { EACH = 4, LONGEST = 4096 };
    static const char *with[LONGEST];
    static size_t all[LONGEST];
    for (size_t i = 0; i < LONGEST; i++) {
        with[i] = "zebra";
        all[i] = i;
    }
    stet_dataset *d;
    CHECK_OK(stet_dataset_load(path, NULL, &d));
    stet_tokens t = {0}, again = {0};
    for (size_t i = 0; i < stet_dataset_size(d); i++) {
        const stet_str text = stet_dataset_text(d, i);
        rng r = rng_stream(5, STREAM_TEST, i);
        CHECK_OK(stet_tokenize(kind, text.data, text.len, &t));
        CHECK(t.n > 0 && t.n <= LONGEST);
        size_t before = 0;
        for (size_t k = 0; k < t.n; before = t.v[k++].end)
            CHECK(t.v[k].start >= before && t.v[k].start < t.v[k].end && t.v[k].end <= text.len);
        for (int k = 0; k < EACH; k++) {
            const size_t at = rng_below(&r, t.n);
            check_in_place(kind, text, &t, &at, 1, with, &again);
        }
        check_in_place(kind, text, &t, all, t.n, with, &again);
    }
    stet_tokens_deinit(&t);
    stet_tokens_deinit(&again);
    stet_dataset_free(d);
}

TEST(every_imdb_training_review_keeps_its_other_words)
{
    check_reviews(test_data("imdb/train.tsv.xz"), STET_TOK_WORD);
}

TEST(every_imdb_test_review_keeps_its_other_words)
{
    check_reviews(test_data("imdb/test.tsv.xz"), STET_TOK_WORD);
}

TEST(every_imdb_test_review_keeps_its_other_keras_words)
{
    check_reviews(test_data("imdb/test.tsv.xz"), STET_TOK_KERAS);
}
