/* tests/base/test_stream.c */
#include "test.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "alloc_fail.h"
#include "base/rng.h"
#include "base/stream.h"

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static const char *file_of(const void *data, size_t n)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/data", test_dir());
    FILE *f = fopen(path, "w"); /* file_write_all would wait for the disk each time */
    CHECK(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
    return path;
}

static bytes plain(const char *data, size_t n)
{
    bytes b = {malloc(n + 1), n};
    memcpy(b.data, data, n);
    return b;
}

static bytes gzip(const char *data, size_t n)
{
    bytes b = {malloc(n + 1000), 0};
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)n};
    CHECK_EQ(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = (unsigned char *)b.data;
    z.avail_out = (unsigned)n + 1000;
    CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.n = z.total_out;
    deflateEnd(&z);
    return b;
}

static bytes xz(const char *data, size_t n)
{
    bytes b = {malloc(n + 1000), 0};
    CHECK_EQ(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, (const uint8_t *)data, n,
                                     (uint8_t *)b.data, &b.n, n + 1000),
             LZMA_OK);
    return b;
}

static bytes zst(const char *data, size_t n)
{
    bytes b = {malloc(n + 1000), 0};
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    b.n = ZSTD_compress2(c, b.data, n + 1000, data, n);
    CHECK(!ZSTD_isError(b.n));
    ZSTD_freeCCtx(c);
    return b;
}

typedef bytes packer(const char *data, size_t n);
enum { PLAIN, GZIP, XZ, ZST, PACKERS };
static packer *const packers[PACKERS] = {plain, gzip, xz, zst};
static const char *const names[PACKERS] = {"plain", "gzip", "xz", "zstd"};

/* Text of about n bytes with lines of 0 to 200 bytes. */
static bytes some_text(size_t n, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 0);
    bytes b = {malloc(n + 1), 0};
    while (b.n < n) {
        for (size_t len = rng_below(&r, 200); len > 0 && b.n < n; len--)
            b.data[b.n++] = (char)('a' + rng_below(&r, 26));
        if (b.n < n)
            b.data[b.n++] = '\n';
    }
    return b;
}

static stet_status count_lines(const char *path, size_t *lines, size_t *total)
{
    stream *s;
    char *line;
    size_t len;
    stet_status st;
    *lines = *total = 0;
    TRY(stream_open(path, &s));
    while (stream_line(s, &line, &len, &st)) {
        CHECK_EQ(strlen(line), len);
        CHECK_EQ(stream_line_number(s), ++*lines);
        *total += len;
    }
    stream_close(s);
    return st;
}

/* The lines of `data`, one after the other, and nothing else. */
static void check_lines(const char *path, const char *const *lines)
{
    stream *s;
    char *line;
    size_t len;
    stet_status st;
    CHECK_OK(stream_open(path, &s));
    while (stream_line(s, &line, &len, &st)) {
        CHECK(*lines);
        CHECK_STR(line, *lines);
        CHECK_EQ(len, strlen(*lines));
        lines++;
    }
    CHECK_OK(st);
    CHECK(!*lines);
    CHECK(!stream_line(s, &line, &len, &st)); /* the end stays the end */
    CHECK_OK(st);
    stream_close(s);
}

TEST(lines_come_without_their_ends)
{
    const char text[] = "one\ntwo\r\n\n\r\nfi\rve\nlast\r";
    const char *const lines[] = {"one", "two", "", "", "fi\rve", "last", NULL};
    for (int i = 0; i < PACKERS; i++) {
        const bytes b = packers[i](text, sizeof text - 1);
        check_lines(file_of(b.data, b.n), lines);
        free(b.data);
    }
}

TEST(a_final_line_end_adds_no_line)
{
    const char *const one[] = {"a", NULL}, *const none[] = {NULL}, *const empty[] = {"", NULL};
    check_lines(file_of("a\n", 2), one);
    check_lines(file_of("a", 1), one);
    check_lines(file_of("", 0), none);
    check_lines(file_of("\n", 1), empty);
}

TEST(a_line_may_hold_nul_bytes)
{
    stream *s;
    char *line;
    size_t len;
    stet_status st;
    CHECK_OK(stream_open(file_of("a\0b\nc", 5), &s));
    CHECK(stream_line(s, &line, &len, &st));
    CHECK(len == 3 && memcmp(line, "a\0b", 4) == 0);
    CHECK(stream_line(s, &line, &len, &st));
    CHECK_STR(line, "c");
    stream_close(s);
}

