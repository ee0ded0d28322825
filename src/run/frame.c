/* run/frame.c - see run/frame.h. */
#include "run/frame.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"

stet_status frame_init(frame *f, const frame_hooks *hooks, void *ctx, size_t n)
{
    *f = (frame){.hooks = hooks, .ctx = ctx, .what = hooks->what, .n = n, .log = {.fd = -1}};
    pthread_mutex_init(&f->lock, NULL);
    f->text = mem_zalloc(n + 1, sizeof *f->text);
    f->todo = mem_alloc(n + 1, sizeof *f->todo);
    return f->text && f->todo ? STET_OK : STET_ENOMEM;
}

void frame_deinit(frame *f)
{
    if (!f->hooks)
        return;
    for (size_t k = 0; f->text && k < f->n; k++) {
        mem_free(f->text[k].line);
        mem_free(f->text[k].message);
    }
    run_log_close(&f->log);
    mem_free(f->text);
    mem_free(f->todo);
    mem_free(f->message);
    pthread_mutex_destroy(&f->lock);
    *f = (frame){0};
}

stet_status frame_have(frame *f, size_t k, const char *line, size_t len)
{
    char *copy = mem_alloc(len + 2, 1);
    if (!copy)
        return STET_ENOMEM;
    memcpy(copy, line, len);
    memcpy(copy + len, "\n", 2);
    mem_free(f->text[k].line);
    f->text[k] = (frame_text){.line = copy, .ready = true, .old = true};
    return STET_OK;
}

/* Under the lock: the run ends with this. */
static void fail(frame *f, stet_status st)
{
    if (f->failed == STET_OK) {
        f->failed = st;
        f->message = mem_strdup(stet_last_error());
    }
    atomic_store(&f->stop, true);
}

/* Under the lock: lines of texts that are done, up to the first that is not. */
static void write_ready(frame *f)
{
    for (; f->failed == STET_OK && f->logged < f->n && f->text[f->logged].ready; f->logged++) {
        const frame_text *t = &f->text[f->logged];
        const stet_status st =
            f->log.fd < 0 || t->old ? STET_OK : run_log_append(&f->log, t->line, strlen(t->line));
        if (st != STET_OK) {
            fail(f, st);
            return;
        }
    }
}

/* The calling thread hears of what is in the log. */
static void tell(frame *f)
{
    const size_t before = f->told;
    pthread_mutex_lock(&f->lock);
    while (f->failed == STET_OK && f->told < f->logged) {
        frame_text *t = &f->text[f->told];
        pthread_mutex_unlock(&f->lock);
        const stet_status st = f->hooks->done(f->ctx, f->told, t->line);
        mem_free(t->line);
        t->line = NULL;
        pthread_mutex_lock(&f->lock);
        f->told++;
        if (st != STET_OK)
            fail(f, st);
    }
    pthread_mutex_unlock(&f->lock);
    if (f->told == before)
        return;
    char note[64];
    f->hooks->note(f->ctx, note, sizeof note);
    progress(f->what, f->told, f->n, note);
}

static void piece(void *ctx, size_t i, int worker)
{
    frame *f = ctx;
    const size_t k = f->todo[i];
    frame_text *t = &f->text[k];
    if (atomic_load(&f->stop) || interrupted())
        return;
    buf line = {0};
    stet_status st = f->hooks->one(f->ctx, k, (size_t)worker, &line);
    if (st == STET_OK)
        st = buf_status(&line);
    pthread_mutex_lock(&f->lock);
    t->status = st;
    t->ready = st == STET_OK;
    if (st == STET_OK) {
        t->line = buf_take(&line);
        write_ready(f);
    } else {
        t->message = mem_strdup(stet_last_error());
        atomic_store(&f->stop, true);
    }
    pthread_mutex_unlock(&f->lock);
    buf_deinit(&line);
    if (pthread_equal(pthread_self(), f->caller))
        tell(f);
}

static stet_status status_of(stet_status st, const char *message)
{
    return error_set(st, "%s", message ? message : stet_status_text(st));
}

/* The first text that failed; one that was interrupted only where no other did. */
static stet_status outcome(const frame *f)
{
    const frame_text *first = NULL;
    for (size_t k = 0; k < f->n; k++) {
        const frame_text *t = &f->text[k];
        if (t->status != STET_OK &&
            (!first || (first->status == STET_EINTR && t->status != STET_EINTR)))
            first = t;
    }
    if (f->failed != STET_OK)
        return status_of(f->failed, f->message);
    if (first && !(first->status == STET_EINTR && interrupted()))
        return status_of(first->status, first->message);
    if (f->told == f->n)
        return STET_OK;
    return f->log.fd < 0 ? error_set(STET_EINTR, "interrupted")
                         : error_set(STET_EINTR,
                                     "interrupted after %zu of %zu texts; run the same command "
                                     "again to continue",
                                     f->logged, f->n);
}

stet_status frame_run(frame *f)
{
    f->caller = pthread_self();
    f->n_todo = 0;
    for (size_t k = 0; k < f->n; k++)
        if (!f->text[k].ready)
            f->todo[f->n_todo++] = k;
    progress(f->what, f->n - f->n_todo, f->n, NULL);
    TRY(interrupt_status());
    write_ready(f);
    tell(f);
    if (f->at_once > (size_t)stet_threads())
        pool_run_wide(f->n_todo, (int)f->at_once, piece, f);
    else
        pool_run(f->n_todo, piece, f);
    tell(f);
    return outcome(f);
}
