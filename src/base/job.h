/* base/job.h - the job that a thread works for: see stet/job.h. What a job consists of is read
 * through log.h (messages, progress, interrupt) and pool.h (threads). */
#ifndef BASE_JOB_H
#define BASE_JOB_H

#include <stdatomic.h>

#include "base/pool.h"
#include "stet/job.h"

struct stet_job {
    /* The logger runs under its lock (one call at a time); the progress callback does not, so it may
     * log. */
    pthread_mutex_t log_lock, progress_lock;
    stet_log_fn *log;
    void *log_user;
    stet_progress_fn *progress;
    void *progress_user;
    atomic_bool interrupt;
    atomic_int threads; /* 0: as the process has them */
    char device[16];    /* "": the first one */
    thread_pool pool;
};

stet_job *job_current(void);  /* of this thread; never NULL */
void job_take(stet_job *job); /* a worker's, once and for all */
const char *job_device(void); /* of the current job; NULL: none was named */

#endif
