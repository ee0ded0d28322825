/* cli/sweep_show.h - what a sweep measured, as lines, a table or JSON, and plots. */
#ifndef CLI_SWEEP_SHOW_H
#define CLI_SWEEP_SHOW_H

#include "cli/sweep_grid.h"

typedef struct sweep_page {
    const void *cfg; /* of `stet sweep`, for JSON */
    const char *out; /* folder of the plots */
    bool json;
} sweep_page;

/* A line about a point that is done. */
void sweep_tell(const sweep *s, const sweep_point *p);
/* All cells, with plots over the last axis. */
stet_status sweep_show(const sweep_page *w, const sweep *s, const sweep_grid *g);
/* The same without plots, the n chosen ones marked; `chosen` NULL: none is. */
stet_status sweep_show_cells(const sweep_page *w, const sweep *s, const sweep_grid *g,
                             const size_t *chosen, size_t n);
/* The chosen settings on the test texts. */
stet_status sweep_show_final(const sweep_page *w, const sweep *final, const sweep_grid *g,
                             size_t n);

#endif
