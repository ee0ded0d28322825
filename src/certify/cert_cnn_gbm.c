/* certify/cert_cnn_gbm.c - what the growth bound matrix alone proves, for comparison: the bounds
 * below forget signs, and which words can stand together, and are never better than intervals.
 *
 * Proposition 1: |y_f(x') - y_f(x)| <= sum over positions p, coordinates c of M_f,pc |x'_pc -
 * x_pc|, with the exact matrix M_f,pc = the largest |W[f,c,l]| over the taps l that can meet
 * position p. The window form uses that |max a - max b| <= max |a - b|: only the k words of one
 * window count. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "certify/cert_cnn.h"
#include "tensor/kernels.h"

stet_status cnn_gbm_prepare(cnn_shared *s)
{
    const cnn_compiled *c = s->c;
    const size_t D = s->m->dim;
    s->size_of = mem_aligned(D * c->width, sizeof *s->size_of);
    if (!s->size_of)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n_kernels; i++) {
        const real *w = model_value(s->m, (int)(2 * i));
        const size_t k = c->k[i];
        for (size_t f = 0; f < c->filters; f++)
            for (size_t d = 0; d < D; d++)
                for (size_t l = 0; l < k; l++)
                    s->size_of[d * c->width + c->first[i] + l * c->filters + f] =
                        (real)fabs((double)w[(f * D + d) * k + l]);
    }
    return STET_OK;
}

/* delta (n, D): how far the words of a position are from its reference, coordinate by coordinate.
 */
static real *deviations(cnn_work *w)
{
    const cert_task *t = w->t;
    const size_t D = w->s->m->dim;
    const float *table = w->s->m->table;
    real *delta = arena_znew(&w->mem, real, t->n * D);
    for (size_t p = 0; delta && p < t->n; p++) {
        const float *ref = table + t->word[t->start[p]] * D;
        for (size_t i = t->start[p] + 1; i < t->start[p + 1]; i++)
            for (size_t d = 0; d < D; d++)
                delta[p * D + d] =
                    fmaxf(delta[p * D + d], fabsf(table[t->word[i] * D + d] - ref[d]));
    }
    return delta;
}

/* The features of the references. */
static stet_status clean_features(cnn_work *w, real **out)
{
    const size_t n = w->s->features;
    uint32_t *ids = arena_new(&w->mem, uint32_t, w->t->n), *at = arena_new(&w->mem, uint32_t, n);
    *out = arena_new(&w->mem, real, n);
    if (!ids || !at || !*out)
        return STET_ENOMEM;
    for (size_t p = 0; p < w->t->n; p++)
        ids[p] = w->t->word[w->t->start[p]];
    TRY(cnn_winners(w, ids, *out, at));
    for (size_t f = 0; f < n; f++)
        (*out)[f] = fmaxf(0, (*out)[f]);
    return STET_OK;
}

/* ---- Proposition 1 ------------------------------------------------------------------------ */

/* v (D): sum over features of |om_f| M_f,pc. */
static void growth_at(const cnn_work *w, int other, size_t p, double *v)
{
    const cnn_shared *s = w->s;
    const cnn_compiled *c = s->c;
    memset(v, 0, s->m->dim * sizeof *v);
    for (size_t i = 0; i < c->n_kernels; i++) {
        const size_t last = w->r[i].n - 1, from = p > last ? p - last : 0,
                     to = p < c->k[i] - 1 ? p : c->k[i] - 1;
        for (size_t d = 0; d < s->m->dim; d++) {
            const real *size = s->size_of + d * c->width + c->first[i];
            for (size_t f = 0; f < c->filters; f++) {
                real most = 0;
                for (size_t l = from; l <= to; l++)
                    most = fmaxf(most, size[l * c->filters + f]);
                v[d] += fabs(cnn_weight(w, other, i * c->filters + f)) * (double)most;
            }
        }
    }
}

/* Do all taps of all kernels meet position p? Then its matrix is that of any other such. */
static bool is_interior(const cnn_work *w, size_t p)
{
    return p + 1 >= w->s->longest && p + w->s->longest <= w->t->n;
}

