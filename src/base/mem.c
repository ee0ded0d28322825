/* base/mem.c - the one door to the heap. Every allocation of the library comes through here, so a
 * host can replace the allocator, and a test can count allocations and make the n-th one fail. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "stet/option.h"

enum { ALIGNMENT = 64, GROW_MIN = 8 };

static void *libc_resize(void *user, void *p, size_t size)
{
    (void)user;
    return realloc(p, size);
}

static void libc_release(void *user, void *p)
{
    (void)user;
    free(p);
}

static struct {
    void *(*resize)(void *user, void *p, size_t size);
    void (*release)(void *user, void *p);
    void *user;
} allocator = {libc_resize, libc_release, NULL};

static atomic_size_t allocations;
static _Thread_local size_t failures;

void stet_set_allocator(void *(*resize)(void *user, void *p, size_t size),
                        void (*release)(void *user, void *p), void *user)
{
    const bool ours = resize && release;
    allocator.resize = ours ? resize : libc_resize;
    allocator.release = ours ? release : libc_release;
    allocator.user = ours ? user : NULL;
}

void stet_free(void *p)
{
    mem_free(p);
}

bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Never asks for 0 bytes: whether that gives NULL differs between allocators. */
static void *resize_bytes(void *p, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    void *q = allocator.resize(allocator.user, p, size ? size : 1);
    if (!q)
        mem_failed(size);
    return q;
}

void mem_failed(size_t size)
{
    failures++;
    error_set(STET_ENOMEM, "out of memory: cannot allocate %zu bytes", size);
}

static void *too_large(size_t count, size_t size)
{
    failures++;
    error_set(STET_ENOMEM, "out of memory: cannot allocate %zu x %zu bytes", count, size);
    return NULL;
}

void *mem_resize(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes))
        return too_large(count, size);
    return resize_bytes(p, bytes);
}

void *mem_alloc(size_t count, size_t size)
{
    return mem_resize(NULL, count, size);
}

void *mem_zalloc(size_t count, size_t size)
{
    void *p = mem_alloc(count, size);
    if (p)
        memset(p, 0, count * size);
    return p;
}

/* The allocator promises no alignment that helps, so we ask for more and keep the address it gave
 * in the word before ours. */
void *mem_aligned(size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT - sizeof(void *))
        return too_large(count, size);
    char *raw = resize_bytes(NULL, bytes + ALIGNMENT + sizeof(void *));
    if (!raw)
        return NULL;
    char *p = raw + sizeof(void *);
    p += (ALIGNMENT - (uintptr_t)p % ALIGNMENT) % ALIGNMENT;
    memcpy(p - sizeof raw, &raw, sizeof raw);
    return p;
}

void mem_free(void *p)
{
    if (p)
        allocator.release(allocator.user, p);
}

void mem_free_aligned(void *p)
{
    if (!p)
        return;
    char *raw;
    memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
    mem_free(raw);
}

char *mem_strndup(const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return too_large(n, 1);
    char *copy = mem_alloc(n + 1, 1);
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

size_t mem_count(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

size_t mem_failures(void)
{
    return failures;
}

stet_status mem_grow(void *ptr_to_array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return STET_OK;
    size_t target = *cap + *cap / 2;
    if (target < need)
        target = need;
    if (target < GROW_MIN)
        target = GROW_MIN;
    void *p;
    memcpy(&p, ptr_to_array, sizeof p); /* the array may point to any type */
    p = mem_resize(p, target, size);
    if (!p)
        return STET_ENOMEM;
    memcpy(ptr_to_array, &p, sizeof p);
    *cap = target;
    return STET_OK;
}
