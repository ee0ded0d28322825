/* tensor/store.c - see store.h: the host's store, the list of devices, arenas. */
#include "tensor/store.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/option_impl.h"

/* ---- the host ----------------------------------------------------------------------------- */

static void *host_alloc(store *s, size_t bytes)
{
    (void)s;
    return mem_aligned(bytes, 1);
}

static void host_release(store *s, void *p)
{
    (void)s;
    mem_free_aligned(p);
}

static void host_clear(store *s, void *p, size_t bytes)
{
    (void)s;
    memset(p, 0, bytes);
}

static void host_copy(store *s, void *to, const void *from, size_t bytes)
{
    (void)s;
    memcpy(to, from, bytes);
}

static stet_status host_download(store *s, void *to, const void *const *from, size_t n,
                                 size_t bytes)
{
    for (size_t i = 0; i < n; i++)
        host_copy(s, (char *)to + i * bytes, from[i], bytes);
    return STET_OK;
}

static const store_desc host_desc = {
    .name = "cpu",
    .kernels = DEV_CPU,
    .host = true,
    .alloc = host_alloc,
    .release = host_release,
    .clear = host_clear,
    .upload = host_copy,
    .download = host_download,
    .copy = host_copy,
};

store host_store = {.desc = &host_desc};

/* ---- devices by name ---------------------------------------------------------------------- */

enum { MAX_STORES = 8 };
#ifdef STET_HAVE_CUDA
static const store_desc *known[MAX_STORES] = {&host_desc, &cuda_store_desc};
static size_t n_known = 2;
#else
static const store_desc *known[MAX_STORES] = {&host_desc};
static size_t n_known = 1;
#endif

stet_status store_register(const store_desc *d)
{
    for (size_t i = 0; i < n_known; i++)
        if (strcmp(known[i]->name, d->name) == 0)
            return error_set(STET_EINTERNAL, "device '%s' is registered twice", d->name);
    if (n_known == MAX_STORES)
        return error_set(STET_EINTERNAL, "more than %d devices", MAX_STORES);
    known[n_known++] = d;
    return STET_OK;
}

/* "cuda:bf16" */
static stet_status open_rounding(const char *name, const char *precision, store **out)
{
    char where[32];
    snprintf(where, sizeof where, "%.*s", (int)(precision - name), name);
    TRY(store_open(where, out));
    const stet_status st = store_set_precision(*out, precision + 1);
    if (st != STET_OK) {
        store_close(*out);
        *out = NULL;
    }
    return st;
}

stet_status store_open(const char *name, store **out)
{
    const char *names[MAX_STORES + 1];
    *out = &host_store;
    if (!name || strcmp(name, host_desc.name) == 0)
        return STET_OK;
    if (strchr(name, ':'))
        return open_rounding(name, strchr(name, ':'), out);
    if (strcmp(name, "auto") == 0) {
        const stet_status st = store_open("cuda", out);
        *out = st == STET_ENOTSUP ? &host_store : *out;
        return st == STET_ENOTSUP ? STET_OK : st;
    }
    *out = NULL;
    for (size_t i = 0; i < n_known; i++) {
        names[i] = known[i]->name;
        if (strcmp(names[i], name) != 0)
            continue;
        store *s = mem_zalloc(1, sizeof *s);
        if (!s)
            return STET_ENOMEM;
        s->desc = known[i];
        const stet_status st = s->desc->open ? s->desc->open(s) : STET_OK;
        if (st == STET_OK)
            *out = s;
        else
            mem_free(s);
        return st;
    }
    if (strcmp(name, "cuda") == 0)
        return error_set(STET_ENOTSUP, "device 'cuda': this program was built without CUDA");
    names[n_known] = NULL;
    opt_no_such("device", name, names);
    return STET_ENOTSUP;
}

stet_status store_set_precision(store *s, const char *name)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", NULL};
    int i = 0;
    while (name && names[i] && strcmp(names[i], name) != 0)
        i++;
    if (!names[i]) {
        opt_no_such("precision", name, names);
        return STET_EUSAGE;
    }
    if (i > 0 && s->desc->host)
        return error_set(STET_EUSAGE,
                         "--precision %s: only a GPU multiplies so (--device cuda); this is the CPU",
                         name);
    if (!s->desc->host)
        s->precision = (store_precision)i;
    return STET_OK;
}

