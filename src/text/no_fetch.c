/* text/no_fetch.c - in place of fetch.c and unpack.c where the library is built with STET_FETCH=OFF. */
#include "base/error.h"
#include "stet/text.h"

const char *stet_data_known(size_t i UNUSED, const char **what UNUSED)
{
    return NULL;
}

stet_status stet_data_get(const char *name_or_url, const char *dir)
{
    return stet_data_get_checked(name_or_url, NULL, dir);
}

stet_status stet_data_get_checked(const char *name_or_url, const char *sum UNUSED,
                                  const char *dir UNUSED)
{
    return error_set(STET_ENOTSUP, "%s: this stet was built without downloads (STET_FETCH=OFF)",
                     name_or_url);
}
