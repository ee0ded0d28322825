/* text/fetch.h - downloads: what the catalogue holds, and one item fetched. */
#ifndef TEXT_FETCH_H
#define TEXT_FETCH_H

#include "base/error.h"

typedef struct fetch_item {
    const char *name, *what; /* for people; NULL for a URL that a user gave */
    const char *url;
    uint64_t size;      /* 0: unknown */
    const char *sha256; /* 64 lower-case digits; NULL: unknown */
    const char *blob;   /* Git's name of the content, 40 digits; NULL: unknown */
} fetch_item;

/* Download into dir/FILE, FILE being the last part of the URL, and unpack archives beside it. An
 * interrupted download leaves FILE.part and goes on from there; FILE itself appears when all is
 * done, so its presence means that nothing is left to do. */
stet_status fetch_get(const fetch_item *item, const char *dir);

/* Unpack tar (with any compression) or zip into `dir`, all of it or nothing (unpack.c). */
bool unpack_is_archive(const char *file);
stet_status unpack(const char *archive, const char *dir);

#endif
