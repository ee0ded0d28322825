/* attack/walk.c - TextAttack's greedy loop over ranked positions (PWWS and TextFooler there). */
#include "attack/attack_impl.h"

/* The candidates of position i that keep the constraints, with how alike each leaves the text. */
typedef struct allowed {
    pick *p;
    double *similarity;
    size_t *row;
    size_t n;
} allowed;

static stet_status allow(search *s, const pick *x, size_t i, allowed *a)
{
    const size_t count = search_count(s, i);
    a->n = 0;
    a->p = arena_new(s->mem, pick, count + 1);
    a->similarity = arena_new(s->mem, double, count + 1);
    a->row = arena_new(s->mem, size_t, count + 1);
    if (!a->p || !a->similarity || !a->row)
        return STET_ENOMEM;
    for (size_t c = 0; c < count; c++) {
        double alike;
        bool tag;
        TRY(constraint_similarity(s, x, i, (pick)(c + 1), &alike));
        TRY(constraint_tag(s, x, i, (pick)(c + 1), &tag));
        if (!tag || alike < s->common.least_similarity)
            continue;
        a->p[a->n] = (pick)(c + 1);
        a->similarity[a->n++] = alike;
    }
    return STET_OK;
}

stet_status walk_improving(search *s, const size_t *order, size_t n)
{
    pick *x = search_text(s);
    if (!x)
        return STET_ENOMEM;
    double now = search_p(s, 0);
    size_t changed = 0;
    for (size_t k = 0; k < n && changed < search_max_changed(s); k++) {
        const size_t i = order[k];
        if (!search_free(s, i))
            continue;
        const arena_mark start = arena_save(s->mem);
        allowed a;
        TRY(allow(s, x, i, &a));
        TRY(search_spend(s, a.n));
        TRY(search_base(s, x));
        for (size_t c = 0; c < a.n; c++)
            TRY(search_ask_swap(s, i, a.p[c], &a.row[c]));
        TRY(search_answer(s));
        size_t best = 0, flipped = a.n;
        for (size_t c = 0; c < a.n; c++) {
            if (search_p(s, a.row[c]) < search_p(s, a.row[best]))
                best = c;
            if (search_flipped(s, a.row[c]) &&
                (flipped == a.n || a.similarity[c] > a.similarity[flipped] ||
                 (a.similarity[c] == a.similarity[flipped] &&
                  search_p(s, a.row[c]) < search_p(s, a.row[flipped]))))
                flipped = c;
        }
        if (a.n && search_p(s, a.row[best]) < now) {
            x[i] = flipped < a.n ? a.p[flipped] : a.p[best];
            now = search_p(s, a.row[best]);
            changed++;
            search_found(s, x, flipped < a.n);
            TRY(search_near(s, x));
        }
        arena_restore(s->mem, start);
        if (s->success)
            break;
    }
    return STET_OK;
}
