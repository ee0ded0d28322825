/* attack/record.h - what became of one text, its line in the log, and the page made of such lines.
 */
#ifndef ATTACK_RECORD_H
#define ATTACK_RECORD_H

#include <jansson.h>

#include "base/buf.h"

typedef enum outcome {
    OUTCOME_WRONG, /* the victim was wrong before: not attacked */
    OUTCOME_FAILURE,
    OUTCOME_SUCCESS,
    OUTCOME_UNCONFIRMED, /* turned, but a full evaluation on the edge says no */
    OUTCOME_ERROR,       /* the victim gave no answer */
    OUTCOME_TIMEOUT,     /* the text took longer than allowed: not attacked */
    OUTCOMES
} outcome;
extern const char *const outcome_names[OUTCOMES];

typedef struct record {
    size_t index;
    outcome outcome;
    uint64_t queries, evaluations;
    size_t words, attackable, candidates, changed;
    bool complete; /* every variant was seen */
    char *line;    /* JSON, with its line end; NULL: not yet attacked */
} record;

/* An append-only file of JSON lines; whole lines survive a crash. */
typedef struct attack_log {
    int fd;
    const char *path;
} attack_log;
/* Take the finished texts of `attack` from the file, if it exists (one that is not a log is STET_EFORMAT and stays as
 * it is): those of `r` (n, ascending
 * index) get their line. A run with another `header` (one JSON line) is STET_EFORMAT. Then the file
 * is ready for more. *resumed counts. */
stet_status attack_log_open(attack_log *j, const char *path, const char *attack, const char *header,
                            record *r, size_t n, size_t *resumed);
stet_status attack_log_append(attack_log *j, const char *lines, size_t size);
void attack_log_close(attack_log *j);

stet_status record_parse(json_t *o, record *r); /* the numbers, not the line */
stet_status page_write(const char *path, const char *title, const char *summary, const record *r,
                       size_t n);

#endif