static stet_status drops(cnn_work *w, int other, const real *delta, cert_bound *out)
{
    const size_t D = w->s->m->dim;
    double *v = arena_new(&w->mem, double, D);
    if (!v)
        return STET_ENOMEM;
    bool inside = false; /* v is that of interior positions */
    for (size_t p = 0; p < w->t->n; p++) {
        out->drop[p] = 0;
        out->worst[p] = 0;
        if (w->t->start[p + 1] - w->t->start[p] == 1)
            continue;
        if (!inside || !is_interior(w, p))
            growth_at(w, other, p, v);
        inside = is_interior(w, p);
        for (size_t d = 0; d < D; d++)
            out->drop[p] += v[d] * (double)delta[p * D + d];
        out->drop[p] *= 1 + 0x1p-22; /* the differences were rounded to float */
        out->worst[p] = 1;
    }
    return STET_OK;
}

/* A position loses what its vectors may take and what its scores may take. */
static void add_scores(const cnn_work *w, cert_bound *out)
{
    const cert_bound *sum = &w->scores.sum;
    if (!w->scores.lead)
        return;
    out->base += sum->base;
    out->slack += sum->slack;
    for (size_t p = 0; p < w->t->n; p++) {
        out->drop[p] += sum->drop[p];
        out->worst[p] = sum->worst[p] ? sum->worst[p] : out->worst[p];
    }
}

stet_status cnn_gbm(cnn_work *w, int other, cert_bound *out)
{
    const arena_mark scratch = arena_save(&w->mem);
    double *sorted = arena_new(&w->mem, double, w->t->n);
    const real *delta = deviations(w);
    real *y;
    if (!sorted || !delta)
        return STET_ENOMEM;
    TRY(drops(w, other, delta, out));
    TRY(clean_features(w, &y));
    double sum = cnn_bias_margin(w, other), size = fabs(sum), pads = 0;
    for (size_t f = 0; f < w->s->features; f++) {
        const double om = cnn_weight(w, other, f);
        sum += om * (double)y[f];
        size += fabs(om * (double)y[f]);
        pads += fabs(om) * (double)w->pad[f];
    }
    out->additive = true;
    out->slack = cnn_slack(w, other, size, w->s->features) + pads;
    out->base = sum - out->slack;
    add_scores(w, out);
    out->margin = cert_within_budget(out, w->t, w->t->budget, sorted);
    arena_restore(&w->mem, scratch);
    return STET_OK;
}

/* ---- the window form ---------------------------------------------------------------------- */

/* How far y_f can move: the largest window's sum of what its words can do, of which at most the
 * budget's number are changed. */
static double reach_of(const cnn_work *w, const real *moved, size_t f)
{
    const cnn_compiled *c = w->s->c;
    const size_t F = c->filters, kernel = f / F;
    double best = 0;
    for (size_t t = 0; t < w->r[kernel].n; t++) {
        double part[64], free = 0;
        size_t paid = 0;
        for (size_t l = 0; l < c->k[kernel] && t + l < w->t->n; l++) {
            const double x = (double)moved[(t + l) * c->width + c->first[kernel] + l * F + f % F];
            if (w->limited && w->t->unpaid && w->t->unpaid[t + l])
                free += x;
            else
                part[paid++] = x;
        }
        best = fmax(best, free + cnn_sum_of_largest(part, paid, w->limited ? w->t->budget : paid));
    }
    return best * (1 + cnn_gamma(w->s->m->dim + 8)); /* products in float */
}

stet_status cnn_gbm_window(cnn_work *w, int other, cert_bound *out)
{
    const size_t D = w->s->m->dim, width = w->s->c->width, n = w->t->n;
    const arena_mark scratch = arena_save(&w->mem);
    const real *delta = deviations(w);
    real *moved = arena_new(&w->mem, real, n * width), *y; /* moved (n, width): |W| delta */
    if (!delta || !moved)
        return STET_ENOMEM;
    TRY(gemm_serial(false, false, n, width, D, 1, delta, D, w->s->size_of, width, 0, moved, width));
    TRY(clean_features(w, &y));
    double sum = cnn_bias_margin(w, other), size = fabs(sum), pads = 0;
    for (size_t f = 0; f < w->s->features; f++) {
        const double om = cnn_weight(w, other, f), reach = reach_of(w, moved, f);
        const double term = om * (om >= 0 ? fmax(0, (double)y[f] - reach) : (double)y[f] + reach);
        sum += term;
        size += fabs(term);
        pads += fabs(om) * (double)w->pad[f];
    }
    out->additive = false;
    out->slack = cnn_slack(w, other, size, w->s->features) + pads;
    out->margin = sum - out->slack;
    cert_scores_add(&w->scores, out);
    arena_restore(&w->mem, scratch);
    return STET_OK;
}
