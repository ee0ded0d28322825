/* cli/reproduce.h - between cmd_reproduce.c, which has the options and the list of what can be
 * reproduced, and its parts: rows (how each defence is trained), plan (which runs and measurements
 * are needed), tables (what came out). */
#ifndef CLI_REPRODUCE_H
#define CLI_REPRODUCE_H

#include "cli/cells.h"
#include "cli/demo.h"
#include "stet/report.h"

enum { REPRO_MOST = 32, REPRO_ROUNDS = 3, REPRO_PATH = 1024 };

typedef struct reproduce_cfg {
    cli_common common;
    const char *out, *data, *test, *label, *text, *synonyms, *paper_synonyms;
    stet_strings vectors, nearest;
    const char *models, *defenses, *attacks, *seeds, *betas;
    int paper;
    int64_t texts, limit, epochs, steps, jobs;
    bool quick, certify, skip_bad, run;
} reproduce_cfg;

typedef struct repro_list {
    char text[1024];
    const char *v[REPRO_MOST];
    size_t n;
} repro_list;

/* ---- rows (reproduce_rows.c) -------------------------------------------------------------- */

/* A row of the tables: a defence with the settings that its authors published, or a recipe of ours. */
typedef struct repro_row {
    const char *name, *label;
    const char *args; /* of `stet train`, with spaces between */
    struct {
        const char *model, *args; /* more of them, for one kind of model */
    } also[4];
    const char
        *bert; /* of a BERT, instead of args; NULL: the same. Rates and epochs are the model's */
    const char *only; /* the one kind of model that it is for; NULL: any */
    const char *proved; /* kinds of which many texts are proved, so that attacks do well to ask first */
    bool no_proof;    /* its models have no certificates */
    bool bert_proof;  /* but those of BERT do, without bounds */
    bool votes;       /* an answer takes many passes */
    bool head;      /* of a BERT: trains a head, so that its own settings count, not those given */
    bool augmented; /* it trains on adversarial texts of a standard model */
} repro_row;

extern const char repro_paper_rows[]; /* names of the paper's rows */
extern const char repro_bert_rows[];  /* of its table of BERT */
const repro_row *repro_row_find(const char *name);
bool repro_row_is_for(const char *name, const char *model);
void repro_row_names(char *out, size_t size); /* with commas between */
void repro_row_args(const repro_row *row, const char *model, cli_stage *out);
/* Those that change what a standard step costs: sizes of the model, of batches and of texts. */
void repro_size_args(const repro_row *row, const char *model, cli_stage *out);
void repro_small_args(const char *model, cli_stage *out); /* sizes of a --quick model */
stet_model_training
repro_kind(const char *model); /* what is known of a kind of model that there is */

/* ---- everything about one reproduction ---------------------------------------------------- */

/* Substitutes and the attacks' settings that go with them: the two that are shown side by side. */
enum { REPRO_FULL, REPRO_PAPER, REPRO_SETTINGS };
typedef struct repro_setting {
    const char *name, *label, *profile;
    char sets[REPRO_PATH];
} repro_setting;

typedef struct repro_sheet {
    stet_sheet s;
    char title[160], note[1024];
    char **cell;
    size_t n, cap;
    bool text; /* for pages; the terminal shows it in another way */
} repro_sheet;

typedef struct reproduction {
    const reproduce_cfg *cfg;
    const char *const *train_args; /* after `--` */
    size_t n_train_args;
    const char *corpus; /* whose printed figures to show beside ours: "imdb", "yahoo" */
    repro_list models, defenses, attacks, seeds, betas;
    int64_t limit, epochs, steps; /* epochs 0: the row's own */
    size_t rounds;                /* of steps on the clock */
    int64_t flipped; /* training texts to attack, for rows that need adversarial ones */
    demo_files f;
    const char *const *vectors;
    size_t n_vectors;
    cli_source data, test; /* where and in which columns */
    repro_setting setting[REPRO_SETTINGS];
    cli_cells runs;    /* models: trained, attacked, proved; side by side */
    cli_cells figures; /* pictures of two of them */
    cli_cells clock;   /* training on the clock: one after the other */
    repro_sheet *sheet;
    size_t n_sheets;
    json_t *rows; /* everything in the tables, with its numbers */
} reproduction;

/* ---- plan (reproduce_plan.c) -------------------------------------------------------------- */

/* Texts, vectors and both kinds of sets: the user's, or made in the folder. */
stet_status repro_files(reproduction *r);
/* The run of a row; `beta` NULL: as the row has it. Made when it is not planned yet. */
cli_cell *repro_run(reproduction *r, const char *model, const char *row, const char *beta,
                    const char *seed);
/* That run, attacked and certified. */
void repro_measure(reproduction *r, const char *model, const char *row, const char *beta,
                   const char *seed, const repro_list *attacks, bool certify);
/* Texts of --limit that a run is measured on: a quarter where an answer takes many passes of a BERT. */
int64_t repro_limit(const reproduction *r, const char *model, const char *row);
void repro_inspect(reproduction *r, const char *model);
/* Training on the clock: a round of a row, and of standard training with its sizes where it has any. */
typedef struct repro_clock {
    const char *model, *row, *seed;
    size_t round;
    bool standard; /* with the row's sizes */
} repro_clock;
void repro_time(reproduction *r, const repro_clock *of);
/* Where these are; NULL: not planned. */
const cli_cell *repro_find(const cli_cells *c, const char *dir);
void repro_run_dir(const reproduction *r, const char *model, const char *row, const char *beta,
                   const char *seed, char out[REPRO_PATH]);
/* The cell of it; where a row has no sizes of its own, the standard row's. NULL: not planned. */
const cli_cell *repro_timed(const reproduction *r, const repro_clock *of);
void repro_figure_dir(const reproduction *r, const char *model, char out[REPRO_PATH]);

/* ---- tables (reproduce_tables.c) ---------------------------------------------------------- */

void show_accuracy(reproduction *r, const char *what, const char *model, const repro_list *rows);
void show_beta(reproduction *r);
void show_time(reproduction *r);
void show_growth(reproduction *r);
void show_entries(reproduction *r);
void show_examples(reproduction *r);

#endif
