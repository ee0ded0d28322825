/* stet/results.h - what was measured about a model, kept beside it: DIR/results/NAME.json, one
 * object each. Commands write them, `stet report` reads them.
 *
 *     stet_results_write("runs/cnn", "eval", "{\"command\":\"eval\", \"accuracy\":0.93}");
 *     stet_results r;
 *     if (stet_results_read("runs/cnn", &r) != STET_OK) ...
 *     for (size_t i = 0; i < r.n; i++)
 *         printf("%s: %s\n", r.name[i], r.json[i]);
 *     stet_results_deinit(&r);
 *
 * docs/formats.md lists the keys. */
#ifndef STET_RESULTS_H
#define STET_RESULTS_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Atomic; makes the folder. `name`: letters, digits, '.', '-', '_'. An object may have a string
 * "identity" that says of what it is the result (data, sample, settings): a file of that name with
 * another identity is left alone, and the new one gets the name NAME-IDENTITY. STET_EFORMAT if
 * `json` is not an object. */
STET_API stet_status stet_results_write(const char *dir, const char *name, const char *json);

typedef struct stet_results {
    size_t n;
    char **name, **json; /* in the order of the names, without ".json" */
} stet_results;
/* A folder without results has none. STET_EFORMAT names the file that is not a JSON object. */
STET_API stet_status stet_results_read(const char *dir, stet_results *out);
STET_API void stet_results_deinit(stet_results *r); /* {0} is fine */

/* The 95 % interval (Wilson's) of a share that was seen on n texts: what the share of all texts of
 * that kind may be. Not a number without texts. */
STET_API void stet_interval(double share, double n, double *lo, double *hi);

/* A folder for results, with its parents; fine if it is there. */
STET_API stet_status stet_folder_make(const char *path);

#ifdef __cplusplus
}
#endif
#endif
