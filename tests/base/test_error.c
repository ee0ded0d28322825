/* tests/base/test_error.c */
#include "test.h"

#include <pthread.h>

#include "base/error.h"

TEST(every_status_has_its_name_and_text)
{
    CHECK_STR(stet_status_name(STET_OK), "OK");
    CHECK_STR(stet_status_name(STET_EFORMAT), "EFORMAT");
    CHECK_STR(stet_status_text(STET_ENOMEM), "out of memory");
    CHECK_STR(stet_status_name((stet_status)99), "UNKNOWN");
    CHECK_STR(stet_status_text((stet_status)-1), "unknown status");
    CHECK_STR(stet_version(), STET_VERSION);
}

TEST(there_is_no_message_before_a_failure)
{
    CHECK_STR(stet_last_error(), "");
}

TEST(a_message_is_remembered_and_the_code_handed_back)
{
    CHECK_EQ(error_set(STET_EFORMAT, "%s:%d: bad", "a.txt", 7), STET_EFORMAT);
    CHECK_STR(stet_last_error(), "a.txt:7: bad");
}

TEST(a_message_may_be_made_from_the_last_one)
{
    error_set(STET_EIO, "inner");
    error_set(STET_EIO, "outer (%s)", stet_last_error());
    CHECK_STR(stet_last_error(), "outer (inner)");
}

TEST(a_prefix_goes_in_front)
{
    error_set(STET_EIO, "no space");
    CHECK_EQ(error_prefix(STET_EIO, "%s", "model"), STET_EIO);
    CHECK_STR(stet_last_error(), "model: no space");
}

TEST(over_long_messages_are_cut)
{
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(STET_EIO, "%s", text);
    const size_t n = strlen(stet_last_error());
    CHECK(n > 500 && n < 2000);
    error_prefix(STET_EIO, "front");
    CHECK(strncmp(stet_last_error(), "front: xxx", 10) == 0);
    CHECK_EQ(strlen(stet_last_error()), n);
}

static void *other_thread(void *arg)
{
    (void)arg;
    CHECK_STR(stet_last_error(), "");
    error_set(STET_EIO, "theirs");
    return NULL;
}

TEST(threads_have_their_own_message)
{
    error_set(STET_EIO, "ours");
    pthread_t t;
    CHECK_EQ(pthread_create(&t, NULL, other_thread, NULL), 0);
    pthread_join(t, NULL);
    CHECK_STR(stet_last_error(), "ours");
}

static stet_status tries(stet_status first)
{
    TRY(first);
    return STET_EINTERNAL;
}

TEST(try_returns_early_only_on_failure)
{
    CHECK_EQ(tries(STET_EIO), STET_EIO);
    CHECK_EQ(tries(STET_OK), STET_EINTERNAL);
}
