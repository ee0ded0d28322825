/* run/frame.h - all texts of a data set: on all threads of the job, in order, with a log.
 *
 *     frame f;
 *     TRY(frame_init(&f, &hooks, ctx, n));
 *     ... frame_have(&f, k, line, len) for texts that an earlier run has done
 *     st = frame_run(&f);
 *     frame_deinit(&f);
 *
 * Texts are worked on by whoever is free. A text's line goes to the log as soon as those of all texts
 * before it are there; the calling thread hears of texts in the same order. What happens in between is
 * the business of attack and certify. */
#ifndef RUN_FRAME_H
#define RUN_FRAME_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "run/run_log.h"

typedef struct frame_hooks {
    const char *what; /* for progress */
    /* Text k, on any thread; `worker` names a scratch slot below stet_threads(), or frame.at_once.
     * Its line, with its end, goes to `line`. A failure ends the run. */
    stet_status (*one)(void *ctx, size_t k, size_t worker, buf *line);
    /* On the calling thread, once a text and in their order. A failure ends the run. */
    stet_status (*done)(void *ctx, size_t k, const char *line);
    /* What to tell beside the number of texts. */
    void (*note)(const void *ctx, char *out, size_t size);
} frame_hooks;

typedef struct frame_text {
    char *line;
    bool ready, old; /* old: its line is in the log already */
    stet_status status;
    char *message;
} frame_text;

typedef struct frame {
    const frame_hooks *hooks;
    void *ctx;
    const char *what;
    size_t n;
    frame_text *text; /* (n) */
    run_log log;      /* .fd = -1: none */
    size_t at_once;   /* texts on as many threads, where they wait for a device; 0: all cores */

    pthread_t caller;
    pthread_mutex_t lock;
    size_t *todo, n_todo;
    size_t logged, told; /* texts before these are in the log; have been told of */
    atomic_bool stop;
    stet_status failed; /* of the log, or of `done` */
    char *message;
} frame;

stet_status frame_init(frame *f, const frame_hooks *hooks, void *ctx, size_t n);
/* Text k is done: its line, without its end, is copied. */
stet_status frame_have(frame *f, size_t k, const char *line, size_t len);
/* STET_EINTR: the log holds what was finished. */
stet_status frame_run(frame *f);
void frame_deinit(frame *f); /* {0} is fine */

#endif
