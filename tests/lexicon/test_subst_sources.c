/* tests/lexicon/test_subst_sources.c - sememes, WordNet and the published files. */
#include "alloc_fail.h"
#include "subst_test.h"

/* ---- sememes ------------------------------------------------------------------------------ */

#define SENSES                                                                                     \
    "film\tn\t1\tbn:1\tshows|x image|y\n"                                                          \
    "movie\tn\t1\tbn:1\timage|y shows|x shows|x\n"                                                 \
    "film\tv\t2\tbn:2\tcover|z\n"                                                                  \
    "Cover\tv\t2\tbn:2\tcover|z\n"                                                                 \
    "coat\tv\t3\tbn:3\tcover|z\n"                                                                  \
    "coat\tn\t4\tbn:4\tclothing|c\n"                                                               \
    "moving_picture\tn\t1\tbn:1\tshows|x image|y\n"                                                \
    "big\ta\t5\tbn:5\tsize|s\n"                                                                    \
    "large\ta\t5\tbn:5\tsize|s\n"                                                                  \
    "picture\tn\t6\tbn:6\timage|y\n"

#define FORMS                                                                                      \
    "film\tfilms\nmovie\tmovies\ncoat\tcoats\ncover\tcovers\ncover\tcovered\ncoat\tcoated\n"       \
    "film\tfilmed\nbig\tbigger\nlarge\tlarger\nbig\tbiggest\nunknown\tunknowns\ncoat\todd\n"

static stet_subst *sememe_set(const char *senses, const char *forms)
{
    stet_subst_builder *b = builder_of(NULL);
    const char *path = test_write("senses", senses);
    CHECK_OK(stet_subst_add_sememes(b, path, forms ? test_write("forms", forms) : NULL));
    return built(b);
}

TEST(words_with_a_sense_of_the_same_sememes_replace_each_other)
{
    stet_subst *s = sememe_set(SENSES, NULL);
    CHECK_LIST(s, "film", "movie cover coat");
    CHECK_LIST(s, "movie", "film"); /* not cover: other sememes; not picture: fewer */
    CHECK_LIST(s, "cover", "film coat");
    CHECK_LIST(s, "big", "large");
    CHECK_EQ(stet_subst_word_id(s, "picture", 7), UINT32_MAX);
    stet_subst_free(s);
}

TEST(inflected_forms_need_the_same_ending_and_its_part_of_speech)
{
    stet_subst *s = sememe_set(SENSES, FORMS);
    CHECK_LIST(s, "films", "movies covers coats"); /* as a noun and as a verb */
    CHECK_LIST(s, "filmed", "covered coated");
    CHECK_LIST(s, "bigger", "larger");
    CHECK_LIST(s, "movies", "films");
    CHECK_EQ(stet_subst_word_id(s, "biggest", 7), UINT32_MAX); /* no "largest" in the list */
    CHECK_EQ(stet_subst_word_id(s, "odd", 3), UINT32_MAX);
    stet_subst_free(s);
}

TEST(bad_lines_of_sememes_are_named)
{
    static const struct {
        const char *senses, *forms, *part;
    } bad[] = {
        {"film\tn\t1\tbn:1\n", "", "senses:1: expected LEMMA"},
        {"film\tn\t1\tbn:1\ta\tb\n", "", "senses:1: expected LEMMA"},
        {"\nfilm\tx\t1\tbn:1\ta\n", "", "senses:2: part of speech \"x\""},
        {"film\tn\t1\tbn:1\t\n", "", "senses:1: no sememes"},
        {"\tn\t1\tbn:1\ta\n", "", "senses:1: expected a lemma"},
        {"a\xff\tn\t1\tbn:1\ta\n", "", "found invalid UTF-8"},
        {SENSES, "film\n", "forms:1: expected LEMMA<TAB>FORM"},
        {SENSES, "film\t\n", "forms:1: expected an inflected form"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stet_subst_builder *b = builder_of(NULL);
        const char *senses = test_write("senses", bad[i].senses);
        CHECK_FAILS(stet_subst_add_sememes(b, senses, test_write("forms", bad[i].forms)),
                    STET_EFORMAT, bad[i].part);
        stet_subst_builder_free(b);
    }
}

static stet_status read_sememes(void *ctx)
{
    (void)ctx;
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    const stet_status st = stet_subst_add_sememes(b, test_path("senses"), test_path("forms"));
    stet_subst_builder_free(b);
    return st;
}

TEST(sememes_survive_every_failed_allocation)
{
    stet_subst_free(sememe_set(SENSES, FORMS));
    CHECK_LE(10, ALLOC_FAIL_LOOP(read_sememes, NULL));
}

/* The figures of the data's README: 17,870 of 20,224 words, 22.7 substitutes on average. */
TEST(babel_sememes_give_the_published_counts)
{
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_sememes(b, test_data("sememe/english_sememes.tsv.xz"), NULL));
    stet_subst *s = built(b);
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_EQ(st.replaceable, 17870);
    CHECK_NEAR(st.candidates_mean, 22.656, 0.001);
    CHECK_NEAR(st.symmetric_share, 1, 0);
    CHECK_LIST(s, "movie", "film flick pic picture");
    stet_subst_free(s);
}

