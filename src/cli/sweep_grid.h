/* cli/sweep_grid.h - the points of a sweep as a grid, and what was measured in its cells: a cell is
 * one combination of settings, with its seeds and blocks. */
#ifndef CLI_SWEEP_GRID_H
#define CLI_SWEEP_GRID_H

#include "cli/sweep_jobs.h"

enum { SWEEP_MOST = 32 }; /* values of one list */

typedef struct sweep_list {
    char text[1024];
    const char *v[SWEEP_MOST]; /* {NULL}: not swept over */
    size_t n;
} sweep_list;

/* Points in the order of the axes, the last one fastest. */
typedef struct sweep_grid {
    sweep_axis def[SWEEP_AXES];
    char over[SWEEP_MOST_OVER][48]; /* names that --over gives */
    sweep_list axis[SWEEP_AXES];
    sweep_point *point;
    size_t n, cells, per_cell;
} sweep_grid;

/* `values`: the lists of the named axes, or NULL; `over`: "name=value,value". `blocks` 0: none. */
stet_status sweep_grid_make(const char *out, const char *const values[SWEEP_AXES],
                            const stet_strings *over, size_t blocks, sweep_grid *g);
void sweep_grid_free(sweep_grid *g);
/* The first point of a cell, for the values that all of them share. */
const sweep_point *sweep_point_of(const sweep_grid *g, size_t cell);
/* "kappa 0.7, lambda 2": the values of the axes before `end`. */
void sweep_cell_name(const sweep_grid *g, size_t cell, size_t end, char *out, size_t size);
/* OUT/smooth-2_beta-1e-3_seed-1 */
stet_status sweep_name_point(const sweep_grid *g, const char *out, sweep_point *p);

/* ---- results ------------------------------------------------------------------------------ */

typedef enum sweep_measure {
    SWEEP_VALID,
    SWEEP_TEST,
    SWEEP_SAMPLE, /* clean accuracy on the very texts that are attacked or certified */
    SWEEP_AUA,
    SWEEP_CERTIFIED,
    SWEEP_GBM,
    SWEEP_LOGITS,
    SWEEP_LIPSCHITZ,
    SWEEP_MEASURES
} sweep_measure;

/* Where a number is found among a point's records, and what it is called. */
typedef struct sweep_measured {
    sweep_stage stage;
    const char *part, *field; /* of the record; part NULL: the record itself */
    const char *key;          /* in JSON */
    const char *heading, *line;
    bool share;
} sweep_measured;
extern const sweep_measured sweep_measures[SWEEP_MEASURES];

double sweep_value(const sweep_point *p, sweep_measure m); /* NAN: not known */

/* Mean and sample deviation over the seeds; that of a seed is the mean over its blocks, all of which
 * must be there. */
typedef struct sweep_cell {
    size_t seeds;
    double mean[SWEEP_MEASURES], spread[SWEEP_MEASURES];
} sweep_cell;
/* Of `seeds` times `blocks` points one after the other. */
sweep_cell sweep_cell_of(const sweep_point *p, size_t seeds, size_t blocks);
sweep_cell sweep_cell_at(const sweep_grid *g, size_t cell);
/* "88.12 ± 0.10", into a rotating buffer. */
const char *sweep_number(const sweep_cell *c, sweep_measure m);

#endif
