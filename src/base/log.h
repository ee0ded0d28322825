/* base/log.h - messages and progress through the callbacks of the job that this thread works for
 * (stet/job.h), and its interrupt flag. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

void log_at(stet_log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define log_warn(...) log_at(STET_LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(STET_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(STET_LOG_DEBUG, __VA_ARGS__)

/* `note` may be NULL. */
void progress(const char *what, uint64_t done, uint64_t total, const char *note);

bool interrupted(void);             /* was the job told to stop? */
stet_status interrupt_status(void); /* STET_EINTR with its message, or STET_OK */

#endif
