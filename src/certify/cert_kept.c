/* certify/cert_kept.c - see cert_kept.h. */
#include "certify/cert_kept.h"

#include "base/mem.h"

enum { ROOM = 128 << 20, ALIGNMENT = 64 }; /* bytes of all entries; of each */

stet_status cert_kept_init(cert_kept *k, size_t words, size_t size)
{
    k->size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    k->n = ROOM / k->size < words ? ROOM / k->size : words;
    k->room = mem_aligned(k->n, k->size);
    k->of = mem_alloc(words, sizeof *k->of);
    if (!k->room || !k->of)
        return STET_ENOMEM;
    for (size_t i = 0; i < words; i++)
        atomic_init(&k->of[i], 0);
    atomic_init(&k->used, 0);
    return STET_OK;
}

void cert_kept_deinit(cert_kept *k)
{
    mem_free_aligned(k->room);
    mem_free(k->of);
}

const void *cert_kept_find(const cert_kept *k, uint32_t word)
{
    const unsigned at = atomic_load_explicit(&k->of[word], memory_order_acquire);
    return at ? k->room + (at - 1) * k->size : NULL;
}

void *cert_kept_room(cert_kept *k)
{
    if (atomic_load_explicit(&k->used, memory_order_relaxed) >= k->n)
        return NULL;
    const size_t at = atomic_fetch_add_explicit(&k->used, 1, memory_order_relaxed);
    return at < k->n ? k->room + at * k->size : NULL;
}

void cert_kept_publish(cert_kept *k, uint32_t word, const void *entry)
{
    const size_t at = (size_t)((const unsigned char *)entry - k->room) / k->size;
    atomic_store_explicit(&k->of[word], (unsigned)at + 1, memory_order_release);
}
