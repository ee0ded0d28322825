/* tests/base/test_file.c */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "base/mem.h"

static const char *in_dir(const char *name)
{
    static char path[4][300];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, 300, "%s/%s", test_dir(), name);
    return p;
}

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    CHECK(d);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void check_content(const char *path, const char *expected)
{
    char *data;
    size_t size;
    CHECK_OK(file_read_all(path, 1 << 20, &data, &size));
    CHECK_STR(data, expected);
    CHECK_EQ(size, strlen(expected));
    mem_free(data);
}

TEST(a_file_appears_only_on_commit)
{
    atomic_file f;
    const char *path = in_dir("out");
    CHECK_OK(atomic_open(&f, path));
    CHECK_OK(atomic_write(&f, "one ", 4));
    CHECK_OK(atomic_printf(&f, "%s", "two"));
    fflush(f.stream);
    CHECK(!file_exists(path));
    CHECK_OK(atomic_commit(&f));
    check_content(path, "one two");
    CHECK_EQ(entries(test_dir()), 1);
    atomic_abort(&f); /* fine afterwards */
}

TEST(an_abort_leaves_the_old_file_and_nothing_else)
{
    atomic_file f;
    const char *path = in_dir("out");
    CHECK_OK(file_write_all(path, "old", 3));
    CHECK_OK(atomic_open(&f, path));
    CHECK_OK(atomic_write(&f, "new", 3));
    atomic_abort(&f);
    atomic_abort(&f);
    check_content(path, "old");
    CHECK_EQ(entries(test_dir()), 1);
}

TEST(permissions_and_links_are_kept)
{
    const char *path = in_dir("out"), *link = in_dir("link");
    CHECK_OK(file_write_all(path, "old", 3));
    CHECK_EQ(chmod(path, 0640), 0);
    CHECK_EQ(symlink("out", link), 0);
    CHECK_OK(file_write_all(link, "new", 3));
    struct stat sb;
    CHECK_EQ(lstat(link, &sb), 0);
    CHECK(S_ISLNK(sb.st_mode));
    CHECK_EQ(stat(path, &sb), 0);
    CHECK_EQ(sb.st_mode & 07777, 0640);
    check_content(path, "new");
}

TEST(a_stale_temporary_file_is_no_obstacle)
{
    char temp[400];
    const char *path = in_dir("out");
    snprintf(temp, sizeof temp, "%s.tmp-%ld", path, (long)getpid());
    CHECK_OK(file_write_all(temp, "stale", 5));
    CHECK_OK(file_write_all(path, "new", 3));
    check_content(path, "new");
    CHECK_EQ(entries(test_dir()), 1);
}

TEST(a_missing_folder_is_named)
{
    CHECK_FAILS(file_write_all(in_dir("no/such"), "x", 1), STET_EIO, "no/such: No such file");
    CHECK_FAILS(file_write_all(test_dir(), "x", 1), STET_EIO, "Is a directory");
    CHECK_EQ(entries(test_dir()), 0);
}

TEST(a_device_is_written_and_not_replaced)
{
    struct stat before, after;
    CHECK_EQ(stat("/dev/null", &before), 0);
    CHECK_OK(file_write_all("/dev/null", "x", 1));
    CHECK_EQ(lstat("/dev/null", &after), 0);
    CHECK(S_ISCHR(after.st_mode) && before.st_ino == after.st_ino);
}

TEST(a_full_disk_is_told)
{
    if (access("/dev/full", W_OK) != 0)
        SKIP("no /dev/full");
    CHECK_FAILS(file_write_all("/dev/full", "x", 1), STET_EIO, "/dev/full: No space left");
    atomic_file f;
    CHECK_OK(atomic_open(&f, "/dev/full"));
    fprintf(f.stream, "unchecked");
    fflush(f.stream); /* the failure happens here ... */
    errno = 0;
    CHECK_FAILS(atomic_commit(&f), STET_EIO, "No space left"); /* ... and is told here */
}

TEST(a_file_that_grows_too_large_leaves_nothing)
{
    const struct rlimit limit = {100000, 100000};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    char *data = mem_zalloc(300000, 1);
    CHECK_FAILS(file_write_all(in_dir("big"), data, 300000), STET_EIO, "big: File too large");
    mem_free(data);
    CHECK_EQ(entries(test_dir()), 0);
}

static void ignore_signal(int number)
{
    (void)number;
}

typedef struct slow_read {
    const char *path;
    pthread_t writer;
} slow_read;

/* Reads slowly while it interrupts the writer. */
static void *slow_reader(void *arg)
{
    const slow_read *r = arg;
    const int fd = open(r->path, O_RDONLY);
    static char data[1 << 16];
    size_t total = 0;
    for (ssize_t n; (n = read(fd, data, sizeof data)) > 0;) {
        total += (size_t)n;
        /* The first signal ends a write half-way, the second one before it has begun. */
        for (int i = 0; i < 2 && total < 900000; i++) {
            usleep(500);
            pthread_kill(r->writer, SIGUSR1);
        }
        usleep(500);
    }
    close(fd);
    CHECK_EQ(total, 1000000);
    return NULL;
}

