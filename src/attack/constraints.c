/* attack/constraints.c - how alike a substitution leaves the text, and whether it keeps the part of
 * speech. */
#include <math.h>

#include "attack/attack_impl.h"

enum {
    TAG_BEFORE = 4,
    TAG_AFTER = 5,
    TAG_WHOLE = 10
}; /* words around a change that are tagged; shorter texts as a whole */

void constraint_window(size_t n, size_t i, size_t width, size_t *from, size_t *to)
{
    const size_t half = width / 2;
    *from = 0;
    *to = n;
    if (width == 0 || n <= width)
        return;
    if (i < half)
        *to = width;
    else if (i + half >= n)
        *from = n - width;
    else {
        *from = i - half;
        *to = *from + width;
    }
}

static double on_scale(double cosine, int scale)
{
    const double angle = acos(fmin(1, fmax(-1, cosine)));
    switch (scale) {
    case SCALE_ANGLE:
        return 1 - angle;
    case SCALE_ANGLE_PI:
        return 1 - angle / 3.14159265358979323846;
    default:
        return cosine;
    }
}

stet_status constraint_similarity(search *s, const pick *x, size_t i, pick p, double *out)
{
    *out = 1;
    if (!s->keep.similarity)
        return STET_OK;
    size_t from, to;
    constraint_window(s->n, i, (size_t)s->common.window, &from, &to);
    const arena_mark start = arena_save(s->mem);
    uint32_t *a = arena_new(s->mem, uint32_t, to - from),
             *b = arena_new(s->mem, uint32_t, to - from);
    if (!a || !b)
        return STET_ENOMEM;
    for (size_t k = from; k < to; k++)
        a[k - from] = b[k - from] = search_word(s, k, x[k]);
    b[i - from] = search_word(s, i, p);
    *out = on_scale(s->keep.similarity(s->keep.user, s->keep.words, a, b, to - from),
                    s->common.scale);
    arena_restore(s->mem, start);
    return STET_OK;
}

/* Tags of words from..to of x. */
static stet_status tag(const search *s, const pick *x, size_t from, size_t to, const char **tags)
{
    const char **words = arena_new(s->mem, const char *, to - from + 1);
    if (!words)
        return STET_ENOMEM;
    for (size_t k = from; k < to; k++)
        words[k - from] = stet_words_word(s->keep.words, search_word(s, k, x[k]));
    return stet_tagger_tag(s->keep.tagger, words, to - from, tags);
}

static bool alike(const char *a, const char *b)
{
    const stet_pos p = stet_pos_of_penn(a), q = stet_pos_of_penn(b);
    return p == q || ((p == STET_NOUN || p == STET_VERB) && (q == STET_NOUN || q == STET_VERB));
}

stet_status constraint_start(search *s)
{
    s->tags = NULL;
    if (!s->keep.tagger)
        return STET_OK;
    s->tags = arena_new(s->mem, const char *, s->n + 1);
    return s->tags ? tag(s, s->found, 0, s->n, s->tags) : STET_ENOMEM;
}

stet_status constraint_tag(search *s, const pick *x, size_t i, pick p, bool *out)
{
    *out = true;
    if (!s->keep.tagger)
        return STET_OK;
    const bool whole = s->n <= TAG_WHOLE;
    const size_t from = whole || i < TAG_BEFORE ? 0 : i - TAG_BEFORE;
    const size_t to = whole || i + TAG_AFTER > s->n ? s->n : i + TAG_AFTER;
    const arena_mark start = arena_save(s->mem);
    pick *y = arena_new(s->mem, pick, s->n + 1);
    const char **tags = arena_new(s->mem, const char *, to - from + 1);
    if (!y || !tags)
        return STET_ENOMEM;
    for (size_t k = from; k < to; k++)
        y[k] = x[k];
    y[i] = p;
    TRY(tag(s, y, from, to, tags));
    *out = alike(tags[i - from], s->tags[i]);
    arena_restore(s->mem, start);
    return STET_OK;
}
