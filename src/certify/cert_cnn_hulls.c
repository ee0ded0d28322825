/* certify/cert_cnn_hulls.c - the range of a position's projections, kept from text to text.
 *
 * A word nearly always comes with the same set, and reading the rows of all words of its set is most
 * of what intervals cost: each is as wide as all taps of all filters. So for every word the first set
 * that is met with it keeps its two rows of ends; other sets of the word are computed each time. */
#include <string.h>

#include "base/simd.h"
#include "certify/cert_cnn.h"

enum { MOST_WORDS = 63 }; /* of a set that is kept */

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

static const real *measure(const cnn_shared *s, const uint32_t *set, size_t n, real *ends)
{
    const size_t width = s->c->width;
    const real *word = s->c->word;
    memcpy(ends, word + set[0] * width, width * sizeof *ends);
    memcpy(ends + width, word + set[0] * width, width * sizeof *ends);
    for (size_t i = 1; i < n; i++)
        widen(ends, ends + width, word + set[i] * width, width);
    return ends;
}

size_t cnn_hull_size(const cnn_shared *s)
{
    return sizeof(hull) + 2 * s->c->width * sizeof(real);
}

const real *cnn_hull(const cnn_shared *s, const uint32_t *set, size_t n, real *room)
{
    const hull *u = cert_kept_find(s->hulls, set[0]);
    if (u && u->n == n && memcmp(u->word, set, n * sizeof *set) == 0)
        return u->ends;
    hull *made = u || n > MOST_WORDS ? NULL : cert_kept_room(s->hulls);
    if (!made)
        return measure(s, set, n, room);
    made->n = (uint32_t)n;
    memcpy(made->word, set, n * sizeof *set);
    measure(s, set, n, made->ends);
    cert_kept_publish(s->hulls, set[0], made);
    return made->ends;
}
