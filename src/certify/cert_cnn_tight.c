/* certify/cert_cnn_tight.c - a closer look at rounding, for texts that it alone leaves unproved.
 *
 * cnn_work.err takes lengths of vectors for sums of absolute products, the largest window for all of
 * them, and what the float projections might be off for what they are. Here the words of the task are
 * projected once more in double: q is the sum of the absolute products, p_float - p what the float
 * projection is really off, and a word is wrong by at most |p_float - p| + gamma q. Of the windows of
 * a feature only those count that may be its maximum: with E the error of all windows, one whose
 * upper end is 2 E below the largest lower end is neither the real maximum nor that of a float32
 * evaluation. */
#include <math.h>

#include "certify/cert_cnn.h"

/* What each tap of each filter may get wrong about a word, (width), at least. */
static void word_errors(const cnn_work *w, uint32_t word, double *out)
{
    const model *m = w->s->m;
    const cnn_compiled *c = w->s->c;
    const float *v = m->table + word * m->dim;
    for (size_t i = 0; i < c->n_kernels; i++) {
        const size_t k = c->k[i];
        const real *weight = model_value(m, (int)(2 * i));
        const double g = cnn_gamma(cnn_roundings(m->dim, k));
        for (size_t l = 0; l < k; l++)
            for (size_t f = 0; f < c->filters; f++) {
                const real *x = weight + f * m->dim * k + l;
                double p = 0, q = 0;
                for (size_t d = 0; d < m->dim; d++) {
                    const double term = (double)x[d * k] * (double)v[d];
                    p += term;
                    q += fabs(term);
                }
                const size_t at = c->first[i] + l * c->filters + f;
                const double off = fabs((double)c->word[word * c->width + at] - p);
                out[at] = (off + g * q) * (1 + 0x1p-30) + 0x1p-120;
            }
    }
}

/* errors (n, width): the largest of a position's words. */
static stet_status position_errors(cnn_work *w, double **out)
{
    const cert_task *t = w->t;
    const size_t width = w->s->c->width, words = t->start[t->n];
    double **of = arena_znew(&w->mem, double *, words), *errors = NULL;
    if (of)
        *out = errors = arena_znew(&w->mem, double, t->n *width);
    if (!errors)
        return STET_ENOMEM;
    for (size_t i = 0; i < words; i++) {
        for (size_t j = 0; j < i && !of[i]; j++) /* a word is projected once */
            of[i] = t->word[j] == t->word[i] ? of[j] : NULL;
        if (of[i])
            continue;
        of[i] = arena_new(&w->mem, double, width);
        if (!of[i])
            return STET_ENOMEM;
        word_errors(w, t->word[i], of[i]);
    }
    for (size_t p = 0; p < t->n; p++)
        for (size_t i = t->start[p]; i < t->start[p + 1]; i++)
            for (size_t x = 0; x < width; x++)
                errors[p * width + x] = fmax(errors[p * width + x], of[i][x]);
    return STET_OK;
}

/* The largest error of the windows of feature (kernel, f) that may be its maximum. */
static double feature_error(const cnn_work *w, const double *errors, size_t kernel, size_t f)
{
    const cnn_compiled *c = w->s->c;
    const cnn_ranges *r = &w->r[kernel];
    const size_t at = kernel * c->filters + f, F = c->filters;
    const double bias = fabs((double)cnn_bias(w, kernel)[f]),
                 g = cnn_gamma(cnn_roundings(w->s->m->dim, c->k[kernel]));
    const double least = w->lo[at] - 2 * w->err[at] * (1 + 0x1p-30);
    double worst = 0;
    for (size_t t = 0; t < r->n; t++) {
        if ((double)r->hi[t * F + f] < least)
            continue;
        double sum = g * bias;
        for (size_t l = 0; l < c->k[kernel] && t + l < w->t->n; l++)
            sum += errors[(t + l) * c->width + c->first[kernel] + l * F + f];
        worst = fmax(worst, sum);
    }
    return worst * (1 + 0x1p-30) + 0x1p-120;
}

stet_status cnn_tighten(cnn_work *w)
{
    const arena_mark scratch = arena_save(&w->mem);
    double *errors;
    w->tight = true;
    TRY(position_errors(w, &errors));
    for (size_t i = 0; i < w->s->c->n_kernels; i++)
        for (size_t f = 0; f < w->s->c->filters; f++) {
            double *err = &w->err[i * w->s->c->filters + f];
            *err = fmin(*err, feature_error(w, errors, i, f));
        }
    arena_restore(&w->mem, scratch);
    return STET_OK;
}
