/* report/report_impl.h - what a report is made of: folders that were read, and tables that put
 * their results beside each other. Pages (html_*.c, markdown.c, report_json.c) only write these
 * down. */
#ifndef REPORT_REPORT_IMPL_H
#define REPORT_REPORT_IMPL_H

#include "base/buffer_size.h"
#include "base/json.h"
#include "stet/bound.h"
#include "stet/report.h"

enum { MAX_RUNS = BUFFER_SIZE(256, 4), MAX_COLUMNS = 24, NAME_MAX_LEN = 96 };

/* ---- a run folder (run_folder.c) ---------------------------------------------------------- */

typedef enum epoch_value {
    EPOCH_LOSS,
    EPOCH_VALID_LOSS,
    EPOCH_ACCURACY,
    EPOCH_GROWTH,
    EPOCH_VALUES
} epoch_value;

typedef struct run_folder {
    const char *dir;
    char name[NAME_MAX_LEN]; /* last part of dir, or all of it where two folders share that */
    json_t *config;          /* config.json */
    json_t *results;         /* array of objects; "file" is the name of each */
    size_t n_epochs, cap[EPOCH_VALUES + 1];
    double *epoch, *value[EPOCH_VALUES]; /* (n_epochs) of train.jsonl; NAN where it says nothing */
    bool foreign; /* no model of ours: a program that was attacked, and its results */
    bool has_gbm;
    stet_gbm gbm;
    char fingerprint[17]; /* of the model; "" where it was not loaded */
} run_folder;

stet_status run_folder_read(const char *dir, bool bounds, run_folder *out);
void run_folder_deinit(run_folder *r);
/* Was this measured on the model that is in the folder now? */
bool run_folder_current(const run_folder *r, const json_t *result);
/* "cnn, gbm (beta=0.001, gbm-of=logits), vectors smoothed (4)". */
void run_folder_recipe(const run_folder *r, buf *out);

/* Every result of a folder, by name; stops where `take` fails. (results.c) */
typedef stet_status result_take(void *ctx, const char *name, json_t *o);
stet_status results_each(const char *dir, result_take *take, void *ctx);

/* ---- results beside each other (summary.c) ------------------------------------------------ */

typedef enum measure {
    MEASURE_CLEAN,  /* stet eval */
    MEASURE_SAMPLE, /* clean accuracy on the very texts that were attacked, where these are fewer */
    MEASURE_ATTACK,
    MEASURE_CERTIFIED
} measure;

typedef struct column {
    measure kind;
    char label[48]; /* "PWWS" */
    char note[80];  /* "openattack, 200 texts" */
    char key[160];  /* results with the same key belong to one column */
    bool of_mean;   /* an attack on the mean of answers, which is another classifier than the model */
} column;

/* One data set: a column a measure, a row a model. */
typedef struct summary {
    const json_t *data; /* {"name", "fingerprint", ...} of a result */
    column col[MAX_COLUMNS];
    size_t n_cols;
    const json_t *cell[MAX_RUNS][MAX_COLUMNS]; /* the result; NULL: not measured */
} summary;

typedef struct report {
    const stet_report_args *a;
    run_folder run[MAX_RUNS];
    size_t n;
    summary *data;
    size_t n_data;
    size_t stale; /* results of models that have changed since */
} report;

stet_status report_summarise(report *r);

/* A share of texts and the 95 % interval that so many texts leave. */
typedef struct share {
    double value, n, lo, hi; /* value NAN: not measured */
} share;
share share_at(const summary *s, size_t run, size_t col);
share share_of(const json_t *result); /* accuracy, accuracy under attack, or share proved */
/* Clean accuracy on the texts of this very result: what its other shares are compared with. */
share clean_of(const json_t *result);
/* Is the first certainly larger? Within both intervals nothing is said. */
bool share_above(share a, share b);

/* Is it an attack on the model itself? */
bool is_attack(const summary *s, size_t run, size_t col);
/* The attack that leaves the lowest accuracy, the proof (of any number of words) that covers most:
 * their columns, or SIZE_MAX. */
size_t summary_worst(const summary *s, size_t run);
size_t summary_proved(const summary *s, size_t run);
/* Do both results speak of the same sample of the same texts? */
bool same_sample(const json_t *a, const json_t *b);
/* Is the text among the numbers of result[key]? */
bool has_text(const json_t *result, const char *key, json_int_t index);
const json_t *flipped_of(const json_t *attack); /* numbers of the flipped texts */
/* What a reader should take away, in plain sentences. */
void report_lead(const report *r, buf *out);

/* ---- pages -------------------------------------------------------------------------------- */

stet_status report_html(const report *r, buf *out);
stet_status report_markdown(const report *r, buf *out);
stet_status report_json(const report *r, buf *out);

typedef struct markup markup; /* base/markup.h */
/* What other draws make of the attacks on a model that draws, as a sentence. False, and nothing is
 * written: the model draws nothing, or was not attacked. */
bool put_redrawn(const report *r, const summary *s, size_t run, markup *b);

/* ---- the caller's tables (sheets.c) ------------------------------------------------------- */

void html_sheets(const report *r, markup *b); /* a section, or nothing */
void markdown_sheets(const report *r, markup *b);
json_t *json_sheets(const report *r);

/* ---- small things ------------------------------------------------------------------------- */

const char *str_of(const json_t *o, const char *key); /* "" where there is no string */
double num_of(const json_t *o, const char *key);      /* NAN where there is no number */
const char *title_of(const report *r);

#endif
