#include "stet/text.h"

#include <unistd.h>
#include <zlib.h>

#include "alloc_fail.h"
#include "base/log.h"
#include "test.h"

#define GOLDEN STET_SOURCE_DIR "/tests/golden/vectors/"
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const golden_words[] = {"the", "film", "\"quoted\"", "na\303\257ve", "1998"};
static const float golden[][3] = {{0.25f, -1.5f, 3e-05f},
                                  {0.1f, 0.2f, -0.3f},
                                  {-0.0074364f, 1e10f, 0},
                                  {1.17549435e-38f, 3.4028235e38f, -1},
                                  {5, 6, 7}};

static stet_vocab *vocab_of(const char *const *words, size_t n)
{
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, n, &v));
    return v;
}

static const float *row_of(const stet_vectors *t, const stet_vocab *v, const char *word)
{
    const uint32_t id = stet_vocab_id(v, word, strlen(word));
    CHECK(id >= STET_FIRST_WORD && id < t->n);
    return t->data + id * t->dim;
}

/* A file in the test's folder; the path stays valid until the next call with that name. */
static const char *file_bytes(const char *name, const char *data, size_t n)
{
    static char path[2][256];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_dir(), name);
    FILE *f = fopen(path[turn], "wb");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(data, 1, n, f), n);
    CHECK_EQ(fclose(f), 0);
    return path[turn];
}

static const char *file_text(const char *name, const char *text)
{
    return file_bytes(name, text, strlen(text));
}

static stet_status load_one(const char *path, const stet_vocab *v, stet_vectors *out)
{
    return stet_vectors_load(&path, 1, v, out);
}

static stet_status load_words(const char *path, const char *words_joined)
{
    const char *list[8];
    char copy[128];
    size_t n = 0;
    strcpy(copy, words_joined);
    for (char *w = strtok(copy, "|"); w; w = strtok(NULL, "|"))
        list[n++] = w;
    stet_vocab *v = vocab_of(list, n);
    stet_vectors t;
    const stet_status st = load_one(path, v, &t);
    CHECK(st == STET_OK || t.data == NULL);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    return st;
}

/* ---- formats ------------------------------------------------------------------------------ */

TEST(each_format_gives_the_same_vectors)
{
    static const char *const files[] = {
        GOLDEN "glove.txt",     GOLDEN "glove.txt.gz", GOLDEN "glove.txt.xz",
        GOLDEN "glove.txt.zst", GOLDEN "word2vec.txt", GOLDEN "fasttext.vec",
        GOLDEN "tabs.tsv",      GOLDEN "word2vec.bin", GOLDEN "gensim.bin"};
    stet_vocab *v = vocab_of(golden_words, COUNT(golden_words));
    for (size_t f = 0; f < COUNT(files); f++) {
        stet_vectors t;
        CHECK_OK(load_one(files[f], v, &t));
        CHECK_EQ(t.n, 7);
        CHECK_EQ(t.dim, 3);
        CHECK_EQ(t.n_known, 5);
        CHECK_EQ((uintptr_t)t.data % 64, 0);
        for (size_t i = 0; i < COUNT(golden_words); i++) {
            const float *row = row_of(&t, v, golden_words[i]);
            for (size_t k = 0; k < 3; k++)
                if (row[k] != golden[i][k])
                    test_fail(__FILE__, __LINE__, "%s: %s[%zu] is %g", files[f], golden_words[i], k,
                              (double)row[k]);
        }
        stet_vectors_deinit(&t);
    }
    stet_vocab_free(v);
}

