/* tests/text/test_wordpiece.c - BERT's words and pieces against those of the tokeniser that most people
 * use (golden/bert/wordpiece.json), and vocabularies that are none. */
#include "alloc_fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/stream.h"
#include "test.h"
#include "text/wordpiece.h"

/* Texts with a NUL are among the cases. */
static json_t *golden(void)
{
    json_error_t e;
    json_t *o =
        json_load_file(STET_SOURCE_DIR "/tests/golden/bert/wordpiece.json", JSON_ALLOW_NUL, &e);
    CHECK(o);
    return o;
}

static wordpiece small(const json_t *o, bool lower)
{
    buf b = {0};
    const json_t *v = json_object_get(o, "small_vocab");
    for (size_t i = 0; i < json_array_size(v); i++)
        buf_printf(&b, "%s\n", json_string_value(json_array_get(v, i)));
    wordpiece w;
    CHECK_OK(wordpiece_parse("small", b.data, b.n, lower, &w));
    CHECK_EQ(w.piece.n, json_array_size(v));
    buf_deinit(&b);
    return w;
}

static wordpiece uncased(void)
{
    stream *s;
    buf b = {0};
    char chunk[4096];
    CHECK_OK(stream_open(test_data("bert_vocab/vocab.txt.xz"), &s));
    for (size_t n = 1; n;) {
        CHECK_OK(stream_read(s, chunk, sizeof chunk, &n));
        buf_bytes(&b, chunk, n);
    }
    stream_close(s);
    wordpiece w;
    CHECK_OK(wordpiece_parse("vocab.txt", b.data, b.n, true, &w));
    buf_deinit(&b);
    return w;
}

static const json_t *text_of(const json_t *o, size_t i)
{
    return json_array_get(json_array_get(json_object_get(o, "cases"), i), 1);
}

static bool has_break(const json_t *text) /* <br> is white space for us */
{
    return strstr(json_string_value(text), "<br") != NULL;
}

static size_t pieces_of(const wordpiece *w, const json_t *text, uint32_t *out)
{
    stet_tokens t = {0};
    CHECK_OK(wordpiece_cut(w->lower, json_string_value(text), json_string_length(text), &t));
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++)
        n += wordpiece_pieces(w, stet_token_word(&t, i), t.v[i].len, out + n);
    stet_tokens_deinit(&t);
    return n;
}

static void check_ids(const wordpiece *w, const json_t *o, const char *vocabulary)
{
    const json_t *ids = json_object_get(json_object_get(o, vocabulary), "ids");
    CHECK_EQ(json_array_size(ids), 34);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        uint32_t got[1024];
        const json_t *want = json_array_get(ids, i), *text = text_of(o, i);
        if (has_break(text))
            continue;
        const size_t n = pieces_of(w, text, got);
        CHECK_EQ(n, json_array_size(want));
        for (size_t k = 0; k < n; k++)
            CHECK_EQ(got[k], json_integer_value(json_array_get(want, k)));
    }
}

TEST(texts_are_cut_into_the_golden_words)
{
    json_t *o = golden();
    const json_t *words = json_object_get(o, "words");
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *want = json_array_get(words, i), *text = text_of(o, i);
        stet_tokens t = {0};
        CHECK_OK(wordpiece_cut(true, json_string_value(text), json_string_length(text), &t));
        if (has_break(text)) {
            CHECK_EQ(t.n, 2);
        } else {
            CHECK_EQ(t.n, json_array_size(want));
            for (size_t k = 0; k < t.n; k++)
                CHECK_STR(stet_token_word(&t, k), json_string_value(json_array_get(want, k)));
        }
        for (size_t k = 0; k < t.n; k++) {
            CHECK(t.v[k].start < t.v[k].end && t.v[k].end <= json_string_length(text));
            CHECK(k == 0 || t.v[k - 1].end <= t.v[k].start);
        }
        stet_tokens_deinit(&t);
    }
    json_decref(o);
}

TEST(words_become_the_golden_pieces)
{
    json_t *o = golden();
    wordpiece w = small(o, true);
    check_ids(&w, o, "small");
    wordpiece_deinit(&w);
    json_decref(o);
}

