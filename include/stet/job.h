/* stet/job.h - work that can be stopped, watched and given threads of its own.
 *
 *     stet_job *job;
 *     if (stet_job_new(&job) != STET_OK) ...
 *     stet_job_set_progress(job, draw, window);
 *     stet_job *before = stet_job_use(job);           // from here on this thread works for the job
 *     stet_status st = stet_attack_run(&args, &result);
 *     stet_job_use(before);
 *     stet_job_free(job);
 *
 *     stet_job_interrupt(job);                        // from any other thread: STET_EINTR over there
 *
 * Every call belongs to the job that its thread uses, and so do the worker threads that it starts.
 * Two jobs share nothing: each has its own interrupt, logger, progress and workers, and what they
 * compute is what each would compute alone. Models, data and substitution sets never change once
 * they are loaded, so jobs may share those.
 *
 * A thread that uses no job works for the process itself: stet_interrupt(), stet_set_logger(),
 * stet_set_progress() and stet_set_threads() of stet/status.h are about that one. Stable. */
#ifndef STET_JOB_H
#define STET_JOB_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_job stet_job;

/* Silent, not interrupted, with as many threads as the process has. */
STET_API stet_status stet_job_new(stet_job **out);
/* Joins its workers. No thread may be using it, except the one that calls. NULL is fine. */
STET_API void stet_job_free(stet_job *job);

/* This thread works for `job` from now on, and no longer for the one that is returned. NULL: the
 * process itself. Not from within a callback of the library. */
STET_API stet_job *stet_job_use(stet_job *job);

/* Stop what runs for the job after its current step: it returns STET_EINTR with its files consistent,
 * and so does whatever is called for the job until stet_job_clear(). From any thread; safe in a
 * signal handler. */
STET_API void stet_job_interrupt(stet_job *job);
STET_API void stet_job_clear(stet_job *job);
STET_API bool stet_job_interrupted(const stet_job *job);

/* As the functions of stet/status.h, for one job. */
STET_API void stet_job_set_logger(stet_job *job, stet_log_fn *fn, void *user);
STET_API void stet_job_set_progress(stet_job *job, stet_progress_fn *fn, void *user);
STET_API void stet_job_set_threads(stet_job *job, int n); /* 0: as many as the process has */
/* Where training computes unless its arguments say so: "cpu" or "cuda". STET_EUSAGE for a name that
 * is too long; whether there is such a device is found when it is needed. */
STET_API stet_status stet_job_set_device(stet_job *job, const char *device);

#ifdef __cplusplus
}
#endif
#endif
