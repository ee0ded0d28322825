/* verify/ver_line.h - one line of a certificate file: what it states about a text. */
#ifndef VERIFY_VER_LINE_H
#define VERIFY_VER_LINE_H

#include "verify/ver_impl.h"

typedef enum ver_verdict {
    VER_WRONG,
    VER_CERTIFIED,
    VER_BROKEN,
    VER_UNDECIDED,
    VER_LIKELY
} ver_verdict;

typedef struct ver_line {
    stet_verify_text text;
    ver_task task; /* the text's own word first in every set */
    ver_verdict verdict;
    int answer;
    bool unread; /* the model's numbers overflow: no answer, nothing is claimed */
    double clean;
    const json_t *claims, *tree, *edits; /* borrowed, NULL: absent */
    const json_t *votes;                 /* of a model that votes, instead of those */
    int after;                           /* class that the edits give */
} ver_line;

/* STET_EFORMAT, with a message, where the line is not well formed. Memory from `a`. */
stet_status ver_line_read(const ver_model *m, const json_t *o, arena *a, ver_line *out);

/* STET_EFORMAT, with a message, where something that the line says does not hold. `needed` is the
 * budget that a certified text must reach; claims that stand are counted in `r`. */
stet_status ver_line_check(ver_work *w, const ver_line *l, size_t needed, arena *a,
                           stet_verify_result *r);

/* Take up a task. */
stet_status ver_open_task(ver_work *w, const ver_task *t);

/* The lowest bound of all texts of the task, each by itself; methods are tried up to `enough`. The
 * task is open afterwards. STET_EFORMAT where there are too many. */
stet_status ver_enumerate(ver_work *w, const ver_task *t, int label, int other, double enough,
                          arena *a, double *out);

/* "budget": null or a number of words. */
stet_status ver_budget_read(const json_t *o, size_t *out);

/* Only these keys (NULL at the end) may stand in `o`. */
stet_status ver_only_keys(const json_t *o, const char *what, const char *const *keys);

#endif
