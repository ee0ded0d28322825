/* sweep/sweep_run.c - see sweep_impl.h: points side by side. Every worker is a thread with a job of its
 * own; the calling thread waits, tells what is complete and passes an interrupt on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "stet/job.h"
#include "sweep/sweep_impl.h"

typedef struct worker {
    struct crew *crew;
    pthread_t thread;
    stet_job *job;
    char path[SWEEP_PATH + 16]; /* log.txt of the point that it works on, */
    FILE *log;                  /* open from the first message on */
} worker;

typedef struct crew {
    const sweep *s;
    pthread_mutex_t lock;
    pthread_cond_t news;
    size_t next;   /* point to take */
    size_t *ended; /* (s->n) points that came to an end, in that order */
    size_t n_ended;
    size_t working; /* workers that still do */
    bool stop;
    stet_status outcome; /* STET_EINTR: somebody was interrupted */
} crew;

/* ---- a worker ----------------------------------------------------------------------------- */

static void write_log(void *user, stet_log_level level, const char *message)
{
    worker *w = user;
    if (level > STET_LOG_INFO)
        return;
    if (!w->log)
        w->log = fopen(w->path, "w");
    if (w->log)
        fprintf(w->log, "%s%s\n", level == STET_LOG_WARN ? "warning: " : "", message);
}

/* Messages go to DIR/log.txt; without it the point does as well. */
static void run_point(worker *w, sweep_point *p)
{
    snprintf(w->path, sizeof w->path, "%s/log.txt", p->dir);
    stet_status st = dir_make(p->dir);
    if (st == STET_OK)
        st = sweep_point_run(w->crew->s, p);
    if (st != STET_OK && st != STET_EINTR) {
        snprintf(p->error, sizeof p->error, "%s", stet_last_error());
        write_log(w, STET_LOG_ERROR, p->error);
    }
    if (w->log)
        fclose(w->log);
    w->log = NULL;
    pthread_mutex_lock(&w->crew->lock);
    if (st == STET_EINTR)
        w->crew->stop = true;
    w->crew->outcome = st == STET_EINTR ? st : w->crew->outcome;
    pthread_mutex_unlock(&w->crew->lock);
}

static void *work(void *arg)
{
    worker *w = arg;
    crew *c = w->crew;
    stet_job_use(w->job);
    pthread_mutex_lock(&c->lock);
    while (!c->stop && c->next < c->s->n) {
        const size_t i = c->next++;
        pthread_mutex_unlock(&c->lock);
        run_point(w, &c->s->point[i]);
        pthread_mutex_lock(&c->lock);
        c->ended[c->n_ended++] = i;
        pthread_cond_signal(&c->news);
    }
    c->working--;
    pthread_cond_signal(&c->news);
    pthread_mutex_unlock(&c->lock);
    stet_job_use(NULL);
    return NULL;
}

/* ---- the caller --------------------------------------------------------------------------- */

static void tell(const sweep *s, const sweep_point *p, size_t done)
{
    stet_sweep_point out = {.dir = p->dir,
                            .error = *p->error ? p->error : NULL,
                            .found = p->found,
                            .done = done,
                            .n = s->n};
    for (int m = 0; m < STET_SWEEP_MEASURES; m++)
        out.value[m] = sweep_value(p, (stet_sweep_measure)m);
    progress("sweep", done, s->n, NULL);
    if (s->a.each)
        s->a.each(s->a.each_user, &out);
}

/* Somebody may interrupt from a signal handler, which can wake nobody: look now and then. */
static void wait_for_news(crew *c)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 50 * 1000 * 1000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&c->news, &c->lock, &at);
}

/* With the lock held, but for the calls of `each`. */
static void watch(crew *c, worker *w, size_t jobs)
{
    size_t told = 0, done = 0;
    bool passed_on = false;
    while (c->working || told < c->n_ended) {
        while (told < c->n_ended) {
            const sweep_point *p = &c->s->point[c->ended[told++]];
            done += p->done;
            pthread_mutex_unlock(&c->lock);
            if (p->done || *p->error)
                tell(c->s, p, done);
            pthread_mutex_lock(&c->lock);
        }
        if (!passed_on && (c->stop || interrupted())) {
            passed_on = c->stop = true;
            for (size_t i = 0; i < jobs; i++)
                stet_job_interrupt(w[i].job);
        }
        if (c->working && told == c->n_ended)
            wait_for_news(c);
    }
}

static stet_status start(crew *c, worker *w, int threads)
{
    *w = (worker){.crew = c};
    TRY(stet_job_new(&w->job));
    stet_job_set_threads(w->job, threads);
    stet_job_set_logger(w->job, write_log, w);
    pthread_mutex_lock(&c->lock);
    c->working++;
    pthread_mutex_unlock(&c->lock);
    const int failed = pthread_create(&w->thread, NULL, work, w);
    if (!failed)
        return STET_OK;
    pthread_mutex_lock(&c->lock);
    c->working--;
    pthread_mutex_unlock(&c->lock);
    stet_job_free(w->job);
    return error_set(STET_EIO, "cannot start a thread: %s", strerror(failed));
}

static stet_status run_crew(crew *c, worker *w, size_t jobs)
{
    const int threads = stet_threads() / (int)jobs;
    size_t n = 0;
    stet_status st = STET_OK;
    while (st == STET_OK && n < jobs) {
        st = start(c, &w[n], threads > 1 ? threads : 1);
        n += st == STET_OK;
    }
    pthread_mutex_lock(&c->lock);
    c->stop |= st != STET_OK;
    watch(c, w, n);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < n; i++) {
        pthread_join(w[i].thread, NULL);
        stet_job_free(w[i].job);
    }
    if (st == STET_OK && (c->outcome == STET_EINTR || interrupted()))
        st = error_set(STET_EINTR, "interrupted; run the same command again to continue");
    return st;
}

stet_status sweep_run(const sweep *s)
{
    const size_t jobs = s->a.jobs < s->n ? s->a.jobs : s->n;
    crew c = {.s = s, .ended = mem_alloc(s->n + 1, sizeof *c.ended)};
    worker *w = mem_alloc(jobs + 1, sizeof *w);
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.news, NULL);
    const stet_status st = c.ended && w ? run_crew(&c, w, jobs) : STET_ENOMEM;
    pthread_cond_destroy(&c.news);
    pthread_mutex_destroy(&c.lock);
    mem_free(c.ended);
    mem_free(w);
    return st;
}

size_t sweep_failed(const sweep *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += *s->point[i].error != '\0';
    return n;
}
