/* tests/text/test_readers.c - every format of corpora, well formed and not. */
#include "alloc_fail.h"
#include "base/file.h"
#include "stet/option.h"
#include "stet/text.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *put(const char *name, const char *data, size_t n)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    CHECK_OK(file_write_all(path, data, n));
    return path;
}

#define FILE_OF(name, literal) put(name, literal, sizeof(literal) - 1)

/* "class|text" of each row, joined by "; ". */
static const char *rows(const stet_dataset *d)
{
    static char out[4096];
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < stet_dataset_size(d); i++) {
        const int label = stet_dataset_label(d, i);
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d=%s|%s", i ? "; " : "", label,
                              label < 0 ? "" : stet_dataset_class_name(d, (size_t)label),
                              stet_dataset_text(d, i).data);
    }
    return out;
}

static void check_loads(const char *path, const stet_data_options *how, const char *expected)
{
    stet_dataset *d;
    CHECK_OK(stet_dataset_load(path, how, &d));
    CHECK_STR(rows(d), expected);
    stet_dataset_free(d);
}

#define LOADS(name, literal, expected) check_loads(FILE_OF(name, literal), NULL, expected)
#define LOADS_WITH(name, literal, expected, ...)                                                   \
    check_loads(FILE_OF(name, literal), &(stet_data_options){__VA_ARGS__}, expected)
#define REFUSED(name, literal, part)                                                               \
    do {                                                                                           \
        stet_dataset *d_;                                                                          \
        CHECK_FAILS(stet_dataset_load(FILE_OF(name, literal), NULL, &d_), STET_EFORMAT, part);     \
        CHECK(d_ == NULL);                                                                         \
    } while (0)
#define REFUSED_WITH(name, literal, part, ...)                                                     \
    do {                                                                                           \
        stet_dataset *d_;                                                                          \
        CHECK_FAILS(                                                                               \
            stet_dataset_load(FILE_OF(name, literal), &(stet_data_options){__VA_ARGS__}, &d_),     \
            STET_EFORMAT, part);                                                                   \
    } while (0)

/* ---- TSV ---------------------------------------------------------------------------------- */

TEST(tsv_is_label_tab_text)
{
    LOADS("a.tsv", "1\tgood film\n0\tbad film\n", "1=1|good film; 0=0|bad film");
    LOADS("a.tsv", "1\tgood\r\n\r\n0\t\r\n", "1=1|good; 0=0|");
    LOADS("a.tsv", "pos\tno end of line", "0=pos|no end of line");
    LOADS("a.tsv",
          "\xef\xbb\xbf"
          "pos\tmarked\n",
          "0=pos|marked");
    LOADS("a.tsv", "pos\ttwo\tcells\n", "0=pos|two cells");
    LOADS("a.tsv", " pos \tlabel trimmed, text  not \n", "0=pos|label trimmed, text  not ");
    LOADS("noname", "pos\ttold by the tab, not by the comma\n",
          "0=pos|told by the tab, not by the comma");
}

TEST(tsv_may_have_names)
{
    LOADS("a.tsv", "sentence\tlabel\nfine\t1\n", "0=1|fine");
    LOADS("a.tsv", "id\tText\tLabel\n7\tfine\tpos\n", "0=pos|fine");
    LOADS_WITH("a.tsv", "label\ttext\n1\tx\n", "1=label|text; 0=1|x", .header = 0);
    LOADS_WITH("a.tsv", "u\tv\n1\tx\n", "0=1|x", .header = 1, .label = "u");
    LOADS_WITH("a.tsv", "u\tv\tw\n1\tx\ty\n", "0=x|y 1", .header = -1, .label = "v", .text = "w,u");
    LOADS_WITH("a.tsv", "1\tx\ty\n", "0=y|x", .header = -1, .label = "3", .text = "2");
    LOADS_WITH("a.tsv", "x\tpos\n", "0=pos|x", .header = -1, .text = "1");
}

