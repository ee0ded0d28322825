/* tests/redteam/forged.h - certificate files as lists of JSON objects, to be changed and written again
 * with sums that fit. */
#ifndef REDTEAM_FORGED_H
#define REDTEAM_FORGED_H

#include "base/json.h"
#include "base/rng.h"

enum { MOST_LINES = 9 };

typedef struct lines {
    json_t *line[MOST_LINES]; /* without their sums */
    size_t n;
} lines;

void lines_read(const char *path, lines *out); /* at most MOST_LINES */
void lines_write(const char *path, const lines *l);

/* One change somewhere in a line: a value changed, removed, doubled, or one of another line. Words are
 * w0 .. w(n_words - 1). */
void lines_mutate(lines *l, size_t which, size_t n_words, rng *r);

#endif
