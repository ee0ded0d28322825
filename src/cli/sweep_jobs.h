/* cli/sweep_jobs.h - the points of a sweep and the processes that compute them. A point is a run
 * folder; its stages are commands of this program whose standard output becomes a file in the
 * folder. A stage whose file is there is done, so a sweep that was stopped at any moment goes on
 * from there. */
#ifndef CLI_SWEEP_JOBS_H
#define CLI_SWEEP_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "stet/status.h"

typedef enum sweep_stage { SWEEP_TRAIN, SWEEP_EVAL, SWEEP_INSPECT, SWEEP_DONE } sweep_stage;

typedef struct sweep_point {
    const char *beta, *smooth, *seed; /* as given; NULL: not swept over */
    char dir[1024];
    sweep_stage stage;
    pid_t pid; /* 0: nothing runs */
    bool failed;
} sweep_point;

typedef struct sweep {
    sweep_point *point;
    size_t n;
    size_t jobs;                   /* processes side by side */
    long threads;                  /* of each */
    const char *test;              /* NULL: none */
    const char *const *train_args; /* (n_train_args) */
    size_t n_train_args;
    void (*done)(const struct sweep *s, const sweep_point *p); /* a point is complete */
} sweep;

/* Every point to its end. Points that fail are marked and the others go on; STET_EINTR when a
 * signal came: the running points have been stopped with their checkpoints written. */
stet_status sweep_run(sweep *s);

#endif
