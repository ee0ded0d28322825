/* verify/ver_enumerate.c - every combination of a task, one by one: the method "enumerate". */
#include "base/log.h"
#include "verify/ver_line.h"

static const double MOST = 0x1p20; /* combinations: more than the certifier ever tries */

/* Combinations within the budget: the sum over j of ways[j], to choose words with j changes. */
static stet_status count(const ver_task *t, arena *a, double *out)
{
    const size_t limit = t->budget < t->n ? t->budget : t->n;
    double *ways = arena_znew(a, double, limit + 1);
    if (!ways)
        return STET_ENOMEM;
    ways[0] = 1;
    for (size_t p = 0; p < t->n; p++) {
        const double size = t->start[p + 1] - t->start[p];
        for (size_t j = limit; j > 0 && !t->unpaid[p]; j--)
            ways[j] += (size - 1) * ways[j - 1];
        for (size_t j = 0; j <= limit && t->unpaid[p]; j++)
            ways[j] *= size;
    }
    *out = 0;
    for (size_t j = 0; j <= limit; j++)
        *out += ways[j];
    return STET_OK;
}

/* The bound of one text: by the way to evaluate one, or, if that is not enough, by any. */
static stet_status bound_text(ver_work *w, int label, int other, double enough, double *out)
{
    const ver_kind *kind = w->m->kind;
    w->is_exact = false;
    TRY(kind->bound(w, label, other, kind->value, NULL, out));
    bool exact = w->is_exact;
    for (const char *const *m = kind->methods; *m && !(*out >= enough); m++) {
        double more;
        w->is_exact = false;
        TRY(kind->bound(w, label, other, *m, NULL, &more));
        exact = more > *out ? w->is_exact : exact;
        *out = more > *out ? more : *out;
    }
    w->is_exact = exact;
    return STET_OK;
}

/* Move on to the next choice of words that spends at most t->budget: positions run like the digits of a
 * number, the first one fastest. `at` (n) is each position's place in its set; `spent` the changes so
 * far. false: all have been seen. */
static bool advance(const ver_task *t, uint32_t *at, size_t *spent)
{
    for (size_t p = 0; p < t->n; p++) {
        const size_t cost = !t->unpaid[p], size = t->start[p + 1] - t->start[p];
        if (at[p] + 1 < size && (at[p] > 0 || *spent + cost <= t->budget)) {
            *spent += at[p] ? 0 : cost;
            at[p]++;
            return true;
        }
        *spent -= at[p] ? cost : 0;
        at[p] = 0;
    }
    return false;
}

stet_status ver_enumerate(ver_work *w, const ver_task *t, int label, int other, double enough,
                          arena *a, double *out)
{
    double n, own;
    size_t spent = 0;
    uint32_t *start = arena_new(a, uint32_t, t->n + 1), *word = arena_new(a, uint32_t, t->n),
             *at = arena_znew(a, uint32_t, t->n);
    if (!start || !word || !at)
        return STET_ENOMEM;
    TRY(count(t, a, &n));
    if (!(n <= MOST))
        return error_set(STET_EFORMAT, "claim: more combinations than can be tried");
    for (size_t p = 0; p <= t->n; p++)
        start[p] = (uint32_t)p;
    const ver_task one = {t->n, start, word, VER_ANY, t->unpaid};
    *out = INFINITY;
    bool exact = true; /* of all texts */
    do {
        for (size_t p = 0; p < t->n; p++)
            word[p] = t->word[t->start[p] + at[p]];
        TRY(interrupt_status());
        TRY(ver_open_task(w, &one));
        TRY(bound_text(w, label, other, enough, &own));
        *out = own < *out ? own : *out;
        exact = exact && w->is_exact;
        n--;
    } while (advance(t, at, &spent));
    if (n != 0) /* what was counted is what was seen */
        return error_set(STET_EFORMAT, "claim: combinations were miscounted");
    w->is_exact = exact;
    return ver_open_task(w, t);
}
