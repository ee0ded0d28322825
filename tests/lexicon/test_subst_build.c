/* tests/lexicon/test_subst_build.c - filters and their order. */
#include "alloc_fail.h"
#include "subst_test.h"

#define MAP                                                                                        \
    "{\"good\": [\"fine\", \"bad\", \"nice\"], \"fine\": [\"good\"], \"a\": [\"one\", \"the\"],"   \
    " \"film\": [\"movie\", \"a\"]}"

TEST(sources_are_united_in_order)
{
    stet_subst_builder *b = builder_of("{\"x\": [\"b\", \"a\"]}");
    const char *const more[] = {"c", "x", "a", "c"};
    CHECK_OK(stet_subst_add_list(b, "x", more, 4));
    CHECK_OK(stet_subst_add_pairs(b, test_write("pairs", "d x\n\n  x\tb \n")));
    stet_subst *s = built(b);
    CHECK_LIST(s, "x", "b a c d");
    CHECK_LIST(s, "d", "x");
    CHECK_LIST(s, "b", "x");
    stet_subst_free(s);
}

TEST(a_built_set_is_a_source_like_any_other)
{
    stet_subst *first = built(builder_of(MAP));
    CHECK_OK(stet_subst_save(first, test_path("s")));
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_neighbours(b, test_path("s")));
    stet_subst *s = built(b);
    CHECK(stet_subst_fingerprint(s) == stet_subst_fingerprint(first));
    stet_subst_free(s);
    stet_subst_free(first);
}

TEST(stop_words_are_not_replaced_but_may_replace)
{
    stet_subst_builder *b = builder_of(MAP);
    CHECK_OK(stet_subst_drop_stop_words(b, test_write("stop", "a\nthe\n\n")));
    stet_subst *s = built(b);
    CHECK_LIST(s, "a", "");
    CHECK_LIST(s, "film", "movie a");
    CHECK_EQ(stet_subst_word_id(s, "the", 3), UINT32_MAX);
    stet_subst_free(s);
}

TEST(antonyms_are_dropped_in_both_directions)
{
    stet_subst_builder *b = builder_of(MAP);
    CHECK_OK(stet_subst_make_symmetric(b));
    CHECK_OK(stet_subst_drop_pairs(b, test_write("ant", "bad good \nold young\n")));
    stet_subst *s = built(b);
    CHECK_LIST(s, "good", "fine nice");
    CHECK_EQ(stet_subst_word_id(s, "bad", 3), UINT32_MAX);
    stet_subst_free(s);
}

TEST(a_vocabulary_keeps_pairs_of_its_own_words)
{
    const char *const words[] = {"good", "nice", "movie", "film"};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 4, &v));
    stet_subst_builder *b = builder_of(MAP);
    CHECK_OK(stet_subst_keep_vocab(b, v));
    stet_subst *s = built(b);
    CHECK_EQ(stet_subst_pairs(s), 2);
    CHECK_LIST(s, "good", "nice");
    CHECK_LIST(s, "film", "movie");
    stet_subst_free(s);
    stet_vocab_free(v);
}

TEST(symmetric_closure_appends_the_reverse)
{
    stet_subst_builder *b =
        builder_of("{\"x\": [\"a\", \"b\"], \"b\": [\"c\", \"x\"], \"c\": [\"x\"]}");
    CHECK_OK(stet_subst_make_symmetric(b));
    stet_subst *s = built(b);
    CHECK_LIST(s, "x", "a b c");
    CHECK_LIST(s, "a", "x");
    CHECK_LIST(s, "b", "c x");
    CHECK_LIST(s, "c", "x b");
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_NEAR(st.symmetric_share, 1, 0);
    stet_subst_free(s);
}

TEST(top_k_counts_distinct_words_in_order)
{
    stet_subst_builder *b = builder_of("{\"x\": [\"a\", \"a\", \"b\", \"c\"], \"y\": [\"c\"]}");
    CHECK_OK(stet_subst_keep_top(b, 2));
    stet_subst *s = built(b);
    CHECK_LIST(s, "x", "a b");
    CHECK_LIST(s, "y", "c");
    stet_subst_free(s);
    b = builder_of(MAP);
    CHECK_OK(stet_subst_keep_top(b, 0));
    s = built(b);
    CHECK_EQ(stet_subst_words(s), 0);
    stet_subst_free(s);
}

TEST(short_words_are_left_out_by_characters)
{
    stet_subst_builder *b =
        builder_of("{\"\\u00e9t\\u00e9\": [\"ab\", \"abc\"], \"ab\": [\"abc\"]}");
    CHECK_OK(stet_subst_keep_long(b, 3));
    stet_subst *s = built(b);
    CHECK_EQ(stet_subst_pairs(s), 1);
    CHECK_LIST(s, "\xc3\xa9t\xc3\xa9", "abc");
    stet_subst_free(s);
}