TEST(bad_tsv_is_named_by_line)
{
    REFUSED("a.tsv", "no tab here\n", "a.tsv:1: expected LABEL<TAB>TEXT");
    REFUSED("a.tsv", "1\tok\nno tab\n", "a.tsv:2: expected at least 2 columns, found 1");
    REFUSED("a.tsv", "1\tok\n\tno label\n", "a.tsv:2: the label is empty");
    REFUSED("a.tsv",
            "1\tok\n1\tb\xff"
            "d\n",
            "a.tsv:2: byte 2 of the text, 0xff, is not UTF-8");
    REFUSED("a.tsv", "1\tok\n1\tn\0l\n", "a.tsv:2: byte 2 of the text, 0x00, is NUL");
    REFUSED("a.tsv", "1\tok\n\xff\ttext\n", "a.tsv:2: the label is not UTF-8");
    REFUSED("a.tsv", "", "a.tsv: the file is empty");
    REFUSED("a.tsv", "\n\n", "a.tsv: no texts in it");
    REFUSED("a.tsv", "label\ttext\n", "a.tsv: no texts in it");
    REFUSED_WITH("a.tsv", "1\tx\n", "a.tsv:1: no column '3'; found 2 columns", .header = -1,
                 .label = "3");
    REFUSED_WITH("a.tsv", "id\ttext\n1\tx\n", "no column 'mood'; found 2 columns: id, text",
                 .header = -1, .label = "mood");
    REFUSED("a.tsv", "text\tnumber\nx\t1\n",
            "expected a label column; name it with --label; found 2 columns: text, number");
    REFUSED("a.tsv", "label\tu\tv\n1\tx\ty\n",
            "expected a text column beside the label; name it with --text; found 3 columns: label, u, v");
}

TEST(bad_rows_are_counted_when_asked)
{
    stet_dataset *d;
    const stet_data_options how = {.header = -1, .skip_bad = true};
    CHECK_OK(
        stet_dataset_load(FILE_OF("a.tsv", "1\tok\nno tab\n1\tb\xff\n0\tfine\n\tx\n"), &how, &d));
    CHECK_STR(rows(d), "1=1|ok; 0=0|fine");
    CHECK_EQ(stet_dataset_skipped(d), 3);
    stet_dataset_free(d);
    CHECK_FAILS(stet_dataset_load(FILE_OF("a.tsv", "no tab\nno tab\n"), &how, &d), STET_EFORMAT,
                "no good row among 2");
}

/* ---- classes ------------------------------------------------------------------------------ */

TEST(numbers_are_sorted_as_numbers_and_names_by_their_bytes)
{
    LOADS("a.tsv", "10\ta\n9\tb\n-1\tc\n", "2=10|a; 1=9|b; 0=-1|c");
    LOADS("a.tsv", "b\tx\n10\ty\n9\tz\n", "2=b|x; 0=10|y; 1=9|z");
    LOADS("a.csv", "4,a\n1,b\n2,c\n3,d\n", "3=4|a; 0=1|b; 1=2|c; 2=3|d");
}

TEST(a_test_set_takes_the_classes_of_the_training_set)
{
    stet_dataset *train, *test;
    CHECK_OK(stet_dataset_load(FILE_OF("train.tsv", "c\tx\nb\tx\na\tx\n"), NULL, &train));
    stet_data_options how = {.header = -1, .like = train};
    CHECK_OK(stet_dataset_load(FILE_OF("test.tsv", "c\ty\n"), &how, &test));
    CHECK_STR(rows(test), "2=c|y");
    CHECK_EQ(stet_dataset_classes(test), 3);
    stet_dataset_free(test);
    CHECK_FAILS(stet_dataset_load(FILE_OF("test.tsv", "c\ty\nd\tz\n"), &how, &test), STET_EFORMAT,
                "test.tsv:2: class 'd' is not one of those of the training set: a, b, c");
    how.skip_bad = true;
    CHECK_OK(stet_dataset_load(FILE_OF("test.tsv", "c\ty\nd\tz\n"), &how, &test));
    CHECK_EQ(stet_dataset_skipped(test), 1);
    stet_dataset_free(test);
    stet_dataset_free(train);
}

