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
#include <stdlib.h>
#include <string.h>

#include "certify/cert_cnn.h"
#include "certify/cert_interval.h"
#include "certify/cert_lstm_rows.h"

enum { AT_ONCE = 64 }; /* words projected together */

/* Words in double, and what their projections need. */
typedef struct projected {
    double *weight, *abs;     /* (D, width) every tap of every filter, and its absolute values */
    double *gamma;            /* (width) */
    double *vector, *sizes;   /* (AT_ONCE, D) words and their absolute values */
    double *product, *errors; /* (AT_ONCE, width) p, then q, which becomes the error */
} projected;

static stet_status projected_init(const cnn_work *w, projected *x, arena *a)
{
    const cnn_compiled *c = w->s->c;
    const model *m = w->s->m;
    const size_t D = m->dim;
    x->weight = arena_new(a, double, D * c->width);
    x->abs = arena_new(a, double, D * c->width);
    x->gamma = arena_new(a, double, c->width);
    x->vector = arena_new(a, double, AT_ONCE *D);
    x->sizes = arena_new(a, double, AT_ONCE *D);
    x->product = arena_new(a, double, AT_ONCE * c->width);
    x->errors = arena_new(a, double, AT_ONCE * c->width);
    if (!x->weight || !x->abs || !x->gamma || !x->vector || !x->sizes || !x->product || !x->errors)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n_kernels; i++) {
        const size_t k = c->k[i];
        const real *weight = model_value(m, (int)(2 * i));
        for (size_t l = 0; l < k; l++)
            for (size_t f = 0; f < c->filters; f++) {
                const size_t at = c->first[i] + l * c->filters + f;
                x->gamma[at] = cnn_gamma(cnn_roundings(D, k));
                for (size_t d = 0; d < D; d++) {
                    x->weight[d * c->width + at] = (double)weight[(f * D + d) * k + l];
                    x->abs[d * c->width + at] = fabs(x->weight[d * c->width + at]);
                }
            }
    }
    return STET_OK;
}

/* What each tap of each filter may get wrong about n words, x->errors (n, width), at least. */
static void word_errors(const cnn_work *w, projected *x, const uint32_t *word, size_t n)
{
    const cnn_compiled *c = w->s->c;
    const size_t D = w->s->m->dim, width = c->width;
    for (size_t i = 0; i < n * D; i++) {
        x->vector[i] = (double)w->s->m->table[word[i / D] * D + i % D];
        x->sizes[i] = fabs(x->vector[i]);
    }
    rows_product(n, width, D, x->vector, x->weight, x->product);
    rows_product(n, width, D, x->sizes, x->abs, x->errors);
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < width; at++) {
            double *e = &x->errors[i * width + at];
            const double off =
                fabs((double)c->word[word[i] * width + at] - x->product[i * width + at]);
            *e = (off + x->gamma[at] * *e) * (1 + 0x1p-30) + 0x1p-120;
        }
}

static int by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* errors (n, width): the largest of a position's words. */
static stet_status position_errors(cnn_work *w, double **out)
{
    const cert_task *t = w->t;
    const size_t width = w->s->c->width, words = t->start[t->n];
    double *errors = *out = arena_znew(&w->mem, double, t->n *width);
    uint32_t *word = arena_new(&w->mem, uint32_t, words); /* each once, in order */
    projected x = {0};
    if (!errors || !word)
        return STET_ENOMEM;
    TRY(projected_init(w, &x, &w->mem));
    memcpy(word, t->word, words * sizeof *word);
    qsort(word, words, sizeof *word, by_id);
    size_t distinct = 0;
    for (size_t i = 0; i < words; i++)
        if (i == 0 || word[i] != word[distinct - 1])
            word[distinct++] = word[i];
    for (size_t from = 0; from < distinct; from += AT_ONCE) {
        const size_t n = distinct - from < AT_ONCE ? distinct - from : AT_ONCE;
        word_errors(w, &x, word + from, n);
        for (size_t p = 0; p < t->n; p++)
            for (size_t i = t->start[p]; i < t->start[p + 1]; i++) {
                const uint32_t *at = bsearch(&t->word[i], word + from, n, sizeof *word, by_id);
                const double *e = at ? x.errors + (size_t)(at - word - from) * width : NULL;
                for (size_t k = 0; e && k < width; k++)
                    errors[p * width + k] = greater(errors[p * width + k], e[k]);
            }
    }
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
