/* stet/report.h - one page about a set of run folders: what was measured, how they were trained,
 * what their growth bounds look like, which texts were flipped.
 *
 *     const char *const runs[] = { "runs/standard", "runs/robust" };
 *     stet_report_args a = { .dirs = runs, .n_dirs = 2 };
 *     char *page;
 *     if (stet_report(&a, &page) != STET_OK) ...
 *
 * Everything is read from the folders: config.json, train.jsonl, results (stet/results.h); only the
 * growth bounds are computed, from the weights. A folder that lacks one of these has less to show.
 */
#ifndef STET_REPORT_H
#define STET_REPORT_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stet_report_format {
    STET_REPORT_HTML, /* one file that needs nothing else: no network, no script from elsewhere */
    STET_REPORT_MARKDOWN,
    STET_REPORT_JSON /* one object on one line */
} stet_report_format;

/* A table of the caller's, shown before what the folders say: figures over several seeds, figures of
 * others. Everything is plain text. */
typedef struct stet_sheet {
    const char *title;
    const char *lead, *note; /* a paragraph before and after; NULL: none */
    const char *const *cell; /* (rows, cols); the first row is the heading */
    size_t rows, cols;
} stet_sheet;

typedef struct stet_report_args {
    size_t size; /* of this struct; 0 counts as what this header says */
    const char *const *dirs; /* run folders, in the order in which they are shown; at most 256 */
    size_t n_dirs;
    const char *title; /* NULL: one is made */
    stet_report_format format;
    bool no_bounds; /* leave the growth bounds out */
    const stet_sheet *sheets; /* with these, n_dirs may be 0 */
    size_t n_sheets;
} stet_report_args;
STET_API void stet_report_args_init(stet_report_args *a, size_t size); /* sizeof(stet_report_args) */

/* The page as a new string for stet_free(). STET_EIO or STET_EFORMAT name the folder or file at
 * fault. */
STET_API stet_status stet_report(const stet_report_args *a, char **out);
/* To a file, atomically. */
STET_API stet_status stet_report_write(const stet_report_args *a, const char *path);

#ifdef __cplusplus
}
#endif
#endif