TEST(a_text_column_taken_for_the_label_is_noticed)
{
    enum { N = 70000 };
    char *data = malloc(N * 20), *p = data;
    CHECK(data != NULL);
    for (int i = 0; i < N; i++)
        p += sprintf(p, "text %d\tx\n", i);
    stet_dataset *d;
    CHECK_FAILS(stet_dataset_load(put("a.tsv", data, (size_t)(p - data)), NULL, &d), STET_EFORMAT,
                "is this column the label?");
    free(data);
}

TEST(unlabelled_lines_are_texts)
{
    LOADS_WITH("a.txt", "one, two\n\nlabel\ttext\n", "-1=|one, two; -1=|; -1=|label\ttext",
               .header = -1, .unlabelled = true);
    LOADS_WITH("a.tsv", "1\tx\ty\n", "-1=|y", .header = -1, .unlabelled = true, .text = "3");
    LOADS_WITH("a.csv", "text,label\na,1\n", "-1=|a", .header = -1, .unlabelled = true);
    LOADS_WITH("a.csv", "a,b\n", "-1=|a b", .header = -1, .unlabelled = true);
    LOADS_WITH("a.jsonl", "{\"text\":\"a\"}\n", "-1=|a", .header = -1, .unlabelled = true);
}

/* ---- CSV ---------------------------------------------------------------------------------- */

TEST(csv_follows_rfc_4180)
{
    LOADS("a.csv", "1,plain\n0,\"quoted\"\n", "1=1|plain; 0=0|quoted");
    LOADS("a.csv", "1,\"a, \"\"b\"\"\"\n", "0=1|a, \"b\"");
    LOADS("a.csv", "1,\"two\nlines\"\n0,\"three\r\n\nlines\"\n",
          "1=1|two\nlines; 0=0|three\n\nlines");
    LOADS("a.csv", "\"1\",\"\"\n", "0=1|");
    LOADS("a.csv", "1,inner \"quotes\" stay\n", "0=1|inner \"quotes\" stay");
    LOADS("a.csv", "1,\"no line end at the end\"", "0=1|no line end at the end");
    LOADS("noname", "1,told by the comma\n", "0=1|told by the comma");
}

TEST(ag_news_and_yahoo_answers_need_no_options)
{
    LOADS("ag.csv", "\"3\",\"Wall St.\",\"Short-sellers, again\"\n\"4\",\"A\",\"B\"\n",
          "0=3|Wall St. Short-sellers, again; 1=4|A B");
    LOADS("yahoo.csv", "\"5\",\"why?\",\"\",\"one\\ntwo\"\n", "0=5|why? one\ntwo");
    LOADS("kaggle.csv", "Class Index,Title,Description\n3,\"a\\n\",b\n", "0=3|a\\n b");
    LOADS("imdb.csv", "review,sentiment\n\"<br />good\",positive\nbad,negative\n",
          "1=positive|<br />good; 0=negative|bad");
    LOADS_WITH("y.csv", "5,t,q,a\n", "0=5|a t", .header = -1, .text = "4, 2");
    LOADS_WITH("y.csv", "n,t,q\n5,x,y\n", "0=5|y", .header = -1, .label = "N", .text = "q");
}

TEST(bad_csv_is_named_by_line)
{
    REFUSED("a.csv", "1,a\n1,\"open\nnever closed\n", "a.csv:2: a quote opened here is not closed");
    REFUSED("a.csv", "1,a\n1,\"x\"y\n", "a.csv:2: text after a closing quote");
    REFUSED("a.csv", "1,a\n1,b,c\n", "a.csv:2: expected 2 columns as in the first record, found 3");
    REFUSED("a.csv", "1,a\n1\n", "a.csv:2: expected 2 columns as in the first record, found 1");
    REFUSED("a.csv", "1,\"two\nlines\"\n,x\n", "a.csv:3: the label is empty");
    REFUSED("a.csv", "alone\n", "a.csv:1: expected a text column beside the label");
}

TEST(a_record_of_too_many_columns_is_bad)
{
    static char data[600];
    memset(data, ',', sizeof data - 1);
    data[sizeof data - 2] = '\n';
    stet_dataset *d;
    CHECK_FAILS(stet_dataset_load(put("a.csv", data, sizeof data - 1), NULL, &d), STET_EFORMAT,
                "a.csv:1: too many columns");
}

