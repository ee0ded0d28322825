/* tests/lexicon/test_subst_texts.c - sets that hold at one position of one text. */
#include "alloc_fail.h"
#include "subst_test.h"

#define TEXTS                                                                                      \
    "{\"the film did n't move me .\": {\"1\": [\"movie\", \"picture\"], \"0\": [], \"4\": "        \
    "[\"touch\"]},"                                                                                \
    " \"a dull film\": {\"2\": [\"movie\"]}}"

static stet_subst_texts *texts_of(const char *json)
{
    stet_subst_texts *s;
    CHECK_OK(stet_subst_texts_load(test_write("t.json", json), &s));
    return s;
}

TEST(substitutes_are_found_by_text_and_position)
{
    stet_subst_texts *s = texts_of(TEXTS);
    CHECK_EQ(stet_subst_texts_count(s), 2);
    CHECK_STR(stet_subst_texts_text(s, 1).data, "a dull film");
    CHECK_EQ(stet_subst_texts_positions(s, 0), 7);
    size_t n;
    const char *const *at = stet_subst_texts_at(s, 0, 1, &n);
    CHECK_EQ(n, 2);
    CHECK_STR(at[0], "movie");
    CHECK_STR(at[1], "picture");
    stet_subst_texts_at(s, 0, 2, &n); /* not in the file */
    CHECK_EQ(n, 0);
    at = stet_subst_texts_at(s, 0, 4, &n);
    CHECK_EQ(n, 1);
    CHECK_STR(at[0], "touch");
    stet_subst_texts_at(s, 0, 7, &n);
    CHECK_EQ(n, 0);
    stet_subst_texts_at(s, 2, 0, &n);
    CHECK_EQ(n, 0);
    stet_subst_texts_free(s);
}

TEST(the_original_is_found_by_letters_and_digits)
{
    stet_subst_texts *s = texts_of(TEXTS);
    size_t i;
    const char *original = "The film<br /><br>didn't move ME!";
    CHECK_OK(stet_subst_texts_find(s, original, strlen(original), &i));
    CHECK_EQ(i, 0);
    CHECK_OK(stet_subst_texts_find(s, "A dull film...", 14, &i));
    CHECK_EQ(i, 1);
    CHECK_OK(stet_subst_texts_find(s, "A dull film 2", 13, &i));
    CHECK(i == SIZE_MAX);
    CHECK_OK(stet_subst_texts_find(s, "", 0, &i));
    CHECK(i == SIZE_MAX);
    stet_subst_texts_free(s);
}

static void check_align(const stet_subst_texts *s, stet_tokenizer kind, const char *original,
                        const int *expected, size_t n)
{
    stet_tokens t = {0};
    CHECK_OK(stet_tokenize(kind, original, strlen(original), &t));
    CHECK_EQ(t.n, n);
    size_t at[32];
    stet_subst_texts_align(s, 0, original, strlen(original), &t, at);
    for (size_t i = 0; i < n; i++)
        if (at[i] != (expected[i] < 0 ? SIZE_MAX : (size_t)expected[i]))
            test_fail(__FILE__, __LINE__, "token %zu is at %zu, expected %d", i, at[i],
                      expected[i]);
    stet_tokens_deinit(&t);
}

TEST(tokens_of_the_original_know_their_positions)
{
    stet_subst_texts *s = texts_of(TEXTS);
    const char *original = "The film<br />DIDN'T move me.";
    const int word[] = {0, 1, 2, 3, 4, 5, -1}; /* did n't are two tokens to both */
    check_align(s, STET_TOK_WORD, original, word, 7);
    const int keras[] = {0, 1, -1, 4, 5}; /* "didn't" is one: no single position */
    check_align(s, STET_TOK_KERAS, "The film, DIDN'T move me.", keras, 5);
    stet_subst_texts_free(s);
}

TEST(the_fingerprint_tells_files_apart)
{
    stet_subst_texts *a = texts_of("{\"x y\": {\"0\": [\"z\"]}}");
    stet_subst_texts *b = texts_of("{\"x y\": {\"1\": [\"z\"]}}");
    stet_subst_texts *c = texts_of("{\"x y\":   {\"0\": [\"z\"], \"1\": []}}");
    CHECK(stet_subst_texts_fingerprint(a) != stet_subst_texts_fingerprint(b));
    CHECK(stet_subst_texts_fingerprint(a) == stet_subst_texts_fingerprint(c));
    stet_subst_texts_free(a);
    stet_subst_texts_free(b);
    stet_subst_texts_free(c);
}

