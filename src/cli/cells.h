/* cli/cells.h - run folders that commands of this program fill, several side by side.
 *
 * A cell is a run folder and its stages: commands that run one after the other. A stage is done when
 * what it leaves is there: its standard output in a file of the folder (`stet train`), or a result in
 * DIR/results about this very model, these texts, sets and settings (cli/measured.h). So work that
 * was stopped at any moment goes on from there, and what was measured by hand counts.
 *
 *     cli_cells c = {.jobs = 2, .threads = 4};
 *     cli_cell *x = cells_add(&c, "runs/cnn_seed-1");
 *     cli_stage *s = cell_add(x, &cmd_train);
 *     s->output = "train.json";
 *     cell_args(s, "--data", "train.tsv", "-o", x->dir, "--resume", NULL);
 *     st = cells_run(&c);      // x->stage[0].record is what train.json says
 *     cells_deinit(&c); */
#ifndef CLI_CELLS_H
#define CLI_CELLS_H

#include <sys/types.h>

#include "cli/source.h"

typedef struct cli_stage {
    const cli_command *cmd;
    char **arg; /* what a person would type after the command's name */
    size_t n_args;
    /* It leaves one of these. */
    const char *output; /* a file of the folder */
    char result[96];    /* DIR/results/NAME.json */
    /* What a result is about: `data`, with `label`, `text` and `skip_bad`, and `synonyms`. */
    cli_source source;
    bool plain_classes; /* the command takes classes as the data has them, not the model's */
    json_t *record;     /* what it left, once it is done */
} cli_stage;

typedef struct cli_cell {
    char *dir;
    cli_stage *stage;
    size_t n_stages;
    size_t at; /* the first stage that is not done; n_stages: complete */
    void *user;
    pid_t pid; /* 0: nothing runs */
    bool failed;
} cli_cell;

typedef struct cli_cells {
    cli_cell **v; /* each stays where it is while others are added */
    size_t n;
    size_t jobs;                                                /* processes side by side */
    long threads;                                               /* of each */
    void (*done)(const struct cli_cells *c, const cli_cell *x); /* a cell is complete; or NULL */
    void *user;
    struct cell_files *files; /* texts and sets that were read, its own */
} cli_cells;

/* Memory that runs out ends the program. Names and arguments are copied. */
cli_cell *cells_add(cli_cells *c, const char *dir);
cli_stage *cell_add(cli_cell *x, const cli_command *cmd); /* good until the next stage is added */
void cell_args(cli_stage *s, const char *first, ...) __attribute__((sentinel));
void cell_option(cli_stage *s, const char *name, const char *value); /* nothing if value is NULL */
void cell_number(cli_stage *s, const char *name, int64_t value);
/* --data, --label, --text, --skip-bad, --synonyms and --limit of the source, which it also becomes
 * the stage's. */
void cell_source(cli_stage *s, const cli_source *from);

bool cell_done(const cli_cell *x);
/* The record of the stage that leaves this file or result, with these sets (NULL: any); NULL: not
 * done, or no such stage. */
const json_t *cell_record(const cli_cell *x, const char *name, const char *synonyms);

/* Every cell to its end. Every mistake in the arguments, and every folder that was filled with other
 * settings, is told before the first command starts. Cells that fail are marked, their last line is
 * told, and the others go on. STET_EINTR when a signal came: what ran has been stopped, training with
 * its checkpoint written. */
stet_status cells_run(cli_cells *c);
size_t cells_failed(const cli_cells *c);
void cells_deinit(cli_cells *c);
void stage_deinit(cli_stage *s); /* of one that no cell has */

#endif
