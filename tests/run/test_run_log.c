/* The log that a killed run goes on with: a torn last line is cut off, and nothing else ever is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "run/run_log.h"
#include "test.h"

/* ---- getline() without memory -------------------------------------------------------------- */

/* The linker sends getline() of the code under test here, and what it is inlined to. */
static int calls_left = -1; /* before there is no memory; -1: always enough */

static bool no_memory(void)
{
    if (calls_left == 0)
        return errno = ENOMEM, true;
    calls_left -= calls_left > 0;
    return false;
}

ssize_t __real_getline(char **line, size_t *cap, FILE *in);
ssize_t __wrap_getline(char **line, size_t *cap, FILE *in);
ssize_t __wrap_getline(char **line, size_t *cap, FILE *in)
{
    return no_memory() ? -1 : __real_getline(line, cap, in);
}

ssize_t __real___getdelim(char **line, size_t *cap, int end, FILE *in);
ssize_t __wrap___getdelim(char **line, size_t *cap, int end, FILE *in);
ssize_t __wrap___getdelim(char **line, size_t *cap, int end, FILE *in)
{
    return no_memory() ? -1 : __real___getdelim(line, cap, end, in);
}

/* ---- the tests ----------------------------------------------------------------------------- */

static stet_status count(void *ctx, size_t number, const char *line, size_t len)
{
    (void)line, (void)len;
    *(size_t *)ctx = number;
    return STET_OK;
}

static stet_status no_rest(void *ctx, size_t lines, const char *rest, size_t len)
{
    (void)ctx, (void)lines, (void)rest, (void)len;
    return STET_OK;
}

static const char *write_log(char path[300], const char *text)
{
    snprintf(path, 300, "%s/log", test_dir());
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return path;
}

static void check_text(const char *path, const char *want)
{
    char *text;
    size_t size;
    CHECK_OK(file_read_all(path, 1 << 16, &text, &size));
    CHECK_EQ(size, strlen(want));
    CHECK(memcmp(text, want, size) == 0);
    mem_free(text);
}

TEST(only_a_torn_last_line_is_cut_off)
{
    char path[300];
    run_log log;
    size_t lines = 0;
    write_log(path, "{\"a\":1}\n{\"a\":2}\n{\"a\":");
    CHECK_OK(run_log_open(&log, path, false, count, no_rest, &lines));
    run_log_close(&log);
    CHECK_EQ(lines, 2);
    check_text(path, "{\"a\":1}\n{\"a\":2}\n");
}

TEST(a_log_that_cannot_be_read_for_lack_of_memory_stays_whole)
{
    static const char text[] = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n";
    char path[300];
    run_log log;
    size_t lines = 0;
    write_log(path, text);
    for (int n = 0; n < 3; n++) {
        calls_left = n;
        CHECK_FAILS(run_log_open(&log, path, false, count, no_rest, &lines), STET_ENOMEM, path);
        check_text(path, text);
    }
    calls_left = -1;
    CHECK_OK(run_log_open(&log, path, false, count, no_rest, &lines));
    run_log_close(&log);
    CHECK_EQ(lines, 3);
    check_text(path, text);
}
