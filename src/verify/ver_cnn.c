/* verify/ver_cnn.c - bounds of the TextCNN, each from its definition.
 *
 * A window's sum is a sum over words: a = b + sum over offsets l of W_l . E. Every word therefore
 * has, for each kernel, offset and filter, a product p and the sum q of its absolute terms. The
 * float32 program may be wrong by g (sum of q + |b|), g = gamma of the longest path of roundings,
 * and in that form the error belongs to words too: what float32 makes of a word lies in p +- g q.
 * So ranges below are ranges of float32 values, and no separate account of the windows' rounding is
 * needed. The rounding of p itself, in double, is part of g. */
#include "verify/ver_cnn.h"
#include "verify/ver_exact.h"

#include <string.h>

enum { KEPT_WORDS = 4096 }; /* products are kept from text to text up to this many words */

typedef struct kept {
    cnn_products *word; /* (n_words), p NULL: not computed */
    size_t n;
} kept;

/* ---- words -------------------------------------------------------------------------------- */

static void multiply(const ver_model *m, uint32_t word, cnn_products out)
{
    const float *e = m->table + word * m->dim;
    for (size_t i = 0; i < m->kernels; i++) {
        const size_t k = m->k[i];
        for (size_t f = 0; f < m->filters; f++)
            for (size_t l = 0; l < k; l++) {
                const float *w = m->conv_w[i] + f * m->dim * k + l;
                double p = 0, q = VER_TINY;
                for (size_t d = 0; d < m->dim; d++) {
                    const double x = (double)w[d * k] * e[d]; /* exact */
                    p += x;
                    q += fabs(x);
                }
                out.p[l * m->filters + f] = p;
                out.q[l * m->filters + f] = q < VER_OVERFLOWS ? q : INFINITY;
            }
        out.p += k * m->filters;
        out.q += k * m->filters;
    }
}

static stet_status need_words(ver_work *w, size_t width)
{
    const ver_task *t = w->t;
    kept *k = w->kept;
    if (!k || k->n > KEPT_WORDS) {
        arena_deinit(&w->keep);
        w->kept = NULL;
        k = arena_znew(&w->keep, kept, 1);
        cnn_products *word = k ? arena_znew(&w->keep, cnn_products, w->m->n_words) : NULL;
        if (!word)
            return STET_ENOMEM;
        k->word = word;
        w->kept = k;
    }
    for (size_t i = 0; i < t->start[t->n]; i++) {
        cnn_products *p = &k->word[t->word[i]];
        if (p->p)
            continue;
        double *both = arena_new(&w->keep, double, 2 * width);
        if (!both)
            return STET_ENOMEM;
        *p = (cnn_products){both, both + width};
        multiply(w->m, t->word[i], *p);
        k->n++;
    }
    return STET_OK;
}

const cnn_products *ver_cnn_word(const ver_work *w, size_t i)
{
    return &((const kept *)w->kept)->word[w->t->word[i]];
}

/* ---- windows ------------------------------------------------------------------------------ */

/* One window of one filter. Lower end: every word takes p - g q, the reference counts in full, and
 * what other words take beyond it counts within the budget. Upper end: the same with signs turned.
 * Where a word might overflow the end is infinite; so is then the rounding of the last layer, and
 * nothing stands. */
static double window_end(const ver_work *w, size_t kernel, size_t at, size_t f, double sign)
{
    const ver_model *m = w->m;
    const ver_task *t = w->t;
    const cnn_windows *win = &((const cnn_state *)w->state)->w[kernel];
    const double b = m->conv_b[kernel][f];
    double drop[64];
    size_t n = 0;
    ver_sum s = {0};
    ver_add(&s, sign * b, win->g * fabs(b));
    for (size_t l = 0; l < m->k[kernel] && at + l < t->n; l++) {
        const size_t p = at + l, to = win->first + l * m->filters + f;
        double reference = 0, least = 0;
        for (size_t i = t->start[p]; i < t->start[p + 1]; i++) {
            const cnn_products *x = ver_cnn_word(w, i);
            const double v = sign * x->p[to] - win->g * x->q[to];
            if (i == t->start[p])
                reference = least = v;
            least = v < least ? v : least;
        }
        if (!(least > -INFINITY))
            return -INFINITY;
        ver_add(&s, reference, 0);
        drop[n++] = least - reference;
    }
    ver_add(&s, ver_within_budget(t, at, drop, n), 0);
    return ver_lower(&s);
}

