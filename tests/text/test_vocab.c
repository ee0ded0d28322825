/* tests/text/test_vocab.c - counting, vocabularies, word ids. */
#include "alloc_fail.h"
#include "base/file.h"
#include "base/rng.h"
#include "stet/text.h"
#include "test.h"

static stet_dataset *set_of(const char *const *texts, size_t n)
{
    stet_str s[16];
    CHECK(n <= 16);
    for (size_t i = 0; i < n; i++)
        s[i] = (stet_str){texts[i], strlen(texts[i])};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(s, NULL, n, NULL, 0, &d));
    return d;
}

static const char *const texts[] = {"b a, b", "c b", "", "A d"};

TEST(words_are_counted_in_the_order_they_appear)
{
    stet_dataset *d = set_of(texts, 4);
    stet_counter *c;
    CHECK_OK(stet_counter_new(&c));
    CHECK_OK(stet_counter_add_dataset(c, d, STET_TOK_WORD));
    static const char *const words[] = {"b", "a", ",", "c", "d"};
    static const uint64_t counts[] = {3, 2, 1, 1, 1};
    CHECK_EQ(stet_counter_size(c), 5);
    CHECK_EQ(stet_counter_tokens(c), 8);
    for (size_t i = 0; i < 5; i++) {
        CHECK_STR(stet_counter_word(c, i), words[i]);
        CHECK_EQ(stet_counter_count(c, i), counts[i]);
    }
    CHECK_OK(stet_counter_add_word(c, "e", 4));
    CHECK_OK(stet_counter_add_word(c, "a", 1));
    CHECK_EQ(stet_counter_count(c, 1), 3);
    CHECK_EQ(stet_counter_tokens(c), 13);
    CHECK_FAILS(stet_counter_add_word(c, "", 1), STET_EUSAGE, "empty");
    stet_counter_free(c);
    stet_counter_free(NULL);
    stet_dataset_free(d);
}

/* The words of a vocabulary from STET_FIRST_WORD on, joined by spaces. */
static const char *words_of(const stet_vocab *v)
{
    static char out[1024];
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = STET_FIRST_WORD; i < stet_vocab_size(v); i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i > STET_FIRST_WORD ? " " : "",
                              stet_vocab_word(v, i));
    return out;
}

static const char *built(const stet_counter *c, uint64_t min_count, size_t max_words)
{
    stet_vocab *v;
    CHECK_OK(stet_vocab_build(c, min_count, max_words, &v));
    const char *out = words_of(v);
    stet_vocab_free(v);
    return out;
}

TEST(a_vocabulary_is_cut_by_frequency_and_keeps_what_it_must)
{
    stet_counter *c;
    CHECK_OK(stet_counter_new(&c));
    CHECK_OK(stet_counter_add_word(c, "rare", 1));
    CHECK_OK(stet_counter_add_word(c, "zoo", 5));
    CHECK_OK(stet_counter_add_word(c, "ant", 5));
    CHECK_OK(stet_counter_add_word(c, "top", 9));
    CHECK_OK(stet_counter_add_word(c, "must", 0));
    CHECK_OK(stet_counter_add_word(c, "<unk>", 7));
    CHECK_STR(built(c, 0, 0), "top ant zoo rare must");
    CHECK_STR(built(c, 2, 0), "top ant zoo must");
    CHECK_STR(built(c, 6, 0), "top must");
    CHECK_STR(built(c, 1, 1), "must");
    stet_counter_free(c);
}

TEST(the_cut_counts_the_words_that_must_stay)
{
    stet_counter *c;
    CHECK_OK(stet_counter_new(&c));
    CHECK_OK(stet_counter_add_word(c, "x", 3));
    CHECK_OK(stet_counter_add_word(c, "y", 2));
    CHECK_OK(stet_counter_add_word(c, "must", 0));
    CHECK_OK(stet_counter_add_word(c, "also", 0));
    CHECK_STR(built(c, 1, 3), "x also must");
    CHECK_STR(built(c, 1, 1), "also must");
    stet_counter_free(c);
}

