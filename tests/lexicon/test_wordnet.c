/* tests/lexicon/test_wordnet.c - synonyms of both variants: golden cases from Debian's database,
 * the whole of it against NLTK's reader, and what damaged files do. */
#include "alloc_fail.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/strmap.h"
#include "lexicon/wordnet.h"
#include "stet/lexicon.h"
#include "stet/option.h"
#include "test.h"

#define DEBIAN "/usr/share/wordnet"

static stet_wordnet *debian(void)
{
    stet_wordnet *w;
    if (!file_exists(DEBIAN "/index.noun"))
        SKIP("no " DEBIAN);
    CHECK_OK(stet_wordnet_open(DEBIAN, &w));
    return w;
}

/* Synonyms joined by spaces, appended to `out`. */
static void put_synonyms(buf *out, const stet_wordnet *w, const char *word, stet_pos pos,
                         stet_wn_variant variant, char between)
{
    char **list;
    size_t n;
    CHECK_OK(stet_wordnet_synonyms(w, word, pos, variant, &list, &n));
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_char(out, between);
        buf_str(out, list[i]);
    }
    CHECK(list[n] == NULL);
    stet_free(list);
}

static void check(const stet_wordnet *w, const char *word, stet_pos pos, stet_wn_variant variant,
                  const char *expected)
{
    buf got = {0};
    buf_str(&got, "");
    put_synonyms(&got, w, word, pos, variant, ' ');
    if (strcmp(got.data, expected) != 0)
        test_fail(__FILE__, __LINE__, "%s as %d: \"%s\" against \"%s\"", word, (int)pos, got.data,
                  expected);
    buf_deinit(&got);
}

#define OA(word, pos, expected) check(w, word, pos, STET_WN_OPENATTACK, expected)
#define TA(word, expected) check(w, word, STET_OTHER, STET_WN_TEXTATTACK, expected)

/* ---- Debian's database --------------------------------------------------------------------- */

TEST(nouns_have_their_synonyms)
{
    stet_wordnet *w = debian();
    OA("movie", STET_NOUN, "film picture moving moving-picture motion motion-picture pic flick");
    OA("movies", STET_NOUN,
       "movie film picture moving moving-picture motion motion-picture pic flick");
    OA("attorneys", STET_NOUN, "lawyer attorney");
    TA("movies", "movie film picture pic flick");
    TA("attorneys", "lawyer attorney");
    stet_wordnet_free(w);
}

TEST(verbs_have_their_synonyms)
{
    stet_wordnet *w = debian();
    OA("watching", STET_VERB,
       "watch observe follow keep view see catch take look determine check find ascertain learn");
    OA("watching", STET_NOUN, "observation observance");
    TA("watching", "observation observance watch observe follow view see catch determine check "
                   "ascertain learn");
    stet_wordnet_free(w);
}

TEST(adjectives_and_their_satellites_have_synonyms)
{
    stet_wordnet *w = debian();
    const char *terrible =
        "awful dire direful dread dreaded dreadful fearful fearsome frightening horrendous "
        "horrific atrocious abominable painful unspeakable severe wicked frightful tremendous";
    OA("terrible", STET_ADJ, terrible);
    TA("terrible", terrible);
    OA("happiest", STET_ADJ, "happy felicitous glad well-chosen");
    stet_wordnet_free(w);
}

TEST(adverbs_have_their_synonyms)
{
    stet_wordnet *w = debian();
    OA("quickly", STET_ADV, "rapidly speedily chop-chop apace promptly quick cursorily");
    OA("soon", STET_ADV, "shortly presently before");
    TA("soon", "shortly presently");
    stet_wordnet_free(w);
}

TEST(irregular_forms_are_found_by_the_exception_lists)
{
    stet_wordnet *w = debian();
    OA("mice", STET_NOUN, "mouse shiner black computer");
    TA("mice", "mouse shiner");
    OA("geese", STET_NOUN, "goose fathead goof goofball bozo jackass cuckoo twat zany");
    OA("children", STET_NOUN,
       "child kid youngster minor shaver nipper small tiddler tike tyke fry nestling baby");
    OA("men", STET_NOUN,
       "work workforce manpower hands man adult serviceman military homo human valet gentleman "
       "gentleman's isle piece world humanity humankind humans mankind");
    TA("men", "workforce manpower hands man serviceman homo human valet gentleman Man piece world "
              "humanity humankind humans mankind");
    OA("axes", STET_NOUN, "ax axe axis bloc");
    OA("axes", STET_VERB, "axe ax");
    OA("went", STET_VERB,
       "travel go move locomote proceed depart become get run pass lead extend sound function "
       "work operate survive last live endure hold die decease perish exit expire kick cash buy "
       "conk give-up drop pop choke croak snuff belong start blend fit rifle plump fail give "
       "break");
    TA("ran", "run scat scarper lam bunk escape go pass lead extend operate flow feed course "
              "function work range campaign play tend lean incline prevail persist endure execute "
              "carry guide draw bleed consort ply hunt race move melt ladder unravel");
    OA("worse", STET_ADJ,
       "worsened bad big tough spoiled spoilt regretful sorry uncollectible risky high-risk "
       "speculative unfit unsound forged defective");
    OA("worse", STET_ADV, "");
    OA("better", STET_NOUN, "bettor wagerer punter");
    OA("better", STET_VERB, "break improve amend ameliorate meliorate");
    OA("better", STET_ADV,
       "best well good easily considerably substantially intimately advantageously comfortably");
    stet_wordnet_free(w);
}

