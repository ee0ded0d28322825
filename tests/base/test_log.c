/* tests/base/test_log.c */
#include "test.h"

#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pool.h"

typedef struct seen {
    int calls, inside;
    bool slow;
    stet_log_level level;
    char text[2000];
} seen;

static void remember(void *user, stet_log_level level, const char *message)
{
    seen *s = user;
    CHECK_EQ(s->inside++, 0); /* one call at a time */
    s->calls++;
    s->level = level;
    snprintf(s->text, sizeof s->text, "%s", message);
    if (s->slow)
        usleep(200);
    s->inside--;
}

TEST(nothing_happens_without_a_logger)
{
    log_warn("nobody hears %d", 1);
    progress("work", 1, 2, NULL);
}

TEST(a_logger_gets_level_and_text_until_it_is_taken_away)
{
    seen s = {0};
    stet_set_logger(remember, &s);
    log_info("epoch %d", 3);
    CHECK_STR(s.text, "epoch 3");
    CHECK_EQ(s.level, STET_LOG_INFO);
    log_debug("x");
    CHECK_EQ(s.level, STET_LOG_DEBUG);
    stet_set_logger(NULL, NULL);
    log_warn("unheard");
    CHECK_EQ(s.calls, 2);
}

TEST(an_over_long_message_is_cut)
{
    seen s = {0};
    char text[3000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    stet_set_logger(remember, &s);
    log_warn("%s", text);
    CHECK_EQ(strlen(s.text), 1023);
}

static void log_piece(void *ctx, size_t i, int worker)
{
    (void)ctx, (void)worker;
    log_info("piece %zu", i);
}

TEST(threads_log_one_at_a_time)
{
    seen s = {.slow = true};
    stet_set_logger(remember, &s);
    stet_set_threads(4);
    pool_run(500, log_piece, NULL);
    CHECK_EQ(s.calls, 500);
}

static void log_progress(void *user, const char *what, uint64_t done, uint64_t total,
                         const char *note)
{
    *(uint64_t *)user += done;
    log_info("%s %d/%d %s", what, (int)done, (int)total, note);
}

TEST(a_progress_callback_may_log)
{
    seen s = {0};
    uint64_t done = 0;
    stet_set_logger(remember, &s);
    stet_set_progress(log_progress, &done);
    progress("train", 5, 10, "loss 0.5");
    CHECK_STR(s.text, "train 5/10 loss 0.5");
    progress("train", 6, 10, NULL);
    CHECK_STR(s.text, "train 6/10 ");
    stet_set_progress(NULL, NULL);
    progress("train", 7, 10, NULL);
    CHECK_EQ(done, 11);
}

static void on_signal(int number)
{
    (void)number;
    stet_interrupt();
}

TEST(an_interrupt_is_seen_until_cleared)
{
    CHECK_OK(interrupt_status());
    signal(SIGINT, on_signal);
    raise(SIGINT);
    CHECK(interrupted());
    CHECK_FAILS(interrupt_status(), STET_EINTR, "interrupted");
    stet_interrupt_clear();
    CHECK(!interrupted());
    CHECK_OK(interrupt_status());
}