TEST(words_have_ids_and_others_are_unknown)
{
    static const char *const words[] = {"film", "good"};
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, 2, &v));
    CHECK_EQ(stet_vocab_size(v), 4);
    CHECK_STR(stet_vocab_word(v, STET_PAD), "<pad>");
    CHECK_STR(stet_vocab_word(v, STET_UNK), "<unk>");
    CHECK_EQ(stet_vocab_id(v, "film", 4), 2);
    CHECK_EQ(stet_vocab_id(v, "good", 4), 3);
    CHECK_EQ(stet_vocab_id(v, "goo", 3), STET_UNK);
    CHECK_EQ(stet_vocab_id(v, "", 0), STET_UNK);
    stet_vocab_free(v);
    stet_vocab_free(NULL);
}

TEST(words_that_a_line_cannot_hold_are_refused)
{
    static const char *const bad[] = {"", "two\nlines", "cr\r", "caf\xe9", "film", "<pad>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const words[] = {"film", bad[i]};
        stet_vocab *v;
        CHECK_FAILS(stet_vocab_from_words(words, 2, &v), STET_EUSAGE, "word 1");
        CHECK(v == NULL);
    }
}

static const char *in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

TEST(a_vocabulary_file_has_a_word_a_line)
{
    static const char *const words[] = {"film", "caf\xc3\xa9", "n't"};
    stet_vocab *v, *back;
    CHECK_OK(stet_vocab_from_words(words, 3, &v));
    CHECK_OK(stet_vocab_save(v, in_dir("vocab.txt")));
    char *text;
    size_t n;
    CHECK_OK(file_read_all(in_dir("vocab.txt"), 1000, &text, &n));
    CHECK_STR(text, "<pad>\n<unk>\nfilm\ncaf\xc3\xa9\nn't\n");
    free(text);
    CHECK_OK(stet_vocab_load(in_dir("vocab.txt"), &back));
    CHECK_STR(words_of(back), "film caf\xc3\xa9 n't");
    CHECK(stet_vocab_fingerprint(back) == stet_vocab_fingerprint(v));
    stet_vocab_free(v);
    stet_vocab_free(back);
    CHECK_OK(stet_vocab_from_words(words, 2, &v));
    CHECK_OK(stet_vocab_load(in_dir("vocab.txt"), &back));
    CHECK(stet_vocab_fingerprint(back) != stet_vocab_fingerprint(v));
    stet_vocab_free(v);
    stet_vocab_free(back);
}

TEST(bad_vocabulary_files_are_named_by_line)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "expected <pad> and <unk>"},
        {"<pad>\n", "expected <pad> and <unk>"},
        {"<unk>\n<pad>\n", "v.txt:1: expected <pad>"},
        {"<pad>\nfilm\n", "v.txt:2: expected <unk>"},
        {"<pad>\n<unk>\nfilm\n\n", "v.txt:4: an empty word"},
        {"<pad>\n<unk>\nfilm\nx\nfilm\n", "v.txt:5: a word that is there already"},
        {"<pad>\n<unk>\n\xff\n", "v.txt:3: a word that is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stet_vocab *v;
        CHECK_OK(file_write_all(in_dir("v.txt"), bad[i].text, strlen(bad[i].text)));
        CHECK_FAILS(stet_vocab_load(in_dir("v.txt"), &v), STET_EFORMAT, bad[i].message);
        CHECK(v == NULL);
    }
    stet_vocab *v;
    CHECK_FAILS(stet_vocab_load(in_dir("none.txt"), &v), STET_EIO, "none.txt");
}

TEST(texts_become_ids)
{
    static const char *const words[] = {"a", "b"};
    stet_dataset *d = set_of(texts, 4);
    stet_vocab *v;
    stet_corpus c;
    CHECK_OK(stet_vocab_from_words(words, 2, &v));
    CHECK_OK(stet_corpus_encode(d, v, STET_TOK_WORD, 0, &c));
    static const uint32_t ids[] = {3, 2, 1, 3, 1, 3, 2, 1};
    static const uint64_t start[] = {0, 4, 6, 6, 8};
    CHECK_EQ(c.n_texts, 4);
    CHECK_EQ(c.n_tokens, 8);
    CHECK(memcmp(c.ids, ids, sizeof ids) == 0);
    CHECK(memcmp(c.start, start, sizeof start) == 0);
    CHECK_EQ(c.label[0], -1);
    stet_corpus_deinit(&c);
    CHECK_OK(stet_corpus_encode(d, v, STET_TOK_WORD, 1, &c));
    CHECK_EQ(c.n_tokens, 3);
    CHECK_EQ(c.start[2], 2);
    stet_corpus_deinit(&c);
    stet_vocab_free(v);
    stet_dataset_free(d);
}

