/* tests/lexicon/test_tagger.c - the perceptron tagger with NLTK's weights and with our own, its
 * files, and the built-in tagger. */
#include "alloc_fail.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stream.h"
#include "lexicon/tag_features.h"
#include "stet/lexicon.h"
#include "test.h"

#define NLTK "postag/averaged_perceptron_tagger.tsv.xz"
#define TRAIN "postag/en_ewt-ud-train.conllu.xz"
#define DEV "postag/en_ewt-ud-dev.conllu.xz"
#define TEST_PART "postag/en_ewt-ud-test.conllu.xz"

static const char *in_dir(const char *name)
{
    static char path[4][256];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static void put(const char *name, const char *text)
{
    CHECK_OK(file_write_all(in_dir(name), text, strlen(text)));
}

static void check_same_files(const char *a, const char *b)
{
    stream *x, *y;
    CHECK_OK(stream_open(a, &x));
    CHECK_OK(stream_open(b, &y));
    char *p, *q;
    size_t n, m;
    stet_status st, su;
    for (;;) {
        const bool more = stream_line(x, &p, &n, &st);
        CHECK_EQ(stream_line(y, &q, &m, &su), more);
        if (!more)
            break;
        CHECK_STR(p, q);
    }
    CHECK_OK(st);
    CHECK_OK(su);
    stream_close(x);
    stream_close(y);
}

/* Tags of a sentence of words with spaces between, joined by spaces. */
static const char *tags_of(const stet_tagger *t, const char *sentence)
{
    static char out[1024], text[1024];
    const char *words[64], *tags[64];
    size_t n = 0, used = 0;
    char *rest = NULL;
    snprintf(text, sizeof text, "%s", sentence);
    for (char *p = strtok_r(text, " ", &rest); p; p = strtok_r(NULL, " ", &rest))
        words[n++] = p;
    CHECK_OK(stet_tagger_tag(t, words, n, tags));
    out[0] = '\0';
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", i ? " " : "", tags[i]);
    return out;
}

TEST(penn_tags_become_parts_of_speech)
{
    CHECK_EQ(stet_pos_of_penn("NN"), STET_NOUN);
    CHECK_EQ(stet_pos_of_penn("NNPS"), STET_NOUN);
    CHECK_EQ(stet_pos_of_penn("VBD"), STET_VERB);
    CHECK_EQ(stet_pos_of_penn("JJR"), STET_ADJ);
    CHECK_EQ(stet_pos_of_penn("RB"), STET_ADV);
    CHECK_EQ(stet_pos_of_penn("RP"), STET_OTHER);
    CHECK_EQ(stet_pos_of_penn("N"), STET_OTHER);
    CHECK_EQ(stet_pos_of_penn(""), STET_OTHER);
}

/* ---- features ------------------------------------------------------------------------------ */

TEST(a_feature_has_the_same_hash_as_its_text)
{
    const char *const words[] = {
        "The",      "1984", "state-of-the-art", "caf\xc3\xa9", "-", "3.14", "I", "n't", "",
        "\xff\xfe", "a"};
    const size_t n = sizeof words / sizeof *words;
    tag_window w;
    tag_window_start(&w, words, n);
    buf text = {0};
    for (size_t i = 0; i < n; i++, tag_window_next(&w, tag_value_of("NN", 2))) {
        for (size_t t = 0; t < TAG_TEMPLATES; t++) {
            size_t which;
            uint64_t hash;
            buf_clear(&text);
            tag_feature_text(&w, t, &text);
            CHECK(tag_feature_parse(text.data, text.n, &which, &hash));
            CHECK_EQ(which, t);
            CHECK_EQ(hash, tag_feature_hash(&w, t));
        }
    }
    buf_deinit(&text);
}

TEST(features_read_as_nltk_writes_them)
{
    static const char *const expected[] = {"bias",
                                           "i suffix ies",
                                           "i pref1 M",
                                           "i-1 tag CD",
                                           "i-2 tag -START-",
                                           "i tag+i-2 tag CD -START-",
                                           "i word movies",
                                           "i-1 tag+i word CD movies",
                                           "i-1 word !YEAR",
                                           "i-1 suffix EAR",
                                           "i-2 word -START2-",
                                           "i+1 word !HYPHEN",
                                           "i+1 suffix HEN",
                                           "i+2 word -END-"};
    const char *const words[] = {"1984", "Movies", "low-key"};
    tag_window w;
    tag_window_start(&w, words, 3);
    tag_window_next(&w, tag_value_of("CD", 2));
    buf text = {0};
    for (size_t t = 0; t < sizeof expected / sizeof *expected; t++) {
        buf_clear(&text);
        tag_feature_text(&w, t, &text);
        CHECK_STR(text.data, expected[t]);
    }
    buf_deinit(&text);
}

TEST(words_of_any_length_and_bytes_are_cut_to_whole_characters)
{
    char word[2000];
    rng r = rng_stream(3, STREAM_TEST, 0);
    for (size_t trial = 0; trial < 2000; trial++) {
        const size_t len = rng_below(&r, trial < 1000 ? 8 : sizeof word - 1);
        for (size_t i = 0; i < len; i++)
            word[i] = (char)(1 + rng_below(&r, 255));
        word[len] = '\0';
        const char *const words[] = {word, "end"};
        tag_window w;
        tag_window_start(&w, words, 2);
        for (size_t k = 0; k < PIECE_COUNT; k++)
            CHECK_LE(w.at[TAG_REACH]->piece[k].len, TAG_WORD_MAX);
        tag_window_next(&w, tag_value_of("NN", 2));
    }
    /* 254 bytes of ASCII and a character of two: the second byte does not fit. */
    memset(word, 'a', 254);
    memcpy(word + 254, "\xc3\xa9", 3);
    const char *const words[] = {word};
    tag_window w;
    tag_window_start(&w, words, 1);
    CHECK_EQ(w.at[TAG_REACH]->piece[PIECE_EXACT].len, 254);
}

/* ---- NLTK's weights ------------------------------------------------------------------------ */

TEST(nltks_weights_give_nltks_tags)
{
    stet_tagger *t;
    size_t right, total;
    CHECK_OK(stet_tagger_load(test_data(NLTK), &t));
    CHECK_STR(tags_of(t, "This movie was terribly boring , but I love the acting ."),
              "DT NN VBD RB JJ , CC PRP VBP DT NN .");
    CHECK_OK(stet_tagger_eval(t, test_data(TEST_PART), &right, &total));
    CHECK_EQ(total, 25094);
    CHECK_EQ(right, 21349); /* 85.1 %, the number that NLTK 3.10 itself gets */
    CHECK_OK(stet_tagger_eval(t, test_data(DEV), &right, &total));
    CHECK_EQ(total, 25147);
    CHECK_EQ(right, 21513);
    stet_tagger_free(t);
}

TEST(a_file_is_written_back_digit_for_digit)
{
    stet_tagger *t;
    CHECK_OK(stet_tagger_load(test_data(NLTK), &t));
    CHECK_OK(stet_tagger_save(t, in_dir("plain.tsv")));
    CHECK_OK(stet_tagger_save(t, in_dir("small.tsv.gz")));
    check_same_files(in_dir("plain.tsv"), test_data(NLTK));
    check_same_files(in_dir("small.tsv.gz"), test_data(NLTK));
    stet_tagger_free(t);
}

/* ---- training ------------------------------------------------------------------------------ */

TEST(training_on_ewt_reaches_94_percent)
{
    stet_tagger *t, *again;
    size_t right, total, same;
    CHECK_OK(stet_tagger_train(test_data(TRAIN), 8, 1, &t));
    CHECK_OK(stet_tagger_eval(t, test_data(TEST_PART), &right, &total));
    CHECK_EQ(total, 25094);
    CHECK_LE(0.94 * (double)total, right);
    CHECK_OK(stet_tagger_save(t, in_dir("a.tsv")));
    CHECK_OK(stet_tagger_load(in_dir("a.tsv"), &again));
    CHECK_OK(stet_tagger_eval(again, test_data(TEST_PART), &same, &total));
    CHECK_EQ(same, right);
    CHECK_OK(stet_tagger_save(again, in_dir("b.tsv")));
    check_same_files(in_dir("a.tsv"), in_dir("b.tsv"));
    stet_tagger_free(t);
    stet_tagger_free(again);
}

#define WORD(id, form, tag) #id "\t" form "\t_\t_\t" tag "\t_\t_\t_\t_\t_\n"
#define BANK                                                                                       \
    "# sent_id = 1\n" WORD(1, "the", "DT") WORD(2, "old", "JJ") WORD(3, "man", "NN") WORD(         \
        4, "sleeps",                                                                               \
        "VBZ") "\n"                                                                                \
               "# sent_id = 2\n" WORD(1, "the", "DT") WORD(2, "old", "NN") WORD(3, "man", "VBP")   \
                   WORD(4, "the", "DT") WORD(                                                      \
                       5, "boats",                                                                 \
                       "NNS") "\n"                                                                 \
                              "# sent_id = 3\n1-2\tdunno\t_\t_\t_\t_\t_\t_\t_\t_\n" WORD(1, "do",  \
                                                                                         "VBP")    \
                                  WORD(2, "n't", "RB") "2.1\tgo\t_\t_\tVB\t_\t_\t_\t_\t_\n" WORD(  \
                                      3, "New York", "NNP")

TEST(training_learns_what_the_context_decides)
{
    put("bank.conllu", BANK);
    stet_tagger *t;
    size_t right, total;
    CHECK_OK(stet_tagger_train(in_dir("bank.conllu"), 20, 7, &t));
    CHECK_OK(stet_tagger_eval(t, in_dir("bank.conllu"), &right, &total));
    CHECK_EQ(total, 12); /* no range, no empty node */
    CHECK_EQ(right, 12);
    CHECK_STR(tags_of(t, "the old man the boats"), "DT NN VBP DT NNS");
    CHECK_OK(stet_tagger_save(t, in_dir("small.tsv")));
    stet_tagger_free(t);

    CHECK_OK(stet_tagger_load(in_dir("small.tsv"), &t));
    CHECK_STR(tags_of(t, "the old man the boats"), "DT NN VBP DT NNS");
    stet_tagger_free(t);
}

/* "New York" "City" and "New" "York City" have one text as a pair of words. */
TEST(words_with_spaces_are_no_trouble)
{
    put("bank", WORD(1, "New York", "NNP") WORD(2, "City", "NN") "\n" WORD(1, "New", "JJ")
                    WORD(2, "York City", "NNP") "\n");
    stet_tagger *t, *again;
    size_t right, total, same;
    CHECK_OK(stet_tagger_train(in_dir("bank"), 10, 1, &t));
    CHECK_OK(stet_tagger_eval(t, in_dir("bank"), &right, &total));
    CHECK_EQ(right, 4);
    CHECK_OK(stet_tagger_save(t, in_dir("model")));
    CHECK_OK(stet_tagger_load(in_dir("model"), &again));
    CHECK_OK(stet_tagger_eval(again, in_dir("bank"), &same, &total));
    CHECK_EQ(same, right);
    stet_tagger_free(t);
    stet_tagger_free(again);
}

TEST(one_seed_gives_one_model)
{
    put("bank.conllu", BANK);
    stet_tagger *t;
    static const char *const names[] = {"one", "again"};
    for (size_t i = 0; i < 2; i++) {
        CHECK_OK(stet_tagger_train(in_dir("bank.conllu"), 5, 1, &t));
        CHECK_OK(stet_tagger_save(t, in_dir(names[i])));
        stet_tagger_free(t);
    }
    check_same_files(in_dir("one"), in_dir("again"));
}

TEST(bad_treebanks_are_named_by_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1\tthe\tDT\n", "bank:1: expected 10 columns"},
        {"# ok\n" WORD(1, "a", "DT") "x\ta\t_\t_\tDT\t_\t_\t_\t_\t_\n",
         "bank:3: expected a number"},
        {"\n" WORD(1, "", "DT"), "bank:2: expected a word in column 2"},
        {WORD(1, "a", ""), "bank:1: expected a tag in column 5"},
        {WORD(1, "a", "_"), "bank:1: expected a tag in column 5"},
        {WORD(1, "a", "D\rT"), "bank:1: expected a tag in column 5"},
        {"1-\ta\t_\t_\tDT\t_\t_\t_\t_\t_\n", "bank:1: expected a number in column 1"},
        {"", "bank: no sentences"},
        {"# only a comment\n\n\n", "bank: no sentences"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stet_tagger *t;
        put("bank", cases[i].text);
        CHECK_FAILS(stet_tagger_train(in_dir("bank"), 1, 1, &t), STET_EFORMAT, cases[i].message);
        CHECK(t == NULL);
    }
    stet_tagger *t;
    CHECK_FAILS(stet_tagger_train(in_dir("none"), 1, 1, &t), STET_EIO, "none");
    CHECK_FAILS(stet_tagger_train(in_dir("bank"), 0, 1, &t), STET_EUSAGE, "epoch");
}

static stet_status train_small(void *path)
{
    stet_tagger *t;
    const stet_status st = stet_tagger_train(path, 2, 1, &t);
    stet_tagger_free(t);
    return st;
}

TEST(training_survives_every_failed_allocation)
{
    char path[256];
    put("bank", BANK);
    snprintf(path, sizeof path, "%s", in_dir("bank"));
    CHECK_LE(30, ALLOC_FAIL_LOOP(train_small, path));
}

/* ---- files --------------------------------------------------------------------------------- */

#define MODEL "C\tDT\nC\tNN\nD\tthe\tDT\nW\tbias\tNN\t1.0\tDT\t-0.25\nW\ti word a\tDT\t3.5\n"

TEST(a_small_file_tags)
{
    put("model", MODEL);
    stet_tagger *t;
    CHECK_OK(stet_tagger_load(in_dir("model"), &t));
    CHECK_STR(tags_of(t, "the cat A cat the"), "DT NN DT NN DT");
    CHECK_STR(tags_of(t, ""), "");
    CHECK_OK(stet_tagger_save(t, in_dir("copy")));
    check_same_files(in_dir("copy"), in_dir("model"));
    stet_tagger_free(t);
}

TEST(equal_scores_go_to_the_last_tag_of_the_alphabet)
{
    put("model", "C\tB\nC\tC\nC\tA\nW\ti word x\tA\t1.0\tB\t1.0\n");
    stet_tagger *t;
    CHECK_OK(stet_tagger_load(in_dir("model"), &t));
    CHECK_STR(tags_of(t, "x y"), "B C");
    stet_tagger_free(t);
}

TEST(bad_files_are_named_by_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "model: a tagger without tags"},
        {"hello\n", "model:1: expected C, D or W"},
        {"C\n", "model:1: expected C, D or W"},
        {"X\ta\n", "model:1: expected C, D or W"},
        {"C\t\n", "model:1: tag '' is empty"},
        {"C\tNN\nC\tNN\n", "model:2: tag 'NN' is declared twice"},
        {"C\tNN\tx\n", "model:1: more fields than a C line has"},
        {"C\tNN\nD\tthe\n", "model:2: expected a tag after the word"},
        {"C\tNN\nD\tthe\tDT\n", "model:2: tag 'DT' has no C line"},
        {"C\tNN\nD\tthe\tNN\tx\n", "model:2: more fields than a D line has"},
        {"C\tNN\nD\tthe\tNN\nD\tthe\tNN\n", "model:3: word 'the' is listed twice"},
        {"C\tNN\nW\ti wurd x\tNN\t1.0\n", "model:2: feature 'i wurd x' is of no known kind"},
        {"C\tNN\nW\ti tag+i-2 tag x\tNN\t1.0\n", "model:2: feature"},
        {"C\tNN\nW\tbias x\tNN\t1.0\n", "model:2: feature"},
        {"C\tNN\nW\tbias\tNN\n", "model:2: tag 'NN' has no weight"},
        {"C\tNN\nW\tbias\tVB\t1\n", "model:2: tag 'VB' has no C line"},
        {"C\tNN\nW\tbias\tNN\t1.2345\n", "model:2: weight is '1.2345', expected"},
        {"C\tNN\nW\tbias\tNN\t1e3\n", "model:2: weight is '1e3'"},
        {"C\tNN\nW\tbias\tNN\t.5\n", "model:2: weight is '.5'"},
        {"C\tNN\nW\tbias\tNN\t-\n", "model:2: weight is '-'"},
        {"C\tNN\nW\tbias\tNN\t2147484\n", "model:2: weight is '2147484'"},
        {"C\tNN\nW\tbias\tNN\t99999999999999999999\n", "model:2: weight"},
        {"C\tNN\nW\tbias\tNN\t1.0\nW\tbias\tNN\t1.0\n", "model: feature 'bias' is listed twice"},
    };
    stet_tagger *t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("model", cases[i].text);
        CHECK_FAILS(stet_tagger_load(in_dir("model"), &t), STET_EFORMAT, cases[i].message);
        CHECK(t == NULL);
    }
    CHECK_OK(file_write_all(in_dir("model"), "C\tN\0N\n", 6));
    CHECK_FAILS(stet_tagger_load(in_dir("model"), &t), STET_EFORMAT, "model:1: a NUL byte");
    CHECK_FAILS(stet_tagger_load(in_dir("none"), &t), STET_EIO, "none");
}

