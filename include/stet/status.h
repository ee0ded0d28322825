/* stet/status.h - status codes, messages, and what the host program may plug in.
 *
 *     if (stet_model_load("runs/cnn", &model) != STET_OK)
 *         fprintf(stderr, "%s\n", stet_last_error());
 *
 * Every call that can fail returns a stet_status; the sentence for people is kept per thread and
 * stays valid until the next failing call on that thread. The library never prints or exits. */
#ifndef STET_STATUS_H
#define STET_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STET_API __attribute__((visibility("default")))
#else
#define STET_API
#endif

#define STET_VERSION_MAJOR 0
#define STET_VERSION_MINOR 1
#define STET_VERSION_PATCH 0
#define STET_VERSION "0.1.0"
#define STET_VERSION_NUMBER                                                                        \
    (STET_VERSION_MAJOR * 10000 + STET_VERSION_MINOR * 100 + STET_VERSION_PATCH)

/* Arguments with their defaults in C++, where a NAME_DEFAULTS macro cannot be a braced list. */
#ifdef __cplusplus
#define STET_DEFAULTS_CXX(type)                                                                    \
    [] {                                                                                           \
        type args_;                                                                                \
        type##_init(&args_, sizeof args_);                                                         \
        return args_;                                                                              \
    }()
#endif

/* One list makes the enum, the names and the texts. */
#define STET_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(EUSAGE, 1, "invalid argument")                                                               \
    X(EIO, 2, "cannot read or write")                                                              \
    X(EFORMAT, 3, "malformed input")                                                               \
    X(ENOMEM, 4, "out of memory")                                                                  \
    X(EDEVICE, 5, "accelerator failure")                                                           \
    X(ENOTSUP, 6, "not supported by this model or device")                                         \
    X(EINTR, 7, "interrupted")                                                                     \
    X(EINTERNAL, 8, "internal error")

typedef enum stet_status {
#define STET_STATUS_ENUM(name, code, text) STET_##name = code,
    STET_STATUS_MAP(STET_STATUS_ENUM)
#undef STET_STATUS_ENUM
} stet_status;

STET_API const char *stet_version(void); /* of the library that runs, and */
STET_API int stet_version_number(void);  /* as STET_VERSION_NUMBER: 100 for 0.1.0 */
STET_API const char *stet_status_name(stet_status st); /* "EFORMAT" */
STET_API const char *stet_status_text(stet_status st); /* "malformed input" */
STET_API const char *stet_last_error(void);            /* never NULL; "" before any failure */
/* For callbacks that fail: the message that goes with the status they return. */
STET_API void stet_set_error(const char *message);

/* Logging: silent until a callback is set. The callback may be called from any thread,
 * one call at a time. */
typedef enum stet_log_level {
    STET_LOG_ERROR,
    STET_LOG_WARN,
    STET_LOG_INFO,
    STET_LOG_DEBUG
} stet_log_level;
typedef void stet_log_fn(void *user, stet_log_level level, const char *message);
STET_API void stet_set_logger(stet_log_fn *fn, void *user);

/* Progress of long jobs: `total` 0 means unknown. `note` is a short text such as "loss 0.31".
 * Called often and from the thread that started the job; the receiver decides what to draw. */
typedef void stet_progress_fn(void *user, const char *what, uint64_t done, uint64_t total,
                              const char *note);
STET_API void stet_set_progress(stet_progress_fn *fn, void *user);

/* Stop what runs after its current step; safe in a signal handler. It returns STET_EINTR with its
 * files consistent, and so does whatever is called afterwards, until stet_interrupt_clear(). Work
 * that is to be stopped by itself is a job of its own (stet/job.h). */
STET_API void stet_interrupt(void);
STET_API void stet_interrupt_clear(void);

/* Replace the allocator (before any other call). `resize` follows realloc; NULL arguments restore
 * the C library's. jansson, which the library uses, keeps the one it has (json_set_alloc_funcs). */
STET_API void stet_set_allocator(void *(*resize)(void *user, void *p, size_t size),
                                 void (*release)(void *user, void *p), void *user);

/* Joins the worker threads of the process and takes the library's hands off jansson; whatever is
 * called afterwards starts again. For programs that unload the library or look for leaks. No other
 * thread may be inside a call. */
STET_API void stet_shutdown(void);

/* Worker threads, counting the caller; 0 means one per core. Results do not depend on it. */
STET_API void stet_set_threads(int n);
STET_API int stet_threads(void);

#ifdef __cplusplus
}
#endif
#endif
