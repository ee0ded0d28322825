/* base/log.c - what the host plugged in, and the flag that stops a job. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* The logger runs under its lock (one call at a time); the progress callback does not, so it may
 * log. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static stet_log_fn *log_fn;
static void *log_user;

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static stet_progress_fn *progress_fn;
static void *progress_user;

static atomic_bool interrupt_flag;

void stet_set_logger(stet_log_fn *fn, void *user)
{
    pthread_mutex_lock(&log_lock);
    log_fn = fn;
    log_user = user;
    pthread_mutex_unlock(&log_lock);
}

void stet_set_progress(stet_progress_fn *fn, void *user)
{
    pthread_mutex_lock(&progress_lock);
    progress_fn = fn;
    progress_user = user;
    pthread_mutex_unlock(&progress_lock);
}

void stet_interrupt(void)
{
    atomic_store(&interrupt_flag, true); /* lock-free, so fine in a signal handler */
}

void log_at(stet_log_level level, const char *fmt, ...)
{
    pthread_mutex_lock(&log_lock);
    if (log_fn) {
        char text[1024];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        log_fn(log_user, level, text);
    }
    pthread_mutex_unlock(&log_lock);
}

void progress(const char *what, uint64_t done, uint64_t total, const char *note)
{
    pthread_mutex_lock(&progress_lock);
    stet_progress_fn *const fn = progress_fn;
    void *const user = progress_user;
    pthread_mutex_unlock(&progress_lock);
    if (fn)
        fn(user, what, done, total, note ? note : "");
}

bool interrupted(void)
{
    return atomic_load_explicit(&interrupt_flag, memory_order_relaxed);
}

void interrupt_clear(void)
{
    atomic_store(&interrupt_flag, false);
}

stet_status interrupt_status(void)
{
    return interrupted() ? error_set(STET_EINTR, "interrupted") : STET_OK;
}
