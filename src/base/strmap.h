/* base/strmap.h - interned byte strings: each distinct string gets the next number from 0.
 * Lookup is read-only and may be shared by threads while nobody adds. */
#ifndef BASE_STRMAP_H
#define BASE_STRMAP_H

#include "base/arena.h"

typedef struct strmap {
    arena text;
    struct strmap_slot *slots;
    struct strmap_entry *entries;
    size_t n, cap, n_slots;
    char *chunk; /* where the next short string goes, with `room` bytes left */
    size_t room;
} strmap; /* {0} is a valid empty map */

#define STRMAP_NONE UINT32_MAX
uint32_t strmap_find(const strmap *m, const char *s, size_t len); /* or STRMAP_NONE */
/* Find or add; `id` may be NULL. */
stet_status strmap_add(strmap *m, const char *s, size_t len, uint32_t *id);
const char *strmap_text(const strmap *m, uint32_t id); /* NUL-terminated */
size_t strmap_len(const strmap *m, uint32_t id);
void strmap_deinit(strmap *m);

/* Fast, and fixed for all time: fingerprints use it. */
uint64_t hash_bytes(const void *data, size_t size, uint64_t seed);

#endif
