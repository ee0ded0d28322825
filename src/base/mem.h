/* base/mem.h - checked allocation through the replaceable allocator. NULL means out of memory and
 * the thread's message is set; callers return STET_ENOMEM. Sizes are count x size, checked. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/error.h"

void *mem_alloc(size_t count, size_t size);           /* uninitialised */
void *mem_zalloc(size_t count, size_t size);          /* zeroed */
void *mem_resize(void *p, size_t count, size_t size); /* on failure p stays valid */
void *mem_aligned(size_t count, size_t size); /* 64-byte aligned; release with mem_free_aligned */
void mem_free(void *p);
void mem_free_aligned(void *p);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
bool size_mul(size_t a, size_t b, size_t *out); /* false on overflow */
size_t mem_count(void);                         /* allocations made so far by this process */
size_t mem_failures(void); /* of this thread: for calls into libraries that hide theirs */
void mem_failed(size_t size); /* an allocation of another library failed: count it, set the message */

/* Grow an array {ptr, cap} so that it holds `need` items: used as
 *     TRY(mem_grow(&v->items, &v->cap, v->n + 1, sizeof *v->items)); */
stet_status mem_grow(void *ptr_to_array, size_t *cap, size_t need, size_t size);

#endif