TEST(weights_of_every_size_are_kept)
{
    put("model", "C\tA\nW\tbias\tA\t2147483.647\nW\ti word x\tA\t-2147483.647\n"
                 "W\ti word y\tA\t0.001\nW\ti word z\tA\t-0.01\nW\ti word 0\tA\t0.0\n");
    stet_tagger *t;
    CHECK_OK(stet_tagger_load(in_dir("model"), &t));
    CHECK_OK(stet_tagger_save(t, in_dir("copy")));
    check_same_files(in_dir("model"), in_dir("copy"));
    stet_tagger_free(t);
}

static stet_status load_and_save(void *dir)
{
    char from[300], to[300];
    snprintf(from, sizeof from, "%s/model", (const char *)dir);
    snprintf(to, sizeof to, "%s/copy", (const char *)dir);
    stet_tagger *t;
    stet_status st = stet_tagger_load(from, &t);
    if (st == STET_OK)
        st = stet_tagger_save(t, to);
    stet_tagger_free(t);
    return st;
}

TEST(loading_and_saving_survive_every_failed_allocation)
{
    char dir[256];
    put("model", MODEL);
    snprintf(dir, sizeof dir, "%s", test_dir());
    CHECK_LE(15, ALLOC_FAIL_LOOP(load_and_save, dir));
}

