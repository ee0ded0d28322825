/* tests/text/test_fetch.c - downloads from a server of our own, checksums, hostile archives. */
#include <archive.h>
#include <archive_entry.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "stet/text.h"
#include "test.h"
#include "text/fetch.h"
#include "base/sha1.h"
#include "base/sha256.h"

/* ---- SHA-256 ------------------------------------------------------------------------------ */

static const char *sum_of(const char *data, size_t n, size_t step)
{
    static char hex[SHA256_HEX];
    sha256 h;
    sha256_init(&h);
    for (size_t i = 0; i < n; i += step)
        sha256_add(&h, data + i, n - i < step ? n - i : step);
    sha256_hex(&h, hex);
    return hex;
}

TEST(sha256_gives_the_published_digests)
{
    CHECK_STR(sum_of("", 0, 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_STR(sum_of("abc", 3, 3),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_STR(sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 7),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *a = malloc(1000000);
    CHECK(a != NULL);
    memset(a, 'a', 1000000);
    CHECK_STR(sum_of(a, 1000000, 4099),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(a);
}

static const char *sha1_of(const char *data, size_t n, size_t step)
{
    static char hex[SHA1_HEX];
    sha1 h;
    sha1_init(&h);
    for (size_t i = 0; i < n; i += step)
        sha1_add(&h, data + i, n - i < step ? n - i : step);
    sha1_hex(&h, hex);
    return hex;
}

TEST(sha1_gives_the_published_digests)
{
    CHECK_STR(sha1_of("", 0, 1), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    CHECK_STR(sha1_of("abc", 3, 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
    CHECK_STR(sha1_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 7),
              "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    char *a = malloc(1000000);
    CHECK(a != NULL);
    memset(a, 'a', 1000000);
    CHECK_STR(sha1_of(a, 1000000, 4099), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(a);
}

/* ---- files -------------------------------------------------------------------------------- */

static const char *in_dir(const char *name)
{
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static void put(const char *name, const char *data, size_t n)
{
    char *path = mem_strdup(in_dir(name)), *slash = strrchr(path, '/');
    *slash = '\0';
    CHECK_OK(dir_make(path));
    *slash = '/';
    CHECK_OK(file_write_all(path, data, n));
    mem_free(path);
}

static void check_file(const char *name, const char *data, size_t n)
{
    char *got;
    size_t size;
    CHECK_OK(file_read_all(in_dir(name), 1 << 24, &got, &size));
    CHECK_EQ(size, n);
    CHECK(memcmp(got, data, n) == 0);
    mem_free(got);
}

static size_t count_entries(const char *dir)
{
    char command[512], line[512];
    size_t n = 0;
    snprintf(command, sizeof command, "ls -A '%s'", dir);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f))
        n++;
    pclose(f);
    return n;
}

/* ---- the server --------------------------------------------------------------------------- */

enum { BODY = 300000 };
static char body[BODY];
static char base_url[64];

static void start_server(void)
{
    if (system("python3 -c 'import http.server' 2>/dev/null") != 0)
        SKIP("no python3");
    setenv("no_proxy", "127.0.0.1", 1);
    for (size_t i = 0; i < BODY; i++)
        body[i] = (char)(i * i % 251);
    put("www/data.bin", body, BODY);
    int out[2];
    CHECK(pipe(out) == 0);
    const pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed check must not leave it running */
        if (getppid() != parent)
            _exit(1);
        dup2(out[1], STDOUT_FILENO);
        execlp("python3", "python3", STET_SOURCE_DIR "/tests/text/server.py", in_dir("www"),
               in_dir("log"), (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    int port = 0;
    CHECK(f && fscanf(f, "%d", &port) == 1);
    fclose(f);
    snprintf(base_url, sizeof base_url, "http://127.0.0.1:%d", port);
}

static const char *url_of(const char *path)
{
    static char url[128];
    snprintf(url, sizeof url, "%s/%s", base_url, path);
    return url;
}

static void check_log(const char *expected)
{
    check_file("log", expected, strlen(expected));
}

static const char *body_sum(void)
{
    return sum_of(body, BODY, BODY);
}

TEST(a_file_is_fetched_once_and_checked)
{
    start_server();
    const fetch_item item = {.url = url_of("data.bin"), .size = BODY, .sha256 = body_sum()};
    CHECK_OK(fetch_get(&item, in_dir("new/folder")));
    check_file("new/folder/data.bin", body, BODY);
    CHECK_EQ(count_entries(in_dir("new/folder")), 1);
    CHECK_OK(fetch_get(&item, in_dir("new/folder")));
    check_log("/data.bin -\n");
}

/* As `git hash-object` names the content. */
TEST(a_file_of_a_commit_is_checked_by_its_blob)
{
    CHECK_OK(file_write_all(in_dir("hello.txt"), "hello\n", 6));
    char url[300];
    snprintf(url, sizeof url, "file://%s", in_dir("hello.txt"));
    fetch_item item = {.url = url, .blob = "ce013625030ba8dba906f756967f9e9ca394464a"};
    CHECK_OK(fetch_get(&item, in_dir("git")));
    check_file("git/hello.txt", "hello\n", 6);
    item.blob = "ce013625030ba8dba906f756967f9e9ca394464b";
    CHECK_FAILS(fetch_get(&item, in_dir("other")), STET_EFORMAT, "expected Git's blob");
    CHECK_EQ(count_entries(in_dir("other")), 0);
}

TEST(a_sha256_of_ones_own_is_checked)
{
    CHECK_OK(file_write_all(in_dir("hello.txt"), "hello\n", 6));
    char url[300];
    snprintf(url, sizeof url, "file://%s", in_dir("hello.txt"));
    const char *is = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
               *other = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be04";
    CHECK_OK(stet_data_get_checked(url, is, in_dir("own")));
    CHECK_FAILS(stet_data_get_checked(url, other, in_dir("no")), STET_EFORMAT, "expected SHA-256");
    CHECK_EQ(count_entries(in_dir("no")), 0);
    CHECK_FAILS(stet_data_get_checked(url, "58", in_dir("no")), STET_EUSAGE, "64 digits");
}

TEST(any_url_and_redirects_work)
{
    start_server();
    CHECK_OK(stet_data_get(url_of("moved/data.bin?x=1"), in_dir("to")));
    check_file("to/data.bin", body, BODY);
    char url[300];
    snprintf(url, sizeof url, "file://%s", in_dir("www/data.bin"));
    CHECK_OK(stet_data_get(url, in_dir("copied")));
    check_file("copied/data.bin", body, BODY);
}

TEST(a_download_that_ends_early_goes_on_by_itself)
{
    start_server();
    const fetch_item item = {.url = url_of("cut/data.bin"), .size = BODY, .sha256 = body_sum()};
    CHECK_OK(fetch_get(&item, in_dir("to")));
    check_file("to/data.bin", body, BODY);
    CHECK_EQ(count_entries(in_dir("to")), 1);
    check_log("/cut/data.bin -\n/cut/data.bin bytes=150000-\n");
}

TEST(an_interrupted_download_goes_on_where_it_stopped)
{
    start_server();
    put("to/data.bin.part", body, BODY / 2);
    CHECK_OK(stet_data_get(url_of("data.bin"), in_dir("to")));
    check_file("to/data.bin", body, BODY);
    CHECK_EQ(count_entries(in_dir("to")), 1);
    check_log("/data.bin bytes=150000-\n");
}

TEST(a_server_without_ranges_starts_again)
{
    start_server();
    put("to/data.bin.part", body, 1000);
    CHECK_OK(stet_data_get(url_of("norange/data.bin"), in_dir("to")));
    check_file("to/data.bin", body, BODY);
}

TEST(a_part_longer_than_the_file_starts_again)
{
    start_server();
    static char longer[BODY + 10];
    put("to/data.bin.part", longer, sizeof longer);
    CHECK_OK(stet_data_get(url_of("data.bin"), in_dir("to")));
    check_file("to/data.bin", body, BODY);
}

TEST(a_file_that_changed_meanwhile_starts_again)
{
    start_server();
    put("to/data.bin.part", "other bytes", 11);
    CHECK_OK(stet_data_get(url_of("changed/data.bin"), in_dir("to")));
    check_file("to/data.bin", body, BODY);
}

TEST(a_wrong_checksum_or_size_is_refused_and_removed)
{
    start_server();
    fetch_item item = {.url = url_of("data.bin"), .size = BODY, .sha256 = sum_of("x", 1, 1)};
    CHECK_FAILS(fetch_get(&item, in_dir("to")), STET_EFORMAT, "expected SHA-256");
    CHECK_EQ(count_entries(in_dir("to")), 0);
    item.size = BODY - 1;
    CHECK_FAILS(fetch_get(&item, in_dir("to")), STET_EFORMAT, "expected 299999 bytes, got 300000");
    CHECK_EQ(count_entries(in_dir("to")), 0);
}

TEST(what_cannot_be_fetched_says_why)
{
    start_server();
    CHECK_FAILS(stet_data_get(url_of("nothing"), in_dir("to")), STET_EIO, "404");
    CHECK_EQ(count_entries(in_dir("to")), 0);
    CHECK_FAILS(stet_data_get("http://127.0.0.1:1/x", in_dir("to")), STET_EIO, "127.0.0.1:1/x");
    CHECK_FAILS(stet_data_get("gopher://127.0.0.1/x", in_dir("to")), STET_EIO, "gopher");
    CHECK_FAILS(stet_data_get(url_of(""), in_dir("to")), STET_EUSAGE, "file name");
    CHECK_FAILS(stet_data_get("http://host", in_dir("to")), STET_EUSAGE, "file name");
    CHECK_FAILS(stet_data_get("http://host/..", in_dir("to")), STET_EUSAGE, "file name");
    put("file", "x", 1);
    CHECK_FAILS(stet_data_get(url_of("data.bin"), in_dir("file/below")), STET_EIO, "file");
}

TEST(the_user_may_interrupt)
{
    start_server();
    stet_interrupt();
    CHECK_FAILS(stet_data_get(url_of("data.bin"), in_dir("to")), STET_EINTR, "");
    CHECK(!file_exists(in_dir("to/data.bin")));
}

TEST(known_names_are_listed_and_others_refused)
{
    size_t n = 0;
    const char *what;
    bool imdb = false, glove = false;
    for (const char *name; (name = stet_data_known(n, &what)) != NULL; n++) {
        CHECK(strlen(what) > 5);
        imdb = imdb || strcmp(name, "imdb") == 0;
        glove = glove || strcmp(name, "glove.6B") == 0;
    }
    CHECK(imdb && glove && n >= 5);
    CHECK_FAILS(stet_data_get("imbd", in_dir("to")), STET_EUSAGE,
                "no corpus 'imbd'; there are imdb");
}

/* ---- archives ----------------------------------------------------------------------------- */

typedef struct entry {
    const char *name, *data; /* data NULL: a folder */
    const char *link;
} entry;

static void make_archive(const char *path, const entry *e, size_t n)
{
    struct archive *a = archive_write_new();
    if (strstr(path, ".zip")) {
        archive_write_set_format_zip(a);
    } else {
        archive_write_add_filter_gzip(a);
        archive_write_set_format_pax_restricted(a);
    }
    CHECK(archive_write_open_filename(a, path) == ARCHIVE_OK);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *h = archive_entry_new();
        archive_entry_set_pathname(h, e[i].name);
        archive_entry_set_perm(h, 0644);
        archive_entry_set_filetype(h, e[i].link ? AE_IFLNK : e[i].data ? AE_IFREG : AE_IFDIR);
        if (e[i].link)
            archive_entry_set_symlink(h, e[i].link);
        if (e[i].data)
            archive_entry_set_size(h, (la_int64_t)strlen(e[i].data));
        CHECK(archive_write_header(a, h) == ARCHIVE_OK);
        if (e[i].data)
            CHECK(archive_write_data(a, e[i].data, strlen(e[i].data)) ==
                  (la_ssize_t)strlen(e[i].data));
        archive_entry_free(h);
    }
    CHECK(archive_write_close(a) == ARCHIVE_OK);
    archive_write_free(a);
}

TEST(archives_are_told_by_name)
{
    CHECK(unpack_is_archive("x.tar.gz") && unpack_is_archive("x.TGZ") &&
          unpack_is_archive("a/x.zip"));
    CHECK(!unpack_is_archive("x.tsv.gz") && !unpack_is_archive(".zip") &&
          !unpack_is_archive("zip"));
}

TEST(tar_and_zip_are_unpacked_after_the_download)
{
    start_server();
    static const entry e[] = {{"acl/", NULL, NULL},
                              {"acl/pos/1.txt", "good", NULL},
                              {"acl/neg/1.txt", "bad", NULL},
                              {"readme", "x", NULL}};
    static const char *const names[] = {"a.tar.gz", "a.zip"};
    for (int i = 0; i < 2; i++) {
        char www[64], to[64];
        snprintf(www, sizeof www, "www/%s", names[i]);
        snprintf(to, sizeof to, "to%d", i);
        make_archive(in_dir(www), e, 4);
        CHECK_OK(stet_data_get(url_of(names[i]), in_dir(to)));
        CHECK_EQ(count_entries(in_dir(to)), 3); /* acl, readme, the archive */
        stet_dataset *d;
        char acl[128];
        snprintf(acl, sizeof acl, "%s/acl", in_dir(to));
        CHECK_OK(stet_dataset_load(acl, NULL, &d));
        CHECK_STR(stet_dataset_text(d, 1).data, "good");
        stet_dataset_free(d);
    }
}

TEST(archives_that_point_outside_are_refused_whole)
{
    static const entry e[][2] = {
        {{"ok.txt", "x", NULL}, {"../evil", "x", NULL}},
        {{"ok.txt", "x", NULL}, {"a/../../evil", "x", NULL}},
        {{"ok.txt", "x", NULL}, {"/tmp/evil", "x", NULL}},
        {{"ok.txt", "x", NULL}, {"link", NULL, "/etc"}},
        {{"ok.txt", "x", NULL}, {"ok.txt", "twice", NULL}},
    };
    CHECK_OK(dir_make(in_dir("to")));
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        make_archive(in_dir("a.tar.gz"), e[i], 2);
        const stet_status st = unpack(in_dir("a.tar.gz"), in_dir("to"));
        CHECK(st == STET_EFORMAT || (i == 4 && st == STET_EIO));
        CHECK_EQ(count_entries(in_dir("to")), 0);
        CHECK(!file_exists(in_dir("evil")));
    }
}

TEST(damaged_archives_leave_nothing)
{
    static char big[200000];
    for (size_t i = 0; i + 1 < sizeof big; i++)
        big[i] = (char)('a' + i * i * 7 % 25);
    const entry e[] = {{"a/big", big, NULL}, {"b", "x", NULL}};
    make_archive(in_dir("a.tar.gz"), e, 2);
    struct stat sb;
    CHECK(stat(in_dir("a.tar.gz"), &sb) == 0 && truncate(in_dir("a.tar.gz"), sb.st_size / 2) == 0);
    CHECK_OK(dir_make(in_dir("to")));
    CHECK_FAILS(unpack(in_dir("a.tar.gz"), in_dir("to")), STET_EFORMAT, "a.tar.gz");
    CHECK_EQ(count_entries(in_dir("to")), 0);
    put("no.zip", "this is no archive", 18);
    CHECK_FAILS(unpack(in_dir("no.zip"), in_dir("to")), STET_EFORMAT, "no.zip");
}

TEST(unpacking_overwrites_nothing)
{
    const entry e[] = {{"mine", "theirs", NULL}};
    make_archive(in_dir("a.zip"), e, 1);
    put("to/mine", "mine", 4);
    CHECK_FAILS(unpack(in_dir("a.zip"), in_dir("to")), STET_EIO, "in the way");
    check_file("to/mine", "mine", 4);
    CHECK_EQ(count_entries(in_dir("to")), 1);
}

/* Else the entries that were moved would themselves be in the way of the next attempt. */
TEST(what_is_in_the_way_of_one_entry_keeps_out_all)
{
    const entry e[] = {{"a", "1", NULL}, {"b", "2", NULL}, {"c", "3", NULL}, {"d", "4", NULL}};
    make_archive(in_dir("a.zip"), e, 4);
    for (int k = 0; k < 4; k++) {
        char folder[16], name[24];
        snprintf(folder, sizeof folder, "to%d", k);
        snprintf(name, sizeof name, "%s/%s", folder, e[k].name);
        put(name, "mine", 4);
        CHECK_FAILS(unpack(in_dir("a.zip"), in_dir(folder)), STET_EIO, "in the way");
        CHECK_EQ(count_entries(in_dir(folder)), 1);
        CHECK(unlink(in_dir(name)) == 0);
        CHECK_OK(unpack(in_dir("a.zip"), in_dir(folder)));
        CHECK_EQ(count_entries(in_dir(folder)), 4);
    }
}

/* A process killed while it moved the entries leaves the rest of them in .unpacked-ARCHIVE. */
TEST(an_interrupted_unpacking_goes_on)
{
    const entry e[] = {{"a", "1", NULL}, {"b", "2", NULL}};
    make_archive(in_dir("a.zip"), e, 2);
    put("to/a", "1", 1);
    put("to/.unpacked-a.zip/b", "2", 1);
    put("to/.unpack-2147483646/b", "half", 4);
    CHECK_OK(unpack(in_dir("a.zip"), in_dir("to")));
    CHECK_EQ(count_entries(in_dir("to")), 2);
    check_file("to/b", "2", 1);
}
