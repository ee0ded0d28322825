/* run/run_log.h - an append-only file of JSON lines that a killed run goes on with. A line is there
 * from the moment it is written; a crash can tear the last one at most, and that is cut off.
 *
 *     run_log log;
 *     TRY(run_log_open(&log, path, false, take, ctx));   // what an earlier run left, line by line
 *     TRY(run_log_append(&log, line, n));
 *     TRY(run_log_finish(&log));
 *     run_log_close(&log);
 *
 * A file that is only of use when it is whole is kept as PATH.part until it is finished. */
#ifndef RUN_RUN_LOG_H
#define RUN_RUN_LOG_H

#include "base/error.h"

typedef struct run_log {
    int fd;       /* -1: none */
    char *path;   /* where lines go */
    char *target; /* what that becomes when it is finished; NULL: it is already */
} run_log;

/* A whole line, without its end, from 1. STET_EFORMAT says that the file is not ours: it is left as it
 * is, and its name and the number of the line are put before the message. */
typedef stet_status run_log_line(void *ctx, size_t number, const char *line, size_t len);
/* What stands behind the last whole line, or in place of the first one; STET_EFORMAT as above. */
typedef stet_status run_log_rest(void *ctx, size_t lines, const char *rest, size_t len);

/* Opens PATH, or PATH.part if `part`, and makes sure that nobody else writes it. Nothing is written or
 * cut off before all that is there has been taken. A part of a device or a pipe is that itself. On
 * failure the log is closed. */
stet_status run_log_open(run_log *l, const char *path, bool part, run_log_line *take,
                         run_log_rest *rest, void *ctx);
stet_status run_log_append(run_log *l, const char *line, size_t n);
stet_status run_log_restart(run_log *l); /* empty */
void run_log_discard(run_log *l);        /* removes a part */
stet_status run_log_finish(run_log *l);  /* on disk, under its own name */
void run_log_close(run_log *l);          /* fine for {.fd = -1} and after a failure */

#endif
