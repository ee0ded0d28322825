/* base/arena.c - a chain of blocks and a position in it.
 *
 * Blocks before `current` are full, those after it are free. Only free blocks are ever reordered,
 * so a mark stays valid until the arena goes back before it. */
#include "base/arena.h"

#include <string.h>

#include "base/buffer_size.h"
#include "base/mem.h"

enum { ALIGNMENT = 64, FIRST_BLOCK = BUFFER_SIZE(64 << 10, 1 << 10), MAX_DOUBLINGS = 10 };

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = ALIGNMENT }; /* poisoned bytes after each result */
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
enum { RED_ZONE = 0 };
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

struct arena_block {
    _Alignas(ALIGNMENT) arena_block *next;
    size_t size;
    _Alignas(ALIGNMENT) unsigned char data[];
};

static arena_block *block_new(arena *a, size_t need)
{
    const size_t doublings = a->grown < MAX_DOUBLINGS ? a->grown : MAX_DOUBLINGS;
    const size_t usual = (size_t)FIRST_BLOCK << doublings;
    const size_t size = need > usual ? need : usual;
    if (size > SIZE_MAX - sizeof(arena_block)) {
        error_set(STET_ENOMEM, "out of memory: cannot allocate %zu bytes", size);
        return NULL;
    }
    arena_block *b = mem_aligned(sizeof *b + size, 1);
    if (!b)
        return NULL;
    a->grown++;
    b->size = size;
    POISON(b->data, size);
    return b;
}

/* Make the block after `current` one with at least `need` bytes, and step into it. */
static bool advance(arena *a, size_t need)
{
    arena_block **next = a->current ? &a->current->next : &a->first;
    arena_block **fit = next;
    while (*fit && (*fit)->size < need)
        fit = &(*fit)->next;
    arena_block *b = *fit;
    if (b)
        *fit = b->next;
    else if (!(b = block_new(a, need)))
        return false;
    b->next = *next;
    *next = b;
    a->current = b;
    a->used = 0;
    return true;
}

void *arena_alloc(arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        error_set(STET_ENOMEM, "out of memory: cannot allocate %zu x %zu bytes", count, size);
        return NULL;
    }
    size_t span = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + RED_ZONE;
    if (span == 0)
        span = ALIGNMENT; /* distinct results for distinct calls */
    if ((!a->current || a->current->size - a->used < span) && !advance(a, span))
        return NULL;
    void *p = a->current->data + a->used;
    a->used += span;
    UNPOISON(p, bytes);
    return p;
}

void *arena_zalloc(arena *a, size_t count, size_t size)
{
    void *p = arena_alloc(a, count, size);
    if (p)
        memset(p, 0, count * size);
    return p;
}

char *arena_strndup(arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX) {
        error_set(STET_ENOMEM, "out of memory: cannot allocate %zu bytes", n);
        return NULL;
    }
    char *copy = arena_alloc(a, n + 1, 1);
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

arena_mark arena_save(const arena *a)
{
    return (arena_mark){a->current, a->used};
}

void arena_restore(arena *a, arena_mark mark)
{
#ifdef ARENA_POISONS
    for (arena_block *b = mark.block ? mark.block : a->first; b; b = b->next) {
        const size_t kept = b == mark.block ? mark.used : 0;
        POISON(b->data + kept, b->size - kept);
        if (b == a->current)
            break;
    }
#endif
    a->current = mark.block;
    a->used = mark.used;
}

void arena_deinit(arena *a)
{
    for (arena_block *b = a->first, *next; b; b = next) {
        next = b->next;
        UNPOISON(b->data, b->size);
        mem_free_aligned(b);
    }
    *a = (arena){0};
}
