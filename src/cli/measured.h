/* cli/measured.h - keeping what a command measured in the run folder (stet/results.h).
 *
 *     cli_measured m = { .cmd = &cmd_eval, .cfg = cfg, .dir = dir, .name = "eval", .model = model,
 *                        .data = data, .data_path = cfg->data, .texts = n };
 *     if (cfg->record)
 *         cli_record(&m, json_pack("{s:f}", "accuracy", accuracy));
 *
 * Paths are kept as their last part: folders of one machine mean nothing on another. */
#ifndef CLI_MEASURED_H
#define CLI_MEASURED_H

#include "cli/cli.h"
#include "stet/choices.h"
#include "stet/model.h"

/* The option that every measuring command has, on unless --no-record. */
#define CLI_RECORD_OPT(T)                                                                          \
    {                                                                                              \
        STET_OPT_FIELD("record", STET_T_FLAG, T, record),                                          \
            .def = "true",                                                                         \
            .help = "leave nothing in DIR/results, where `stet report` finds results"              \
    }

typedef struct cli_measured {
    const cli_command *cmd;
    const void *cfg;        /* begins with a cli_common */
    const char *dir, *name; /* DIR/results/NAME.json */
    const stet_model *model;
    const stet_dataset *data; /* the whole set, or NULL */
    const char *data_path;
    size_t texts;          /* measured, of data */
    const stet_sets *sets; /* or NULL */
    const char *sets_path;
    const char *model_fingerprint, *data_fingerprint; /* as in stet_measured */
} cli_measured;

/* Write `numbers` (an object; takes the reference) with settings, seed and fingerprints. A folder
 * that cannot be written to is worth a warning, not a failure. */
void cli_record(const cli_measured *m, json_t *numbers);

/* What cli_record kept of the same command about this very model, with the same settings, data and
 * sets, as a new reference; NULL: nothing. Of `m`, the paths and `texts` may be missing. */
json_t *cli_recorded(const cli_measured *m);

const char *cli_last_part(const char *path); /* all of it if it ends in a slash */
/* Paths among the values of a "config" become their last part. */
void cli_shorten_paths(json_t *config);

#endif
