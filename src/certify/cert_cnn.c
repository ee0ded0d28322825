/* certify/cert_cnn.c - the family of bounds of the text CNN: what threads share, tasks, rounding,
 * and the cheapest bound, enumerated intervals. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/simd.h"
#include "certify/cert_cnn_joint.h"
#include "tensor/kernels.h"

static const char *const methods[] = {"ibp", "joint", "gbm", "gbm-window", NULL};
enum { IBP, JOINT, GBM, GBM_WINDOW };

/* ---- rounding ----------------------------------------------------------------------------- */

double cnn_gamma(size_t n)
{
    const double nu = (double)n * 0x1p-24;
    return nu / (1 - nu) * (1 + 0x1p-40);
}

/* No number of the float32 program exceeds this; far from overflow, so none is infinite or NaN. */
static const double largest = 0x1p100;

/* D k products and a bias in any order. Views also subtract the word that leaves, of the same size,
 * hence the factor 3. */
size_t cnn_roundings(size_t dim, size_t k)
{
    return dim * k + 3 * k + 9;
}

/* From the neighbour's projections to the real ones (D roundings), and from there to a float32
 * evaluation. */
double cnn_window_error(const cnn_work *w, size_t kernel, double size)
{
    const size_t D = w->s->m->dim;
    return (cnn_gamma(D) + cnn_gamma(cnn_roundings(D, w->s->c->k[kernel]))) * size + 0x1p-120;
}

double cnn_bias_margin(const cnn_work *w, int other)
{
    return (double)w->s->fc_bias[w->t->label] - (double)w->s->fc_bias[other];
}

double cnn_slack(const cnn_work *w, int other, double size, size_t terms)
{
    const cnn_shared *s = w->s;
    const real *a = s->fc + (size_t)w->t->label * s->features,
               *b = s->fc + (size_t)other * s->features;
    double features = 0,
           head = fabs((double)s->fc_bias[w->t->label]) + fabs((double)s->fc_bias[other]);
    for (size_t f = 0; f < s->features; f++) {
        features += fabs((double)a[f] - (double)b[f]) * w->err[f];
        head += (fabs((double)a[f]) + fabs((double)b[f])) * (w->hi[f] + w->err[f]);
    }
    const double doubles = (double)(terms + 8) * DBL_EPSILON * size;
    return (features + cnn_gamma(s->features + 8) * head) * (1 + 1e-7) + doubles + 0x1p-120;
}

/* ---- what threads share ------------------------------------------------------------------- */

static void shared_free(void *p)
{
    cnn_shared *s = p;
    if (!s)
        return;
    if (s->hulls)
        cert_kept_deinit(s->hulls);
    mem_free(s->hulls);
    if (s->cores)
        sem_destroy(s->cores);
    mem_free(s->cores);
    mem_free(s->norm);
    mem_free(s->reach);
    mem_free_aligned(s->size_of);
    mem_free(s);
}

/* Rounded up, also when it becomes a float. */
static double length_of(const real *x, size_t n, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i * stride] * (double)x[i * stride];
    return sqrt(sum) * (1 + 0x1p-22);
}

static stet_status not_finite(const char *what)
{
    return error_set(STET_EFORMAT,
                     "the model's %s are not finite or too large: nothing can be certified", what);
}

static stet_status measure_words(cnn_shared *s, double *longest)
{
    const model *m = s->m;
    *longest = 0;
    for (size_t i = 0; i < m->n_words; i++) {
        const double norm = length_of(m->table + i * m->dim, m->dim, 1);
        if (!(norm <= largest))
            return not_finite("word vectors");
        s->norm[i] = (real)norm;
        *longest = fmax(*longest, norm);
    }
    return STET_OK;
}

