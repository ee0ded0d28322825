/* base/pool.c - persistent workers of a job that take pieces from an atomic counter.
 *
 * One word, `state`, says whether a job is open, how many workers are inside it, and which job it
 * is. The caller opens a job, works along, closes it when the counter has run out, and waits until
 * nobody is inside. A worker that comes too late finds the job closed and touches nothing: the
 * caller never waits for a sleeper to wake up.
 *
 * Waiting means spinning for SPIN_NS, because kernels follow each other within microseconds, and
 * then sleeping in the kernel until the word changes (futex). */
#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/job.h"

enum { SPIN_NS = 30000, CLOCK_EVERY = 32 };

/* state = job number << 16 | workers inside << 1 | open. The job number may wrap: a worker that
 * slept through 65536 jobs would at worst miss one, and the others do its pieces. */
#define OPEN 1u
#define ONE_INSIDE 2u
#define ONE_JOB 0x10000u
#define INSIDE(s) ((s) & (ONE_JOB - ONE_INSIDE))
#define JOB(s) ((s) / ONE_JOB)

enum { WAKE_WORKERS = 1, WAKE_CALLER = 2 }; /* who a wake-up is for: futex bit sets */

static _Thread_local int worker_id = -1;         /* >= 0 while inside a job's work */
static _Thread_local const thread_pool *working; /* whose work that is */

int pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than cpu_set_t has bits */
    return n > 0 && n <= INT_MAX ? (int)n : 1;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin until `state` differs from `seen`, for a while; false when the while is over. */
static bool spin(thread_pool *p, unsigned seen, int64_t until)
{
    for (int i = 1; atomic_load_explicit(&p->state, memory_order_relaxed) == seen; i++) {
        pause_briefly();
        if (i % CLOCK_EVERY == 0 && now_ns() > until)
            return false;
    }
    return true;
}

static void sleep_while(thread_pool *p, unsigned seen, int who)
{
    syscall(SYS_futex, &p->state, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, who);
}

static void wake(thread_pool *p, int who, size_t at_most)
{
    const int n = at_most < INT_MAX ? (int)at_most : INT_MAX;
    syscall(SYS_futex, &p->state, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, who);
}

static void run_in_place(size_t n, pool_fn *fn, void *ctx, int worker)
{
    for (size_t i = 0; i < n; i++)
        fn(ctx, i, worker);
}

static void take_pieces(thread_pool *p)
{
    const size_t n = p->n;
    for (size_t i; (i = atomic_fetch_add_explicit(&p->piece, 1, memory_order_relaxed)) < n;)
        p->fn(p->ctx, i, worker_id);
}

/* Wait for an open job other than `last` and step inside; false: the pool is being shut down. */
static bool enter_job(thread_pool *p, unsigned *last)
{
    const int64_t until = now_ns() + SPIN_NS;
    bool awake = true;
    for (;;) {
        unsigned seen = atomic_load_explicit(&p->state, memory_order_acquire);
        if (atomic_load_explicit(&p->quit, memory_order_acquire))
            return false;
        if ((seen & OPEN) && JOB(seen) != *last) {
            if (!atomic_compare_exchange_weak_explicit(&p->state, &seen, seen + ONE_INSIDE,
                                                       memory_order_acquire, memory_order_relaxed))
                continue;
            *last = JOB(seen);
            return true;
        }
        awake = awake && spin(p, seen, until);
        if (!awake) {
            /* The caller looks at `asleep` after it has changed `state`; the kernel looks at
             * `state` after we have changed `asleep`: one of the two notices. */
            atomic_fetch_add(&p->asleep, 1);
            sleep_while(p, seen, WAKE_WORKERS);
            atomic_fetch_sub(&p->asleep, 1);
        }
    }
}

static void leave_job(thread_pool *p)
{
    const unsigned before = atomic_fetch_sub(&p->state, ONE_INSIDE);
    if (!(before & OPEN) && INSIDE(before) == ONE_INSIDE)
        wake(p, WAKE_CALLER, 1);
}

static void *worker_main(void *arg)
{
    thread_pool *const p = ((struct pool_worker *)arg)->pool;
    worker_id = (int)((struct pool_worker *)arg - p->worker) + 1;
    working = p;
    job_take(p->owner);
    unsigned last = 0;
    while (enter_job(p, &last)) {
        take_pieces(p);
        leave_job(p);
    }
    return NULL;
}

