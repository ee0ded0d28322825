/* tests/base/test_pool.c */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/rng.h"

enum { PIECES = 1000 };

typedef struct job {
    atomic_int calls[PIECES];
    atomic_int per_worker[64];
    double value[PIECES];
} job;

static void piece(void *ctx, size_t i, int worker)
{
    job *j = ctx;
    CHECK(worker >= 0 && worker < stet_threads());
    atomic_fetch_add(&j->calls[i], 1);
    atomic_fetch_add(&j->per_worker[worker], 1);
    rng r = rng_stream(1, STREAM_TEST, i);
    double sum = 0;
    for (int k = 0; k < 100; k++)
        sum += rng_normal(&r) * 1e-3;
    j->value[i] = sum;
}

static double run_and_sum(int threads)
{
    static job j;
    memset(&j, 0, sizeof j);
    stet_set_threads(threads);
    pool_run(PIECES, piece, &j);
    double sum = 0;
    for (int i = 0; i < PIECES; i++) {
        CHECK_EQ(atomic_load(&j.calls[i]), 1);
        sum += j.value[i];
    }
    return sum;
}

TEST(every_piece_runs_once_and_the_result_does_not_depend_on_threads)
{
    const double one = run_and_sum(1);
    for (int threads = 2; threads <= 8; threads++) {
        const double several = run_and_sum(threads);
        CHECK(memcmp(&one, &several, sizeof one) == 0);
    }
    const double again = run_and_sum(1);
    CHECK(memcmp(&one, &again, sizeof one) == 0);
}

TEST(zero_threads_means_one_per_core)
{
    stet_set_threads(3);
    CHECK_EQ(stet_threads(), 3);
    stet_set_threads(0);
    CHECK_LE(1, stet_threads());
    CHECK_LE(stet_threads(), sysconf(_SC_NPROCESSORS_CONF));
    stet_set_threads(1 << 30);
    CHECK_LE(stet_threads(), 4096);
}

TEST(the_default_is_one_thread_per_core)
{
    const int by_default = stet_threads();
    stet_set_threads(0);
    CHECK_EQ(stet_threads(), by_default);
}

TEST(no_pieces_is_no_work)
{
    stet_set_threads(2);
    pool_run(0, piece, NULL);
}

static void wait_for_other(void *ctx, size_t i, int worker)
{
    (void)i, (void)worker;
    atomic_int *arrived = ctx;
    atomic_fetch_add(arrived, 1);
    for (int tries = 0; atomic_load(arrived) < 2; tries++) {
        CHECK_LE(tries, 100000);
        usleep(100);
    }
}

TEST(two_pieces_really_run_at_the_same_time)
{
    atomic_int arrived = 0;
    stet_set_threads(2);
    pool_run(2, wait_for_other, &arrived);
    usleep(20000);
    atomic_store(&arrived, 0);
    pool_run(2, wait_for_other, &arrived); /* the worker had fallen asleep */
}

typedef struct nested {
    atomic_int count;
    size_t last[PIECES];
} nested;

typedef struct inner {
    nested *n;
    size_t outer;
    int worker;
} inner;

static void inner_piece(void *ctx, size_t i, int worker)
{
    inner *in = ctx;
    CHECK_EQ(worker, in->worker);
    CHECK_EQ(in->n->last[in->outer], i); /* in order */
    in->n->last[in->outer]++;
    atomic_fetch_add(&in->n->count, 1);
}

static void outer_piece(void *ctx, size_t i, int worker)
{
    inner in = {ctx, i, worker};
    pool_run(10, inner_piece, &in);
}

TEST(a_run_inside_a_run_goes_in_place_and_in_order)
{
    for (int threads = 1; threads <= 3; threads++) {
        static nested n;
        memset(&n, 0, sizeof n);
        stet_set_threads(threads);
        pool_run(100, outer_piece, &n);
        CHECK_EQ(atomic_load(&n.count), 1000);
    }
}