/* By Cauchy and Schwarz no partial sum of a window exceeds the sum of reach * norm, and |bias|. */
static stet_status measure_filters(cnn_shared *s, double longest_word, double *largest_feature)
{
    const model *m = s->m;
    const size_t F = s->c->filters;
    *largest_feature = 0;
    for (size_t i = 0; i < s->c->n_kernels; i++) {
        const real *w = model_value(m, (int)(2 * i)), *b = model_value(m, (int)(2 * i + 1));
        const size_t k = s->c->k[i];
        for (size_t f = 0; f < F; f++) {
            double size = fabs((double)b[f]);
            for (size_t l = 0; l < k; l++) {
                const double reach = length_of(w + f * m->dim * k + l, m->dim, k);
                s->reach[s->c->first[i] + l * F + f] = (real)fmin(reach, largest);
                size += reach * fmax(1, longest_word);
            }
            if (!(size <= largest))
                return not_finite("convolutions");
            *largest_feature = fmax(*largest_feature, size);
        }
    }
    return STET_OK;
}

static stet_status measure(cnn_shared *s)
{
    double longest_word, feature;
    TRY(measure_words(s, &longest_word));
    TRY(measure_filters(s, longest_word, &feature));
    const size_t n = s->dense ? s->dense : s->features;
    if (s->dense)
        TRY(cnn_dense_measure(s, feature, largest, &feature));
    for (size_t k = 0; k < s->m->n_classes; k++) {
        double size = fabs((double)s->fc_bias[k]);
        for (size_t f = 0; f < n; f++)
            size += fabs((double)s->fc[k * n + f]) * fmax(1, feature);
        if (!(size <= largest))
            return not_finite("weights of the last layer");
    }
    return STET_OK;
}

static stet_status prepare(const model *m, void **out)
{
    cnn_shared *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->m = m;
    s->c = m->compiled;
    s->features = s->c->n_kernels * s->c->filters;
    for (size_t i = 0; i < s->c->n_kernels; i++)
        s->longest = s->c->k[i] > s->longest ? s->c->k[i] : s->longest;
    s->fc = model_value(m, (int)m->n_params - 2);
    s->fc_bias = model_value(m, (int)m->n_params - 1);
    s->dense = s->c->dense;
    if (s->dense) {
        s->dense_weight = model_value(m, cnn_dense(m));
        s->dense_bias = model_value(m, cnn_dense(m) + 1);
    }
    s->norm = mem_alloc(m->n_words, sizeof *s->norm);
    s->reach = mem_alloc(s->c->width, sizeof *s->reach);
    s->hulls = mem_zalloc(1, sizeof *s->hulls);
    s->cores = mem_zalloc(1, sizeof *s->cores);
    if (s->cores)
        sem_init(s->cores, 0, (unsigned)stet_threads());
    stet_status st = s->norm && s->reach && s->hulls && s->cores ? measure(s) : STET_ENOMEM;
    if (st == STET_OK)
        st = cert_kept_init(s->hulls, m->n_words, cnn_hull_size(s));
    if (st == STET_OK)
        st = cnn_gbm_prepare(s);
    if (st == STET_OK)
        *out = s;
    else
        shared_free(s);
    return st;
}

/* ---- tasks -------------------------------------------------------------------------------- */

static stet_status work_new(const void *shared, void **out)
{
    cnn_work *w = mem_zalloc(1, sizeof *w);
    if (!w)
        return STET_ENOMEM;
    w->s = shared;
    const stet_status st = cnn_joint_new(&w->joint);
    if (st == STET_OK)
        *out = w;
    else
        mem_free(w);
    return st;
}

static size_t use(void *p, answers *on)
{
    ((cnn_work *)p)->on = answers_ranges_there(on) ? on : NULL;
    return answers_ranges_there(on) ? IBP + 1 : 0;
}

static void work_free(void *p)
{
    cnn_work *w = p;
    if (!w)
        return;
    cnn_joint_free(w->joint);
    arena_deinit(&w->mem);
    mem_free(w);
}

/* Does the budget forbid anything? */
static bool is_limited(const cert_task *t)
{
    size_t paid = 0;
    for (size_t p = 0; p < t->n; p++)
        paid += t->start[p + 1] - t->start[p] > 1 && !(t->unpaid && t->unpaid[p]);
    return t->budget < paid;
}

