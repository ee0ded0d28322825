/* base/job.c - jobs, and the one that the process itself is. */
#include "base/job.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

static stet_job process = {.log_lock = PTHREAD_MUTEX_INITIALIZER,
                           .progress_lock = PTHREAD_MUTEX_INITIALIZER,
                           .pool = {.lock = PTHREAD_MUTEX_INITIALIZER}};
static _Thread_local stet_job *current; /* NULL: the process */

stet_job *job_current(void)
{
    return current ? current : &process;
}

void job_take(stet_job *job)
{
    current = job;
}

stet_status stet_job_new(stet_job **out)
{
    stet_job *j = mem_zalloc(1, sizeof *j);
    *out = j;
    if (!j)
        return STET_ENOMEM;
    pthread_mutex_init(&j->log_lock, NULL);
    pthread_mutex_init(&j->progress_lock, NULL);
    pthread_mutex_init(&j->pool.lock, NULL);
    return STET_OK;
}

void stet_job_free(stet_job *job)
{
    if (!job || job == &process)
        return;
    if (current == job)
        current = NULL;
    pool_stop(&job->pool);
    pthread_mutex_destroy(&job->log_lock);
    pthread_mutex_destroy(&job->progress_lock);
    pthread_mutex_destroy(&job->pool.lock);
    mem_free(job);
}

stet_job *stet_job_use(stet_job *job)
{
    stet_job *before = current;
    current = job;
    return before;
}

/* ---- what it carries ---------------------------------------------------------------------- */

/* Lock-free stores: fine in a signal handler. */
void stet_job_interrupt(stet_job *job)
{
    atomic_store(&(job ? job : &process)->interrupt, true);
}

void stet_job_clear(stet_job *job)
{
    atomic_store(&(job ? job : &process)->interrupt, false);
}

bool stet_job_interrupted(const stet_job *job)
{
    return atomic_load(&(job ? job : &process)->interrupt);
}

void stet_job_set_logger(stet_job *job, stet_log_fn *fn, void *user)
{
    stet_job *j = job ? job : &process;
    pthread_mutex_lock(&j->log_lock);
    j->log = fn;
    j->log_user = user;
    pthread_mutex_unlock(&j->log_lock);
}

void stet_job_set_progress(stet_job *job, stet_progress_fn *fn, void *user)
{
    stet_job *j = job ? job : &process;
    pthread_mutex_lock(&j->progress_lock);
    j->progress = fn;
    j->progress_user = user;
    pthread_mutex_unlock(&j->progress_lock);
}

stet_status stet_job_set_device(stet_job *job, const char *device)
{
    stet_job *j = job ? job : &process;
    if (strlen(device) >= sizeof j->device)
        return error_set(STET_EUSAGE, "no device '%.40s...'; there are cpu and cuda", device);
    snprintf(j->device, sizeof j->device, "%s", device);
    return STET_OK;
}

const char *job_device(void)
{
    const stet_job *j = job_current();
    return *j->device ? j->device : NULL;
}

/* ---- threads ------------------------------------------------------------------------------ */

void stet_job_set_threads(stet_job *job, int n)
{
    if (!job && n <= 0)
        n = pool_cores();
    atomic_store(&(job ? job : &process)->threads, n < 0 ? 0 : n < POOL_MOST ? n : POOL_MOST);
}

int stet_threads(void)
{
    const int own = atomic_load(&job_current()->threads);
    if (own)
        return own;
    if (atomic_load(&process.threads) == 0)
        stet_job_set_threads(NULL, 0);
    return atomic_load(&process.threads);
}

/* ---- the process -------------------------------------------------------------------------- */

void stet_interrupt(void)
{
    stet_job_interrupt(NULL);
}

void stet_interrupt_clear(void)
{
    stet_job_clear(NULL);
}

void stet_set_logger(stet_log_fn *fn, void *user)
{
    stet_job_set_logger(NULL, fn, user);
}

void stet_set_progress(stet_progress_fn *fn, void *user)
{
    stet_job_set_progress(NULL, fn, user);
}

void stet_set_threads(int n)
{
    stet_job_set_threads(NULL, n);
}

void stet_shutdown(void)
{
    pool_stop(&process.pool);
    json_unguard();
}