TEST(case_is_kept_or_lowered_as_each_variant_says)
{
    stet_wordnet *w = debian();
    OA("march", STET_NOUN, "march mar marching borderland border marchland master");
    TA("march", "March Mar marching borderland marchland MArch process demonstrate parade exhibit "
                "border adjoin edge abut butt");
    OA("Movie", STET_NOUN,
       "movie film picture moving moving-picture motion motion-picture pic flick");
    TA("doctor", "doc physician MD Dr. medico Doctor sophisticate repair mend fix bushel restore");
    OA("ad", STET_ADV, "ad a.d. anno");
    TA("ad",
       "advertisement advertizement advertising advertizing advert AD"); /* A.D. is two words */
    stet_wordnet_free(w);
}

TEST(forms_of_be_and_unknown_words_have_none)
{
    stet_wordnet *w = debian();
    OA("be", STET_VERB, "");
    OA("is", STET_VERB, "");
    OA("are", STET_NOUN, "");
    OA("am", STET_NOUN, "");
    TA("is", "be exist equal constitute represent comprise follow embody personify live cost");
    OA("movie", STET_OTHER, "");
    OA("movie", STET_VERB, "");
    OA("qwxyzzy", STET_NOUN, "");
    OA("", STET_NOUN, "");
    TA("", "");
    OA(" ", STET_NOUN, "");
    OA("_", STET_NOUN, "");
    OA("movie n 1", STET_NOUN, "");
    OA("caf\xc3\xa9", STET_NOUN, "");
    char longest[400];
    memset(longest, 's', sizeof longest);
    for (size_t n = 250; n < 260; n++) {
        longest[n] = '\0';
        TA(longest, "");
        longest[n] = 's';
    }
    stet_wordnet_free(w);
}

/* Every lemma of the four indexes, in their order, with its synonyms of both variants, as one line
 * each. The expected value is that of the same lines from NLTK 3.10's reader on the same files. */
TEST(every_lemma_of_debians_database_gives_what_nltk_gives)
{
    stet_wordnet *w = debian();
    static const char *const names[] = {"noun", "verb", "adj", "adv"};
    static const size_t sizes[] = {4786655, 523980, 824127, 162816};
    uint64_t hash = 0;
    size_t lemmas = 0;
    buf line = {0};
    for (int k = 0; k < STET_OTHER; k++) {
        char path[64], *text, *rest = NULL;
        size_t size;
        snprintf(path, sizeof path, DEBIAN "/index.%s", names[k]);
        CHECK_OK(file_read_all(path, 1 << 24, &text, &size));
        if (size != sizes[k])
            SKIP("another version of WordNet");
        for (char *p = strtok_r(text, "\n", &rest); p; p = strtok_r(NULL, "\n", &rest)) {
            if (*p == ' ')
                continue;
            p[strcspn(p, " ")] = '\0';
            buf_clear(&line);
            buf_str(&line, p);
            for (int pos = 0; pos <= STET_OTHER; pos++) {
                buf_char(&line, '\t');
                put_synonyms(&line, w, p, (stet_pos)pos,
                             pos == STET_OTHER ? STET_WN_TEXTATTACK : STET_WN_OPENATTACK, '|');
            }
            hash = hash_bytes(line.data, line.n, hash);
            lemmas++;
        }
        mem_free(text);
    }
    CHECK_EQ(lemmas, 155287);
    CHECK_EQ(hash, UINT64_C(0x7eea43d35930536a));
    buf_deinit(&line);
    stet_wordnet_free(w);
}

