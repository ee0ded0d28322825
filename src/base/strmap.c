/* base/strmap.c - open addressing with linear probing. A slot is 8 bytes, hash and number, so most
 * lookups touch one cache line of slots before the comparison of bytes that confirms the hit. */
#include "base/strmap.h"

#include <endian.h>
#include <string.h>

#include "base/mem.h"

struct strmap_slot {
    uint32_t hash, id; /* id STRMAP_NONE: free */
};

struct strmap_entry {
    const char *text;
    size_t len;
};

enum { FIRST_SLOTS = 64, TEXT_CHUNK = 32 << 10 };

__extension__ typedef unsigned __int128 u128;

/* Multiply to 128 bits and fold: each bit of the result depends on all bits of both. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    const u128 product = (u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load64(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return le64toh(x);
}

static inline uint64_t load32(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return le32toh(x);
}

/* 16 bytes per step, the last step overlapping the one before; the length enters at the end. The
 * constants are binary digits of sqrt(2), sqrt(3) and sqrt(5), the first made odd. */
uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const uint64_t k1 = UINT64_C(0x6a09e667f3bcc909), k2 = UINT64_C(0xbb67ae8584caa73b),
                   k3 = UINT64_C(0x3c6ef372fe94f82b);
    const unsigned char *p = size ? data : (const void *)"", *const end = p + size;
    uint64_t h = fold(seed ^ k1, k2), a = 0, b = 0;
    if (size > 16) {
        for (; end - p > 16; p += 16)
            h = fold(load64(p) ^ k2, load64(p + 8) ^ h);
        a = load64(end - 16);
        b = load64(end - 8);
    } else if (size >= 8) {
        a = load64(p);
        b = load64(end - 8);
    } else if (size >= 4) {
        a = load32(p);
        b = load32(end - 4);
    } else if (size > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[size / 2] << 8 | end[-1];
    }
    return fold(fold(a ^ k2, b ^ h) ^ k3, (uint64_t)size ^ k1);
}

static inline uint32_t hash_key(const char *s, size_t len)
{
    const uint64_t h = hash_bytes(s, len, 0);
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the string, or the free one where it belongs. */
static struct strmap_slot *probe(const strmap *m, const char *s, size_t len, uint32_t hash)
{
    const size_t mask = m->n_slots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct strmap_slot *slot = &m->slots[i];
        if (slot->id == STRMAP_NONE)
            return slot;
        if (slot->hash != hash)
            continue;
        const struct strmap_entry *e = &m->entries[slot->id];
        if (e->len == len && memcmp(e->text, s, len) == 0)
            return slot;
    }
}

uint32_t strmap_find(const strmap *m, const char *s, size_t len)
{
    return m->n_slots ? probe(m, s, len, hash_key(s, len))->id : STRMAP_NONE;
}

static stet_status rehash(strmap *m, size_t n_slots)
{
    struct strmap_slot *slots = mem_alloc(n_slots, sizeof *slots);
    if (!slots)
        return STET_ENOMEM;
    memset(slots, 0xff, n_slots * sizeof *slots);
    const size_t mask = n_slots - 1;
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].id == STRMAP_NONE)
            continue;
        size_t k = m->slots[i].hash & mask;
        while (slots[k].id != STRMAP_NONE)
            k = (k + 1) & mask;
        slots[k] = m->slots[i];
    }
    mem_free(m->slots);
    m->slots = slots;
    m->n_slots = n_slots;
    return STET_OK;
}

/* Short strings are packed into chunks: the arena's alignment would cost more than the text. */
static const char *keep_text(strmap *m, const char *s, size_t len)
{
    if (len >= TEXT_CHUNK / 8)
        return arena_strndup(&m->text, s, len);
    if (m->room < len + 1) {
        char *chunk = arena_new(&m->text, char, TEXT_CHUNK);
        if (!chunk)
            return NULL;
        m->chunk = chunk;
        m->room = TEXT_CHUNK;
    }
    char *copy = m->chunk;
    memcpy(copy, s, len);
    copy[len] = '\0';
    m->chunk += len + 1;
    m->room -= len + 1;
    return copy;
}

stet_status strmap_add(strmap *m, const char *s, size_t len, uint32_t *id)
{
    if (m->n_slots == 0)
        TRY(rehash(m, FIRST_SLOTS));
    const uint32_t hash = hash_key(s, len);
    struct strmap_slot *slot = probe(m, s, len, hash);
    if (slot->id == STRMAP_NONE) {
        if (m->n == STRMAP_NONE)
            return error_set(STET_ENOTSUP, "more than %u distinct strings", STRMAP_NONE);
        if (m->n >= m->n_slots / 2) {
            TRY(rehash(m, m->n_slots * 2));
            slot = probe(m, s, len, hash);
        }
        TRY(mem_grow(&m->entries, &m->cap, m->n + 1, sizeof *m->entries));
        const char *text = keep_text(m, s, len);
        if (!text)
            return STET_ENOMEM;
        m->entries[m->n] = (struct strmap_entry){text, len};
        *slot = (struct strmap_slot){hash, (uint32_t)m->n++};
    }
    if (id)
        *id = slot->id;
    return STET_OK;
}

const char *strmap_text(const strmap *m, uint32_t id)
{
    return m->entries[id].text;
}

size_t strmap_len(const strmap *m, uint32_t id)
{
    return m->entries[id].len;
}

void strmap_deinit(strmap *m)
{
    arena_deinit(&m->text);
    mem_free(m->slots);
    mem_free(m->entries);
    *m = (strmap){0};
}