/* 5,000 texts of 1 KB: several pieces. */
static stet_dataset *large_set(void)
{
    enum { N = 5000, WORDS = 200 };
    stet_str *s = malloc(N * sizeof *s);
    CHECK(s != NULL);
    for (size_t i = 0; i < N; i++) {
        rng r = rng_stream(9, STREAM_TEST, i);
        char *text = malloc(WORDS * 8), *p = text;
        CHECK(text != NULL);
        for (int k = 0; k < WORDS; k++) {
            const double u = rng_double(&r);
            p += sprintf(p, "w%d ", (int)(20000 * u * u * u));
        }
        s[i] = (stet_str){text, (size_t)(p - text)};
    }
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(s, NULL, N, NULL, 0, &d));
    for (size_t i = 0; i < N; i++)
        free((void *)(uintptr_t)s[i].data);
    free(s);
    return d;
}

TEST(one_thread_and_four_give_the_same_words_and_ids)
{
    stet_dataset *d = large_set();
    stet_counter *c[2];
    stet_vocab *v[2];
    stet_corpus corpus[2];
    for (int k = 0; k < 2; k++) {
        stet_set_threads(k ? 4 : 1);
        CHECK_OK(stet_counter_new(&c[k]));
        CHECK_OK(stet_counter_add_dataset(c[k], d, STET_TOK_WORD));
        CHECK_OK(stet_vocab_build(c[k], 2, 0, &v[k]));
        CHECK_OK(stet_corpus_encode(d, v[k], STET_TOK_WORD, 150, &corpus[k]));
    }
    CHECK_EQ(stet_counter_size(c[0]), stet_counter_size(c[1]));
    CHECK_EQ(stet_counter_tokens(c[0]), 5000 * 200);
    for (size_t i = 0; i < stet_counter_size(c[0]); i++) {
        CHECK_STR(stet_counter_word(c[0], i), stet_counter_word(c[1], i));
        CHECK_EQ(stet_counter_count(c[0], i), stet_counter_count(c[1], i));
    }
    CHECK(stet_vocab_fingerprint(v[0]) == stet_vocab_fingerprint(v[1]));
    CHECK_EQ(corpus[0].n_tokens, 5000 * 150);
    CHECK(memcmp(corpus[0].ids, corpus[1].ids, corpus[0].n_tokens * sizeof *corpus[0].ids) == 0);
    CHECK(memcmp(corpus[0].start, corpus[1].start, 5001 * sizeof *corpus[0].start) == 0);
    for (int k = 0; k < 2; k++) {
        stet_counter_free(c[k]);
        stet_vocab_free(v[k]);
        stet_corpus_deinit(&corpus[k]);
    }
    stet_dataset_free(d);
}

static stet_status count_and_encode(void *path)
{
    const stet_str s[] = {{"a b c", 5}, {"b c d", 5}};
    stet_dataset *d = NULL;
    stet_counter *c = NULL;
    stet_vocab *v = NULL, *back = NULL;
    stet_corpus corpus = {0};
    stet_status st = stet_dataset_new(s, NULL, 2, NULL, 0, &d);
    if (st == STET_OK)
        st = stet_counter_new(&c);
    if (st == STET_OK)
        st = stet_counter_add_dataset(c, d, STET_TOK_WORD);
    if (st == STET_OK)
        st = stet_vocab_build(c, 1, 0, &v);
    if (st == STET_OK)
        st = stet_vocab_save(v, path);
    if (st == STET_OK)
        st = stet_vocab_load(path, &back);
    if (st == STET_OK)
        st = stet_corpus_encode(d, back, STET_TOK_WORD, 0, &corpus);
    stet_dataset_free(d);
    stet_counter_free(c);
    stet_vocab_free(v);
    stet_vocab_free(back);
    stet_corpus_deinit(&corpus);
    return st;
}

TEST(vocabularies_survive_every_failed_allocation)
{
    char path[256];
    snprintf(path, sizeof path, "%s", in_dir("v.txt"));
    CHECK_LE(30, ALLOC_FAIL_LOOP(count_and_encode, path));
}