/* ---- forks -------------------------------------------------------------------------------- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_pool *all; /* that have had workers */

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* Only the calling thread exists there: forget the workers. */
static void in_child(void)
{
    for (thread_pool *p = all; p; p = p->next) {
        pthread_mutex_init(&p->lock, NULL);
        p->n_workers = 0;
        atomic_store(&p->asleep, 0);
        atomic_store(&p->state, 0);
    }
    pthread_mutex_init(&list_lock, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static void list(thread_pool *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    if (p->listed)
        return;
    pthread_mutex_lock(&list_lock);
    p->next = all;
    all = p;
    p->listed = true;
    pthread_mutex_unlock(&list_lock);
}

static void unlist(thread_pool *p)
{
    pthread_mutex_lock(&list_lock);
    for (thread_pool **at = &all; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    p->listed = false;
    pthread_mutex_unlock(&list_lock);
}

/* ---- workers ------------------------------------------------------------------------------ */

static void stop_workers(thread_pool *p)
{
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->state, ONE_JOB);
    wake(p, WAKE_WORKERS, POOL_MOST);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->worker[i].thread, NULL);
    p->n_workers = 0;
    atomic_store(&p->quit, false);
}

static bool start_worker(thread_pool *p)
{
    struct pool_worker *w = &p->worker[p->n_workers];
    w->pool = p;
    return pthread_create(&w->thread, NULL, worker_main, w) == 0;
}

/* As many as asked for, or as the system lets us have: results do not depend on it. */
static void start_workers(thread_pool *p, int n)
{
    list(p);
    if (p->n_workers == 0)
        p->owner = job_current(); /* a worker that starts slowly may still be reading it */
    sigset_t all_signals, before;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals,
                    &before); /* signals are the host's threads' business */
    while (p->n_workers < n && start_worker(p))
        p->n_workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void open_job(thread_pool *p, size_t n, pool_fn *fn, void *ctx)
{
    p->n = n;
    p->fn = fn;
    p->ctx = ctx;
    atomic_store_explicit(&p->piece, 0, memory_order_relaxed);
    atomic_fetch_add(&p->state, ONE_JOB + OPEN);
    if (atomic_load(&p->asleep) > 0)
        wake(p, WAKE_WORKERS, n - 1);
}

static void close_job(thread_pool *p)
{
    unsigned seen = atomic_fetch_sub(&p->state, OPEN) - OPEN;
    const int64_t until = now_ns() + SPIN_NS;
    bool awake = true;
    while (INSIDE(seen)) {
        awake = awake && spin(p, seen, until);
        if (!awake)
            sleep_while(p, seen, WAKE_CALLER);
        seen = atomic_load_explicit(&p->state, memory_order_acquire);
    }
}

void pool_run(size_t n, pool_fn *fn, void *ctx)
{
    thread_pool *const p = &job_current()->pool;
    const int threads = stet_threads(), id = worker_id;
    const thread_pool *const outer = working;
    if (id >= 0) { /* inside another's work there is no slot but the first */
        run_in_place(n, fn, ctx, outer == p ? id : 0);
        return;
    }
    working = p;
    worker_id = 0;
    if (threads == 1 || n <= 1 || pthread_mutex_trylock(&p->lock) != 0) {
        /* The lock is busy when another thread of the host works for the job: both go on. */
        run_in_place(n, fn, ctx, 0);
    } else {
        if (p->n_workers > threads - 1)
            stop_workers(p);
        if (p->n_workers < threads - 1)
            start_workers(p, threads - 1);
        open_job(p, n, fn, ctx);
        take_pieces(p);
        close_job(p);
        pthread_mutex_unlock(&p->lock);
    }
    worker_id = id;
    working = outer;
}

/* ---- threads of one call ------------------------------------------------------------------ */

typedef struct wide_run {
    atomic_size_t piece;
    atomic_int workers; /* numbers given out */
    size_t n;
    pool_fn *fn;
    void *ctx;
    stet_job *job;
} wide_run;

/* Within a piece there is no slot but the first: see pool_run. */
static void *wide_main(void *arg)
{
    wide_run *w = arg;
    const int id = worker_id, me = atomic_fetch_add(&w->workers, 1);
    const thread_pool *const outer = working;
    worker_id = 0;
    working = NULL;
    for (size_t i; (i = atomic_fetch_add(&w->piece, 1)) < w->n;)
        w->fn(w->ctx, i, me);
    worker_id = id;
    working = outer;
    return NULL;
}

static void *wide_thread(void *arg)
{
    job_take(((wide_run *)arg)->job);
    return wide_main(arg);
}

void pool_run_wide(size_t n, int threads, pool_fn *fn, void *ctx)
{
    wide_run w = {.n = n, .fn = fn, .ctx = ctx, .job = job_current()};
    pthread_t thread[POOL_MOST];
    int started = 0;
    sigset_t all_signals, before;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &before);
    while (started + 1 < threads && (size_t)started + 1 < n && started + 1 < POOL_MOST &&
           pthread_create(&thread[started], NULL, wide_thread, &w) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    wide_main(&w);
    while (started > 0)
        pthread_join(thread[--started], NULL);
}

void pool_stop(thread_pool *p)
{
    pthread_mutex_lock(&p->lock);
    stop_workers(p);
    pthread_mutex_unlock(&p->lock);
    if (p->listed)
        unlist(p);
}

void pool_shutdown(void)
{
    pool_stop(&job_current()->pool);
}
