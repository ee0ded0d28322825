/* certify/cert_cnn_tight.c - a closer look at rounding, for texts that it alone leaves unproved.
 *
 * cnn_work.err takes lengths of vectors for sums of absolute products, and the largest window for all
 * of them. Here these sums are computed, in float, and of the windows of a feature only those count
 * that may be its maximum: with E the error of all windows, one whose upper end is 2 E below the
 * largest lower end is neither the real maximum nor that of a float32 evaluation.
 *
 * The closest look also projects the words once more in double, and takes what the float projections
 * are really off for what they might be off. It is ten times as much work, and gains a part of the
 * error that is known beforehand. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "certify/cert_cnn.h"
#include "certify/cert_lstm_rows.h"
#include "tensor/kernels.h"

enum { AT_ONCE = 256 }; /* words multiplied together */

/* Projections in double. */
typedef struct doubles {
    double *weight;  /* (D, width) every tap of every filter */
    double *vector;  /* (AT_ONCE, D) */
    double *product; /* (AT_ONCE, width) */
} doubles;

static stet_status doubles_init(const cnn_work *w, doubles *x, arena *a)
{
    const cnn_compiled *c = w->s->c;
    const size_t D = w->s->m->dim;
    x->weight = arena_new(a, double, D * c->width);
    x->vector = arena_new(a, double, AT_ONCE *D);
    x->product = arena_new(a, double, AT_ONCE * c->width);
    if (!x->weight || !x->vector || !x->product)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n_kernels; i++) {
        const real *weight = model_value(w->s->m, (int)(2 * i));
        for (size_t l = 0; l < c->k[i]; l++)
            for (size_t f = 0; f < c->filters; f++)
                for (size_t d = 0; d < D; d++)
                    x->weight[d * c->width + c->first[i] + l * c->filters + f] =
                        (double)weight[(f * D + d) * c->k[i] + l];
    }
    return STET_OK;
}

/* The share of a window's error that is not that of the projections. */
static double rest_of_error(const cnn_work *w, size_t kernel)
{
    const size_t D = w->s->m->dim;
    const double rest = cnn_gamma(cnn_roundings(D, w->s->c->k[kernel]));
    return rest / (cnn_gamma(D) + rest);
}

/* size (n, width) of n words becomes what cnn_window_error() makes their true error of. */
static void take_real_errors(const cnn_work *w, doubles *x, const uint32_t *word, size_t n,
                             real *size)
{
    const cnn_compiled *c = w->s->c;
    const size_t D = w->s->m->dim, width = c->width;
    const double own = (double)(D + 8) * DBL_EPSILON; /* the doubles' error */
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < D; d++)
            x->vector[i * D + d] = (double)w->s->m->table[word[i] * D + d];
    rows_product(n, width, D, x->vector, x->weight, x->product);
    for (size_t kernel = 0; kernel < c->n_kernels; kernel++) {
        const double rest = rest_of_error(w, kernel), by = (1 - rest) / cnn_gamma(D);
        for (size_t i = 0; i < n; i++)
            for (size_t at = c->first[kernel]; at < c->first[kernel] + c->k[kernel] * c->filters;
                 at++) {
                const double q = (double)size[i * width + at],
                             off = fabs((double)c->word[word[i] * width + at] -
                                        x->product[i * width + at]) +
                                   own * q;
                const double eff = off * by + rest * q;
                size[i * width + at] = (real)(eff * (1 + 0x1p-22));
            }
    }
}

/* out (n, width): the sum of absolute products of each tap with the word of a position for which it is
 * largest. */
