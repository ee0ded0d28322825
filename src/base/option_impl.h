/* base/option_impl.h - shared by the reader of options and the texts made from the table. */
#ifndef BASE_OPTION_IMPL_H
#define BASE_OPTION_IMPL_H

#include "stet/option.h"

/* "from 1 to 100", "of at least 0", or "" when the range says nothing. */
enum { OPT_RANGE_TEXT = 80 };
void opt_range_text(const stet_opt *o, char text[OPT_RANGE_TEXT]);

/* The name nearest to a misspelt word among those offered; `name` stays NULL if none is near. */
typedef struct opt_nearest {
    const char *word, *name;
    size_t distance;
} opt_nearest;
opt_nearest opt_nearest_start(const char *word);
void opt_nearest_offer(opt_nearest *best, const char *name);

/* Settings "name=value" with a NULL at the end (or NULL), each into the first of `n` tables that has
 * the option. Options of text point into the setting. `owner` is whose they are: STET_EUSAGE is
 * "model 'cnn': setting 'x': expected name=value" or "model 'cnn' has no setting 'filtres'; did you
 * mean 'filters'?". */
typedef struct opt_table {
    const stet_opt *opts;
    void *cfg;
} opt_table;
stet_status opt_settings(const opt_table *t, size_t n, const char *const *settings,
                         const char *owner);

/* STET_EUSAGE: "no attack 'pwsw', did you mean 'pwws'?"; `names` ends with NULL. */
stet_status opt_no_such(const char *what, const char *name, const char *const *names);

#endif
