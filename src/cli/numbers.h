/* cli/numbers.h - what was measured, as the JSON object that --json prints and the run folder
 * keeps, whichever command measured it (stet/measured.h). New references; NULL: a failure with its
 * message. Memory that runs out ends the program. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <jansson.h>

#include "stet/measured.h"

json_t *numbers_of_eval(const stet_model *m, const stet_scores *s);
json_t *numbers_of_gbm(const stet_gbm *g, const char *dir, size_t top);
/* With the lists of `kept`. */
json_t *numbers_of_attack(const char *attack, const char *profile, const char *const *settings,
                          const stet_attack_result *r, const stet_kept *kept);
json_t *numbers_of_certify(const stet_certify_how *how, const stet_certify_result *r,
                           const stet_kept *kept);
/* The object without its lists of texts, for --json: they are for the run folder. */
void numbers_drop_lists(json_t *numbers);

#endif
