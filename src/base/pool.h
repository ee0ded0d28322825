/* base/pool.h - a pool of worker threads for each job (base/job.h).
 *
 * pool_run calls fn(ctx, i, worker) once for every i in [0, n), on up to stet_threads() threads,
 * and returns when all are done. Work is cut into the same n pieces whatever the number of
 * threads, and results are combined by the caller in the order of i: that is the fixed reduction
 * order which makes results independent of the thread count. `worker` (0 .. stet_threads()-1) names
 * a scratch slot, never a result. A pool_run inside a pool_run runs its pieces in place, in order.
 *
 * Workers set no messages: a piece that can fail leaves its status in its own slot of ctx. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { POOL_MOST = 512 }; /* threads */

typedef void pool_fn(void *ctx, size_t i, int worker);
void pool_run(size_t n, pool_fn *fn, void *ctx); /* on the threads of the current job */
/* The same on `threads` threads, at most POOL_MOST, that are started for this call: for pieces that
 * mostly wait for something else than a core. `worker` is below `threads`. */
void pool_run_wide(size_t n, int threads, pool_fn *fn, void *ctx);
void pool_shutdown(
    void); /* of the current job: joins the workers; the next pool_run starts them again */
int pool_cores(void); /* that this process may use */

/* What pool.c keeps for a job; all zero but for the lock to begin with. */
typedef struct thread_pool {
    pthread_mutex_t lock; /* held by the thread whose work it is */
    struct pool_worker {
        pthread_t thread;
        struct thread_pool *pool;
    } worker[POOL_MOST];
    int n_workers; /* started, besides the caller */
    atomic_uint state;
    atomic_int asleep; /* workers in the kernel */
    atomic_bool quit;
    struct thread_pool *next; /* all that have had workers; for forks */
    bool listed;
    struct stet_job *owner; /* of the workers that were started */
    /* the open work */
    atomic_size_t piece;
    size_t n;
    pool_fn *fn;
    void *ctx;
} thread_pool;
void pool_stop(thread_pool *p); /* joins its workers and forgets it: before its memory goes */

#endif