TEST(readings_count_senses_and_tell_inflected_forms)
{
    stet_wordnet *w = debian();
    wordnet_reading noun, verb;
    CHECK_OK(wordnet_read(w, "movies", STET_NOUN, &noun));
    CHECK(noun.known && noun.inflected && noun.count > 0);
    CHECK_OK(wordnet_read(w, "saw", STET_VERB, &verb));
    CHECK_OK(wordnet_read(w, "saw", STET_NOUN, &noun));
    CHECK(verb.inflected && !noun.inflected);
    CHECK_LE(100 * noun.count, verb.count);
    CHECK_OK(wordnet_read(w, "movie", STET_VERB, &verb));
    CHECK(!verb.known && verb.count == 0);
    stet_wordnet_free(w);
}

/* ---- a small database ---------------------------------------------------------------------- */

/* Two synsets in data.noun: {cat, true_cat} and {Tom(a), tomcat, cat, cat_burglar}. */
#define DATA                                                                                       \
    "  1 A licence.\n"                                                                             \
    "00000015 05 n 02 cat 0 true_cat 0 000 | gloss\n"                                              \
    "00000061 05 n 04 Tom(a) 0 tomcat 0 cat 1 cat_burglar a 001 @ 00000015 n 0000 | gloss\n"
#define INDEX "  1 A licence.\ncat n 2 1 @ 2 1 00000061 00000015  \ntomcat n 1 0 1 0 00000061  \n"

static const char *in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

static void put(const char *name, const char *text)
{
    CHECK_OK(file_write_all(in_dir(name), text, strlen(text)));
}

