/* verify/ver_bound.c - what the bounds of all kinds have in common. */
#include <stdlib.h>

#include "base/mem.h"
#include "verify/ver_impl.h"

void ver_work_deinit(ver_work *w)
{
    for (size_t i = 0; i < w->n_members; i++)
        ver_work_deinit(&w->member[i]);
    mem_free(w->member);
    arena_deinit(&w->mem);
    arena_deinit(&w->keep);
    arena_deinit(&w->words);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ver_within_budget(const ver_task *t, size_t from, double *drop, size_t n)
{
    ver_sum s = {0};
    size_t paid = 0;
    for (size_t i = 0; i < n; i++) {
        if (t->budget == VER_ANY || t->unpaid[from + i])
            ver_add(&s, drop[i], 0);
        else
            drop[paid++] = drop[i];
    }
    if (t->budget < paid)
        qsort(drop, paid, sizeof *drop, ascending);
    for (size_t i = 0; i < paid && i < t->budget; i++)
        ver_add(&s, drop[i], 0);
    return ver_lower(&s);
}

double ver_head_error(const ver_model *m, int label, int other, const double *size)
{
    const float *w[2] = {m->fc_w + (size_t)label * m->features,
                         m->fc_w + (size_t)other * m->features};
    ver_sum s = {0};
    ver_add(&s, fabs((double)m->fc_b[label]) + fabs((double)m->fc_b[other]), 0);
    for (size_t f = 0; f < m->features; f++)
        ver_add(&s, (fabs((double)w[0][f]) + fabs((double)w[1][f])) * size[f], 0);
    const double most = s.value + ver_error(&s);
    const size_t roundings = m->features + (m->scores ? 3 : 2); /* of scores: one addition more */
    return most < VER_OVERFLOWS ? ver_gamma32(roundings) * most + VER_TINY : INFINITY;
}
