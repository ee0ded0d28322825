/* base/log.c - what the host plugged into the job of this thread, and the flag that stops it. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/job.h"

void log_at(stet_log_level level, const char *fmt, ...)
{
    stet_job *j = job_current();
    pthread_mutex_lock(&j->log_lock);
    if (j->log) {
        char text[1024];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        j->log(j->log_user, level, text);
    }
    pthread_mutex_unlock(&j->log_lock);
}

void progress(const char *what, uint64_t done, uint64_t total, const char *note)
{
    stet_job *j = job_current();
    pthread_mutex_lock(&j->progress_lock);
    stet_progress_fn *const fn = j->progress;
    void *const user = j->progress_user;
    pthread_mutex_unlock(&j->progress_lock);
    if (fn)
        fn(user, what, done, total, note ? note : "");
}

bool interrupted(void)
{
    return atomic_load_explicit(&job_current()->interrupt, memory_order_relaxed);
}

stet_status interrupt_status(void)
{
    return interrupted() ? error_set(STET_EINTR, "interrupted") : STET_OK;
}
