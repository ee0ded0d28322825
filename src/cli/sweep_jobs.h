/* cli/sweep_jobs.h - the points of a sweep: each is a run folder, filled by the stages below
 * (cli/cells.h says when a stage is done). */
#ifndef CLI_SWEEP_JOBS_H
#define CLI_SWEEP_JOBS_H

#include "cli/cells.h"

/* What can be swept over; at SWEEP_OVER begin the axes that --over names. The seeds and the blocks
 * are last: points that differ only in them stand together. */
enum { SWEEP_MOST_OVER = 4 };
enum {
    SWEEP_SMOOTH,
    SWEEP_KAPPA,
    SWEEP_BETA,
    SWEEP_OVER,
    SWEEP_SEED = SWEEP_OVER + SWEEP_MOST_OVER,
    SWEEP_BLOCK,
    SWEEP_AXES
};
typedef struct sweep_axis {
    const char *option;  /* of `stet sweep` that lists its values */
    const char *key;     /* the option of `stet train` that gets one; in names of folders, JSON */
    const char *name;    /* in tables and plots */
    const char *defense; /* that has the option, or NULL */
} sweep_axis;

typedef enum sweep_stage {
    SWEEP_TRAIN,
    SWEEP_EVAL,
    SWEEP_INSPECT,
    SWEEP_ATTACK,
    SWEEP_CERTIFY,
    SWEEP_DONE
} sweep_stage;

/* Arguments after `--`, at most. */
enum { SWEEP_TRAIN_ARGS = 64 };

/* Settings of --attack, those that `stet attack` has by itself: its results count. */
#define SWEEP_PROFILE "openattack"

typedef struct sweep_point {
    const char *value[SWEEP_AXES]; /* as given; NULL: not swept over */
    char dir[1024];
    const char *held_out, *rest; /* a block and the other texts, as files; NULL: no blocks */
    sweep_stage stage;
    json_t *record[SWEEP_DONE]; /* of stages that are done: config.json, then results; or NULL */
    bool failed;
} sweep_point;

typedef struct sweep {
    const sweep_axis *axes; /* (SWEEP_AXES) */
    sweep_point *point;
    size_t n;
    size_t jobs;        /* processes side by side */
    long threads;       /* of each */
    cli_source source;  /* data: texts to measure on, or NULL; sets and sample for the last two */
    int64_t seed;       /* of what is measured: the same texts for every point */
    const char *attack; /* NULL: none */
    bool certify;
    bool frontier; /* only what the frontier needs: training, certificates, attack */
    const char *const *train_args; /* (n_train_args) */
    size_t n_train_args;
    void (*done)(const struct sweep *s, const sweep_point *p); /* a point is complete */
    cli_cells cells; /* its own; zero before sweep_plan */
} sweep;

bool sweep_wants(const sweep *s, sweep_stage stage); /* is it to be done at all? */
/* The points' commands, as s->cells. */
void sweep_plan(sweep *s);
/* Every planned point to its end. Points that fail are marked and the others go on; STET_EINTR when a
 * signal came: the running points have been stopped with their checkpoints written. */
stet_status sweep_run(sweep *s);
size_t sweep_failed(const sweep *s);
void sweep_deinit(sweep *s); /* with the records of its points */

#endif
