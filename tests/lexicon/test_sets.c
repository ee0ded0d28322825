/* tests/lexicon/test_sets.c - sets of words and sets of texts behind one name. */
#include "stet/choices.h"

#include "alloc_fail.h"
#include "subst_test.h"
#include "text/words.h"

#define OF_WORDS "{\"film\": [\"movie\", \"flick\"], \"dull\": [\"boring\", \"dull\"]}"
#define OF_TEXTS                                                                                   \
    "{\"the film did n't move me .\": {\"1\": [\"movie\", \"flick\"], \"3\": [\"not\"]},"          \
    " \"a dull film\": {\"2\": [\"picture\", \"picture\", \"film\"]}}"

static const char *const vocab_words[] = {"the", "film", "movie", "picture", "a", "dull", "not"};

static stet_sets sets_of(const char *json)
{
    stet_sets s;
    CHECK_OK(stet_sets_load(test_write("s.json", json), &s));
    return s;
}

/* Words of a run with a small vocabulary. */
typedef struct run {
    stet_vocab *v;
    word_reader r;
    stet_words *words;
} run;

static void run_start(run *x, stet_tokenizer kind, size_t max_len)
{
    CHECK_OK(stet_vocab_from_words(vocab_words, 7, &x->v));
    x->r = (word_reader){.tokenizer = kind, .vocab = x->v, .max_len = max_len, .most_rows = 1};
    CHECK_OK(words_new(&x->r, &x->words));
}

static void run_end(run *x)
{
    stet_words_free(x->words);
    stet_vocab_free(x->v);
}

/* "1:boring 2:movie" of every position that has choices; unknown words have a star. */
static const char *choices_text(const stet_sets *s, stet_tokenizer kind, const char *text,
                                size_t max_len)
{
    static char out[256];
    run x;
    run_start(&x, kind, max_len);
    stet_bound *b;
    stet_words *own;
    stet_reading r = {0};
    stet_choices c = {0};
    CHECK_OK(stet_sets_bind(s, x.words, &b));
    CHECK_OK(stet_words_fork(x.words, &own));
    CHECK_OK(stet_words_read(own, text, strlen(text), &r));
    CHECK_OK(stet_bound_choices(b, own, &r, &c));
    CHECK_EQ(c.n, r.tokens.n < max_len ? r.tokens.n : max_len);
    out[0] = '\0';
    for (size_t i = 0; i < c.n; i++)
        for (uint32_t k = c.start[i]; k < c.start[i + 1]; k++) {
            bool allowed;
            uint32_t row;
            CHECK_OK(stet_sets_allow(s, text, strlen(text), &r.tokens, i, c.text[k], &allowed));
            CHECK(allowed);
            CHECK_OK(stet_sets_allow(s, text, strlen(text), &r.tokens, i, "the", &allowed));
            CHECK(!allowed);
            CHECK_STR(stet_words_word(own, c.word[k]), c.text[k]);
            CHECK_EQ(words_rows(own, &c.word[k], 1, &row), 1);
            snprintf(out + strlen(out), sizeof out - strlen(out), "%s%zu:%s%s", *out ? " " : "", i,
                     c.text[k], row == STET_UNK ? "*" : "");
        }
    stet_choices_deinit(&c);
    stet_reading_deinit(&r);
    stet_words_free(own);
    stet_bound_free(b);
    run_end(&x);
    return out;
}

TEST(a_file_says_itself_which_kind_it_is)
{
    stet_sets words = sets_of(OF_WORDS), texts = sets_of(OF_TEXTS), builtin;
    CHECK(words.words && !words.texts);
    CHECK(texts.texts && !texts.words);
    CHECK_OK(stet_sets_load("builtin", &builtin));
    CHECK(builtin.words && !builtin.texts);
    CHECK_OK(stet_subst_save(words.words, test_path("s.subst")));
    stet_sets again;
    CHECK_OK(stet_sets_load(test_path("s.subst"), &again));
    CHECK_EQ(stet_sets_fingerprint(&again), stet_sets_fingerprint(&words));
    CHECK(stet_sets_fingerprint(&texts) != stet_sets_fingerprint(&words));
    stet_sets_free(&words);
    stet_sets_free(&texts);
    stet_sets_free(&builtin);
    stet_sets_free(&again);
    CHECK_FAILS(stet_sets_load(test_write("s.json", "{\"a\": 7}"), &again), STET_EFORMAT, "s.json");
    CHECK_FAILS(stet_sets_load(test_write("s.json", "{\"a b\": {\"9\": []}}"), &again),
                STET_EFORMAT, "position \"9\"");
    CHECK_FAILS(stet_sets_load("/no/such/file", &again), STET_EIO, "/no/such/file");
    CHECK(!again.words && !again.texts);
}

