/* certify/cert_cnn_hulls.c - the range of a position's projections, kept from text to text.
 *
 * A word nearly always comes with the same set, and reading the rows of all words of its set is most of
 * what intervals cost: each is as wide as all taps of all filters. So for every word the first
 * set that is met with it keeps its two rows of ends, as long as there is room; other sets of the word
 * are computed each time. Threads add without a lock: a hull is written first and published then, and
 * every thread would write the same numbers. */
#include <string.h>

#include "base/mem.h"
#include "base/simd.h"
#include "certify/cert_cnn.h"

enum {
    MOST_WORDS = 63,  /* of a set that is kept */
    ROOM = 128 << 20, /* bytes of all hulls */
    NONE = 0
};

typedef struct hull {
    uint32_t n, word[MOST_WORDS];
    real ends[]; /* (2, width): lower, upper */
} hull;

SIMD_CLONES
static void widen(real *RESTRICT lo, real *RESTRICT hi, const real *RESTRICT x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lo[i] = x[i] < lo[i] ? x[i] : lo[i];
        hi[i] = x[i] > hi[i] ? x[i] : hi[i];
    }
}

static void measure(const cnn_shared *s, const uint32_t *set, size_t n, real *ends)
{
    const size_t width = s->c->width;
    const real *word = s->c->word;
    memcpy(ends, word + set[0] * width, width * sizeof *ends);
    memcpy(ends + width, word + set[0] * width, width * sizeof *ends);
    for (size_t i = 1; i < n; i++)
        widen(ends, ends + width, word + set[i] * width, width);
}

static hull *hull_at(const cnn_hulls *h, size_t i)
{
    return (hull *)(h->room + i * h->size);
}

stet_status cnn_hulls_init(cnn_hulls *h, const cnn_shared *s)
{
    const size_t words = s->m->n_words;
    h->size = (sizeof(hull) + 2 * s->c->width * sizeof(real) + 63) / 64 * 64;
    h->n = ROOM / h->size < words ? ROOM / h->size : words;
    h->room = mem_aligned(h->n, h->size);
    h->of = mem_alloc(words, sizeof *h->of);
    if (!h->room || !h->of)
        return STET_ENOMEM;
    for (size_t i = 0; i < words; i++)
        atomic_init(&h->of[i], NONE);
    atomic_init(&h->used, 0);
    return STET_OK;
}

void cnn_hulls_deinit(cnn_hulls *h)
{
    mem_free_aligned(h->room);
    mem_free(h->of);
}

const real *cnn_hull(const cnn_shared *s, const uint32_t *set, size_t n, real *room)
{
    cnn_hulls *h = s->hulls;
    const uint32_t at = atomic_load_explicit(&h->of[set[0]], memory_order_acquire);
    if (at != NONE) {
        const hull *u = hull_at(h, at - 1);
        if (u->n == n && memcmp(u->word, set, n * sizeof *set) == 0)
            return u->ends;
    }
    size_t mine = h->n;
    if (at == NONE && n <= MOST_WORDS &&
        atomic_load_explicit(&h->used, memory_order_relaxed) < h->n)
        mine = atomic_fetch_add_explicit(&h->used, 1, memory_order_relaxed);
    if (mine >= h->n) {
        measure(s, set, n, room);
        return room;
    }
    hull *u = hull_at(h, mine);
    u->n = (uint32_t)n;
    memcpy(u->word, set, n * sizeof *set);
    measure(s, set, n, u->ends);
    /* Another thread may have been faster; its hull is no better than ours. */
    atomic_store_explicit(&h->of[set[0]], (uint32_t)mine + 1, memory_order_release);
    return u->ends;
}
