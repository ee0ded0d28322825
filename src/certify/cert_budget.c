/* certify/cert_budget.c - what families have in common: weights and vectors in double, and what a
 * sum over positions becomes when only so many may change. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "certify/certify_impl.h"

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

double cert_within_budget(const cert_bound *b, const cert_task *t, size_t budget, double *scratch)
{
    size_t paid = 0;
    double taken = 0;
    for (size_t p = 0; p < t->n; p++) {
        if (t->unpaid && t->unpaid[p])
            taken += b->drop[p];
        else if (b->drop[p] > 0)
            scratch[paid++] = b->drop[p];
    }
    if (budget < paid) {
        qsort(scratch, paid, sizeof *scratch, falling);
        paid = budget;
    }
    for (size_t k = 0; k < paid; k++)
        taken += scratch[k];
    /* n additions of what is not negative, and one difference, rounded outward */
    const double rounding = (double)(t->n + 2) * DBL_EPSILON * (taken + fabs(b->base));
    return b->base - taken - rounding;
}

void cert_sum_up(cert_bound *b, const cert_task *t, const double *contribution, double *scratch)
{
    b->additive = true;
    for (size_t p = 0; p < t->n; p++) {
        b->drop[p] = 0;
        b->worst[p] = 0;
        for (uint32_t k = t->start[p] + 1; k < t->start[p + 1]; k++)
            if (-contribution[k] > b->drop[p]) {
                b->drop[p] = -contribution[k];
                b->worst[p] = k - t->start[p];
            }
    }
    b->margin = cert_within_budget(b, t, t->budget, scratch);
}

double *cert_param(const model *m, int id, arena *a)
{
    const size_t n = shape_count(m->params[id].shape);
    double *out = arena_new(a, double, n);
    for (size_t i = 0; out && i < n; i++)
        out[i] = model_value(m, id)[i];
    return out;
}