TEST(words_become_the_golden_pieces_of_the_real_vocabulary)
{
    json_t *o = golden();
    wordpiece w = uncased();
    CHECK_EQ(w.piece.n, 30522);
    CHECK_EQ(w.begin, 101);
    CHECK_EQ(w.end, 102);
    CHECK_EQ(w.unknown, 100);
    check_ids(&w, o, "bert_base_uncased");
    wordpiece_deinit(&w);
    json_decref(o);
}

TEST(a_cased_model_keeps_case_and_accents)
{
    json_t *o = golden();
    wordpiece w = small(o, false);
    const json_t *cased = json_object_get(json_object_get(o, "small"), "cased");
    CHECK_EQ(json_object_size(cased), 4);
    const char *key;
    json_t *want;
    json_object_foreach((json_t *)cased, key, want)
    {
        uint32_t got[1024];
        const size_t n = pieces_of(&w, text_of(o, (size_t)atoi(key)), got);
        buf b = {0};
        for (size_t k = 0; k < n; k++)
            buf_printf(&b, "%s%s", k ? " " : "", strmap_text(&w.piece, got[k]));
        CHECK_STR(b.data ? b.data : "", json_string_value(want));
        buf_deinit(&b);
    }
    wordpiece_deinit(&w);
    json_decref(o);
}

TEST(a_vocabulary_is_saved_and_loaded)
{
    json_t *o = golden();
    wordpiece w = small(o, true), again;
    char path[4096];
    snprintf(path, sizeof path, "%s/vocab.txt", test_dir());
    CHECK_OK(wordpiece_save(&w, path));
    CHECK_OK(wordpiece_load(path, true, &again));
    CHECK_EQ(again.piece.n, w.piece.n);
    check_ids(&again, o, "small");
    wordpiece_deinit(&w);
    wordpiece_deinit(&again);
    json_decref(o);
}

#define SPECIAL "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

static stet_status parse(const char *lines)
{
    wordpiece w;
    const stet_status st = wordpiece_parse("vocab.txt", lines, strlen(lines), true, &w);
    wordpiece_deinit(&w);
    return st;
}

TEST(a_bad_vocabulary_names_the_line_or_what_is_missing)
{
    CHECK_OK(parse(SPECIAL "a\r\n##b\r\n"));
    CHECK_FAILS(parse(SPECIAL "a\nb\na\n"), STET_EFORMAT,
                "vocab.txt:8: the piece 'a' is there twice");
    CHECK_FAILS(parse(SPECIAL "a\n\nb\n"), STET_EFORMAT, "vocab.txt:7: an empty line");
    CHECK_FAILS(parse("a\nb\n"), STET_EFORMAT, "vocab.txt: has no piece [PAD]");
    CHECK_FAILS(parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n"), STET_EFORMAT, "has no piece [MASK]");
    CHECK_FAILS(parse(""), STET_EFORMAT, "has no piece [PAD]");
}

TEST(a_vocabulary_from_counts_spells_rare_words)
{
    stet_counter *c;
    CHECK_OK(stet_counter_new(&c));
    CHECK_OK(stet_counter_add_word(c, "film", 7));
    CHECK_OK(stet_counter_add_word(c, "fine", 3));
    CHECK_OK(stet_counter_add_word(c, "limp", 1));
    wordpiece w;
    CHECK_OK(wordpiece_from_counts(c, 1000, true, &w));
    uint32_t id[WORDPIECE_MOST];
    CHECK_EQ(wordpiece_pieces(&w, "film", 4, id), 1);
    CHECK_EQ(wordpiece_pieces(&w, "limp", 4, id), 4);
    CHECK_STR(strmap_text(&w.piece, id[3]), "##p");
    CHECK_EQ(wordpiece_pieces(&w, "zoo", 3, id), 1);
    CHECK_EQ(id[0], w.unknown);
    wordpiece_deinit(&w);
    stet_counter_free(c);
}

static stet_status load_small(void *lines)
{
    wordpiece w;
    TRY(wordpiece_parse("small", lines, strlen(lines), true, &w));
    wordpiece_deinit(&w);
    return STET_OK;
}

TEST(no_memory_leaves_nothing_behind)
{
    CHECK_LE(3, ALLOC_FAIL_LOOP(load_small, (void *)SPECIAL "a\n##a\n##b\n"));
}
