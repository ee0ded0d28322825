/* cli/numbers.h - what was measured, as the JSON object that --json prints and the run folder
 * keeps, whichever command measured it. New references; NULL: out of memory or a failure with its
 * message. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <jansson.h>

#include "stet/attack.h"
#include "stet/model.h"

json_t *numbers_of_eval(const stet_model *m, const stet_scores *s);
json_t *numbers_of_attack(const char *attack, const char *profile, const char *const *settings,
                          const stet_attack_result *r);

#endif
