/* tests/lexicon/test_sets.c - sets of words and sets of texts behind one name. */
#include "stet/choices.h"

#include "alloc_fail.h"
#include "subst_test.h"

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

/* "0:film>movie,<unk> ..." of every position that has choices. */
static const char *choices_text(const stet_sets *s, stet_tokenizer kind, const char *text,
                                size_t max_len)
{
    static char out[256];
    stet_vocab *v;
    stet_tokens t = {0};
    stet_choices c = {0};
    CHECK_OK(stet_vocab_from_words(vocab_words, 7, &v));
    CHECK_OK(stet_tokenize(kind, text, strlen(text), &t));
    CHECK_OK(stet_sets_choices(s, text, strlen(text), v, &t, max_len, &c));
    CHECK_EQ(c.n, t.n < max_len ? t.n : max_len);
    out[0] = '\0';
    for (size_t i = 0; i < c.n; i++)
        for (uint32_t k = c.start[i]; k < c.start[i + 1]; k++) {
            bool allowed;
            CHECK_OK(stet_sets_allow(s, text, strlen(text), &t, i, c.text[k], &allowed));
            CHECK(allowed);
            CHECK_OK(stet_sets_allow(s, text, strlen(text), &t, i, "the", &allowed));
            CHECK(!allowed);
            snprintf(out + strlen(out), sizeof out - strlen(out), "%s%zu:%s", *out ? " " : "", i,
                     stet_vocab_word(v, c.word[k]));
        }
    stet_choices_deinit(&c);
    stet_tokens_deinit(&t);
    stet_vocab_free(v);
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

TEST(choices_are_what_the_model_reads)
{
    stet_sets words = sets_of(OF_WORDS), texts = sets_of(OF_TEXTS);
    const char *original = "The film<br />didn't move ME!";
    /* Words outside the vocabulary are all <unk>: as many choices as the model can tell apart. */
    CHECK_STR(choices_text(&words, STET_TOK_WORD, "a dull film", 9), "1:<unk> 2:movie 2:<unk>");
    CHECK_STR(choices_text(&words, STET_TOK_WORD, "a dull film", 2), "1:<unk>");
    CHECK_STR(choices_text(&texts, STET_TOK_WORD, original, 99), "1:movie 1:<unk> 3:not");
    CHECK_STR(choices_text(&texts, STET_TOK_KERAS, "The film didn't move ME!", 99),
              "1:movie 1:<unk>"); /* "didn't" is one token here: no place for n't */
    CHECK_STR(choices_text(&texts, STET_TOK_WORD, "A dull film.", 99), "2:picture");
    CHECK_STR(choices_text(&texts, STET_TOK_WORD, "Another dull film.", 99), "");
    stet_sets_free(&words);
    stet_sets_free(&texts);
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

TEST(every_substitute_can_be_counted)
{
    stet_sets both[] = {sets_of(OF_WORDS), sets_of(OF_TEXTS)};
    static const char *const has[] = {"boring", "picture"};
    for (int k = 0; k < 2; k++) {
        stet_counter *c;
        stet_vocab *v;
        CHECK_OK(stet_counter_new(&c));
        CHECK_OK(stet_sets_count(&both[k], c));
        CHECK_OK(stet_vocab_build(c, 0, 0, &v));
        CHECK(stet_vocab_id(v, has[k], strlen(has[k])) != STET_UNK);
        CHECK(stet_vocab_id(v, has[1 - k], strlen(has[1 - k])) == STET_UNK);
        stet_vocab_free(v);
        stet_counter_free(c);
        stet_sets_free(&both[k]);
    }
}

static stet_status use(void *ctx)
{
    static const stet_str text[] = {{"A DULL film!", 12}, {"The film didn't move me.", 24}};
    static const int label[] = {1, 0};
    const stet_vocab *v = ctx;
    stet_sets s = {0};
    stet_dataset *d = NULL;
    stet_tokens t = {0};
    stet_choices c = {0};
    size_t index[2], n;
    bool allowed;
    stet_status st = stet_sets_load(test_path("s.json"), &s);
    if (st == STET_OK)
        st = stet_dataset_new(text, label, 2, NULL, 2, &d);
    if (st == STET_OK)
        st = stet_sets_sample(&s, d, 1, 1, index, &n);
    if (st == STET_OK)
        st = stet_tokenize(STET_TOK_WORD, text[1].data, text[1].len, &t);
    if (st == STET_OK)
        st = stet_sets_choices(&s, text[1].data, text[1].len, v, &t, 99, &c);
    if (st == STET_OK)
        st = stet_sets_allow(&s, text[1].data, text[1].len, &t, 1, "movie", &allowed);
    stet_choices_deinit(&c);
    stet_tokens_deinit(&t);
    stet_dataset_free(d);
    stet_sets_free(&s);
    return st;
}

TEST(sets_survive_every_failed_allocation)
{
    stet_sets s = sets_of(OF_TEXTS);
    stet_sets_free(&s);
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(vocab_words, 7, &v));
    CHECK_LE(15, ALLOC_FAIL_LOOP(use, v));
    stet_vocab_free(v);
}
