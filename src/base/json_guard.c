/* base/json_guard.c - jansson where memory may run out.
 *
 * jansson 2.14 does not look whether there was room for the text of a token and reads on past what it has of it; and what
 * it has no room for it leaves out of a copy. So we stand before its allocator, whichever it is: the C library's, or the
 * host's. Failures are counted, and one while a text is parsed leaves the parser at once. What the parser took until then
 * stands in a list and is given back.
 *
 * What the parser frees it mostly took just before, and that leaves the list at once. The rest is freed when the text has
 * been read: to look for it would take time that is quadratic in the length of a text that breaks off. */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

typedef struct parse {
    jmp_buf no_memory;
    void **block; /* taken so far */
    size_t n, cap;
    void **later; /* of those, to be freed in the end */
    size_t n_later, cap_later;
} parse;

static _Thread_local parse *current; /* of this thread, if it parses */
static _Atomic(json_malloc_t) next_malloc;
static _Atomic(json_free_t) next_free;

static void *guard_malloc(size_t size)
{
    void *p = atomic_load(&next_malloc)(size);
    if (!p)
        mem_failed(size);
    if (!current)
        return p;
    if (!p || mem_grow(&current->block, &current->cap, current->n + 1, sizeof p) != STET_OK) {
        if (p)
            atomic_load (&next_free)(p);
        longjmp(current->no_memory, 1);
    }
    current->block[current->n++] = p;
    return p;
}

static void guard_free(void *p)
{
    enum { RECENT = 8 };
    parse *const c = p ? current : NULL;
    for (size_t i = c ? c->n : 0; c && i > 0 && i + RECENT > c->n; i--) {
        if (c->block[i - 1] != p)
            continue;
        memmove(&c->block[i - 1], &c->block[i], (c->n-- - i) * sizeof p);
        atomic_load (&next_free)(p);
        return;
    }
    if (!c)
        atomic_load (&next_free)(p);
    else if (mem_grow(&c->later, &c->cap_later, c->n_later + 1, sizeof p) == STET_OK)
        c->later[c->n_later++] = p;
    else
        longjmp(c->no_memory, 1);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void json_guard(void)
{
    json_malloc_t get;
    json_free_t give;
    pthread_mutex_lock(&lock);
    json_get_alloc_funcs(&get, &give);
    if (get != guard_malloc) { /* not yet, or the host has changed it */
        atomic_store(&next_malloc, get);
        atomic_store(&next_free, give);
        json_set_alloc_funcs(guard_malloc, guard_free);
    }
    pthread_mutex_unlock(&lock);
}

void json_unguard(void)
{
    json_malloc_t get;
    json_free_t give;
    pthread_mutex_lock(&lock);
    json_get_alloc_funcs(&get, &give);
    if (get == guard_malloc)
        json_set_alloc_funcs(atomic_load(&next_malloc), atomic_load(&next_free));
    pthread_mutex_unlock(&lock);
}

static bool parse_text(parse *p, const char *text, size_t size, json_t **out, json_error_t *e)
{
    if (setjmp(p->no_memory) != 0)
        return false;
    current = p;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, e);
    return *out || json_error_code(e) != json_error_out_of_memory;
}

stet_status json_read_text(const char *what, const char *text, size_t size, json_t **out)
{
    json_guard();
    *out = NULL;
    parse p = {.n = 0};
    json_error_t e;
    const bool room = parse_text(&p, text, size, out, &e);
    current = NULL;
    void *const *const rest = room ? p.later : p.block;
    for (size_t i = 0; i < (room ? p.n_later : p.n); i++)
        guard_free(rest[i]);
    mem_free(p.block);
    mem_free(p.later);
    if (!room)
        return error_set(STET_ENOMEM, "%s: out of memory", what);
    if (!*out)
        return error_set(STET_EFORMAT, "%s:%d:%d: %s", what, e.line, e.column, e.text);
    return STET_OK;
}