/* ---- JSON lines, fastText ----------------------------------------------------------------- */

TEST(json_lines_have_fields)
{
    LOADS("a.jsonl", "{\"text\":\"good\",\"label\":1}\n\n{\"label\":0,\"text\":\"b\\u00e4d\\n\"}\n",
          "1=1|good; 0=0|b\xc3\xa4"
          "d\n");
    LOADS("a.jsonl", "{\"label\":\"pos\",\"text\":\"\"}\n", "0=pos|");
    LOADS("a.jsonl", "{\"label\":true,\"text\":\"x\"}\n{\"label\":false,\"text\":\"y\"}\n",
          "1=true|x; 0=false|y");
    LOADS("a.jsonl", "{\"label\":2.0,\"title\":\"a\",\"description\":\"b\"}\n", "0=2|a b");
    LOADS("noname", "{\"label\":1,\"text\":\"told by the brace\"}\n", "0=1|told by the brace");
    LOADS_WITH("a.jsonl", "{\"y\":7,\"a\":\"1\",\"b\":\"2\"}\n", "0=7|2 1", .header = -1,
               .label = "y", .text = "b,a");
}

TEST(bad_json_lines_are_named_by_line)
{
    REFUSED("a.jsonl", "{\"label\":1,\"text\":\"ok\"}\n{\"label\":1,\n", "a.jsonl:2:");
    REFUSED("a.jsonl", "[1]\n", "a.jsonl:1: expected a JSON object");
    REFUSED("a.jsonl", "{\"label\":1}\n", "a.jsonl:1: no string field 'text'");
    REFUSED("a.jsonl", "{\"text\":\"x\"}\n", "a.jsonl:1: no label in field 'label'");
    REFUSED("a.jsonl", "{\"text\":\"x\",\"label\":null}\n", "no label");
    REFUSED("a.jsonl", "{\"text\":5,\"label\":1}\n", "no string field 'text'");
    REFUSED("a.jsonl", "{\"text\":\"a\\u0000b\",\"label\":1}\n", "a.jsonl:1:");
    REFUSED("a.jsonl", "{\"text\":\"\xff\",\"label\":1}\n", "a.jsonl:1:");
    REFUSED_WITH("a.jsonl", "{\"text\":\"x\",\"label\":1}\n", "no string field 'body'",
                 .header = -1, .text = "body");
    const stet_data_options how = {.header = -1, .skip_bad = true};
    stet_dataset *d;
    CHECK_OK(
        stet_dataset_load(FILE_OF("a.jsonl", "{\nnull\n{\"text\":\"x\",\"label\":1}\n"), &how, &d));
    CHECK_EQ(stet_dataset_skipped(d), 2);
    stet_dataset_free(d);
}

TEST(fasttext_lines_begin_with_their_label)
{
    LOADS("a.txt", "__label__pos a good one\n__label__neg\tbad\n__label__pos\n",
          "1=pos|a good one; 0=neg|bad; 1=pos|");
    REFUSED("a.txt", "__label__pos a\nnone\n",
            "a.txt:2: expected the line to begin with __label__");
    REFUSED("a.txt", "__label__a __label__b x\n", "a.txt:1: more than one label");
    REFUSED("a.txt", "__label__ x\n", "a.txt:1: the label is empty");
}

/* ---- folders ------------------------------------------------------------------------------ */

static void folder_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    CHECK_OK(dir_make(path));
    *slash = '/';
    CHECK_OK(file_write_all(path, text, strlen(text)));
}

static const char *folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

TEST(folders_are_classes_and_files_come_in_the_order_of_their_numbers)
{
    folder_file("acl/train/pos/10_9.txt", "tenth");
    folder_file("acl/train/pos/2_10.txt", "second\n");
    folder_file("acl/train/neg/0_1.txt", "zeroth<br />");
    folder_file("acl/train/unsup/0_0.txt", "not this");
    folder_file("acl/train/neg/.hidden", "nor this");
    folder_file("acl/train/labeledBow.feat", "nor that");
    check_loads(folder("acl/train"), NULL, "0=neg|zeroth<br />; 1=pos|second; 1=pos|tenth");
}