static stet_status position_sizes(cnn_work *w, bool closest, real **out)
{
    const cert_task *t = w->t;
    const size_t width = w->s->c->width, D = w->s->m->dim, words = t->start[t->n];
    real *size = *out = arena_znew(&w->mem, real, t->n * width),
         *vector = arena_new(&w->mem, real, AT_ONCE * D),
         *product = arena_new(&w->mem, real, AT_ONCE * width);
    doubles x = {0};
    if (!size || !vector || !product)
        return STET_ENOMEM;
    if (closest)
        TRY(doubles_init(w, &x, &w->mem));
    for (size_t from = 0, p = 0; from < words; from += AT_ONCE) {
        const size_t n = words - from < AT_ONCE ? words - from : AT_ONCE;
        for (size_t i = 0; i < n; i++)
            for (size_t d = 0; d < D; d++)
                vector[i * D + d] = (real)fabsf(w->s->m->table[t->word[from + i] * D + d]);
        TRY(gemm_serial(false, false, n, width, D, 1, vector, D, w->s->size_of, width, 0, product,
                        width));
        if (closest)
            take_real_errors(w, &x, t->word + from, n, product);
        for (size_t i = 0; i < n; i++) {
            while (from + i >= t->start[p + 1])
                p++;
            cnn_keep_larger(size + p * width, product + i * width, width);
        }
    }
    return STET_OK;
}

/* Of a window, where its upper end is not below `least`. */
SIMD_CLONES
static void keep_candidate(real *RESTRICT most, const real *RESTRICT sum, const real *RESTRICT hi,
                           const real *RESTRICT least, size_t n)
{
    for (size_t f = 0; f < n; f++)
        most[f] = hi[f] >= least[f] && sum[f] > most[f] ? sum[f] : most[f];
}

/* most (F): the largest sum of absolute products of a window that may be the maximum. */
static void window_sizes(const cnn_work *w, size_t kernel, const real *size, const real *least,
                         real *sum, real *most)
{
    const cnn_compiled *c = w->s->c;
    const size_t F = c->filters;
    for (size_t t = 0; t < w->r[kernel].n; t++) {
        memset(sum, 0, F * sizeof *sum);
        for (size_t l = 0; l < c->k[kernel] && t + l < w->t->n; l++)
            vec_axpy(1, size + (t + l) * c->width + c->first[kernel] + l * F, sum, F);
        keep_candidate(most, sum, w->r[kernel].hi + t * F, least, F);
    }
}

double cnn_still_to_gain(const cnn_work *w)
{
    double gain = 0;
    for (size_t i = 0; w->looked == CNN_CLOSER && i < w->s->c->n_kernels; i++)
        gain = fmax(gain, 1 - rest_of_error(w, i));
    return w->looked == CNN_FROM_AFAR ? 1 : gain;
}

stet_status cnn_look_closer(cnn_work *w)
{
    const cnn_compiled *c = w->s->c;
    const size_t F = c->filters, D = w->s->m->dim;
    const arena_mark scratch = arena_save(&w->mem);
    real *size, *least = arena_new(&w->mem, real, F), *sum = arena_new(&w->mem, real, F),
                *most = arena_new(&w->mem, real, F);
    if (!least || !sum || !most)
        return STET_ENOMEM;
    w->looked++;
    TRY(position_sizes(w, w->looked == CNN_CLOSEST, &size));
    for (size_t i = 0; i < c->n_kernels; i++) {
        double *err = w->err + i * F;
        for (size_t f = 0; f < F; f++) {
            const double at = w->lo[i * F + f] - 2 * w->err_all[i * F + f] * (1 + 0x1p-30);
            least[f] = (real)(at - fabs(at) * 0x1p-22 - 0x1p-120); /* rounded down */
        }
        memset(most, 0, F * sizeof *most);
        window_sizes(w, i, size, least, sum, most);
        for (size_t f = 0; f < F; f++) {
            const double larger = (double)most[f] * (1 + 2 * cnn_gamma(D + c->k[i] + 2)),
                         of_bias =
                             cnn_gamma(cnn_roundings(D, c->k[i])) * fabs((double)cnn_bias(w, i)[f]);
            err[f] = fmin(err[f], cnn_window_error(w, i, larger) + of_bias);
        }
    }
    arena_restore(&w->mem, scratch);
    return STET_OK;
}