TEST(choices_are_words_of_the_run)
{
    stet_sets words = sets_of(OF_WORDS), texts = sets_of(OF_TEXTS);
    const char *original = "The film<br />didn't move ME!";
    CHECK_STR(choices_text(&words, STET_TOK_WORD, "a dull film", 9), "1:boring* 2:movie 2:flick*");
    CHECK_STR(choices_text(&words, STET_TOK_WORD, "a dull film", 2), "1:boring*");
    CHECK_STR(choices_text(&texts, STET_TOK_WORD, original, 99), "1:movie 1:flick* 3:not");
    CHECK_STR(choices_text(&texts, STET_TOK_KERAS, "The film didn't move ME!", 99),
              "1:movie 1:flick*"); /* "didn't" is one token here: no place for n't */
    CHECK_STR(choices_text(&texts, STET_TOK_WORD, "A dull film.", 99), "2:picture");
    CHECK_STR(choices_text(&texts, STET_TOK_WORD, "Another dull film.", 99), "");
    stet_sets_free(&words);
    stet_sets_free(&texts);
}

/* Words that the vocabulary lacks stay apart from each other, in texts and in sets. */
TEST(unknown_substitutes_stay_two_words)
{
    stet_sets s = sets_of("{\"film\": [\"flick\", \"feature\"], \"odd\": [\"queer\"]}");
    CHECK_STR(choices_text(&s, STET_TOK_WORD, "an odd film", 9), "1:queer* 2:flick* 2:feature*");
    stet_sets_free(&s);
}

#define NFD_NAIVE "nai\xcc\x88ve" /* the accent by itself */
#define NFC_NAIVE "na\xc3\xafve"