TEST(interrupted_and_short_writes_are_continued)
{
    slow_read r = {in_dir("pipe"), pthread_self()};
    CHECK_EQ(mkfifo(r.path, 0600), 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = ignore_signal}, NULL); /* no SA_RESTART */
    pthread_t reader;
    CHECK_EQ(pthread_create(&reader, NULL, slow_reader, &r), 0);
    char *data = mem_zalloc(1000000, 1);
    CHECK_OK(file_write_all(r.path, data, 1000000));
    mem_free(data);
    pthread_join(reader, NULL);
}

TEST(reading_respects_its_limit)
{
    const char *path = in_dir("ten");
    char *data = NULL;
    size_t size = 99;
    CHECK_OK(file_write_all(path, "0123456789", 10));
    CHECK_OK(file_read_all(path, 10, &data, &size));
    CHECK_STR(data, "0123456789");
    CHECK_EQ(size, 10);
    mem_free(data);
    CHECK_FAILS(file_read_all(path, 9, &data, &size), STET_EFORMAT, "ten: larger than 9 bytes");
    CHECK(!data && size == 0);
    CHECK_FAILS(file_read_all("/dev/zero", 100000, &data, &size), STET_EIO, "not a regular file");
    CHECK_FAILS(file_read_all(in_dir("none"), 9, &data, &size), STET_EIO, "none: No such file");
    CHECK_FAILS(file_read_all(test_dir(), 9, &data, &size), STET_EIO, "Is a directory");
}

TEST(a_mapping_shows_the_file)
{
    file_map m;
    CHECK_OK(file_write_all(in_dir("data"), "bytes", 5));
    CHECK_OK(file_map_open(&m, in_dir("data")));
    CHECK(m.size == 5 && memcmp(m.data, "bytes", 5) == 0);
    file_map_close(&m);
    file_map_close(&m);
    CHECK_OK(file_write_all(in_dir("empty"), "", 0));
    CHECK_OK(file_map_open(&m, in_dir("empty")));
    CHECK(m.size == 0 && m.data);
    file_map_close(&m);
    CHECK_FAILS(file_map_open(&m, test_dir()), STET_EIO, "not a regular file");
    CHECK_FAILS(file_map_open(&m, in_dir("none")), STET_EIO, "No such file");
    CHECK_EQ(m.size, 0);
}

TEST(folders_are_made_with_their_parents)
{
    CHECK_OK(dir_make(in_dir("a/b//c/")));
    CHECK(dir_exists(in_dir("a/b/c")));
    CHECK_OK(dir_make(in_dir("a/b")));
    CHECK_OK(dir_make("/"));
    CHECK_OK(dir_make("."));
    CHECK_OK(file_write_all(in_dir("a/file"), "", 0));
    CHECK(file_exists(in_dir("a/file")) && !dir_exists(in_dir("a/file")));
    CHECK(!file_exists(in_dir("a")) && !dir_exists(in_dir("z")));
    CHECK_FAILS(dir_make(in_dir("a/file")), STET_EIO, "a/file: Not a directory");
    CHECK_FAILS(dir_make(in_dir("a/file/x")), STET_EIO, "a/file: Not a directory");
    CHECK_FAILS(dir_make(""), STET_EIO, "empty");
}

static bool ends_in(const char *path, const char *part)
{
    size_t n;
    const char *last = path_last(path, &n);
    return n == strlen(part) && memcmp(last, part, n) == 0;
}

TEST(the_last_part_of_a_path_is_without_slashes)
{
    CHECK(ends_in("a/b.txt", "b.txt"));
    CHECK(ends_in("b.txt", "b.txt"));
    CHECK(ends_in("/a/b/", "b"));
    CHECK(ends_in("b//", "b"));
    CHECK(ends_in("", ""));
}

TEST(paths_are_joined_with_one_slash)
{
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < 4; i++) {
        char *p = path_join(cases[i][0], cases[i][1]);
        CHECK_STR(p, cases[i][2]);
        mem_free(p);
    }
}

static stet_status write_and_read(void *ctx)
{
    const char *path = ctx;
    char *data = NULL;
    size_t size;
    stet_status st = file_write_all(path, "text", 4);
    if (st == STET_OK)
        st = file_read_all(path, 100, &data, &size);
    mem_free(data);
    if (st == STET_OK)
        st = dir_make(test_dir());
    return st;
}

TEST(files_survive_every_failed_allocation)
{
    char path[300];
    snprintf(path, sizeof path, "%s", in_dir("out"));
    CHECK_LE(6, ALLOC_FAIL_LOOP(write_and_read, path));
    CHECK_EQ(entries(test_dir()), 1); /* the file, and no temporary one */
}
