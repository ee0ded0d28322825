/* base/pool.h - one pool of worker threads for the process.
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

#include <stddef.h>

typedef void pool_fn(void *ctx, size_t i, int worker);
void pool_run(size_t n, pool_fn *fn, void *ctx);
void pool_shutdown(void); /* joins the workers; the next pool_run starts them again */

#endif