TEST(words_that_no_text_can_hold_are_left_out)
{
    static const struct {
        const char *json, *keras, *word;
        size_t left_out[2];
    } cases[] = {
        {"{\"film\": [\"Movie\", \"flick\"]}", "1:flick*", "1:flick*", {1, 1}},
        {"{\"Film\": [\"movie\"], \"a\": [\"not\"]}", "0:not", "0:not", {1, 1}},
        {"{\"film\": [\"" NFC_NAIVE "\"]}", "1:" NFC_NAIVE "*", "1:" NFC_NAIVE "*", {0, 0}},
        {"{\"film\": [\"" NFD_NAIVE "\"]}", "1:" NFD_NAIVE "*", "", {0, 1}},
        {"{\"film\": [\"<pad>\", \"<unk>\", \"movie\"]}", "1:movie", "1:movie", {2, 2}},
        {"{\"film\": [\"b-movie\", \"don't\", \"...\"]}", "1:don't*", "1:...*", {2, 2}},
        {"{\"film\": [\"o'brien\", \"br\", \"7.5\"]}",
         "1:o'brien* 1:br*",
         "1:o'brien* 1:br* 1:7.5*",
         {1, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stet_sets s = sets_of(cases[i].json);
        CHECK_STR(choices_text(&s, STET_TOK_KERAS, "a film", 9), cases[i].keras);
        CHECK_STR(choices_text(&s, STET_TOK_WORD, "a film", 9), cases[i].word);
        for (stet_tokenizer kind = STET_TOK_WORD; kind < STET_TOK_COUNT; kind++) {
            run x;
            stet_bound *b;
            size_t left_out;
            stet_subst_builder *builder;
            stet_subst *built;
            run_start(&x, kind, 9);
            CHECK_OK(stet_sets_bind(&s, x.words, &b));
            CHECK_EQ(stet_bound_left_out(b), cases[i].left_out[kind == STET_TOK_WORD]);
            stet_bound_free(b);
            run_end(&x);
            /* building leaves out the same */
            CHECK_OK(stet_subst_builder_new(&builder));
            CHECK_OK(stet_subst_add_neighbours(builder, test_path("s.json")));
            CHECK_OK(stet_subst_keep_typed(builder, kind, &left_out));
            CHECK_EQ(left_out, cases[i].left_out[kind == STET_TOK_WORD]);
            CHECK_OK(stet_subst_build(builder, &built));
            const stet_sets again = {.words = built};
            CHECK_STR(choices_text(&again, kind, "a film", 9),
                      kind == STET_TOK_WORD ? cases[i].word : cases[i].keras);
            stet_subst_free(built);
            stet_subst_builder_free(builder);
        }
        stet_sets_free(&s);
    }
}

TEST(sets_of_texts_leave_them_out_as_well)
{
    stet_sets s = sets_of("{\"a dull film\": {\"1\": [\"Boring\", \"so-so\", \"slow\"],"
                          " \"2\": [\"<unk>\", \"movie\"]}}");
    CHECK_STR(choices_text(&s, STET_TOK_WORD, "A dull film.", 9), "1:slow* 2:movie");
    stet_sets_free(&s);
}

TEST(only_texts_of_the_file_are_sampled_and_each_once)
{
    static const stet_str text[] = {{"another film", 12},
                                    {"A DULL film!", 12},
                                    {"a dull film", 11},
                                    {"nothing", 7},
                                    {"The film didn't move me.", 24}};
    static const int label[] = {0, 1, 0, 1, 0};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(text, label, 5, NULL, 2, &d));
    stet_sets words = sets_of(OF_WORDS), texts = sets_of(OF_TEXTS);
    size_t index[5], n;
    CHECK_OK(stet_sets_sample(&texts, d, 0, 1, index, &n));
    CHECK_EQ(n, 2);
    CHECK_EQ(index[0], 1);
    CHECK_EQ(index[1], 4);
    bool first = false, last = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        CHECK_OK(stet_sets_sample(&texts, d, 1, seed, index, &n));
        CHECK_EQ(n, 1);
        first |= index[0] == 1, last |= index[0] == 4;
    }
    CHECK(first && last);
    CHECK_OK(stet_sets_sample(&words, d, 0, 1, index, &n));
    CHECK_EQ(n, 5);
    CHECK_OK(stet_sets_sample(&words, d, 2, 1, index, &n));
    CHECK_EQ(n, 2);
    stet_sets_free(&words);
    stet_sets_free(&texts);
    stet_dataset_free(d);
}

static stet_status use(void *ctx)
{
    static const stet_str text[] = {{"A DULL film!", 12}, {"The film didn't move me.", 24}};
    static const int label[] = {1, 0};
    const run *x = ctx;
    stet_sets s = {0};
    stet_dataset *d = NULL;
    stet_words *words = NULL, *own = NULL;
    stet_bound *b = NULL;
    stet_reading r = {0};
    stet_choices c = {0};
    size_t index[2], n;
    bool allowed;
    stet_status st = stet_sets_load(test_path("s.json"), &s);
    if (st == STET_OK)
        st = stet_dataset_new(text, label, 2, NULL, 2, &d);
    if (st == STET_OK)
        st = stet_sets_sample(&s, d, 1, 1, index, &n);
    if (st == STET_OK)
        st = words_new(&x->r, &words);
    if (st == STET_OK)
        st = stet_sets_bind(&s, words, &b);
    if (st == STET_OK)
        st = stet_words_fork(words, &own);
    if (st == STET_OK)
        st = stet_words_read(own, text[1].data, text[1].len, &r);
    if (st == STET_OK)
        st = stet_bound_choices(b, own, &r, &c);
    if (st == STET_OK)
        st = stet_sets_allow(&s, text[1].data, text[1].len, &r.tokens, 1, "movie", &allowed);
    stet_choices_deinit(&c);
    stet_reading_deinit(&r);
    stet_words_free(own);
    stet_bound_free(b);
    stet_words_free(words);
    stet_dataset_free(d);
    stet_sets_free(&s);
    return st;
}

TEST(sets_survive_every_failed_allocation)
{
    run x;
    run_start(&x, STET_TOK_WORD, 99);
    for (int k = 0; k < 2; k++) {
        stet_sets s = sets_of(k ? OF_TEXTS : OF_WORDS);
        stet_sets_free(&s);
        CHECK_LE(15, ALLOC_FAIL_LOOP(use, &x));
    }
    run_end(&x);
}
