/* tests/text/test_dataset.c - data sets in memory: made, picked, sampled, saved and read again. */
#include "alloc_fail.h"
#include "stet/text.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

static stet_str str(const char *s)
{
    return (stet_str){s, strlen(s)};
}

static const char *in_dir(const char *name)
{
    static char path[4][256];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static stet_dataset *three_texts(void)
{
    static const char *const names[] = {"neg", "pos"};
    const stet_str texts[] = {str("a \"bad\" film,\nreally\\n"), str(""),
                              str("good\tone \xc3\xa9")};
    const int labels[] = {0, 1, 1};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(texts, labels, 3, names, 2, &d));
    return d;
}

TEST(a_set_from_memory_holds_copies)
{
    char text[] = "first";
    const stet_str texts[] = {{text, 5}, str("")};
    const int labels[] = {2, -1};
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(texts, labels, 2, NULL, 3, &d));
    memset(text, 'x', 5);
    CHECK_EQ(stet_dataset_size(d), 2);
    CHECK_STR(stet_dataset_text(d, 0).data, "first");
    CHECK_EQ(stet_dataset_text(d, 1).len, 0);
    CHECK_STR(stet_dataset_text(d, 1).data, "");
    CHECK_EQ(stet_dataset_label(d, 0), 2);
    CHECK_EQ(stet_dataset_label(d, 1), -1);
    CHECK_EQ(stet_dataset_classes(d), 3);
    CHECK_STR(stet_dataset_class_name(d, 2), "2");
    CHECK_EQ(stet_dataset_skipped(d), 0);
    stet_dataset_free(d);
    stet_dataset_free(NULL);
}

TEST(wrong_arguments_are_refused)
{
    const stet_str text = str("x"), nul = {"a\0b", 3}, bad = {"\xff", 1};
    const int two = 2, minus = -2;
    const char *const twice[] = {"a", "a"};
    stet_dataset *d;
    CHECK_FAILS(stet_dataset_new(&text, &two, 1, NULL, 2, &d), STET_EUSAGE,
                "label 2 with 2 classes");
    CHECK_FAILS(stet_dataset_new(&text, &minus, 1, NULL, 2, &d), STET_EUSAGE, "label -2");
    CHECK_FAILS(stet_dataset_new(&text, NULL, 1, twice, 2, &d), STET_EUSAGE, "'a' is given twice");
    CHECK_FAILS(stet_dataset_new(&nul, NULL, 1, NULL, 0, &d), STET_EUSAGE, "byte 1");
    CHECK_FAILS(stet_dataset_new(&bad, NULL, 1, NULL, 0, &d), STET_EUSAGE, "UTF-8");
    CHECK(d == NULL);
    d = three_texts();
    const size_t beyond = 3;
    stet_dataset *p;
    CHECK_FAILS(stet_dataset_pick(d, &beyond, 1, &p), STET_EUSAGE, "text 3 of a set of 3");
    stet_dataset_free(d);
}

TEST(picked_texts_keep_their_classes)
{
    stet_dataset *d = three_texts(), *p, *none;
    const size_t index[] = {2, 0, 2};
    CHECK_OK(stet_dataset_pick(d, index, 3, &p));
    CHECK_EQ(stet_dataset_size(p), 3);
    CHECK_STR(stet_dataset_text(p, 0).data, stet_dataset_text(d, 2).data);
    CHECK_EQ(stet_dataset_label(p, 1), 0);
    CHECK_STR(stet_dataset_class_name(p, 1), "pos");
    CHECK_OK(stet_dataset_pick(d, NULL, 0, &none));
    CHECK_EQ(stet_dataset_size(none), 0);
    CHECK_EQ(stet_dataset_classes(none), 2);
    stet_dataset_free(d);
    stet_dataset_free(p);
    stet_dataset_free(none);
}

TEST(fingerprints_tell_sets_apart)
{
    static const char *const names[] = {"neg", "pos"}, *const other_names[] = {"neg", "poz"};
    const stet_str ab[] = {str("ab"), str("c")}, a_bc[] = {str("a"), str("bc")};
    const int labels[] = {0, 1}, other[] = {1, 1};
    stet_dataset *d[4];
    CHECK_OK(stet_dataset_new(ab, labels, 2, names, 2, &d[0]));
    CHECK_OK(stet_dataset_new(a_bc, labels, 2, names, 2, &d[1]));
    CHECK_OK(stet_dataset_new(ab, other, 2, names, 2, &d[2]));
    CHECK_OK(stet_dataset_new(ab, labels, 2, other_names, 2, &d[3]));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            CHECK(stet_dataset_fingerprint(d[i]) != stet_dataset_fingerprint(d[k]));
    for (int i = 0; i < 4; i++)
        stet_dataset_free(d[i]);
}

TEST(samples_ascend_and_depend_on_the_seed_alone)
{
    enum { N = 1000, K = 100 };
    static stet_str texts[N];
    for (int i = 0; i < N; i++)
        texts[i] = str("x");
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(texts, NULL, N, NULL, 0, &d));
    static size_t a[N], b[N];
    static int chosen[N];
    CHECK_EQ(stet_dataset_sample(d, K, 1, a), K);
    CHECK_EQ(stet_dataset_sample(d, K, 1, b), K);
    CHECK(memcmp(a, b, K * sizeof *a) == 0);
    CHECK_EQ(stet_dataset_sample(d, K, 2, b), K);
    CHECK(memcmp(a, b, K * sizeof *a) != 0);
    for (int i = 0; i < K; i++)
        CHECK(a[i] < N && (i == 0 || a[i] > a[i - 1]));
    for (uint64_t seed = 0; seed < 2000; seed++) { /* every text about as often as every other */
        stet_dataset_sample(d, K, seed, a);
        for (int i = 0; i < K; i++)
            chosen[a[i]]++;
    }
    for (int i = 0; i < N; i++)
        CHECK(chosen[i] > 130 && chosen[i] < 270); /* 200 expected, standard deviation 13.4 */
    CHECK_EQ(stet_dataset_sample(d, 5 * N, 1, a), N);
    CHECK(a[0] == 0 && a[N - 1] == N - 1);
    CHECK_EQ(stet_dataset_sample(d, 0, 1, a), 0);
    stet_dataset_free(d);
}

