/* verify/ver_sum.c - the sum model: scores of words and a bias, no network. Its least margin is the sum
 * of what the worst words add, and nothing is lost but rounding. */
#include "verify/ver_exact.h"
#include "verify/ver_scores.h"

static stet_status open(ver_work *w)
{
    double *drop = arena_new(&w->mem, double, w->t->n);
    w->state = drop;
    return drop ? ver_scores_open(w) : STET_ENOMEM;
}

static stet_status bound(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out)
{
    const float *b = w->m->fc_b;
    ver_sum sum = {0};
    if (witness)
        return error_set(STET_EFORMAT, "a witness, which \"%s\" does not have", method);
    ver_add(&sum, b[label], ver_gamma32(2) * fabs((double)b[label]));
    ver_add(&sum, -(double)b[other], ver_gamma32(2) * fabs((double)b[other]));
    ver_add(&sum, ver_scores_worst(w, label, other, w->state), 0);
    *out = ver_lower(&sum);
    w->is_exact = w->exact && *out > -INFINITY;
    return w->is_exact ? ver_exact_sum(w, label, other, out) : STET_OK;
}

static double margin(const ver_work *w, int label, int other)
{
    return (double)w->m->fc_b[label] - w->m->fc_b[other] + ver_scores_margin(w, label, other);
}

static const char *const methods[] = {"exact", NULL};
const ver_kind ver_sum_kind = {"sum", methods, "exact", open, bound, margin};