static stet_status open_windows(ver_work *w, size_t kernel)
{
    const ver_model *m = w->m;
    cnn_state *s = w->state;
    cnn_windows *win = &s->w[kernel];
    const size_t k = m->k[kernel];
    win->n = w->t->n < k ? 1 : w->t->n - k + 1; /* short texts go on with zero vectors */
    win->g = ver_gamma32(m->dim * k + 2) + ver_gamma64(m->dim + k + 8); /* in any order */
    win->lo = arena_new(&w->mem, double, win->n * m->filters);
    win->hi = arena_new(&w->mem, double, win->n * m->filters);
    if (!win->lo || !win->hi)
        return STET_ENOMEM;
    for (size_t t = 0; t < win->n; t++)
        for (size_t f = 0; f < m->filters; f++) {
            double *lo = &win->lo[t * m->filters + f], *hi = &win->hi[t * m->filters + f];
            *lo = window_end(w, kernel, t, f, 1);
            *hi = -window_end(w, kernel, t, f, -1);
            double *y_lo = &s->y_lo[kernel * m->filters + f],
                   *y_hi = &s->y_hi[kernel * m->filters + f];
            *y_lo = *lo > *y_lo ? *lo : *y_lo;
            *y_hi = *hi > *y_hi ? *hi : *y_hi;
        }
    return STET_OK;
}

stet_status ver_cnn_open(ver_work *w)
{
    const ver_model *m = w->m;
    cnn_state *s = arena_znew(&w->mem, cnn_state, 1);
    if (!s)
        return STET_ENOMEM;
    w->state = s;
    for (size_t i = 0; i < m->kernels; i++) {
        s->w[i].first = s->width;
        s->width += m->k[i] * m->filters;
    }
    const size_t n = m->kernels * m->filters;
    s->y_lo = arena_znew(&w->mem, double, n);
    s->y_hi = arena_znew(&w->mem, double, n);
    s->y = arena_new(&w->mem, double, n);
    s->drop = arena_new(&w->mem, double, w->t->n);
    if (!s->y_lo || !s->y_hi || !s->y || !s->drop)
        return STET_ENOMEM;
    TRY(ver_scores_open(w));
    TRY(need_words(w, s->width));
    for (size_t i = 0; i < m->kernels; i++)
        TRY(open_windows(w, i));
    return STET_OK;
}

/* ---- bounds ------------------------------------------------------------------------------- */

double ver_cnn_weight(const ver_model *m, int label, int other, size_t f)
{
    return (double)m->fc_w[(size_t)label * m->features + f] -
           m->fc_w[(size_t)other * m->features + f];
}

/* Bias and rounding of the last layer. */
ver_sum ver_cnn_head(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    ver_sum s = {0};
    ver_add(&s, m->fc_b[label],
            ver_head_error(m, label, other, ((const cnn_state *)w->state)->y_hi));
    ver_add(&s, -(double)m->fc_b[other], 0);
    return s;
}

static double interval_bound(const ver_work *w, int label, int other)
{
    const cnn_state *s = w->state;
    ver_sum sum = ver_cnn_head(w, label, other);
    for (size_t f = 0; f < w->m->features; f++) {
        const double om = ver_cnn_weight(w->m, label, other, f);
        ver_add(&sum, om * (om >= 0 ? s->y_lo[f] : s->y_hi[f]), 0);
    }
    ver_add(&sum, ver_scores_worst(w, label, other, s->drop), 0);
    return ver_lower(&sum);
}

/* ---- growth bounds ------------------------------------------------------------------------ */

/* Proposition 1: every entry of the growth bound matrix is the largest weight that any window puts
 * on the coordinate; it multiplies the largest change of the coordinate. The clean margin is the
 * interval bound of the references alone, which the caller passes. */