TEST(every_format_gives_back_the_bytes)
{
    const bytes text = some_text(1500000, 1);
    char *back = malloc(text.n + 1);
    for (int i = 0; i < PACKERS; i++) {
        const bytes b = packers[i](text.data, text.n);
        stream *s;
        CHECK_OK(stream_open(file_of(b.data, b.n), &s));
        size_t n = 0, got = 1;
        for (size_t step = 1; got > 0; step = step * 3 % 100003) {
            const size_t room = text.n + 1 - n;
            CHECK_OK(stream_read(s, back + n, step < room ? step : room, &got));
            n += got;
        }
        CHECK_EQ(n, text.n);
        CHECK(memcmp(back, text.data, n) == 0);
        CHECK_OK(stream_read(s, back, 1, &got));
        CHECK_EQ(got, 0);
        stream_close(s);
        free(b.data);
    }
    free(back);
    free(text.data);
}

TEST(every_format_gives_back_the_lines)
{
    const bytes text = some_text(1500000, 2);
    size_t expected = text.data[text.n - 1] != '\n', ends = 0;
    for (size_t i = 0; i < text.n; i++)
        ends += text.data[i] == '\n';
    expected += ends;
    for (int i = 0; i < PACKERS; i++) {
        const bytes b = packers[i](text.data, text.n);
        size_t lines, total;
        CHECK_OK(count_lines(file_of(b.data, b.n), &lines, &total));
        CHECK_EQ(lines, expected);
        CHECK_EQ(total, text.n - ends);
        free(b.data);
    }
    free(text.data);
}

TEST(compressed_files_in_a_row_are_one)
{
    const char *const lines[] = {"one", "two", "three", NULL};
    for (int i = GZIP; i < PACKERS; i++) {
        const bytes a = packers[i]("one\ntw", 6), b = packers[i]("o\nthree", 7);
        char both[4000];
        memcpy(both, a.data, a.n);
        memcpy(both + a.n, b.data, b.n);
        check_lines(file_of(both, a.n + b.n), lines);
        free(a.data);
        free(b.data);
    }
}

TEST(truncated_data_is_an_error_at_every_length)
{
    const bytes text = some_text(300, 3);
    for (int i = GZIP; i < PACKERS; i++) {
        const bytes b = packers[i](text.data, text.n);
        for (size_t n = 6; n < b.n; n++) { /* less is too little to be recognised */
            size_t lines, total;
            CHECK_FAILS(count_lines(file_of(b.data, n), &lines, &total), STET_EFORMAT, "/data: ");
            CHECK(strstr(stet_last_error(), names[i]));
            if (!strstr(stet_last_error(), "truncated"))
                test_fail(__FILE__, __LINE__, "%s at %zu: %s", names[i], n, stet_last_error());
        }
        free(b.data);
    }
    free(text.data);
}

TEST(damaged_data_is_an_error_that_names_the_file)
{
    const bytes text = some_text(5000, 4);
    for (int i = GZIP; i < PACKERS; i++) {
        const bytes b = packers[i](text.data, text.n);
        b.data[b.n / 2] ^= 0x10;
        size_t lines, total;
        CHECK_FAILS(count_lines(file_of(b.data, b.n), &lines, &total), STET_EFORMAT,
                    "/data: damaged");
        free(b.data);
    }
    free(text.data);
}

TEST(foreign_bytes_after_the_end_are_an_error)
{
    for (int i = GZIP; i < PACKERS; i++) {
        const bytes b = packers[i]("text\n", 5);
        char more[2000];
        memcpy(more, b.data, b.n);
        memcpy(more + b.n, "garbage!", 8);
        size_t lines, total;
        CHECK_FAILS(count_lines(file_of(more, b.n + 8), &lines, &total), STET_EFORMAT, "/data: ");
        free(b.data);
    }
}

TEST(a_failed_stream_stays_failed)
{
    const bytes b = gzip("some text that is cut", 21);
    stream *s;
    char *line, c;
    size_t len;
    stet_status st;
    CHECK_OK(stream_open(file_of(b.data, b.n - 4), &s));
    while (stream_line(s, &line, &len, &st)) {
    }
    CHECK_EQ(st, STET_EFORMAT);
    CHECK(!stream_line(s, &line, &len, &st));
    CHECK_EQ(st, STET_EFORMAT);
    CHECK_FAILS(stream_read(s, &c, 1, &len), STET_EFORMAT, "earlier");
    stream_close(s);
    free(b.data);
}

TEST(magic_alone_decides)
{
    const char *const lines[] = {"\x1f", NULL}, *const almost[] = {"(\xb5/", NULL};
    check_lines(file_of("\x1f", 1), lines);
    check_lines(file_of("(\xb5/", 3), almost);
    size_t n, total;
    CHECK_FAILS(count_lines(file_of("\x1f\x8b", 2), &n, &total), STET_EFORMAT, "truncated gzip");
}

