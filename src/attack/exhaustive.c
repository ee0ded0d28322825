/* attack/exhaustive.c - every combination, for texts that have few enough: the exact worst case. */
#include <math.h>

#include "attack/attacks.h"

enum { AT_ONCE = 1024 };

typedef struct exhaustive_cfg {
    int64_t cap;
} exhaustive_cfg;

static const stet_opt opts[] = {
    STET_OPT_INT("exhaustive-cap", exhaustive_cfg, cap, "200000", 1, 1e8, "N",
                 "texts with more combinations are left undecided"),
    STET_OPT_END,
};

/* How many combinations, the original among them; more than `cap` stays just above it. */
static uint64_t combinations(const search *s, uint64_t cap)
{
    uint64_t n = 1;
    for (size_t i = 0; i < s->n && n <= cap; i++)
        if (search_free(s, i))
            n *= search_count(s, i) + 1;
    return n;
}

/* The next combination, the first position running fastest; false after the last. */
static bool next(const search *s, pick *x)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!search_free(s, i))
            continue;
        if (x[i] < search_count(s, i)) {
            x[i]++;
            return true;
        }
        x[i] = PICK_ORIGINAL;
    }
    return false;
}

stet_status search_everything(search *s, uint64_t cap)
{
    if (combinations(s, cap) > cap)
        return STET_OK;
    pick *x = search_text(s), *kept = arena_new(s->mem, pick, (size_t)AT_ONCE * (s->n + 1));
    size_t *rows = arena_new(s->mem, size_t, AT_ONCE);
    if (!x || !kept || !rows)
        return STET_ENOMEM;
    double least = INFINITY;
    bool more = true;
    while (more) {
        size_t n = 0;
        for (; more && n < AT_ONCE; more = next(s, x)) {
            if (search_changed(s, x) > search_max_changed(s))
                continue;
            for (size_t i = 0; i < s->n; i++)
                kept[n * s->n + i] = x[i];
            TRY(search_ask(s, x, &rows[n++]));
        }
        TRY(search_spend(s, n));
        TRY(search_answer(s));
        for (size_t k = 0; k < n; k++)
            if (search_margin(s, rows[k]) < least) {
                least = search_margin(s, rows[k]);
                search_found(s, kept + k * s->n, search_flipped(s, rows[k]));
            }
    }
    s->complete = true;
    return STET_OK;
}

static stet_status run(search *s, const void *config)
{
    TRY(search_spend(s, 1));
    return search_everything(s, (uint64_t)((const exhaustive_cfg *)config)->cap);
}

const attack_desc attack_exhaustive = {
    .name = "exhaustive",
    .summary = "every combination of substitutes: the exact worst case of short texts",
    .opts = opts,
    .cfg_size = sizeof(exhaustive_cfg),
    .run = run,
};
