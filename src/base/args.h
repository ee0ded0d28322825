/* base/args.h - argument structs of callers that were compiled with another version of the header:
 * the first member is their size, and fields that they do not have keep their defaults.
 *
 *     stet_attack_args own = STET_ATTACK_DEFAULTS;
 *     TRY(ARGS_TAKE(&own, given)); */
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include "base/error.h"

/* Size 0 counts as all of it. STET_EUSAGE where `given` is longer and says something there. */
stet_status args_take(void *own, size_t room, const void *given, size_t size, const char *what);
#define ARGS_TAKE(own, given) args_take(own, sizeof *(own), given, (given)->size, __func__)

/* The body of a NAME_init function: `size` bytes of defaults, zero where the caller's struct is the
 * longer one; the first member becomes `size`. */
void args_init(void *out, size_t size, const void *defaults, size_t room);

#endif