TEST(an_unwritable_place_is_named_and_nothing_is_left)
{
    put("model", MODEL);
    stet_tagger *t;
    CHECK_OK(stet_tagger_load(in_dir("model"), &t));
    CHECK_FAILS(stet_tagger_save(t, in_dir("no/such/place")), STET_EIO, "no/such/place");
    stet_tagger_free(t);
}

/* ---- the built-in tagger ------------------------------------------------------------------- */

TEST(the_built_in_tagger_knows_common_english)
{
    stet_tagger *t;
    CHECK_OK(stet_tagger_builtin(&t));
    if (!file_exists("/usr/share/wordnet/index.noun"))
        SKIP("no WordNet");
    CHECK_STR(tags_of(t, "This movie was terribly long , but I love the acting ."),
              "DT NN VBD RB JJ , CC PRP VBP DT NN .");
    CHECK_STR(tags_of(t, "The children have seen two films in London ."),
              "DT NNS VBP VBN CD NNS IN NNP .");
    CHECK_STR(tags_of(t, "\" She wants to watch it ! \""), "`` PRP VBZ TO VB PRP . ''");
    CHECK_STR(tags_of(t, ""), "");
    CHECK_FAILS(stet_tagger_save(t, in_dir("x")), STET_ENOTSUP, "built-in");
    stet_tagger_free(t);
}