static void count_up(void *ctx, size_t i, int worker)
{
    (void)i, (void)worker;
    atomic_fetch_add_explicit((atomic_long *)ctx, 1, memory_order_relaxed);
}

TEST(many_short_runs_lose_nothing)
{
    atomic_long count = 0;
    long expected = 0;
    stet_set_threads(4);
    for (size_t i = 0; i < 20000; i++) {
        pool_run(i % 9, count_up, &count);
        expected += (long)(i % 9);
        CHECK_EQ(atomic_load(&count), expected);
        if (i % 1000 == 999)
            usleep(500); /* let them fall asleep */
    }
}

TEST(the_pool_may_be_shut_down_and_used_again)
{
    stet_set_threads(3);
    pool_shutdown();
    for (int i = 0; i < 20; i++) {
        atomic_long count = 0;
        pool_run(100, count_up, &count);
        CHECK_EQ(atomic_load(&count), 100);
        pool_shutdown();
    }
}

static void *host_thread(void *arg)
{
    for (int i = 0; i < 300; i++) {
        atomic_long count = 0;
        pool_run(20, count_up, &count);
        CHECK_EQ(atomic_load(&count), 20);
    }
    return arg;
}

TEST(several_threads_of_the_host_may_run_jobs)
{
    pthread_t t[3];
    stet_set_threads(3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, host_thread, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

TEST(idle_workers_burn_nothing)
{
    atomic_long count = 0;
    stet_set_threads(4);
    pool_run(100, count_up, &count);
    const double before = cpu_seconds();
    usleep(300000);
    CHECK_LE(cpu_seconds() - before, 0.03);
}

/* ThreadSanitizer does not follow a fork of a threaded process. */
#if defined(__SANITIZE_THREAD__)
#define NO_FORKS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_FORKS 1
#endif
#endif

#ifndef NO_FORKS
TEST(a_forked_child_starts_its_own_workers)
{
    atomic_long count = 0;
    stet_set_threads(3);
    pool_run(100, count_up, &count);
    const pid_t pid = fork();
    if (pid == 0) {
        atomic_long mine = 0;
        for (int i = 0; i < 100; i++)
            pool_run(100, count_up, &mine);
        atomic_int arrived = 0;
        pool_run(2, wait_for_other, &arrived);
        pool_shutdown();
        _exit(atomic_load(&mine) == 10000 ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    pool_run(100, count_up, &count);
    CHECK_EQ(atomic_load(&count), 200);
}
#endif

/* ---- threads of one call ------------------------------------------------------------------ */

enum { WIDE = 40 };
typedef struct meeting {
    pthread_barrier_t all;
    atomic_int nested, workers[WIDE];
} meeting;

static void nested_piece(void *ctx, size_t i, int worker)
{
    (void)i;
    CHECK_EQ(worker, 0);
    atomic_fetch_add(&((meeting *)ctx)->nested, 1);
}

/* Returns only once all pieces are under way. */
static void wide_piece(void *ctx, size_t i, int worker)
{
    meeting *m = ctx;
    (void)i;
    CHECK(worker >= 0 && worker < WIDE);
    atomic_fetch_add(&m->workers[worker], 1);
    pthread_barrier_wait(&m->all);
    pool_run(3, nested_piece, m);
}

TEST(a_wide_run_has_all_its_pieces_under_way_at_once)
{
    meeting m = {0};
    stet_set_threads(2);
    pthread_barrier_init(&m.all, NULL, WIDE);
    pool_run_wide(WIDE, WIDE, wide_piece, &m);
    CHECK_EQ(atomic_load(&m.nested), 3 * WIDE);
    for (int i = 0; i < WIDE; i++)
        CHECK_EQ(atomic_load(&m.workers[i]), 1);
    pthread_barrier_destroy(&m.all);
    stet_set_threads(0);
}