TEST(a_folder_without_classes_says_where_to_look)
{
    stet_dataset *d;
    folder_file("acl/train/pos/0_9.txt", "x");
    CHECK_FAILS(stet_dataset_load(folder("acl"), NULL, &d), STET_EFORMAT, "take train or test");
    CHECK_FAILS(stet_dataset_load(folder("acl"), &(stet_data_options){.format = STET_DATA_TSV}, &d),
                STET_EIO, "a folder");
    CHECK_FAILS(stet_dataset_load(FILE_OF("a.tsv", "1\tx\n"),
                                  &(stet_data_options){.format = STET_DATA_ACLIMDB}, &d),
                STET_EFORMAT, "expected a folder");
    folder_file("bad/pos/1.txt", "caf\xe9");
    CHECK_FAILS(stet_dataset_load(folder("bad"), NULL, &d), STET_EFORMAT,
                "bad/pos/1.txt: byte 4 of the text, 0xe9");
}

/* ---- files that are wrong as files -------------------------------------------------------- */

TEST(a_missing_file_is_an_io_error)
{
    stet_dataset *d;
    CHECK_FAILS(stet_dataset_load(folder("nothing.tsv"), NULL, &d), STET_EIO, "nothing.tsv");
}

TEST(a_truncated_compressed_file_is_named)
{
    enum { N = 20000 };
    stet_str *texts = malloc(N * sizeof *texts);
    static char word[N][16];
    CHECK(texts != NULL);
    for (size_t i = 0; i < N; i++) {
        snprintf(word[i], sizeof word[i], "word %zu", i * i % 10007);
        texts[i] = (stet_str){word[i], strlen(word[i])};
    }
    stet_dataset *d, *back;
    CHECK_OK(stet_dataset_new(texts, NULL, N, NULL, 0, &d));
    static const char *const names[] = {"cut.jsonl.xz", "cut.jsonl.gz", "cut.jsonl.zst"};
    for (int i = 0; i < 3; i++) {
        struct stat sb;
        const char *path = folder(names[i]);
        CHECK_OK(stet_dataset_save(d, path));
        CHECK(stat(path, &sb) == 0 && truncate(path, sb.st_size / 2) == 0);
        const stet_data_options how = {.header = -1, .unlabelled = true, .skip_bad = true};
        CHECK_FAILS(stet_dataset_load(path, &how, &back), STET_EFORMAT, names[i]);
    }
    stet_dataset_free(d);
    free(texts);
}

TEST(a_line_of_100_megabytes_is_an_error_not_a_crash)
{
    char path[256];
    snprintf(path, sizeof path, "%s", folder("long.tsv"));
    FILE *f = fopen(path, "w");
    static char chunk[1 << 20];
    memset(chunk, 'x', sizeof chunk);
    CHECK(f && fputs("1\tok\n1\t", f) >= 0);
    for (int i = 0; i < 100; i++)
        CHECK(fwrite(chunk, 1, sizeof chunk, f) == sizeof chunk);
    fclose(f);
    stet_dataset *d;
    CHECK_FAILS(stet_dataset_load(path, NULL, &d), STET_EFORMAT, "long.tsv:2");
}

static stet_status load_one(void *path)
{
    const stet_data_options how = {.header = -1, .skip_bad = true};
    stet_dataset *d;
    const stet_status st = stet_dataset_load(path, &how, &d);
    stet_dataset_free(d);
    return st;
}

TEST(readers_survive_every_failed_allocation)
{
    folder_file("acl/pos/1.txt", "x");
    folder_file("acl/neg/1.txt", "y");
    CHECK_LE(10, ALLOC_FAIL_LOOP(load_one, (void *)(uintptr_t)folder("acl")));
    static const char *const data[][2] = {
        {"a.tsv", "b\tx\na\ty\n"},
        {"a.csv", "label,text\nb,\"x\ny\"\n\"open"},
        {"a.jsonl", "{\"label\":1,\"text\":\"x\"}\n{\n"},
        {"a.txt", "__label__a x\n__label__b y\nz\n"},
    };
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", put(data[i][0], data[i][1], strlen(data[i][1])));
        CHECK_LE(8, ALLOC_FAIL_LOOP(load_one, path));
    }
}