/* ---- WordNet ------------------------------------------------------------------------------ */

/* GloVe's 840B file has such words; they neither stand in a set nor count among the k. */
TEST(words_with_spaces_are_no_neighbours)
{
    const char *const words[] = {"good", ". . .", "fine", "bad"};
    float data[] = {0, 0, 1, 1.25f, 1.5f, 3};
    unsigned char known[] = {0, 0, 1, 1, 1, 1};
    const stet_vectors t = {.n = 6, .dim = 1, .data = data, .known = known, .n_known = 4};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 4, &v));
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_nearest(b, &t, v, 1, STET_L2, INFINITY, false));
    stet_subst *s = built(b);
    CHECK_LIST(s, "good", "fine");
    CHECK_LIST(s, "fine", "good");
    CHECK_LIST(s, "bad", "fine");
    stet_subst_free(s);
    stet_vocab_free(v);
}

TEST(wordnet_gives_the_synonyms_of_a_vocabulary)
{
    stet_wordnet *w;
    if (!file_exists("/usr/share/wordnet/index.noun"))
        SKIP("no WordNet");
    CHECK_OK(stet_wordnet_open("/usr/share/wordnet", &w));
    const char *const words[] = {"a\x01z", "movie", "qwzx", ". . ."};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 4, &v));
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_wordnet(b, w, v, STET_WN_TEXTATTACK));
    stet_subst *s = built(b);
    CHECK_LIST(s, "movie", "film picture pic flick");
    stet_subst_free(s);
    b = builder_of(NULL);
    CHECK_OK(stet_subst_add_wordnet(b, w, v, STET_WN_OPENATTACK));
    s = built(b);
    CHECK_LIST(s, "movie", "film picture moving moving-picture motion motion-picture pic flick");
    stet_subst_free(s);
    stet_vocab_free(v);
    stet_wordnet_free(w);
}

/* ---- the neighbours of Jia et al. --------------------------------------------------------- */

TEST(the_neighbour_file_of_jia_has_its_published_counts)
{
    stet_subst *s;
    CHECK_OK(stet_subst_load(test_data("counterfitted/counterfitted_neighbors.json.xz"), &s));
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_EQ(st.replaceable, 25611);
    CHECK_EQ(st.pairs, 109187);
    CHECK_EQ(st.components, 2026);
    CHECK_EQ(st.largest_component, 19115);
    CHECK_NEAR(st.candidates_mean, 4.26, 0.005);
    CHECK_NEAR(st.symmetric_share, 0.87, 0.005);
    CHECK_LIST(s, "good", "alright buena well nice decent best");
    stet_subst_free(s);
}

TEST(stop_words_leave_the_neighbours_of_jia_as_the_recipes_use_them)
{
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(
        stet_subst_add_neighbours(b, test_data("counterfitted/counterfitted_neighbors.json.xz")));
    CHECK_OK(stet_subst_drop_stop_words(b, test_data("postag/stopwords_english.txt")));
    stet_subst *s = built(b);
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_EQ(st.replaceable, 25486);
    CHECK_EQ(st.pairs, 108647);
    CHECK_LIST(s, "the", "");
    CHECK_LIST(s, "movie",
               "film filmmaking films movies cinema cinematographic cinematic cinematography");
    stet_subst_free(s);
}

/* Of the antonym constraints only 6 are neighbours in this file, in both directions or one. */
TEST(antonym_lists_touch_few_counter_fitted_neighbours)
{
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_neighbours(b, test_data("counterfitted/euc-top8-d0.7.json.xz")));
    const size_t before = b->n_edges;
    CHECK_EQ(before, 164145);
    CHECK_OK(stet_subst_drop_pairs(b, test_data("counterfitted/ppdb_antonyms.txt.xz")));
    CHECK_OK(stet_subst_drop_pairs(b, test_data("counterfitted/wordnet_antonyms.txt.xz")));
    CHECK_EQ(before - b->n_edges, 6);
    stet_subst_builder_free(b);
}

TEST(synonym_constraints_are_pairs_in_both_directions)
{
    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(stet_subst_add_pairs(b, test_data("counterfitted/ppdb_synonyms.txt.xz")));
    stet_subst *s = built(b);
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_NEAR(st.symmetric_share, 1, 0);
    CHECK_EQ(st.pairs, 32202);
    stet_subst_free(s);
}