static void small_database(const char *index, const char *data)
{
    static const char *const empty[] = {"index.verb", "index.adj", "index.adv",
                                        "data.verb",  "data.adj",  "data.adv",
                                        "verb.exc",   "adj.exc",   "adv.exc"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        put(empty[i], "");
    put("index.noun", index);
    put("data.noun", data);
    put("noun.exc", "kitties cat\nkatze katze cat\nkatze tomcat\n");
}

TEST(a_small_database_is_read_in_sense_order)
{
    small_database(INDEX, DATA);
    stet_wordnet *w;
    CHECK_OK(stet_wordnet_open(test_dir(), &w));
    OA("cat", STET_NOUN, "tom tomcat true");
    OA("Cats", STET_NOUN, "tom tomcat cat true");
    TA("cat", "Tom tomcat");
    TA("tomcat", "Tom cat");
    OA("kitties", STET_NOUN, "tom tomcat cat true");
    OA("katze", STET_NOUN, "tom tomcat cat"); /* the last of two lines, though out of order */
    stet_wordnet_free(w);
}

TEST(line_ends_of_other_systems_and_a_missing_last_one_are_fine)
{
    small_database("tomcat n 1 0 1 0 00000000\r\n\r\ncat n 1 0 1 0 00000000",
                   "00000000 05 n 02 cat 0 tomcat 0 000 | g");
    stet_wordnet *w;
    CHECK_OK(stet_wordnet_open(test_dir(), &w));
    OA("cat", STET_NOUN, "tomcat");
    OA("tomcats", STET_NOUN, "cat tomcat");
    stet_wordnet_free(w);
}

TEST(without_counts_the_number_of_tagged_senses_stands_in)
{
    small_database(INDEX, DATA);
    stet_wordnet *w;
    wordnet_reading r;
    CHECK_OK(stet_wordnet_open(test_dir(), &w));
    CHECK_OK(wordnet_read(w, "cats", STET_NOUN, &r));
    CHECK(r.known && r.inflected);
    CHECK_EQ(r.count, 1);
    stet_wordnet_free(w);

    put("cntlist.rev",
        "cat%1:05:00:: 1 18\ncat%1:05:01:: 2 3\ncat%2:29:00:: 1 100\ncatt%1:0 1 7\n");
    CHECK_OK(stet_wordnet_open(test_dir(), &w));
    CHECK_OK(wordnet_read(w, "cat", STET_NOUN, &r));
    CHECK(r.known && !r.inflected);
    CHECK_EQ(r.count, 21);
    stet_wordnet_free(w);

    put("cntlist.rev", "cat%1:05:00:: one 18\n");
    CHECK_OK(stet_wordnet_open(test_dir(), &w));
    CHECK_FAILS(wordnet_read(w, "cat", STET_NOUN, &r), STET_EFORMAT,
                "cntlist.rev: offset 14: sense_number is 'one', expected a decimal number");
    stet_wordnet_free(w);
}

static void check_damage(const char *index, const char *data, const char *message)
{
    small_database(index, data);
    stet_wordnet *w;
    char **list;
    size_t n;
    CHECK_OK(stet_wordnet_open(test_dir(), &w));
    CHECK_FAILS(stet_wordnet_synonyms(w, "cat", STET_NOUN, STET_WN_OPENATTACK, &list, &n),
                STET_EFORMAT, message);
    CHECK(list == NULL && n == 0);
    stet_wordnet_free(w);
}

TEST(damage_is_reported_with_file_offset_and_field)
{
    check_damage("cat\n", DATA, "index.noun: offset 3: pos is '', expected a word");
    check_damage("cat n x\n", DATA, "index.noun: offset 6: synset_cnt is 'x', expected a decimal");
    check_damage("cat n 1 2 @ 1 1 00000015\n", DATA, "offset 24: synset_offset is ''");
    check_damage("cat n 70000 0 1 1 0\n", DATA,
                 "synset_cnt is '70000', expected a decimal number up");
    check_damage("cat n 2 0 2 1 00000015\n", DATA, "offset 22: synset_offset is ''");
    check_damage("cat n 1 0 1 1 00000016\n", DATA, "data.noun: no line starts at offset 16");
    check_damage("cat n 1 0 1 1 99999999\n", DATA, "data.noun: no line starts at offset 99999999");
    check_damage("cat n 1 0 1 1 9999999999\n", DATA, "index.noun: offset 14: synset_offset");
    check_damage("cat n 1 0 1 1 00000000\n", DATA, "synset_offset is 1, expected 0");
    check_damage("cat n 1 0 1 1 0\n", "0 05 n zz cat 0\n",
                 "offset 7: w_cnt is 'zz', expected a hex");
    check_damage("cat n 1 0 1 1 0\n", "0 05 n 02 cat 0 true", "offset 20: lex_id is ''");
    check_damage("cat n 1 0 1 1 0\n", "0 05 n 02 cat 0", "offset 15: word is ''");
    check_damage("cat n 1 0 1 1 0\n", "", "data.noun: no line starts at offset 0");
}

TEST(a_missing_file_or_folder_is_named)
{
    stet_wordnet *w;
    CHECK_FAILS(stet_wordnet_open("/no/such/folder", &w), STET_EIO, "/no/such/folder/index.noun");
    CHECK(w == NULL);
    small_database(INDEX, DATA);
    CHECK_EQ(remove(in_dir("adj.exc")), 0);
    CHECK_FAILS(stet_wordnet_open(test_dir(), &w), STET_EIO, "adj.exc");
    CHECK(w == NULL);
}

TEST(the_environment_says_where_the_database_is)
{
    small_database(INDEX, DATA);
    stet_wordnet *w;
    setenv("WNSEARCHDIR", test_dir(), 1);
    CHECK_OK(stet_wordnet_open(NULL, &w));
    TA("cat", "Tom tomcat");
    stet_wordnet_free(w);
    setenv("WNSEARCHDIR", "/no/such/folder", 1);
    CHECK_FAILS(stet_wordnet_open(NULL, &w), STET_EIO, "/no/such/folder");
    unsetenv("WNSEARCHDIR");
    setenv("WNHOME", "/no/such/home", 1);
    CHECK_FAILS(stet_wordnet_open(NULL, &w), STET_EIO, "/no/such/home/dict");
}

static stet_status use_database(void *dir)
{
    stet_wordnet *w;
    stet_status st = stet_wordnet_open(dir, &w);
    if (st != STET_OK)
        return st;
    char **list;
    size_t n;
    st = stet_wordnet_synonyms(w, "cats", STET_NOUN, STET_WN_OPENATTACK, &list, &n);
    stet_free(list);
    stet_wordnet_free(w);
    return st;
}

TEST(every_failed_allocation_is_survived)
{
    char dir[256];
    small_database(INDEX, DATA);
    snprintf(dir, sizeof dir, "%s", test_dir());
    CHECK_LE(20, ALLOC_FAIL_LOOP(use_database, dir));
}

/* ---- threads ------------------------------------------------------------------------------- */

static const char *const some_words[] = {"went", "mice", "better", "film", "quickly"};
typedef struct shared {
    const stet_wordnet *w;
    size_t found[200];
} shared;

static void look_up(void *ctx, size_t i, int worker)
{
    (void)worker;
    shared *s = ctx;
    char **list;
    if (stet_wordnet_synonyms(s->w, some_words[i % 5], STET_OTHER, STET_WN_TEXTATTACK, &list,
                              &s->found[i]) == STET_OK)
        stet_free(list);
}

TEST(threads_share_an_open_database)
{
    stet_wordnet *w = debian();
    shared s = {.w = w};
    stet_set_threads(4);
    pool_run(200, look_up, &s);
    for (size_t i = 0; i < 200; i++)
        CHECK_EQ(s.found[i], s.found[i % 5]);
    CHECK_EQ(s.found[1], 2); /* mice: mouse, shiner */
    pool_shutdown();
    stet_wordnet_free(w);
}
