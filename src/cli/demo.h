/* cli/demo.h - between cmd_demo.c, which tells the story, and demo_files.c, which makes what it
 * needs. */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "cli/cli.h"

enum { DEMO_PATH = 512 };

typedef struct demo_cfg {
    cli_common common;
    const char *out, *data, *test, *vectors, *synonyms;
    const char *label, *text; /* columns of data and test; not options of the demonstration */
    int model;
    int64_t texts, limit, epochs;
} demo_cfg;

/* Files of the demonstration: the user's, or made in its folder. */
typedef struct demo_files {
    char train[DEMO_PATH], test[DEMO_PATH], vectors[DEMO_PATH], synonyms[DEMO_PATH];
} demo_files;

/* Makes what is missing; every file appears whole or not at all. A folder with files of other
 * settings is STET_EUSAGE. */
stet_status demo_files_make(const demo_cfg *cfg, demo_files *out);

#endif
