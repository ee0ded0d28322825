/* tests/test.h - a test is a sentence:
 *
 *     TEST(an_empty_arena_restores_to_empty)
 *     {
 *         CHECK_EQ(arena_save(&a).used, 0);
 *     }
 *
 * Each TEST runs in its own process with a time limit; CHECK_* prints both sides and ends the test.
 * SKIP("reason") ends it as skipped; a program whose tests were all skipped exits 77. `prog NAME` runs one test. */
#ifndef STET_TEST_H
#define STET_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stet/status.h"

typedef void test_fn(void);
void test_register(const char *name, test_fn *fn);
__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *fmt, ...);
__attribute__((noreturn)) void test_skip(const char *reason);
/* A fresh folder for this test's files, removed afterwards. */
const char *test_dir(void);
/* Path of `name` in the folder of real data ($STET_DATA, or ../shared/data beside the source tree);
 * skips the test, visibly, when it is not there. */
const char *test_data(const char *name);

#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        test_register(#name, name);                                                                \
    }                                                                                              \
    static void name(void)
#define SKIP(reason) test_skip(reason)

#define CHECK(cond) ((cond) ? (void)0 : test_fail(__FILE__, __LINE__, "CHECK(%s)", #cond))
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        const stet_status st_ = (call);                                                            \
        if (st_ != STET_OK)                                                                        \
            test_fail(__FILE__, __LINE__, "%s: %s: %s", #call, stet_status_name(st_),              \
                      stet_last_error());                                                          \
    } while (0)
/* The call fails with this code and a message that contains `part`. */
#define CHECK_FAILS(call, code, part)                                                              \
    do {                                                                                           \
        const stet_status st_ = (call);                                                            \
        if (st_ != (code) || !strstr(stet_last_error(), (part)))                                   \
            test_fail(__FILE__, __LINE__, "%s gave %s '%s', expected %s with '%s'", #call,         \
                      stet_status_name(st_), stet_last_error(), stet_status_name(code), (part));   \
    } while (0)
#define CHECK_INT_(a, op, b)                                                                       \
    do {                                                                                           \
        const long long a_ = (long long)(a), b_ = (long long)(b);                                  \
        if (!(a_ op b_))                                                                           \
            test_fail(__FILE__, __LINE__, "%s %s %s: %lld against %lld", #a, #op, #b, a_, b_);     \
    } while (0)
#define CHECK_EQ(a, b) CHECK_INT_(a, ==, b)
#define CHECK_NE(a, b) CHECK_INT_(a, !=, b)
#define CHECK_LE(a, b)                                                                             \
    do {                                                                                           \
        const double a_ = (double)(a), b_ = (double)(b);                                           \
        if (!(a_ <= b_))                                                                           \
            test_fail(__FILE__, __LINE__, "%s <= %s: %.17g against %.17g", #a, #b, a_, b_);        \
    } while (0)
#define CHECK_NEAR(a, b, tol)                                                                      \
    do {                                                                                           \
        const double a_ = (double)(a), b_ = (double)(b), t_ = (double)(tol);                       \
        if (!(fabs(a_ - b_) <= t_))                                                                \
            test_fail(__FILE__, __LINE__, "%s near %s: %.17g against %.17g (tolerance %g)", #a,    \
                      #b, a_, b_, t_);                                                             \
    } while (0)
#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        const char *a_ = (a), *b_ = (b);                                                           \
        if (!a_ || !b_ || strcmp(a_, b_) != 0)                                                     \
            test_fail(__FILE__, __LINE__, "%s is %s: \"%s\" against \"%s\"", #a, #b,               \
                      a_ ? a_ : "(null)", b_ ? b_ : "(null)");                                     \
    } while (0)

#endif
