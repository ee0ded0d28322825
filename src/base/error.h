/* base/error.h - failing is one statement: return error_set(STET_EFORMAT, "%s:%zu: ...", ...) */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "stet/status.h"

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define UNUSED __attribute__((unused))

/* Remember a message for this thread and hand `code` back. */
stet_status error_set(stet_status code, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Put "prefix: " in front of this thread's message (to add the file or text it was about). */
stet_status error_prefix(stet_status code, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* With nothing to clean up; otherwise carry the status to one exit. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const stet_status try_ = (call);                                                           \
        if (try_ != STET_OK)                                                                       \
            return try_;                                                                           \
    } while (0)

#endif
