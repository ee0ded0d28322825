/* sweep/sweep_impl.h - the points of a sweep as a grid, what fills them, and what was measured in its
 * cells: a cell is one combination of settings, with its seeds and blocks. */
#ifndef SWEEP_SWEEP_IMPL_H
#define SWEEP_SWEEP_IMPL_H

#include <pthread.h>

#include "base/json.h"
#include "base/mem.h"
#include "stet/choices.h"
#include "stet/model.h"
#include "stet/sweep.h"
#include "stet/train.h"

/* ---- the grid ----------------------------------------------------------------------------- */

/* What can be swept over; at SWEEP_OVER begin the axes that `over` names. The seeds and the blocks
 * are last: points that differ only in them stand together. */
enum { SWEEP_MOST = 32, SWEEP_MOST_OVER = 4, SWEEP_MOST_WORDS = 256, SWEEP_PATH = 1024 };
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
    const char *option;  /* that lists its values */
    const char *key;     /* the option of training that gets one; in names of folders, JSON */
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

typedef struct sweep_list {
    char text[1024];
    const char *v[SWEEP_MOST]; /* {NULL}: not swept over */
    size_t n;
} sweep_list;

typedef struct sweep_point {
    const char *value[SWEEP_AXES]; /* as given; NULL: not swept over */
    char dir[SWEEP_PATH];
    const char *held_out, *rest; /* a block and the other texts, as files; NULL: no blocks */
    bool inspected;              /* its kind of model has growth bounds */
    json_t *record[SWEEP_DONE];  /* of stages that are done: config.json, then results; or NULL */
    bool done, found;
    char error[512]; /* "": it did not fail */
} sweep_point;

/* Points in the order of the axes, the last one fastest. */
typedef struct sweep_grid {
    sweep_axis def[SWEEP_AXES];
    char over[SWEEP_MOST_OVER][48]; /* names that `over` gives */
    char flag[SWEEP_AXES][56];      /* "--kappa" */
    sweep_list axis[SWEEP_AXES];
    sweep_point *point;
    size_t n, cells, per_cell;
} sweep_grid;

stet_status sweep_grid_make(const stet_sweep_args *a, sweep_grid *g);
void sweep_points_free(sweep_point *p, size_t n);
/* The first point of a cell, for the values that all of them share. */
const sweep_point *sweep_point_of(const sweep_grid *g, size_t cell);
/* "kappa 0.7, lambda 2": the values of the axes before `end`. */
void sweep_cell_name(const sweep_grid *g, size_t cell, size_t end, char *out, size_t size);
/* OUT/smooth-2_beta-1e-3_seed-1 */
stet_status sweep_name_point(const sweep_grid *g, const char *out, sweep_point *p);

double sweep_value(const sweep_point *p, stet_sweep_measure m); /* NAN: not known */
/* Mean and sample deviation over the seeds, of `seeds` times `blocks` points one after the other; all
 * blocks of a seed must be there. `value` and `chosen` are left alone. */
void sweep_cell_of(const sweep_point *p, size_t seeds, size_t blocks, stet_sweep_cell *out);
void sweep_cell_at(const sweep_grid *g, size_t cell, stet_sweep_cell *out);
/* "88.12 ± 0.10" */
enum { SWEEP_NUMBER = 48 };
const char *sweep_number(const stet_sweep_cell *c, stet_sweep_measure m, char out[SWEEP_NUMBER]);

/* ---- running points ----------------------------------------------------------------------- */

/* Labelled texts and sets that points are measured with, each read once. */
typedef struct sweep_files {
    pthread_mutex_t lock;
    struct {
        const char *path; /* borrowed */
        bool plain;       /* classes as the data has them */
        stet_dataset *d;
    } * data;
    size_t n, cap;
    stet_sets sets; /* of `synonyms`, if any */
} sweep_files;
stet_status sweep_files_init(sweep_files *f, const char *synonyms);
void sweep_files_deinit(sweep_files *f);
/* `m` NULL: classes as the data has them. A block has columns `label` and `text`. */
stet_status sweep_texts(sweep_files *f, const char *path, bool block, const stet_model *m,
                        const stet_dataset **out);

typedef struct sweep {
    stet_sweep_args a;
    sweep_grid *g;
    sweep_point *point;
    size_t n;
    bool certify,
        frontier; /* frontier: only what the choice needs: training, certificates, attack */
    sweep_files *files;
} sweep;

/* Does any point of the sweep have this stage? */
bool sweep_wants(const sweep *s, const sweep_point *p, sweep_stage stage);

/* The words of a point's training. */
typedef struct sweep_words {
    const char *v[SWEEP_MOST_WORDS];
    size_t n;
    char defense[64];
} sweep_words;
stet_status sweep_train_words(const sweep *s, const sweep_point *p, sweep_words *out);
/* Their settings: all options of training, and those that every command has. */
typedef struct sweep_line {
    stet_train_settings settings;
    int64_t seed, threads;
    int device;
} sweep_line;
stet_status sweep_line_read(const char *const *words, size_t n, sweep_line *out);
stet_status sweep_line_json(const sweep_line *l, json_t **out);

/* Is every option of the point right, and its folder, if there is one, of the same settings? */
stet_status sweep_point_check(const sweep *s, sweep_point *p);
/* To its end, on this thread. Its failure is the point's. */
stet_status sweep_point_run(const sweep *s, sweep_point *p);
/* All of them, `jobs` at a time. STET_OK also where points fail. */
stet_status sweep_run(const sweep *s);
size_t sweep_failed(const sweep *s);

/* ---- the frontier ------------------------------------------------------------------------- */

/* Files of one block: its texts, and all others. */
typedef struct sweep_block {
    char held_out[SWEEP_PATH + 64], rest[SWEEP_PATH + 64];
    size_t texts;
} sweep_block;

/* OUT/blocks/block-1.jsonl, rest-1.jsonl, ... `data`, `label`, `text` and `skip-bad` are those of
 * `train`, the settings of training. Blocks that are there must be the same, STET_EUSAGE if not. */
stet_status sweep_blocks_cut(const json_t *train, const stet_sweep_args *a, sweep_block *blocks);

/* Cells that no other equals or beats in both accuracies, by rising clean accuracy. */
stet_status sweep_frontier(const sweep_grid *g, size_t *chosen, size_t *n);
/* OUT/final/...: a point for each chosen cell and seed, trained on all texts. */
stet_status sweep_final_points(const sweep_grid *g, const char *out, const size_t *chosen, size_t n,
                               sweep_point **points);
/* OUT/frontier.sh: the commands of the final points, with what the blocks say of each. */
stet_status sweep_frontier_script(const sweep_grid *g, const sweep *final,
                                  const sweep_block *blocks, const size_t *chosen, size_t n);

/* ---- plots -------------------------------------------------------------------------------- */

/* OUT/accuracy.svg and OUT/gbm.svg, over the last axis. */
stet_status sweep_plots(const sweep *s);
/* OUT/frontier.svg: certified over clean accuracy, of all cells and of the chosen; of these also on
 * the test texts where that was measured. */
stet_status sweep_frontier_plot(const sweep_grid *g, const sweep *final, const size_t *chosen,
                                size_t n);

#endif
