/* attack/record.h - what became of one text, its line in the log, and the page made of such lines.
 */
#ifndef ATTACK_RECORD_H
#define ATTACK_RECORD_H

#include <jansson.h>

#include "base/buf.h"
#include "run/frame.h"

typedef enum outcome {
    OUTCOME_WRONG, /* the victim was wrong before: not attacked */
    OUTCOME_FAILURE,
    OUTCOME_SUCCESS,
    OUTCOME_UNCONFIRMED, /* flipped, but a full evaluation on the edge says no */
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
    bool proved;   /* left, since nothing can flip it */
    bool done;
    char *line; /* JSON, with its line end; kept for the page, and of flips for redraw.c */
} record;

/* Open the log of an attack for the frame: finished texts of `attack` that are in it, if it exists, are
 * the frame's (one that is not a log is STET_EFORMAT and stays as it is): those of `r` (n, ascending
 * index) are filled in. A run with another `header` (one JSON line) is STET_EFORMAT. Then the file is
 * ready for more. *resumed counts. */
stet_status attack_log_open(frame *f, const char *path, const char *attack, const char *header,
                            record *r, size_t *resumed);

stet_status record_parse(json_t *o, record *r); /* the numbers, not the line */
stet_status page_write(const char *path, const char *title, const char *summary, const record *r,
                       size_t n);

#endif
