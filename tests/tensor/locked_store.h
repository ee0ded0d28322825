/* tests/tensor/locked_store.h - a second device for the tests. Its memory is the host's, its kernels
 * are the CPU's, but every page is closed except while a kernel runs: whoever follows an address of
 * this store anywhere else dies at once. What passes on it does not touch device memory.
 *
 *     CHECK_OK(store_register(&locked_desc));
 *     CHECK_OK(store_open("locked", &s));
 */
#ifndef TESTS_LOCKED_STORE_H
#define TESTS_LOCKED_STORE_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "tensor/store.h"

typedef struct locked_block {
    char *at;
    size_t bytes;
    struct locked_block *next;
} locked_block;

typedef struct locked_memory {
    locked_block *blocks;
    int depth; /* kernels that run now, one in another */
} locked_memory;

static inline void locked_set(locked_memory *m, int how)
{
    for (locked_block *b = m->blocks; b; b = b->next)
        if (mprotect(b->at, b->bytes, how) != 0)
            abort();
}

static inline void locked_enter(store *s)
{
    locked_memory *m = s->own;
    if (m->depth++ == 0)
        locked_set(m, PROT_READ | PROT_WRITE);
}

static inline void locked_leave(store *s)
{
    locked_memory *m = s->own;
    if (--m->depth == 0)
        locked_set(m, PROT_NONE);
}

static inline stet_status locked_open(store *s)
{
    s->own = mem_zalloc(1, sizeof(locked_memory));
    return s->own ? STET_OK : STET_ENOMEM;
}

static inline void locked_release(store *s, void *p)
{
    locked_memory *m = s->own;
    for (locked_block **b = &m->blocks; *b; b = &(*b)->next)
        if ((*b)->at == p) {
            locked_block *gone = *b;
            *b = gone->next;
            munmap(gone->at, gone->bytes);
            mem_free(gone);
            return;
        }
    abort(); /* not an address of this store */
}

static inline void locked_close(store *s)
{
    locked_memory *m = s->own;
    if (m->blocks)
        abort(); /* somebody forgot to release */
    mem_free(m);
}

static inline void *locked_alloc(store *s, size_t bytes)
{
    locked_memory *m = s->own;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    locked_block *b = mem_zalloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->bytes = (bytes + page) / page * page;
    b->at = mmap(NULL, b->bytes, m->depth ? PROT_READ | PROT_WRITE : PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->at == MAP_FAILED) {
        mem_free(b);
        return NULL;
    }
    b->next = m->blocks;
    m->blocks = b;
    return b->at;
}

static inline void locked_clear(store *s, void *p, size_t bytes)
{
    locked_enter(s);
    memset(p, 0, bytes);
    locked_leave(s);
}

static inline void locked_copy(store *s, void *to, const void *from, size_t bytes)
{
    locked_enter(s);
    memcpy(to, from, bytes);
    locked_leave(s);
}

static inline stet_status locked_download(store *s, void *to, const void *const *from, size_t n,
                                          size_t bytes)
{
    for (size_t i = 0; i < n; i++)
        locked_copy(s, (char *)to + i * bytes, from[i], bytes);
    return STET_OK;
}

/* Numbers of a letter arrive when they are received, not before. */
static inline stet_status locked_send(store *s, store_letter *l, const void *const *from, size_t n,
                                      size_t bytes)
{
    if (!l->own)
        l->own = mem_alloc(1, LETTER_BYTES);
    return l->own ? locked_download(s, l->own, from, n, bytes) : STET_ENOMEM;
}

static inline stet_status locked_receive(store *s, store_letter *l)
{
    (void)s;
    memcpy(l->data, l->own, l->bytes);
    return STET_OK;
}

static inline void locked_drop(store *s, store_letter *l)
{
    (void)s;
    mem_free(l->own);
}

static const store_desc locked_desc = {
    .name = "locked",
    .kernels = DEV_CPU,
    .open = locked_open,
    .close = locked_close,
    .alloc = locked_alloc,
    .release = locked_release,
    .clear = locked_clear,
    .upload = locked_copy,
    .download = locked_download,
    .copy = locked_copy,
    .send = locked_send,
    .receive = locked_receive,
    .drop = locked_drop,
    .enter = locked_enter,
    .leave = locked_leave,
};

#endif