TEST(only_words_asked_for_are_kept_and_unknown_is_their_mean)
{
    static const char *const words[] = {"1998", "absent", "film"};
    stet_vocab *v = vocab_of(words, COUNT(words));
    stet_vectors t;
    CHECK_OK(load_one(GOLDEN "glove.txt", v, &t));
    CHECK_EQ(t.n, 5);
    CHECK_EQ(t.n_known, 2);
    CHECK(!t.known[STET_PAD] && !t.known[STET_UNK] && t.known[2] && !t.known[3] && t.known[4]);
    for (size_t k = 0; k < 3; k++) {
        CHECK_EQ(t.data[STET_PAD * 3 + k], 0);
        CHECK_EQ(row_of(&t, v, "absent")[k], 0);
        CHECK_NEAR(t.data[STET_UNK * 3 + k], ((double)golden[1][k] + (double)golden[4][k]) / 2,
                   1e-6);
    }
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

TEST(no_known_word_leaves_a_table_of_zeros)
{
    static const char *const words[] = {"absent"};
    stet_vocab *v = vocab_of(words, 1);
    stet_vectors t;
    CHECK_OK(load_one(GOLDEN "glove.txt", v, &t));
    CHECK_EQ(t.n_known, 0);
    for (size_t i = 0; i < t.n * t.dim; i++)
        CHECK(t.data[i] == 0);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

TEST(words_with_spaces_take_the_last_numbers)
{
    static const char *const words[] = {".", "at"};
    stet_vocab *v = vocab_of(words, COUNT(words));
    stet_vectors t;
    CHECK_OK(load_one(GOLDEN "spaced.txt", v, &t));
    CHECK_EQ(row_of(&t, v, ".")[0], 4);
    CHECK_EQ(row_of(&t, v, "at")[2], 12);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

TEST(words_with_spaces_are_words_when_all_are_loaded)
{
    const char *path = file_text("spaced.txt", ". 1 2\n. . . 3 4\n. . 5 6\n");
    stet_vocab *v;
    stet_vectors t;
    CHECK_OK(stet_vectors_load_all(&path, 1, &v, &t));
    CHECK_EQ(t.n_known, 3);
    CHECK_EQ(row_of(&t, v, ". . .")[0], 3);
    stet_vectors_deinit(&t);
    CHECK_OK(load_one(path, v, &t));
    CHECK_EQ(t.n_known, 3);
    CHECK_EQ(row_of(&t, v, ". .")[1], 6);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

TEST(every_word_of_a_file_makes_a_vocabulary_in_its_order)
{
    const char *path = file_text("all.txt", "b 1 2\na 3 4\n<unk> 9 9\nb 5 6\n<pad> 9 9\nc 7 8\n");
    stet_vocab *v;
    stet_vectors t;
    CHECK_OK(stet_vectors_load_all(&path, 1, &v, &t));
    CHECK_EQ(stet_vocab_size(v), 5);
    CHECK_EQ(t.n, 5);
    CHECK_STR(stet_vocab_word(v, 2), "b");
    CHECK_STR(stet_vocab_word(v, 4), "c");
    CHECK_EQ(row_of(&t, v, "b")[0], 1); /* the first one */
    CHECK_EQ(row_of(&t, v, "c")[1], 8);
    CHECK_NEAR(t.data[STET_UNK * 2], (1 + 3 + 7) / 3.0, 1e-6);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

TEST(earlier_files_and_earlier_lines_win)
{
    static const char *const words[] = {"a", "b", "c"};
    const char *paths[2] = {file_text("one.txt", "a 1 1\na 9 9\n"), NULL};
    char first[256];
    snprintf(first, sizeof first, "%s", paths[0]);
    paths[0] = first;
    paths[1] = file_text("two.txt", "2 2\nb 2 2\na 3 3\n");
    stet_vocab *v = vocab_of(words, COUNT(words));
    stet_vectors t;
    CHECK_OK(stet_vectors_load(paths, 2, v, &t));
    CHECK_EQ(row_of(&t, v, "a")[0], 1);
    CHECK_EQ(row_of(&t, v, "b")[0], 2);
    CHECK_EQ(t.n_known, 2);
    stet_vectors_deinit(&t);
    paths[1] = file_text("two.txt", "b 2 2 2\n");
    CHECK_FAILS(stet_vectors_load(paths, 2, v, &t), STET_EFORMAT,
                "two.txt: vectors have 3 numbers, but those of ");
    CHECK_FAILS(stet_vectors_load(paths, 0, v, &t), STET_EUSAGE, "no file");
    stet_vocab_free(v);
}

/* ---- bad files ---------------------------------------------------------------------------- */

TEST(a_bad_text_file_is_named_with_line_and_field)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "bad.txt: empty file"},
        {"a\n", "bad.txt:1: expected a word and its numbers, or the header"},
        {"hello world\n", "bad.txt:1: expected a word and its numbers"},
        {"\n", "bad.txt:1: expected a word"},
        {"a 1 2\nb 1\n", "bad.txt:2: \"b\" has 1 numbers, expected 2"},
        {"a 1 2\nb 1 2 3\n", "bad.txt:2: \"b\" has 3 numbers, expected 2"},
        {"a 1 2\nb\n", "bad.txt:2: \"b\" has 0 numbers, expected 2"},
        {"a 1 2\nb 1 x\n",
         "bad.txt:2: number 2 of \"b\" is \"x\", expected a finite decimal number"},
        {"a 1 2\nb 1,5 2\n", "bad.txt:2: number 1 of \"b\" is \"1,5\""},
        {"a 1 2\nb 1 2\rc\n", "bad.txt:2: number 2 of \"b\" is \"2?c\", expected"},
        {"a 1 2\nb nan 2\n", "bad.txt:2: number 1 of \"b\" is \"nan\""},
        {"a 1 2\nb -inf 2\n", "bad.txt:2: number 1 of \"b\" is \"-inf\""},
        {"a 1 2\nb 1e39 2\n", "bad.txt:2: number 1 of \"b\" is \"1e39\""},
        {"a 1 nan\n", "bad.txt:1: field 3 is \"nan\""},
        {"a 1 2\n\nb 1 2\n", "bad.txt:2: empty line, expected a word and 2 numbers"},
        {"a 1 2\n \nb 1 2\n", "bad.txt:2: empty line"},
        {"a 1 2\n b 1 2\n", "bad.txt:2: no word"},
        {"a 1 2\nother 1", "bad.txt:2: \"other\" has 1 numbers, expected 2"}, /* cut off */
        {"3 2\na 1 2\nb 3 4\n", "bad.txt: the header promises 3 vectors, the file has 2"},
        {"1 2\na 1 2\nother 3 4\n", "bad.txt: the header promises 1 vectors, the file has 2"},
        {"2 3\na 1 2\n", "bad.txt:2: 2 numbers, but the header says 3"},
        {"2 3\n", "bad.txt: no vector after the header"},
        {"2 0\na 1\n", "bad.txt:1: 0 numbers per word, expected 1 to 65536"},
        {"2 99999999\na 1\n", "bad.txt:1: 99999999 numbers per word"},
        {"2 3\n\na 1 2 3\n", "bad.txt:2: expected a word and its numbers"},
        {"a 1 2\nb x 2\nb y 2\nc 1\n",
         "bad.txt:2: number 1 of \"b\" is \"x\""}, /* the first failure, not the first found */
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        CHECK_FAILS(load_words(file_text("bad.txt", cases[i].text), "a|b|c"), STET_EFORMAT,
                    cases[i].message);
    CHECK_FAILS(load_words(file_bytes("bad.txt", "a 1 2\nx 1 \0 2\n", 14), "a|b"), STET_EFORMAT,
                "bad.txt:2: NUL byte in a text file");
    CHECK_FAILS(load_words("/nonexistent/vectors.txt", "a"), STET_EIO, "/nonexistent/vectors.txt");
}

TEST(a_message_shows_no_control_bytes_and_only_the_beginning_of_a_long_field)
{
    char text[256] = "a 1 2\nb \033[31m";
    memset(text + strlen(text), 'x', 100);
    strcat(text, " 2\n");
    CHECK_FAILS(load_words(file_text("bad.txt", text), "a|b"), STET_EFORMAT, "is \"?[31mxxxx");
    CHECK(strstr(stet_last_error(), "xxx...\"") && !strchr(stet_last_error(), '\033'));
}

TEST(lines_of_other_words_are_skipped_unread)
{
    CHECK_OK(load_words(file_text("ok.txt", "a 1 2\nother nan x y\nb 3 4\n"), "a|b|absent"));
}

TEST(a_line_without_end_is_refused)
{
    const size_t n = 40 << 20;
    char *data = malloc(n);
    CHECK(data != NULL);
    memset(data, 'x', n);
    memcpy(data, "a 1 2\n", 6);
    CHECK_FAILS(load_words(file_bytes("long.txt", data, n), "a|b"), STET_EFORMAT,
                "long.txt:2: line longer than 16 MiB");
    free(data);
}

TEST(a_bad_binary_file_is_named_with_its_vector)
{
    static const char one[] = "\0\0\200?\0\0\0@"; /* 1, 2 */
    static const char nan[] = "\0\0\200?\0\0\300\177";
    static const char words[] = "a|b|c";
    char data[256];
    size_t n = (size_t)sprintf(data, "2 2\na ");
    memcpy(data + n, one, 8);
    n += 8;
    for (size_t cut = 7; cut < n; cut++)
        CHECK_FAILS(load_words(file_bytes("bad.bin", data, cut), words), STET_EFORMAT, "bad.bin");
    CHECK_FAILS(load_words(file_bytes("bad.bin", data, n), words), STET_EFORMAT,
                "bad.bin: the header promises 2 vectors, the file has 1");
    memcpy(data + n, "\nb ", 3);
    memcpy(data + n + 3, nan, 8);
    CHECK_FAILS(load_words(file_bytes("bad.bin", data, n + 8), words), STET_EFORMAT,
                "bad.bin: ends inside vector 2 of 2");
    CHECK_FAILS(load_words(file_bytes("bad.bin", data, n + 11), words), STET_EFORMAT,
                "bad.bin: vector 2 (\"b\"): number 2 is not finite");
    memcpy(data + n + 3, one, 8);
    CHECK_OK(load_words(file_bytes("bad.bin", data, n + 11), words));
    data[n + 11] = 'x';
    CHECK_FAILS(load_words(file_bytes("bad.bin", data, n + 12), words), STET_EFORMAT,
                "bad.bin: bytes after the last of 2 vectors");
    memcpy(data + n, "\n \n", 3);
    CHECK_FAILS(load_words(file_bytes("bad.bin", data, n + 11), words), STET_EFORMAT,
                "bad.bin: vector 2 of 2 has no proper word");
}

/* ---- large files -------------------------------------------------------------------------- */

enum { BIG_WORDS = 30000, BIG_DIM = 100 };

static float big_value(size_t i, size_t k)
{
    return (float)((int)((i * 31 + k * 7) % 2001) - 1000) / 512;
}

/* Three chunks of text. */
static const char *big_file(void)
{
    char *text = malloc(BIG_WORDS * (size_t)(BIG_DIM * 14 + 16)), *p = text;
    CHECK(text != NULL);
    for (size_t i = 0; i < BIG_WORDS; i++) {
        p += sprintf(p, "w%zu", i);
        for (size_t k = 0; k < BIG_DIM; k++)
            p += sprintf(p, " %.9f", (double)big_value(i, k));
        *p++ = '\n';
    }
    const char *path = file_bytes("big.txt", text, (size_t)(p - text));
    CHECK_LE(3 * (8 << 20), p - text);
    free(text);
    return path;
}

static stet_vocab *big_vocab(void)
{
    static char text[BIG_WORDS][8];
    static const char *words[BIG_WORDS / 3];
    for (size_t i = 0; i < BIG_WORDS / 3; i++) {
        snprintf(text[i], sizeof text[i], "w%zu", i * 3);
        words[i] = text[i];
    }
    return vocab_of(words, BIG_WORDS / 3);
}

TEST(a_file_of_many_chunks_loads_alike_with_any_number_of_threads)
{
    const char *path = big_file();
    stet_vocab *v = big_vocab();
    static const int threads[] = {1, 2, 5};
    for (size_t j = 0; j < COUNT(threads); j++) {
        stet_set_threads(threads[j]);
        stet_vectors t;
        CHECK_OK(load_one(path, v, &t));
        CHECK_EQ(t.n_known, BIG_WORDS / 3);
        for (size_t i = 0; i < BIG_WORDS / 3; i++)
            for (size_t k = 0; k < BIG_DIM; k++)
                CHECK(t.data[(STET_FIRST_WORD + i) * BIG_DIM + k] == big_value(3 * i, k));
        stet_vectors_deinit(&t);
    }
    stet_vocab_free(v);
}

TEST(the_first_of_several_failures_is_reported_with_any_number_of_threads)
{
    const char *path = big_file();
    FILE *f = fopen(path, "r+b");
    CHECK(f != NULL);
    char line[2048];
    for (size_t i = 0; i < 9003; i++) {
        const long at = ftell(f);
        CHECK(fgets(line, sizeof line, f) != NULL);
        if (i == 9000 || i == 6000 || i == 8997) { /* words w6000, w8997 and w9000 are asked for */
            const long next = ftell(f);
            fseek(f, at + 60, SEEK_SET);
            fputc('?', f);
            fseek(f, next, SEEK_SET);
        }
    }
    CHECK_EQ(fclose(f), 0);
    stet_vocab *v = big_vocab();
    for (int threads = 1; threads < 6; threads++) {
        stet_set_threads(threads);
        stet_vectors t;
        CHECK_FAILS(load_one(path, v, &t), STET_EFORMAT, "big.txt:6001: number ");
    }
    stet_vocab_free(v);
}

TEST(a_compressed_file_cut_off_in_a_later_chunk_is_named)
{
    char path[256];
    snprintf(path, sizeof path, "%s/cut.txt.gz", test_dir());
    gzFile gz = gzopen(path, "wb1");
    CHECK(gz != NULL);
    for (size_t i = 0; i < 400000; i++)
        gzprintf(gz, "w%zu 0.%06zu 1.%06zu 2.%06zu 3.%06zu\n", i, i, i, i, i);
    CHECK_EQ(gzclose(gz), Z_OK);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fseek(f, 0, SEEK_END) == 0);
    CHECK_EQ(truncate(path, ftell(f) * 3 / 4), 0);
    fclose(f);
    CHECK_FAILS(load_words(path, "w0|w7|absent"), STET_EFORMAT, "cut.txt.gz");
}

TEST(reading_stops_once_every_word_is_found)
{
    CHECK_OK(load_words(file_text("rest.txt", "a 1 2\nb 3 4\nc x\n"), "b|a"));
}

TEST(reading_can_be_interrupted)
{
    const char *path = big_file();
    stet_interrupt();
    CHECK_FAILS(load_words(path, "w0|absent"), STET_EINTR, "");
    stet_interrupt_clear();
    CHECK_OK(load_words(path, "w0|absent"));
}

/* ---- saving ------------------------------------------------------------------------------- */

TEST(saved_tables_load_as_the_same_bits)
{
    stet_vocab *v = vocab_of(golden_words, COUNT(golden_words));
    stet_vectors t;
    CHECK_OK(load_one(GOLDEN "glove.txt", v, &t));
    char path[256];
    for (int binary = 0; binary < 2; binary++) {
        snprintf(path, sizeof path, "%s/saved%d", test_dir(), binary);
        CHECK_OK((binary ? stet_vectors_save_binary : stet_vectors_save_text)(&t, v, path));
        const char *paths[] = {path};
        stet_vocab *w;
        stet_vectors u;
        CHECK_OK(stet_vectors_load_all(paths, 1, &w, &u));
        CHECK_EQ(u.n, t.n);
        CHECK_EQ(u.dim, t.dim);
        CHECK_EQ(memcmp(u.data, t.data, t.n * t.dim * sizeof *t.data), 0);
        CHECK_STR(stet_vocab_word(w, 5), golden_words[3]);
        stet_vectors_deinit(&u);
        stet_vocab_free(w);
    }
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

TEST(unknown_words_are_not_saved_and_tables_must_fit_their_vocabulary)
{
    static const char *const words[] = {"absent", "1998", "with space"};
    stet_vocab *v = vocab_of(words, COUNT(words));
    stet_vectors t;
    CHECK_OK(load_one(file_text("in.txt", "1998 5 6.25\nwith space 1 2\n"), v, &t));
    char path[256], line[64] = "";
    snprintf(path, sizeof path, "%s/out.txt", test_dir());
    CHECK_OK(stet_vectors_save_text(&t, v, path));
    FILE *f = fopen(path, "r");
    CHECK(f && fgets(line, sizeof line, f));
    CHECK_STR(line, "1998 5 6.25\n");
    CHECK(fgets(line, sizeof line, f));
    CHECK_STR(line, "with space 1 2\n");
    CHECK(!fgets(line, sizeof line, f));
    fclose(f);
    CHECK_FAILS(stet_vectors_save_binary(&t, v, path), STET_EUSAGE,
                "cannot hold the word \"with space\"");
    stet_vocab *other = vocab_of(words, 1);
    CHECK_FAILS(stet_vectors_save_text(&t, other, path), STET_EUSAGE,
                "do not belong to a vocabulary of 3");
    CHECK_FAILS(stet_vectors_save_text(&t, v, "/nonexistent/out.txt"), STET_EIO,
                "/nonexistent/out.txt");
    stet_vocab_free(other);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
}

/* ---- memory ------------------------------------------------------------------------------- */

static stet_status use_everything(void *ctx)
{
    const char *paths[] = {GOLDEN "word2vec.txt", GOLDEN "word2vec.bin"};
    stet_vocab *v;
    stet_vectors all, some;
    stet_status st = stet_vectors_load_all(paths, 2, &v, &all);
    if (st != STET_OK)
        return st;
    st = stet_vectors_load(paths, 2, v, &some);
    if (st == STET_OK)
        st = stet_vectors_save_text(&some, v, ctx);
    stet_vectors_deinit(&some);
    stet_vectors_deinit(&all);
    stet_vocab_free(v);
    return st;
}

TEST(every_failed_allocation_is_reported_and_nothing_leaks)
{
    char path[256];
    snprintf(path, sizeof path, "%s/saved.txt", test_dir());
    CHECK_LE(20, ALLOC_FAIL_LOOP(use_everything, path));
}

/* ---- real files --------------------------------------------------------------------------- */

TEST(glove_has_the_published_vector_of_the)
{
    static const float the[] = {0.04656f, 0.21318f, -0.0074364f, -0.45854f, -0.035639f};
    char path[4096];
    snprintf(path, sizeof path, "%s", test_data("glove/glove.6B.300d.core.txt.xz"));
    static const char *const words[] = {"the", "xylophone-free-word"};
    const char *paths[] = {path};
    stet_vocab *v = vocab_of(words, COUNT(words)), *all;
    stet_vectors t;
    CHECK_OK(load_one(path, v, &t));
    CHECK_EQ(t.dim, 300);
    CHECK_EQ(t.n_known, 1);
    for (size_t k = 0; k < COUNT(the); k++)
        CHECK(row_of(&t, v, "the")[k] == the[k]);
    stet_vectors_deinit(&t);
    CHECK_OK(stet_vectors_load_all(paths, 1, &all, &t));
    CHECK_EQ(t.n_known, 69737);
    double sum = 0;
    for (size_t i = STET_FIRST_WORD * t.dim; i < t.n * t.dim; i++)
        sum += (double)t.data[i] * (double)t.data[i];
    CHECK_NEAR(sqrt(sum / (double)t.n_known), 6.5, 0.6); /* mean norm 6.55 over the whole table */
    stet_vectors_deinit(&t);
    stet_vocab_free(all);
    stet_vocab_free(v);
}

TEST(glove_covers_the_tokens_of_imdb)
{
    char core[4096], extra[4096], train[4096];
    snprintf(core, sizeof core, "%s", test_data("glove/glove.6B.300d.core.txt.xz"));
    snprintf(extra, sizeof extra, "%s", test_data("glove/glove.6B.300d.extra.txt.xz"));
    snprintf(train, sizeof train, "%s", test_data("imdb/train.tsv.xz"));
    const char *paths[] = {core, extra};
    stet_dataset *d;
    const stet_data_options how = STET_DATA_DEFAULTS;
    CHECK_OK(stet_dataset_load(train, &how, &d));
    stet_counter *c;
    CHECK_OK(stet_counter_new(&c));
    CHECK_OK(stet_counter_add_dataset(c, d, STET_TOK_WORD));
    stet_vocab *v;
    CHECK_OK(stet_vocab_build(c, 1, 0, &v));
    stet_vectors t;
    CHECK_OK(stet_vectors_load(paths, 2, v, &t));
    CHECK(row_of(&t, v, "the")[0] == 0.04656f);
    uint64_t known = 0;
    for (size_t i = 0; i < stet_counter_size(c); i++) {
        const char *word = stet_counter_word(c, i);
        known += t.known[stet_vocab_id(v, word, strlen(word))] * stet_counter_count(c, i);
    }
    CHECK_LE(0.994, (double)known / (double)stet_counter_tokens(c));
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_counter_free(c);
    stet_dataset_free(d);
}
