/* cli/cell_jobs.h - between cells.c, which knows what is done, and cell_jobs.c, which runs what is
 * not. */
#ifndef CLI_CELL_JOBS_H
#define CLI_CELL_JOBS_H

#include "cli/cells.h"

enum { CELL_PATH = 4096 };

/* A file of the cell's folder. */
static inline void cell_path(const cli_cell *x, const char *name, char out[CELL_PATH])
{
    snprintf(out, CELL_PATH, "%s/%s", x->dir, name);
}

/* The stage's command as an argument vector, NULL at the end, for free(); its strings are borrowed.
 * *skip: how many of them come before the options. */
char **cell_command(const cli_cells *c, const cli_stage *s, size_t *skip);
/* Past every stage that is done. Where nothing will run, what later ones left is read too. */
void cell_skip_done(cli_cells *c, cli_cell *x);
stet_status cell_jobs_run(cli_cells *c);

#endif
