/* tests/test_main.c - runs each registered TEST in a child process. */
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TESTS = 512, TIME_LIMIT_S = 600, SKIPPED = 77 };
static struct {
    const char *name;
    test_fn *fn;
} tests[MAX_TESTS];
static size_t n_tests;
static char scratch[64];

void test_register(const char *name, test_fn *fn)
{
    if (n_tests == MAX_TESTS)
        abort();
    tests[n_tests].name = name;
    tests[n_tests++].fn = fn;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "  %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    _exit(1);
}

void test_skip(const char *reason)
{
    fprintf(stderr, "  skipped: %s\n", reason);
    _exit(SKIPPED);
}

const char *test_dir(void)
{
    return scratch;
}

const char *test_data(const char *name)
{
    static char path[4096];
    const char *root = getenv("STET_DATA");
    if (root)
        snprintf(path, sizeof path, "%s/%s", root, name);
    else
        snprintf(path, sizeof path, "%s/../shared/data/%s", STET_SOURCE_DIR, name);
    if (access(path, R_OK) != 0) {
        static char reason[4200];
        snprintf(reason, sizeof reason, "no %s", path);
        test_skip(reason);
    }
    return path;
}

static int remove_entry(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb, (void)type, (void)ftw;
    return remove(path);
}

static int run_one(size_t i)
{
    snprintf(scratch, sizeof scratch, "/tmp/stet-test-XXXXXX");
    if (!mkdtemp(scratch)) {
        perror("mkdtemp");
        return 1;
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(TIME_LIMIT_S);
        tests[i].fn();
        fflush(NULL);
        exit(0); /* not _exit: the leak checker runs here */
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "  died: %s\n", strsignal(WTERMSIG(status)));
        return 1;
    }
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    size_t failed = 0, skipped = 0, ran = 0;
    for (size_t i = 0; i < n_tests; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        const int rc = run_one(i);
        ran++;
        failed += rc != 0 && rc != SKIPPED;
        skipped += rc == SKIPPED;
        printf("%s %s\n", rc == 0 ? "ok  " : rc == SKIPPED ? "skip" : "FAIL", tests[i].name);
        fflush(stdout);
    }
    printf("%zu tests, %zu failed, %zu skipped\n", ran, failed, skipped);
    return failed ? 1 : ran && skipped == ran ? SKIPPED : 0;
}
