/* base/args.c - see base/args.h. */
#include "base/args.h"

#include <string.h>

stet_status args_take(void *own, size_t room, const void *given, size_t size, const char *what)
{
    size = size ? size : room;
    if (size < sizeof size)
        return error_set(STET_EUSAGE, "%s: a struct of %zu bytes; its _init function sets the size",
                         what, size);
    for (size_t i = room; i < size; i++)
        if (((const char *)given)[i])
            return error_set(STET_EUSAGE,
                             "%s: arguments that this version of the library (%s) does not know",
                             what, stet_version());
    memcpy(own, given, size < room ? size : room);
    memcpy(own, &room, sizeof room);
    return STET_OK;
}

void args_init(void *out, size_t size, const void *defaults, size_t room)
{
    memset(out, 0, size);
    memcpy(out, defaults, size < room ? size : room);
    if (size >= sizeof size)
        memcpy(out, &size, sizeof size);
}