SIMD_CLONES
void cnn_keep_larger(real *RESTRICT y, const real *RESTRICT x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > y[i] ? x[i] : y[i];
}

/* size (F): how large a window of this kernel can be, with the longest vector at each position. */
static void window_sizes(const cnn_work *w, size_t kernel, const real *norm, real *sum, real *size)
{
    const cnn_compiled *c = w->s->c;
    const size_t F = c->filters, k = c->k[kernel], n = w->t->n < k ? 1 : w->t->n - k + 1;
    for (size_t t = 0; t < n; t++) {
        memset(sum, 0, F * sizeof *sum);
        for (size_t l = 0; l < k && t + l < w->t->n; l++)
            vec_axpy(norm[t + l], w->s->reach + c->first[kernel] + l * F, sum, F);
        cnn_keep_larger(size, sum, F);
    }
}

/* The rounding that the words of this task can cause. */
static stet_status measure_task(cnn_work *w)
{
    const cnn_shared *s = w->s;
    const cert_task *t = w->t;
    const size_t F = s->c->filters;
    const arena_mark scratch = arena_save(&w->mem);
    real *norm = arena_znew(&w->mem, real, t->n), *sum = arena_new(&w->mem, real, F);
    real *size = arena_znew(&w->mem, real, s->features);
    if (!norm || !sum || !size)
        return STET_ENOMEM;
    for (size_t p = 0; p < t->n; p++)
        for (size_t i = t->start[p]; i < t->start[p + 1]; i++)
            norm[p] = s->norm[t->word[i]] > norm[p] ? s->norm[t->word[i]] : norm[p];
    for (size_t i = 0; i < s->c->n_kernels; i++) {
        window_sizes(w, i, norm, sum, size + i * F);
        for (size_t f = i * F; f < (i + 1) * F; f++) {
            const double most = (double)size[f] * (1 + cnn_gamma(2 * s->c->k[i])) +
                                fabs((double)cnn_bias(w, i)[f - i * F]);
            w->err[f] = w->err_all[f] = cnn_window_error(w, i, most);
            w->pad[f] = (real)(cnn_gamma(s->c->k[i] + 6) * most + 0x1p-120);
        }
    }
    arena_restore(&w->mem, scratch);
    return STET_OK;
}

/* w->lo and w->hi from a device, which adds the same numbers in the same order. w->r waits until a bound
 * wants it. */
static stet_status ask_ranges(cnn_work *w)
{
    const size_t n = w->s->features;
    const arena_mark scratch = arena_save(&w->mem);
    real *lo = arena_new(&w->mem, real, n), *hi = arena_new(&w->mem, real, n);
    if (!lo || !hi)
        return STET_ENOMEM;
    TRY(answers_ranges(w->on, w->t->n, w->t->start, w->t->word, n, w->pad, lo, hi));
    for (size_t f = 0; f < n; f++) {
        w->lo[f] = (double)lo[f];
        w->hi[f] = (double)hi[f];
    }
    arena_restore(&w->mem, scratch);
    return STET_OK;
}

static stet_status open_task(void *p, const cert_task *t)
{
    cnn_work *w = p;
    const size_t n = w->s->features;
    for (size_t i = 0; i < t->start[t->n]; i++)
        if (t->word[i] >= w->s->m->n_words)
            return error_set(STET_EUSAGE, "word %u: the model knows %zu words", t->word[i],
                             w->s->m->n_words);
    arena_restore(&w->mem, (arena_mark){0});
    w->t = t;
    w->joint->open = w->windows = w->units = false;
    w->looked = CNN_FROM_AFAR;
    w->limited = is_limited(t);
    TRY(cert_scores_open(&w->scores, w->s->m, t, &w->mem));
    w->pad = arena_new(&w->mem, real, n);
    w->err = arena_new(&w->mem, double, n);
    w->err_all = arena_new(&w->mem, double, n);
    w->lo = arena_new(&w->mem, double, n);
    w->hi = arena_new(&w->mem, double, n);
    w->unit = arena_new(&w->mem, cnn_unit, w->s->dense);
    if (!w->pad || !w->err || !w->err_all || !w->lo || !w->hi || !w->unit)
        return STET_ENOMEM;
    TRY(measure_task(w));
    return w->on && !w->limited ? ask_ranges(w) : cnn_windows(w);
}

