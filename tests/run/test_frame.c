/* The frame of all texts: whoever finishes first, the log and the caller have texts in their order. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "run/frame.h"
#include "stet/status.h"
#include "test.h"

enum { TEXTS = 12, OLD = 3 };

typedef struct run {
    atomic_int finished;
    size_t told[TEXTS + 1], n;
} run;

/* The first text takes until most others are done, or 2 s where there is one thread. */
static stet_status one(void *ctx, size_t k, size_t worker, buf *line)
{
    run *r = ctx;
    (void)worker;
    for (int ms = 0; k == 0 && ms < 2000 && atomic_load(&r->finished) < TEXTS - 2; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    buf_printf(line, "text %zu\n", k);
    atomic_fetch_add(&r->finished, 1);
    return STET_OK;
}

static stet_status done(void *ctx, size_t k, const char *line)
{
    run *r = ctx;
    char want[32];
    snprintf(want, sizeof want, "text %zu\n", k);
    CHECK(strcmp(line, want) == 0);
    CHECK(r->n < TEXTS);
    r->told[r->n++] = k;
    return STET_OK;
}

static void note(const void *ctx, char *out, size_t size)
{
    (void)ctx;
    snprintf(out, size, "so far");
}

static stet_status none(void *ctx, size_t number, const char *line, size_t len)
{
    (void)ctx, (void)number, (void)line, (void)len;
    return STET_OK;
}

TEST(texts_are_logged_and_told_in_their_order)
{
    static const frame_hooks hooks = {"texts", one, done, note};
    char path[300], *text;
    size_t size, at = 0;
    run r = {.n = 0};
    frame f;
    snprintf(path, sizeof path, "%s/log", test_dir());
    stet_set_threads(4);
    CHECK_OK(frame_init(&f, &hooks, &r, TEXTS));
    CHECK_OK(run_log_open(&f.log, path, false, none, none, NULL));
    CHECK_OK(frame_have(&f, OLD, "text 3", 6)); /* by an earlier run: told, not written again */
    CHECK_OK(frame_run(&f));
    CHECK_OK(run_log_finish(&f.log));
    frame_deinit(&f);
    CHECK_EQ(r.n, TEXTS);
    for (size_t k = 0; k < TEXTS; k++)
        CHECK_EQ(r.told[k], k);
    CHECK_OK(file_read_all(path, 1 << 16, &text, &size));
    for (size_t k = 0; k < TEXTS; k++) {
        char want[32];
        const size_t n = (size_t)snprintf(want, sizeof want, "text %zu\n", k);
        if (k == OLD)
            continue;
        CHECK(at + n <= size && memcmp(text + at, want, n) == 0);
        at += n;
    }
    CHECK_EQ(at, size);
    mem_free(text);
}

/* ---- texts that wait for a device ---------------------------------------------------------- */

typedef struct waiting {
    atomic_int here, slot[TEXTS];
} waiting;

/* Goes on once all texts are under way, or gives up after 20 s. */
static stet_status meet(void *ctx, size_t k, size_t worker, buf *line)
{
    waiting *w = ctx;
    CHECK(worker < TEXTS);
    atomic_fetch_add(&w->slot[worker], 1);
    atomic_fetch_add(&w->here, 1);
    for (int ms = 0; ms < 20000 && atomic_load(&w->here) < TEXTS; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (atomic_load(&w->here) < TEXTS)
        return error_set(STET_EDEVICE, "text %zu is alone", k);
    buf_printf(line, "text %zu\n", k);
    return STET_OK;
}

static stet_status nothing(void *ctx, size_t k, const char *line)
{
    (void)ctx, (void)k, (void)line;
    return STET_OK;
}

TEST(more_texts_than_cores_may_wait_at_once)
{
    static const frame_hooks hooks = {"texts", meet, nothing, note};
    waiting w = {0};
    frame f;
    stet_set_threads(2);
    CHECK_OK(frame_init(&f, &hooks, &w, TEXTS));
    f.at_once = TEXTS;
    CHECK_OK(frame_run(&f));
    frame_deinit(&f);
    for (size_t k = 0; k < TEXTS; k++)
        CHECK_EQ(atomic_load(&w.slot[k]), 1); /* scratch slots of their own */
    stet_set_threads(0);
}
