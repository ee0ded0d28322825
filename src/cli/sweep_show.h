/* cli/sweep_show.h - what a sweep measured, as lines, a table or JSON. */
#ifndef CLI_SWEEP_SHOW_H
#define CLI_SWEEP_SHOW_H

#include "cli/commands.h"
#include "stet/sweep.h"

typedef struct sweep_cfg {
    cli_common common;
    const char *out, *attack, *betas, *kappas, *smooths, *seeds, *test, *synonyms;
    stet_strings over;
    int64_t jobs, blocks, limit;
    double block_share;
    bool certify;
} sweep_cfg;

/* A line about a point: `each` of stet_sweep_args. */
void sweep_tell(void *user, const stet_sweep_point *p);
/* All cells; with blocks, the chosen ones marked. */
stet_status sweep_show_cells(const sweep_cfg *cfg, const stet_sweep_result *r);
/* The chosen settings on the test texts. */
stet_status sweep_show_final(const sweep_cfg *cfg, const stet_sweep_result *r);

#endif