/* ---- bounds ------------------------------------------------------------------------------- */

/* Every feature at its worse end. */
stet_status cnn_ibp(cnn_work *w, int other, cert_bound *out)
{
    double sum = cnn_bias_margin(w, other), size = fabs(sum), pads = 0;
    for (size_t f = 0; f < w->s->features; f++) {
        const double om = cnn_weight(w, other, f), term = om * (om >= 0 ? w->lo[f] : w->hi[f]);
        sum += term;
        size += fabs(term);
        pads += fabs(om) * (double)w->pad[f]; /* in the ranges already */
    }
    const double slack = cnn_slack(w, other, size, w->s->features);
    out->additive = false;
    out->slack = slack + pads;
    out->margin = sum - slack;
    cert_scores_add(&w->scores, out);
    return STET_OK;
}

static stet_status bound_by(cnn_work *p, size_t method, int other, size_t refine, cert_bound *out)
{
    switch (method) {
    case IBP:
        return p->s->dense ? cnn_dense_ibp(p, other, out) : cnn_ibp(p, other, out);
    case GBM:
        return cnn_gbm(p, other, out);
    case GBM_WINDOW:
        return cnn_gbm_window(p, other, out);
    default:
        return cnn_dual(p, other, refine, out);
    }
}

/* cnn_look_closer, for which there must be windows. Where they were left to a device, many more texts
 * may be under way than there are threads, and this takes a core for long and tens of megabytes: not
 * for more texts than threads at once, and the memory is given back. */
static stet_status look_closer(cnn_work *w)
{
    if (w->windows)
        return cnn_look_closer(w);
    const arena mem = w->mem;
    while (sem_wait(w->s->cores) != 0 && errno == EINTR)
        ;
    w->mem = (arena){0};
    stet_status st = cnn_windows(w);
    if (st == STET_OK)
        st = cnn_look_closer(w);
    arena_deinit(&w->mem);
    sem_post(w->s->cores);
    w->mem = mem;
    w->windows = false;
    return st;
}

/* Where rounding alone is in the way, how large can it be? */
static stet_status bound(void *p, size_t method, int other, size_t refine, cert_bound *out)
{
    cnn_work *w = p;
    cert_scores_against(&w->scores, other);
    if (method != IBP)
        TRY(cnn_windows(w));
    for (;;) {
        TRY(bound_by(w, method, other, refine, out));
        if (out->margin > 0 || !(out->margin + cnn_still_to_gain(w) * out->slack > 0))
            return STET_OK;
        TRY(look_closer(w));
        w->units = false;
    }
}

static struct json_t *witness(const void *p, size_t method, int other)
{
    (void)other;
    return method == JOINT ? cnn_dual_witness(p) : NULL;
}

#define CNN_FAMILY                                                                                 \
    .prepare = prepare, .shared_free = shared_free, .work_new = work_new, .work_free = work_free,  \
    .use = use, .open = open_task, .bound = bound, .witness = witness, .onnx = cnn_onnx
/* The growth bounds are never better than intervals. */
#define CNN_METHODS .methods = methods, .n_auto = GBM

/* With a layer before the last intervals are all there is. */
static const char *const dense_methods[] = {"ibp", NULL};
static const cert_family cert_dense = {.methods = dense_methods, CNN_FAMILY};

static const cert_family *family_of(const model *m)
{
    return cnn_dense(m) >= 0 ? &cert_dense : NULL;
}

const cert_family cert_cnn = {CNN_METHODS, CNN_FAMILY, .of_model = family_of};
/* A convolution, wherever its filters come from. */
const cert_family cert_s4cnn = {CNN_METHODS, CNN_FAMILY};
