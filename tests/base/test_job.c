/* tests/base/test_job.c - two jobs in one process do not meet. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/job.h"
#include "base/log.h"

typedef struct heard {
    int n;
    char last[64];
} heard;

static void hear(void *user, stet_log_level level, const char *message)
{
    heard *h = user;
    (void)level;
    h->n++;
    snprintf(h->last, sizeof h->last, "%s", message);
}

static void count_steps(void *user, const char *what, uint64_t done, uint64_t total,
                        const char *note)
{
    (void)what, (void)done, (void)total, (void)note;
    ++*(int *)user;
}

TEST(an_interrupt_holds_until_it_is_cleared)
{
    CHECK_OK(interrupt_status());
    stet_interrupt();
    CHECK_FAILS(interrupt_status(), STET_EINTR, "interrupted");
    CHECK_FAILS(interrupt_status(), STET_EINTR, "interrupted");
    stet_interrupt_clear();
    CHECK_OK(interrupt_status());
}

TEST(a_job_is_interrupted_alone)
{
    stet_job *a, *b;
    CHECK_OK(stet_job_new(&a));
    CHECK_OK(stet_job_new(&b));
    stet_job_interrupt(a);
    CHECK(stet_job_interrupted(a) && !stet_job_interrupted(b));
    CHECK_OK(interrupt_status()); /* the process goes on */
    CHECK(stet_job_use(a) == NULL);
    CHECK_FAILS(interrupt_status(), STET_EINTR, "");
    CHECK(stet_job_use(b) == a);
    CHECK_OK(interrupt_status());
    stet_interrupt(); /* the process, not b */
    CHECK_OK(interrupt_status());
    CHECK(stet_job_use(NULL) == b);
    CHECK_FAILS(interrupt_status(), STET_EINTR, "");
    stet_job_clear(NULL);
    CHECK_OK(interrupt_status());
    stet_job_free(a);
    stet_job_free(b);
}

TEST(messages_and_progress_go_to_the_job_of_the_thread)
{
    heard process = {0}, own = {0};
    int steps = 0;
    stet_job *j;
    CHECK_OK(stet_job_new(&j));
    stet_set_logger(hear, &process);
    stet_job_set_logger(j, hear, &own);
    stet_job_set_progress(j, count_steps, &steps);
    log_warn("to the process");
    progress("work", 1, 2, NULL);
    stet_job_use(j);
    log_warn("to the job");
    progress("work", 1, 2, NULL);
    stet_job_use(NULL);
    CHECK_EQ(process.n, 1);
    CHECK_EQ(own.n, 1);
    CHECK_EQ(steps, 1);
    CHECK_STR(own.last, "to the job");
    stet_set_logger(NULL, NULL);
    stet_job_free(j);
}

/* ---- workers ------------------------------------------------------------------------------ */

enum { PIECES = 2000 };
typedef struct work {
    stet_job *job;
    int threads;
    atomic_int strangers; /* pieces that ran for another job */
    int worker_max;
    pthread_mutex_t lock;
} work;

static void one_piece(void *ctx, size_t i, int worker)
{
    work *w = ctx;
    (void)i;
    if (job_current() != w->job || worker >= w->threads || stet_threads() != w->threads)
        atomic_fetch_add(&w->strangers, 1);
    pthread_mutex_lock(&w->lock);
    w->worker_max = worker > w->worker_max ? worker : w->worker_max;
    pthread_mutex_unlock(&w->lock);
    log_info("piece");
}

static void *work_on(void *arg)
{
    work *w = arg;
    stet_job_use(w->job);
    for (int k = 0; k < 5; k++)
        pool_run(PIECES, one_piece, w);
    stet_job_use(NULL);
    return NULL;
}

TEST(workers_work_for_the_job_that_started_them)
{
    work w[2] = {{.threads = 2, .lock = PTHREAD_MUTEX_INITIALIZER},
                 {.threads = 3, .lock = PTHREAD_MUTEX_INITIALIZER}};
    heard h[2] = {{0}};
    pthread_t t[2];
    for (int k = 0; k < 2; k++) {
        CHECK_OK(stet_job_new(&w[k].job));
        stet_job_set_threads(w[k].job, w[k].threads);
        stet_job_set_logger(w[k].job, hear, &h[k]);
    }
    for (int k = 0; k < 2; k++)
        CHECK_EQ(pthread_create(&t[k], NULL, work_on, &w[k]), 0);
    for (int k = 0; k < 2; k++) {
        pthread_join(t[k], NULL);
        CHECK_EQ(atomic_load(&w[k].strangers), 0);
        CHECK_EQ(h[k].n, 5 * PIECES);
        stet_job_free(w[k].job);
    }
}

static void inner_piece(void *ctx, size_t i, int worker)
{
    (void)i;
    CHECK_EQ(worker, 0); /* the only slot that the inner job has */
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void outer_piece(void *ctx, size_t i, int worker)
{
    (void)i, (void)worker;
    work *w = ctx;
    stet_job *before = stet_job_use(w->job);
    pool_run(3, inner_piece, &w->strangers);
    stet_job_use(before);
}

TEST(work_of_another_job_inside_a_piece_uses_its_first_slot)
{
    work w = {.threads = 1};
    stet_set_threads(4);
    CHECK_OK(stet_job_new(&w.job));
    stet_job_set_threads(w.job, 1);
    pool_run(100, outer_piece, &w);
    CHECK_EQ(atomic_load(&w.strangers), 300);
    stet_job_free(w.job);
}

TEST(a_job_has_the_threads_of_the_process_until_it_is_given_its_own)
{
    stet_job *j;
    CHECK_OK(stet_job_new(&j));
    stet_set_threads(3);
    stet_job_use(j);
    CHECK_EQ(stet_threads(), 3);
    stet_job_set_threads(j, 2);
    CHECK_EQ(stet_threads(), 2);
    stet_job_set_threads(j, 0);
    CHECK_EQ(stet_threads(), 3);
    stet_job_free(j); /* and this thread works for the process again */
    stet_set_threads(1);
    CHECK_EQ(stet_threads(), 1);
}

TEST(a_device_has_a_short_name)
{
    stet_job *j;
    CHECK_OK(stet_job_new(&j));
    CHECK_OK(stet_job_set_device(j, "cuda"));
    CHECK(!job_device());
    stet_job_use(j);
    CHECK_STR(job_device(), "cuda");
    stet_job_use(NULL);
    CHECK_FAILS(stet_job_set_device(j, "a device with a long name"), STET_EUSAGE, "no device");
    stet_job_free(j);
}