static void check_round_trip(const char *name, bool exact)
{
    stet_dataset *d = three_texts(), *back;
    const char *path = in_dir(name);
    CHECK_OK(stet_dataset_save(d, path));
    CHECK_OK(stet_dataset_load(path, NULL, &back));
    if (exact) {
        CHECK(stet_dataset_fingerprint(back) == stet_dataset_fingerprint(d));
    } else {
        CHECK_EQ(stet_dataset_size(back), 3);
        CHECK_STR(stet_dataset_text(back, 0).data, "a \"bad\" film, really\\n");
        CHECK_STR(stet_dataset_text(back, 1).data, "");
        CHECK_STR(stet_dataset_text(back, 2).data, "good one \xc3\xa9");
        CHECK_STR(stet_dataset_class_name(back, stet_dataset_label(back, 2)), "pos");
    }
    stet_dataset_free(d);
    stet_dataset_free(back);
}

TEST(csv_and_json_lines_give_back_every_byte)
{
    static const char *const names[] = {"x.csv", "x.jsonl", "x.csv.gz", "x.jsonl.xz",
                                        "x.ndjson.zst"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_round_trip(names[i], true);
}

TEST(tsv_flattens_tabs_and_line_ends)
{
    check_round_trip("x.tsv", false);
    check_round_trip("x.tsv.xz", false);
}

TEST(compressed_files_are_really_compressed)
{
    static char text[100001];
    memset(text, 'a', sizeof text - 1);
    const stet_str s = str(text);
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(&s, NULL, 1, NULL, 0, &d));
    static const char *const names[] = {"x.tsv.gz", "x.tsv.xz", "x.tsv.zst"};
    static const char *const magic[] = {"\x1f\x8b", "\xfd\x37zXZ", "\x28\xb5\x2f\xfd"};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(stet_dataset_save(d, in_dir(names[i])));
        char head[8] = "";
        FILE *f = fopen(in_dir(names[i]), "rb");
        CHECK(f && fread(head, 1, sizeof head, f) == sizeof head &&
              memcmp(head, magic[i], strlen(magic[i])) == 0);
        fseek(f, 0, SEEK_END);
        CHECK_LE(ftell(f), 2000);
        fclose(f);
    }
    stet_dataset_free(d);
}

TEST(unlabelled_texts_are_saved_without_labels)
{
    const stet_str texts[] = {str("one, two"), str("three")};
    stet_dataset *d, *back;
    CHECK_OK(stet_dataset_new(texts, NULL, 2, NULL, 0, &d));
    static const char *const names[] = {"u.tsv", "u.csv", "u.jsonl"};
    const stet_data_options how = {.header = -1, .unlabelled = true};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(stet_dataset_save(d, in_dir(names[i])));
        CHECK_OK(stet_dataset_load(in_dir(names[i]), &how, &back));
        CHECK(stet_dataset_fingerprint(back) == stet_dataset_fingerprint(d));
        stet_dataset_free(back);
    }
    stet_dataset_free(d);
}

TEST(saving_where_it_cannot_be_leaves_nothing)
{
    const stet_str texts[] = {str("a"), str("b")};
    const int mixed[] = {0, -1};
    stet_dataset *d = three_texts(), *m;
    CHECK_FAILS(stet_dataset_save(d, in_dir("x.doc")), STET_EUSAGE, ".jsonl");
    CHECK_FAILS(stet_dataset_save(d, in_dir("no/such/folder/x.tsv")), STET_EIO, "x.tsv");
    CHECK_OK(stet_dataset_new(texts, mixed, 2, NULL, 1, &m));
    CHECK_FAILS(stet_dataset_save(m, in_dir("m.tsv.gz")), STET_EUSAGE, "text 1 has no label");
    CHECK(access(in_dir("m.tsv.gz"), F_OK) != 0);
    if (access("/dev/full", W_OK) == 0) {
        CHECK(symlink("/dev/full", in_dir("full.jsonl.gz")) == 0);
        CHECK_FAILS(stet_dataset_save(d, in_dir("full.jsonl.gz")), STET_EIO, "full.jsonl.gz");
    }
    stet_dataset_free(d);
    stet_dataset_free(m);
}

static stet_status make_save_load(void *path)
{
    static const char *const names[] = {"neg", "pos"};
    const stet_str texts[] = {str("bad"), str("good"), str("fine")};
    const int labels[] = {0, 1, 1};
    const size_t index[] = {0, 2};
    stet_dataset *d = NULL, *p = NULL, *back = NULL;
    stet_status st = stet_dataset_new(texts, labels, 3, names, 2, &d);
    if (st == STET_OK)
        st = stet_dataset_pick(d, index, 2, &p);
    if (st == STET_OK)
        st = stet_dataset_save(p, path);
    if (st == STET_OK)
        st = stet_dataset_load(path, NULL, &back);
    stet_dataset_free(d);
    stet_dataset_free(p);
    stet_dataset_free(back);
    return st;
}

TEST(sets_survive_every_failed_allocation)
{
    static const char *const names[] = {"x.tsv", "x.csv.gz", "x.jsonl"};
    for (int i = 0; i < 3; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", in_dir(names[i]));
        CHECK_LE(20, ALLOC_FAIL_LOOP(make_save_load, path));
    }
}
