/* verify/ver_cnn_dense.c - the TextCNN with a layer of units before the last one. A unit's float32 sum
 * is that of its weights times the pooled features, whose ranges of float32 values ver_cnn.c has, and
 * its bias, in any order; its range holds what float32 may get wrong about it. */
#include "verify/ver_cnn.h"

/* One end of a unit's sum: the lower one for sign 1, minus the upper one for sign -1. */
static double unit_end(const ver_work *w, size_t j, double sign)
{
    const ver_model *m = w->m;
    const cnn_state *s = w->state;
    const size_t n = m->kernels * m->filters;
    const float *v = m->dense_w + j * n;
    ver_sum size = {0}, sum = {0};
    ver_add(&size, fabs((double)m->dense_b[j]), 0);
    for (size_t f = 0; f < n; f++) {
        const double x = sign * v[f];
        ver_add(&size, fabs(x) * s->y_hi[f], 0);
        ver_add(&sum, x * (x >= 0 ? s->y_lo[f] : s->y_hi[f]), 0);
    }
    const double most = size.value + ver_error(&size);
    if (!(most < VER_OVERFLOWS))
        return -INFINITY;
    ver_add(&sum, sign * m->dense_b[j], ver_gamma32(n + 2) * most + VER_TINY);
    return ver_lower(&sum);
}

static stet_status open(ver_work *w)
{
    const ver_model *m = w->m;
    TRY(ver_cnn_open(w));
    cnn_state *s = w->state;
    s->u_lo = arena_new(&w->mem, double, m->features);
    s->u_hi = arena_new(&w->mem, double, m->features);
    if (!s->u_lo || !s->u_hi)
        return STET_ENOMEM;
    for (size_t j = 0; j < m->features; j++) {
        const double lo = unit_end(w, j, 1), hi = -unit_end(w, j, -1);
        s->u_lo[j] = lo > 0 ? lo : 0;
        s->u_hi[j] = hi > 0 ? hi : 0;
    }
    return STET_OK;
}

static stet_status bound(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out)
{
    const ver_model *m = w->m;
    const cnn_state *s = w->state;
    ver_sum sum = {0};
    (void)method;
    (void)witness;
    ver_add(&sum, m->fc_b[label], ver_head_error(m, label, other, s->u_hi));
    ver_add(&sum, -(double)m->fc_b[other], 0);
    for (size_t j = 0; j < m->features; j++) {
        const double om = ver_cnn_weight(m, label, other, j);
        ver_add(&sum, om * (om >= 0 ? s->u_lo[j] : s->u_hi[j]), 0);
    }
    ver_add(&sum, ver_scores_worst(w, label, other, s->drop), 0);
    *out = ver_lower(&sum);
    return STET_OK;
}

static double margin(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    const cnn_state *s = w->state;
    const size_t n = m->kernels * m->filters;
    double sum = (double)m->fc_b[label] - m->fc_b[other];
    for (size_t f = 0; f < n; f++)
        s->y[f] = ver_cnn_feature(w, f, &(double){0});
    for (size_t j = 0; j < m->features; j++) {
        double u = m->dense_b[j];
        for (size_t f = 0; f < n; f++)
            u += (double)m->dense_w[j * n + f] * s->y[f];
        sum += u > 0 ? ver_cnn_weight(m, label, other, j) * u : 0;
    }
    return sum + ver_scores_margin(w, label, other);
}

static const char *const methods[] = {"ibp", NULL};
const ver_kind ver_cnn_dense = {"cnn", methods, "ibp", open, bound, margin};
