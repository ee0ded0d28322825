/* certify/cert_cnn_dense.c - a text CNN with a layer of units before the last one:
 *
 *     u_j = max(0, d_j + sum over f of V_jf y_f),   margin = be + sum over j of om_j u_j
 *
 * Intervals go on through it. The features of any float32 evaluation lie within cnn_work.err of the
 * ranges of y; what float32 adds by summing a unit is in the unit's range as well, so that only the
 * last layer's rounding is left (cert_cnn.h). */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "certify/cert_cnn.h"

/* No sum of the layer is near overflow where features stay below `feature`; *unit: nor are units above
 * this. */
stet_status cnn_dense_measure(const cnn_shared *s, double feature, double largest, double *unit)
{
    *unit = 0;
    for (size_t j = 0; j < s->dense; j++) {
        double size = fabs((double)s->dense_bias[j]);
        for (size_t f = 0; f < s->features; f++)
            size += fabs((double)s->dense_weight[j * s->features + f]) * fmax(1, feature);
        if (!(size <= largest))
            return error_set(STET_EFORMAT, "the weights of the layer before the last are not "
                                           "finite or too large: nothing can be certified");
        *unit = fmax(*unit, size);
    }
    return STET_OK;
}

/* One unit: middle and half width, how large its sum can be, and how much of the width is rounding of
 * the features. */
typedef struct unit_sums {
    double middle, radius, size, error;
} unit_sums;

static unit_sums sum_unit(const real *weight, const double *middle, const double *radius,
                          const double *most, const double *error, size_t n)
{
    unit_sums u = {0};
    for (size_t f = 0; f < n; f++) {
        const double v = (double)weight[f], size = fabs(v);
        u.middle += v * middle[f];
        u.radius += size * radius[f];
        u.size += size * most[f];
        u.error += size * error[f];
    }
    return u;
}

/* w->unit for the task. */
static stet_status open_units(cnn_work *w)
{
    const cnn_shared *s = w->s;
    const size_t n = s->features;
    if (w->units)
        return STET_OK;
    const arena_mark scratch = arena_save(&w->mem);
    double *middle = arena_new(&w->mem, double, 4 * n), *radius = middle + n, *most = radius + n,
           *error = most + n;
    if (!middle)
        return STET_ENOMEM;
    for (size_t f = 0; f < n; f++) {
        const double lo = fmax(0, w->lo[f] - w->err[f]), hi = w->hi[f] + w->err[f];
        middle[f] = (lo + hi) / 2;
        radius[f] = (hi - lo) / 2;
        most[f] = hi;
        error[f] = w->err[f] + (double)w->pad[f];
    }
    /* float32 sums n products and a bias in any order; ours are doubles */
    const double gamma = cnn_gamma(n + 8) + (double)(2 * n + 16) * 2 * DBL_EPSILON;
    for (size_t j = 0; j < s->dense; j++) {
        const unit_sums u = sum_unit(s->dense_weight + j * n, middle, radius, most, error, n);
        const double bias = (double)s->dense_bias[j],
                     slack = gamma * (u.size + fabs(bias)) * (1 + 1e-7) + 0x1p-120;
        w->unit[j] = (cnn_unit){.lo = fmax(0, bias + u.middle - u.radius - slack),
                                .hi = fmax(0, bias + u.middle + u.radius + slack),
                                .error = u.error + slack};
    }
    w->units = true;
    arena_restore(&w->mem, scratch);
    return STET_OK;
}

stet_status cnn_dense_ibp(cnn_work *w, int other, cert_bound *out)
{
    const cnn_shared *s = w->s;
    TRY(open_units(w));
    const real *a = s->fc + (size_t)w->t->label * s->dense, *b = s->fc + (size_t)other * s->dense;
    double sum = cnn_bias_margin(w, other), size = fabs(sum), errors = 0,
           head = fabs((double)s->fc_bias[w->t->label]) + fabs((double)s->fc_bias[other]);
    for (size_t j = 0; j < s->dense; j++) {
        const cnn_unit *u = &w->unit[j];
        const double om = (double)a[j] - (double)b[j], term = om * (om >= 0 ? u->lo : u->hi);
        sum += term;
        size += fabs(term);
        errors += fabs(om) * u->error; /* in the ranges already */
        head += (fabs((double)a[j]) + fabs((double)b[j])) * u->hi;
    }
    const double slack = cnn_gamma(s->dense + 8) * head * (1 + 1e-7) +
                         (double)(s->dense + 8) * DBL_EPSILON * size + 0x1p-120;
    out->additive = false;
    out->slack = slack + errors;
    out->margin = sum - slack;
    cert_scores_add(&w->scores, out);
    return STET_OK;
}