void store_close(store *s)
{
    if (!s || s == &host_store)
        return;
    if (s->desc->close)
        s->desc->close(s);
    mem_free(s);
}

/* ---- calls -------------------------------------------------------------------------------- */

void *store_alloc(store *s, size_t count, size_t size)
{
    size_t bytes;
    if (size_mul(count, size, &bytes) && bytes <= SIZE_MAX / 2)
        return s->desc->alloc(s, bytes);
    error_set(STET_ENOMEM, "out of memory: cannot allocate %zu x %zu bytes", count, size);
    return NULL;
}

void store_release(store *s, void *p)
{
    if (p)
        s->desc->release(s, p);
}

void store_clear(store *s, void *p, size_t bytes)
{
    if (bytes)
        s->desc->clear(s, p, bytes);
}

void store_upload(store *s, void *to, const void *from, size_t bytes)
{
    if (bytes)
        s->desc->upload(s, to, from, bytes);
}

stet_status store_download(store *s, void *to, const void *from, size_t bytes)
{
    return store_gather(s, to, &from, 1, bytes);
}

stet_status store_gather(store *s, void *to, const void *const *from, size_t n, size_t bytes)
{
    return n && bytes ? s->desc->download(s, to, from, n, bytes) : STET_OK;
}

stet_status store_send(store *s, store_letter *l, const void *const *from, size_t n, size_t bytes)
{
    if (n > LETTER_BYTES || n * bytes > LETTER_BYTES)
        return error_set(STET_EINTERNAL, "%zu x %zu bytes do not fit into a letter", n, bytes);
    l->bytes = n * bytes;
    return s->desc->send ? s->desc->send(s, l, from, n, bytes)
                         : store_gather(s, l->data, from, n, bytes);
}

stet_status store_receive(store *s, store_letter *l, void *to)
{
    if (s->desc->receive)
        TRY(s->desc->receive(s, l));
    memcpy(to, l->data, l->bytes);
    return STET_OK;
}

void store_letter_drop(store *s, store_letter *l)
{
    if (s->desc->drop)
        s->desc->drop(s, l);
    *l = (store_letter){0};
}

void store_copy(store *s, void *to, const void *from, size_t bytes)
{
    if (bytes)
        s->desc->copy(s, to, from, bytes);
}

void store_enter(store *s)
{
    if (s->desc->enter)
        s->desc->enter(s);
}

void store_leave(store *s)
{
    if (s->desc->leave)
        s->desc->leave(s);
}

/* ---- arenas ------------------------------------------------------------------------------- */

enum { ALIGNMENT = 64, FIRST_BLOCK = 1 << 20, MAX_DOUBLINGS = 6 };

struct store_block {
    store_block *next;
    size_t size;
    char *data; /* in the store */
};

static store_block *block_new(store_arena *a, size_t need)
{
    const size_t usual = (size_t)FIRST_BLOCK
                         << (a->grown < MAX_DOUBLINGS ? a->grown : MAX_DOUBLINGS);
    store_block *b = mem_zalloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->size = need > usual ? need : usual;
    b->data = store_alloc(a->store, b->size, 1);
    if (!b->data) {
        mem_free(b);
        return NULL;
    }
    a->grown++;
    return b;
}

/* The next block that fits, moved to the place after `current`. */
static bool advance(store_arena *a, size_t need)
{
    store_block **next = a->current ? &a->current->next : &a->first;
    store_block **fit = next;
    while (*fit && (*fit)->size < need)
        fit = &(*fit)->next;
    store_block *b = *fit;
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

void *store_arena_alloc(store_arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        error_set(STET_ENOMEM, "out of memory: cannot allocate %zu x %zu bytes", count, size);
        return NULL;
    }
    const size_t span = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    if ((!a->current || a->current->size - a->used < span) && !advance(a, span))
        return NULL;
    void *p = a->current->data + a->used;
    a->used += span;
    return p;
}

store_mark store_arena_save(const store_arena *a)
{
    return (store_mark){a->current, a->used};
}

void store_arena_restore(store_arena *a, store_mark mark)
{
    a->current = mark.block;
    a->used = mark.used;
}

void store_arena_deinit(store_arena *a)
{
    for (store_block *b = a->first, *next; b; b = next) {
        next = b->next;
        store_release(a->store, b->data);
        mem_free(b);
    }
    *a = (store_arena){.store = a->store};
}