TEST(a_line_beyond_the_cap_is_named)
{
    const bytes text = some_text(2000000, 5);
    for (size_t i = 0; i < text.n; i++)
        if (text.data[i] == '\n' && i > 1000)
            text.data[i] = ' ';
    text.data[999] = '\n';
    text.data[1000] = 'x';
    stream *s;
    char *line;
    size_t len, lines = 0;
    stet_status st;
    CHECK_OK(stream_open(file_of(text.data, text.n), &s));
    stream_set_line_cap(s, 100000);
    while (stream_line(s, &line, &len, &st))
        lines++;
    char part[40];
    snprintf(part, sizeof part, "/data:%zu: line longer", lines + 1);
    CHECK_FAILS(st, STET_EFORMAT, part);
    stream_close(s);

    CHECK_OK(stream_open(file_of("12345\n123456\n", 13), &s)); /* exact */
    stream_set_line_cap(s, 5);
    CHECK(stream_line(s, &line, &len, &st));
    CHECK(!stream_line(s, &line, &len, &st));
    CHECK_FAILS(st, STET_EFORMAT, "/data:2: line longer than 5 bytes");
    stream_close(s);
    free(text.data);
}

TEST(a_line_without_end_needs_bounded_memory)
{
    stream *s;
    char *line;
    size_t len;
    stet_status st;
    CHECK_OK(stream_open("/dev/zero", &s));
    stream_set_line_cap(s, 3 << 20);
    CHECK(!stream_line(s, &line, &len, &st));
    CHECK_FAILS(st, STET_EFORMAT, "/dev/zero:1: line longer than 3145728 bytes");
    stream_close(s);
}

TEST(a_line_longer_than_the_buffer_is_whole)
{
    bytes text = some_text(5000000, 6);
    for (size_t i = 0; i < text.n; i++)
        if (text.data[i] == '\n')
            text.data[i] = ' ';
    text.data[10] = '\n';
    stream *s;
    char *line;
    size_t len;
    stet_status st;
    CHECK_OK(stream_open(file_of(text.data, text.n), &s));
    CHECK(stream_line(s, &line, &len, &st));
    CHECK_EQ(len, 10);
    CHECK(stream_line(s, &line, &len, &st));
    CHECK_EQ(len, text.n - 11);
    CHECK(memcmp(line, text.data + 11, len) == 0);
    stream_close(s);
    free(text.data);
}

TEST(bytes_may_be_read_after_lines)
{
    stream *s;
    char *line, data[20];
    size_t len, got;
    stet_status st;
    CHECK_OK(stream_open(file_of("head\nrest of it", 15), &s));
    CHECK(stream_line(s, &line, &len, &st));
    CHECK_OK(stream_read(s, data, 5, &got));
    CHECK(got == 5 && memcmp(data, "rest ", 5) == 0);
    CHECK(stream_line(s, &line, &len, &st));
    CHECK_STR(line, "of it");
    stream_close(s);
}

TEST(a_missing_file_and_a_folder_are_named)
{
    stream *s = (stream *)1;
    CHECK_FAILS(stream_open("/no/such/file", &s), STET_EIO, "/no/such/file: No such file");
    CHECK(!s);
    CHECK_FAILS(stream_open(test_dir(), &s), STET_EIO, "Is a directory");
    CHECK(!s);
    stream_close(NULL);
}

/* A pipe that gives the magic in pieces. */
TEST(a_dash_is_standard_input)
{
    const bytes b = xz("from\na pipe", 11);
    int fd[2];
    CHECK_EQ(pipe(fd), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < b.n; i++) {
            if (write(fd[1], b.data + i, 1) != 1)
                _exit(1);
            if (i < 8)
                usleep(2000);
        }
        _exit(0);
    }
    close(fd[1]);
    dup2(fd[0], 0);
    const char *const lines[] = {"from", "a pipe", NULL};
    check_lines("-", lines);
    waitpid(pid, NULL, 0);
    CHECK_EQ(fcntl(0, F_GETFD), 0); /* not closed: it is not ours */
    stream *s;
    CHECK_OK(stream_open("-", &s));
    CHECK_STR(stream_path(s), "<stdin>");
    stream_close(s);
    free(b.data);
}

TEST(the_real_corpus_is_read_in_full)
{
    size_t lines, total;
    CHECK_OK(count_lines(test_data("imdb/train.tsv.xz"), &lines, &total));
    CHECK_EQ(lines, 25000);
}

static stet_status read_file(void *path)
{
    size_t lines, total;
    return count_lines(path, &lines, &total);
}

TEST(streams_survive_every_failed_allocation)
{
    const bytes text = some_text(2000, 7);
    for (int i = 0; i < PACKERS; i++) {
        const bytes b = packers[i](text.data, text.n);
        CHECK_LE(4, ALLOC_FAIL_LOOP(read_file, (void *)(uintptr_t)file_of(b.data, b.n)));
        free(b.data);
    }
    free(text.data);
}