TEST(a_filter_leaves_what_is_added_after_it)
{
    stet_subst_builder *b = builder_of(MAP);
    CHECK_OK(stet_subst_keep_top(b, 0));
    const char *const subs[] = {"q", "r"};
    CHECK_OK(stet_subst_add_list(b, "p", subs, 2));
    stet_subst *s = built(b);
    CHECK_EQ(stet_subst_pairs(s), 2);
    CHECK_LIST(s, "p", "q r");
    stet_subst_free(s);
}

TEST(parts_of_speech_must_agree)
{
    stet_tagger *t;
    if (!file_exists("/usr/share/wordnet/index.noun"))
        SKIP("no WordNet");
    CHECK_OK(stet_tagger_builtin(&t));
    stet_subst_builder *b = builder_of(
        "{\"movie\": [\"film\", \"quickly\"], \"quickly\": [\"rapidly\", \"terrible\"]}");
    CHECK_OK(stet_subst_keep_same_pos(b, t));
    stet_subst *s = built(b);
    CHECK_EQ(stet_subst_pairs(s), 2);
    CHECK_LIST(s, "movie", "film");
    CHECK_LIST(s, "quickly", "rapidly");
    stet_subst_free(s);
    stet_tagger_free(t);
}

TEST(bad_lines_of_pairs_are_named)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"a b\nc\n", "pairs:2: expected two words"},
        {"a b c\n", "pairs:1: expected two words"},
        {"a b\n\nx \xff\n", "pairs:3: expected two words, found invalid UTF-8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stet_subst_builder *b = builder_of(NULL);
        CHECK_FAILS(stet_subst_add_pairs(b, test_write("pairs", bad[i].text)), STET_EFORMAT,
                    bad[i].part);
        CHECK_FAILS(stet_subst_drop_pairs(b, test_path("pairs")), STET_EFORMAT, bad[i].part);
        stet_subst_builder_free(b);
    }
    stet_subst_builder *b = builder_of(NULL);
    CHECK_FAILS(stet_subst_drop_stop_words(b, test_path("none")), STET_EIO, "none");
    stet_subst_builder_free(b);
}

static stet_status build_all(void *ctx)
{
    (void)ctx;
    stet_subst_builder *b;
    stet_subst *s = NULL;
    TRY(stet_subst_builder_new(&b));
    stet_status st = stet_subst_add_neighbours(b, test_path("map.json"));
    if (st == STET_OK)
        st = stet_subst_add_pairs(b, test_path("pairs"));
    if (st == STET_OK)
        st = stet_subst_drop_stop_words(b, test_path("pairs"));
    if (st == STET_OK)
        st = stet_subst_drop_pairs(b, test_path("pairs"));
    if (st == STET_OK)
        st = stet_subst_make_symmetric(b);
    if (st == STET_OK)
        st = stet_subst_keep_top(b, 2);
    if (st == STET_OK)
        st = stet_subst_build(b, &s);
    stet_subst_free(s);
    stet_subst_builder_free(b);
    return st;
}

TEST(building_survives_every_failed_allocation)
{
    stet_subst_builder_free(builder_of(MAP));
    test_write("pairs", "good bad\nfilm movie\n");
    CHECK_LE(10, ALLOC_FAIL_LOOP(build_all, NULL));
}

/* ---- statistics --------------------------------------------------------------------------- */

TEST(statistics_count_words_pairs_and_components)
{
    stet_subst *s = built(builder_of("{\"a\": [\"b\", \"c\"], \"b\": [\"a\"], \"x\": [\"y\"]}"));
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_EQ(st.words, 5);
    CHECK_EQ(st.replaceable, 3);
    CHECK_EQ(st.pairs, 4);
    CHECK_EQ(st.components, 2);
    CHECK_EQ(st.largest_component, 3);
    CHECK_NEAR(st.candidates_mean, 4.0 / 3, 1e-12);
    CHECK_NEAR(st.symmetric_share, 0.5, 1e-12);
    CHECK_NEAR(st.tokens_replaceable, 0, 0);
    stet_subst_free(s);
}

TEST(statistics_of_a_corpus_count_its_tokens)
{
    const stet_str texts[] = {{"A B c", 5}, {"x z b A", 7}};
    const int labels[] = {0, 1};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(texts, labels, 2, NULL, 2, &d));
    stet_subst *s = built(builder_of("{\"a\": [\"b\", \"c\"], \"b\": [\"a\"], \"x\": [\"y\"]}"));
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, d, STET_TOK_WORD, &st));
    CHECK_NEAR(st.tokens_replaceable, 5.0 / 7, 1e-12);   /* a b x b a */
    CHECK_NEAR(st.candidates_per_token, 7.0 / 5, 1e-12); /* 2 1 1 1 2 */
    stet_subst_free(s);
    stet_dataset_free(d);
}

TEST(statistics_of_an_empty_set_are_zero)
{
    stet_subst *s = built(builder_of(NULL));
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_EQ(st.components + st.words + st.pairs, 0);
    CHECK_NEAR(st.candidates_mean, 0, 0);
    stet_subst_free(s);
}
