/* base/arena.h - memory that goes at once. Blocks are chained and kept for reuse, so a loop that
 * saves and restores a mark allocates nothing after its first turn.
 *
 *     const arena_mark start = arena_save(a);
 *     real *x = arena_new(a, real, n);      NULL: out of memory, message set
 *     arena_restore(a, start);
 *
 * Not for sharing between threads. Results are 64-byte aligned. Under AddressSanitizer gaps and
 * freed ranges are poisoned. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__) /* gcc's way to tell; below is clang's */
#define ARENA_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif

typedef struct arena_block arena_block;
typedef struct arena {
    arena_block *first, *current;
    size_t used;  /* bytes used in `current` */
    size_t grown; /* blocks ever taken from the allocator: constant in a steady state */
} arena;          /* {0} is a valid empty arena */

typedef struct arena_mark {
    arena_block *block;
    size_t used;
} arena_mark;

void *arena_alloc(arena *a, size_t count, size_t size);  /* uninitialised */
void *arena_zalloc(arena *a, size_t count, size_t size); /* zeroed */
char *arena_strndup(arena *a, const char *s, size_t n);
arena_mark arena_save(const arena *a);
void arena_restore(arena *a, arena_mark mark);
void arena_deinit(arena *a); /* releases every block; the arena may be used again */

#define arena_new(a, type, count) ((type *)arena_alloc((a), (count), sizeof(type)))
#define arena_znew(a, type, count) ((type *)arena_zalloc((a), (count), sizeof(type)))

#endif