TEST(bad_files_name_text_and_position)
{
    static const struct {
        const char *json, *part;
    } bad[] = {
        {"[]", "expected a map"},
        {"{\"a b\": []}", "text 1, \"a b\": expected a map"},
        {"{\"a\": {}, \"a b\": {\"2\": []}}", "text 2, \"a b\": position \"2\", expected 0 to 1"},
        {"{\"a b\": {\"x\": []}}", "position \"x\""},
        {"{\"a b\": {\"\": []}}", "position \"\""},
        {"{\"a b\": {\"01\": []}}", "position \"01\""},
        {"{\"a b\": {\"-1\": []}}", "position \"-1\""},
        {"{\"a b\": {\"99999999999999999999999\": []}}", "position \"9999999999999"},
        {"{\"a b\": {\"1\": \"w\"}}", "position 1: expected a list"},
        {"{\"a b\": {\"1\": [\"w\", 3]}}", "position 1: item 2: expected a word"},
        {"{\"a b\": {\"1\": [\"w w\"]}}", "position 1: item 1: expected a word, found a space"},
        {"{\"a b\": {\"1\": [\"w\"", "t.json:1:"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stet_subst_texts *s;
        CHECK_FAILS(stet_subst_texts_load(test_write("t.json", bad[i].json), &s), STET_EFORMAT,
                    bad[i].part);
        CHECK(strstr(stet_last_error(), "t.json") != NULL && s == NULL);
    }
}

static stet_status load_and_find(void *ctx)
{
    (void)ctx;
    stet_subst_texts *s;
    size_t i;
    TRY(stet_subst_texts_load(test_path("t.json"), &s));
    const stet_status st = stet_subst_texts_find(s, "A dull film", 11, &i);
    stet_subst_texts_free(s);
    return st;
}

TEST(texts_survive_every_failed_allocation)
{
    stet_subst_texts_free(texts_of(TEXTS));
    CHECK_LE(10, ALLOC_FAIL_LOOP(load_and_find, NULL));
}

/* Every filtered review is a review of the test set, and nearly all its substitutes stand at a
 * token of our own tokeniser. */
TEST(filtered_imdb_reviews_match_the_test_set)
{
    stet_subst_texts *s;
    CHECK_OK(stet_subst_texts_load(test_data("counterfitted/ibp-nbrs.IMDB.test.lm.json.xz"), &s));
    CHECK_EQ(stet_subst_texts_count(s), 998);
    stet_dataset *d;
    stet_data_options how = STET_DATA_DEFAULTS;
    CHECK_OK(stet_dataset_load(test_data("imdb/test.tsv.xz"), &how, &d));
    unsigned char *found = mem_zalloc(998, 1);
    size_t all = 0, aligned = 0, texts = 0, cap = 0, *at = NULL;
    stet_tokens t = {0};
    for (size_t i = 0; i < stet_dataset_size(d); i++) {
        const stet_str text = stet_dataset_text(d, i);
        size_t k, n;
        CHECK_OK(stet_subst_texts_find(s, text.data, text.len, &k));
        if (k == SIZE_MAX || found[k]++)
            continue; /* some reviews are in the test set twice */
        texts++;
        CHECK_OK(stet_tokenize(STET_TOK_WORD, text.data, text.len, &t));
        CHECK_OK(mem_grow(&at, &cap, t.n, sizeof *at));
        stet_subst_texts_align(s, k, text.data, text.len, &t, at);
        for (size_t p = 0; p < stet_subst_texts_positions(s, k); p++) {
            stet_subst_texts_at(s, k, p, &n);
            all += n;
        }
        for (size_t p = 0; p < t.n; p++) {
            stet_subst_texts_at(s, k, at[p], &n);
            aligned += n;
        }
    }
    CHECK_EQ(texts, 998);
    CHECK_EQ(all, 148245);
    CHECK_LE(0.999 * (double)all, aligned);
    mem_free(at);
    mem_free(found);
    stet_tokens_deinit(&t);
    stet_dataset_free(d);
    stet_subst_texts_free(s);
}
