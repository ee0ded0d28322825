/* base/error.c - status names and this thread's message. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 1024 };
static _Thread_local char message[MESSAGE_MAX];

const char *stet_version(void)
{
    return STET_VERSION;
}

int stet_version_number(void)
{
    return STET_VERSION_NUMBER;
}

const char *stet_status_name(stet_status st)
{
    switch (st) {
#define NAME_CASE(name, code, text)                                                                \
    case STET_##name:                                                                              \
        return #name;
        STET_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "UNKNOWN";
}

const char *stet_status_text(stet_status st)
{
    switch (st) {
#define TEXT_CASE(name, code, text)                                                                \
    case STET_##name:                                                                              \
        return text;
        STET_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "unknown status";
}

const char *stet_last_error(void)
{
    return message;
}

void stet_set_error(const char *text)
{
    error_set(STET_OK, "%s", text);
}

/* The arguments may point into the message itself, so the new text is made beside it. */
stet_status error_set(stet_status code, const char *fmt, ...)
{
    char text[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(message, text, sizeof message);
    return code;
}

stet_status error_prefix(stet_status code, const char *fmt, ...)
{
    char text[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return n < 0 ? code : error_set(code, "%s: %s", text, message);
}