static double growth_bound(const ver_work *w, int label, int other, double clean)
{
    const ver_model *m = w->m;
    const cnn_state *s = w->state;
    const ver_task *t = w->t;
    ver_sum sum = {0};
    ver_add(&sum, clean, 0);
    for (size_t p = 0; p < t->n; p++) {
        ver_sum drop = {0};
        for (size_t d = 0; d < m->dim; d++) {
            double delta = 0;
            for (size_t i = t->start[p] + 1; i < t->start[p + 1]; i++) {
                const double x = fabs((double)m->table[t->word[i] * m->dim + d] -
                                      m->table[t->word[t->start[p]] * m->dim + d]);
                delta = x > delta ? x : delta;
            }
            for (size_t i = 0; i < m->kernels && delta > 0; i++)
                for (size_t f = 0; f < m->filters; f++) {
                    const size_t k = m->k[i], last = s->w[i].n - 1;
                    double most = 0;
                    for (size_t l = p > last ? p - last : 0; l < k && l <= p; l++) {
                        const double x = fabs((double)m->conv_w[i][(f * m->dim + d) * k + l]);
                        most = x > most ? x : most;
                    }
                    ver_add(&drop,
                            fabs(ver_cnn_weight(m, label, other, i * m->filters + f)) * most *
                                delta,
                            0);
                }
        }
        s->drop[p] =
            ver_down(ver_score_drop(w, p, label, other) - ver_up(drop.value + ver_error(&drop)));
        ver_add(&sum, ver_score_least(w, t->start[p], label, other), 0);
    }
    ver_add(&sum, ver_within_budget(t, 0, s->drop, t->n), 0);
    return ver_lower(&sum);
}

double ver_cnn_feature(const ver_work *w, size_t f, double *error)
{
    const ver_model *m = w->m;
    const ver_task *t = w->t;
    const size_t i = f / m->filters, j = f % m->filters;
    const cnn_windows *win = &((const cnn_state *)w->state)->w[i];
    const double b = m->conv_b[i][j];
    double y = *error = 0;
    for (size_t at = 0; at < win->n; at++) {
        double a = b, size = fabs(b);
        for (size_t l = 0; l < m->k[i] && at + l < t->n; l++) {
            const size_t to = win->first + l * m->filters + j, p = at + l;
            double q = 0;
            for (size_t x = t->start[p]; x < t->start[p + 1]; x++)
                q = ver_cnn_word(w, x)->q[to] > q ? ver_cnn_word(w, x)->q[to] : q;
            a += ver_cnn_word(w, t->start[p])->p[to];
            size += q;
        }
        y = a > y ? a : y;
        *error = win->g * size > *error ? win->g * size : *error;
    }
    return y;
}

/* The margin of the references in real arithmetic, less what float32 may lose on any text. */
static double clean_margin(const ver_work *w, int label, int other)
{
    ver_sum sum = ver_cnn_head(w, label, other);
    for (size_t f = 0; f < w->m->features; f++) {
        const double om = ver_cnn_weight(w->m, label, other, f);
        double error, y = ver_cnn_feature(w, f, &error);
        ver_add(&sum, om * y, fabs(om) * error * (1 + 1e-9));
    }
    return ver_lower(&sum);
}

static double margin(const ver_work *w, int label, int other)
{
    double sum = (double)w->m->fc_b[label] - w->m->fc_b[other], error;
    for (size_t f = 0; f < w->m->features; f++)
        sum += ver_cnn_weight(w->m, label, other, f) * ver_cnn_feature(w, f, &error);
    return sum + ver_scores_margin(w, label, other);
}

/* The same once more without rounding, in place of what double gave. Intervals are at least as tight as
 * growth bounds, and where a witness leads to less than they do, they count. */
static stet_status exact_bound(ver_work *w, int label, int other, const json_t *witness,
                               double *out)
{
    const double rounded = *out;
    TRY(ver_exact_cnn(w, label, other, witness, out));
    if (witness && *out < rounded) {
        double more;
        TRY(ver_exact_cnn(w, label, other, NULL, &more));
        *out = more > *out ? more : *out;
    }
    /* with scores a budget suits a growth bound better: there double has the last word */
    w->is_exact = !w->m->scores || witness || *out >= rounded - 1e-7 * (1 + fabs(rounded));
    *out = w->is_exact ? *out : rounded;
    return STET_OK;
}

static stet_status bound(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out)
{
    *out = interval_bound(w, label, other);
    double more = -INFINITY;
    if (witness) {
        TRY(ver_cnn_joint(w, label, other, witness, &more));
    } else if (strcmp(method, "gbm") == 0) {
        more = growth_bound(w, label, other, clean_margin(w, label, other));
    }
    *out = more > *out ? more : *out;
    return w->exact && *out > -INFINITY ? exact_bound(w, label, other, witness, out) : STET_OK;
}

/* Intervals are at least as tight as the window form of the growth bound. */
static const char *const methods[] = {"ibp", "joint", "gbm", "gbm-window", NULL};
const ver_kind ver_cnn = {"cnn", methods, "ibp", ver_cnn_open, bound, margin};
const ver_kind ver_s4cnn = {"s4cnn", methods, "ibp", ver_cnn_open, bound, margin};