TEST(the_built_in_tagger_gets_85_percent_of_ewt)
{
    stet_tagger *t;
    size_t right, total;
    if (!file_exists("/usr/share/wordnet/index.noun"))
        SKIP("no WordNet");
    CHECK_OK(stet_tagger_builtin(&t));
    CHECK_OK(stet_tagger_eval(t, test_data(TEST_PART), &right, &total));
    CHECK_LE(0.85 * (double)total, right);
    stet_tagger_free(t);
}

TEST(the_built_in_tagger_works_without_wordnet)
{
    setenv("WNSEARCHDIR", "/no/such/folder", 1);
    stet_tagger *t;
    CHECK_OK(stet_tagger_builtin(&t));
    CHECK_STR(tags_of(t, "The flurbles were quixly glorping in 1984 ."),
              "DT NNS VBD RB VBG IN CD .");
    const char *const odd[] = {"", "\xff", "\xc3\xa9t\xc3\xa9", "*", "-", "s", "ing"};
    const char *tags[7];
    CHECK_OK(stet_tagger_tag(t, odd, 7, tags));
    for (size_t i = 0; i < 7; i++)
        CHECK(tags[i] && tags[i][0]);
    stet_tagger_free(t);
}

static stet_status make_builtin(void *unused)
{
    (void)unused;
    stet_tagger *t;
    const stet_status st = stet_tagger_builtin(&t);
    stet_tagger_free(t);
    return st;
}

TEST(the_built_in_tagger_survives_every_failed_allocation)
{
    setenv("WNSEARCHDIR", "/no/such/folder", 1);
    CHECK_LE(5, ALLOC_FAIL_LOOP(make_builtin, NULL));
}
