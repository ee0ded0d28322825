/* base/pool.c - persistent workers that take pieces from an atomic counter.
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
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum { MAX_THREADS = 512, SPIN_NS = 30000, CLOCK_EVERY = 32 };

/* state = job number << 16 | workers inside << 1 | open. The job number may wrap: a worker that
 * slept through 65536 jobs would at worst miss one, and the others do its pieces. */
#define OPEN 1u
#define ONE_INSIDE 2u
#define ONE_JOB 0x10000u
#define INSIDE(s) ((s) & (ONE_JOB - ONE_INSIDE))
#define JOB(s) ((s) / ONE_JOB)

enum { WAKE_WORKERS = 1, WAKE_CALLER = 2 }; /* who a wake-up is for: futex bit sets */

static struct {
    pthread_mutex_t lock; /* held by the thread whose job it is */
    pthread_t thread[MAX_THREADS];
    int n_workers; /* started, besides the caller */
    atomic_uint state;
    atomic_int asleep; /* workers in the kernel */
    atomic_bool quit;
    /* the open job */
    atomic_size_t next;
    size_t n;
    pool_fn *fn;
    void *ctx;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int threads_wanted;        /* 0: one per core */
static _Thread_local int worker_id = -1; /* >= 0 while inside a job */

static int count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than cpu_set_t has bits */
    return n > 0 && n <= INT_MAX ? (int)n : 1;
}

void stet_set_threads(int n)
{
    if (n <= 0)
        n = count_cores();
    atomic_store(&threads_wanted, n < MAX_THREADS ? n : MAX_THREADS);
}

int stet_threads(void)
{
    if (atomic_load(&threads_wanted) == 0)
        stet_set_threads(0);
    return atomic_load(&threads_wanted);
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
static bool spin(unsigned seen, int64_t until)
{
    for (int i = 1; atomic_load_explicit(&pool.state, memory_order_relaxed) == seen; i++) {
        pause_briefly();
        if (i % CLOCK_EVERY == 0 && now_ns() > until)
            return false;
    }
    return true;
}

static void sleep_while(unsigned seen, int who)
{
    syscall(SYS_futex, &pool.state, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, who);
}

static void wake(int who, size_t at_most)
{
    const int n = at_most < INT_MAX ? (int)at_most : INT_MAX;
    syscall(SYS_futex, &pool.state, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, who);
}

static void run_in_place(size_t n, pool_fn *fn, void *ctx, int worker)
{
    for (size_t i = 0; i < n; i++)
        fn(ctx, i, worker);
}

static void take_pieces(void)
{
    const size_t n = pool.n;
    for (size_t i; (i = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed)) < n;)
        pool.fn(pool.ctx, i, worker_id);
}

/* Wait for an open job other than `last` and step inside; false: the pool is being shut down. */
static bool enter_job(unsigned *last)
{
    const int64_t until = now_ns() + SPIN_NS;
    bool awake = true;
    for (;;) {
        unsigned seen = atomic_load_explicit(&pool.state, memory_order_acquire);
        if (atomic_load_explicit(&pool.quit, memory_order_acquire))
            return false;
        if ((seen & OPEN) && JOB(seen) != *last) {
            if (!atomic_compare_exchange_weak_explicit(&pool.state, &seen, seen + ONE_INSIDE,
                                                       memory_order_acquire, memory_order_relaxed))
                continue;
            *last = JOB(seen);
            return true;
        }
        awake = awake && spin(seen, until);
        if (!awake) {
            /* The caller looks at `asleep` after it has changed `state`; the kernel looks at
             * `state` after we have changed `asleep`: one of the two notices. */
            atomic_fetch_add(&pool.asleep, 1);
            sleep_while(seen, WAKE_WORKERS);
            atomic_fetch_sub(&pool.asleep, 1);
        }
    }
}

static void leave_job(void)
{
    const unsigned before = atomic_fetch_sub(&pool.state, ONE_INSIDE);
    if (!(before & OPEN) && INSIDE(before) == ONE_INSIDE)
        wake(WAKE_CALLER, 1);
}

static void *worker_main(void *arg)
{
    worker_id = (int)(intptr_t)arg;
    unsigned last = 0;
    while (enter_job(&last)) {
        take_pieces();
        leave_job();
    }
    return NULL;
}

/* After a fork only the calling thread exists: forget the workers. */
static void forget_workers(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pool.n_workers = 0;
    atomic_store(&pool.asleep, 0);
    atomic_store(&pool.state, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_workers);
}

static void stop_workers(void)
{
    atomic_store(&pool.quit, true);
    atomic_fetch_add(&pool.state, ONE_JOB);
    wake(WAKE_WORKERS, MAX_THREADS);
    for (int i = 0; i < pool.n_workers; i++)
        pthread_join(pool.thread[i], NULL);
    pool.n_workers = 0;
    atomic_store(&pool.quit, false);
}

/* As many as asked for, or as the system lets us have: results do not depend on it. */
static void start_workers(int n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the host's threads' business */
    while (pool.n_workers < n && pthread_create(&pool.thread[pool.n_workers], NULL, worker_main,
                                                (void *)(intptr_t)(pool.n_workers + 1)) == 0)
        pool.n_workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void open_job(size_t n, pool_fn *fn, void *ctx)
{
    pool.n = n;
    pool.fn = fn;
    pool.ctx = ctx;
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    atomic_fetch_add(&pool.state, ONE_JOB + OPEN);
    if (atomic_load(&pool.asleep) > 0)
        wake(WAKE_WORKERS, n - 1);
}

static void close_job(void)
{
    unsigned seen = atomic_fetch_sub(&pool.state, OPEN) - OPEN;
    const int64_t until = now_ns() + SPIN_NS;
    bool awake = true;
    while (INSIDE(seen)) {
        awake = awake && spin(seen, until);
        if (!awake)
            sleep_while(seen, WAKE_CALLER);
        seen = atomic_load_explicit(&pool.state, memory_order_acquire);
    }
}

void pool_run(size_t n, pool_fn *fn, void *ctx)
{
    const int threads = stet_threads();
    if (worker_id >= 0) {
        run_in_place(n, fn, ctx, worker_id);
    } else if (threads == 1 || n <= 1 || pthread_mutex_trylock(&pool.lock) != 0) {
        /* The lock is busy when another thread of the host runs a job: both go on. */
        worker_id = 0;
        run_in_place(n, fn, ctx, 0);
        worker_id = -1;
    } else {
        if (pool.n_workers != threads - 1) {
            if (pool.n_workers > threads - 1)
                stop_workers();
            start_workers(threads - 1);
        }
        worker_id = 0;
        open_job(n, fn, ctx);
        take_pieces();
        close_job();
        worker_id = -1;
        pthread_mutex_unlock(&pool.lock);
    }
}

void pool_shutdown(void)
{
    pthread_mutex_lock(&pool.lock);
    stop_workers();
    pthread_mutex_unlock(&pool.lock);
}
