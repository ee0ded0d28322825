/* verify/ver_cnn.c - bounds of the TextCNN, each from its definition.
 *
 * A window's sum is a sum over words: a = b + sum over offsets l of W_l . E. Every word therefore has,
 * for each kernel, offset and filter, a product p and the sum q of its absolute terms. The float32
 * program may be wrong by g (sum of q + |b|), g = gamma of the longest path of roundings, and in that
 * form the error belongs to words too: what float32 makes of a word lies in p +- g q. So ranges below
 * are ranges of float32 values, and no separate account of the windows' rounding is needed. The
 * rounding of p itself, in double, is part of g. */
#include <stdlib.h>
#include <string.h>

#include "verify/ver_impl.h"

/* Float32 sums of less than OVERFLOWS do not overflow; what underflow loses, TINY makes up for. Beyond OVERFLOWS
 * ranges become infinite or NaN, and nothing stands. */
static const double OVERFLOWS = 1e30, TINY = 1e-30;
enum { KEPT_WORDS = 4096 }; /* products are kept from text to text up to this many words */

/* Products of a word: p[first[kernel] + l * filters + f], and q. */
typedef struct products {
    double *p, *q;
} products;

typedef struct kept {
    products *word; /* (n_words), p NULL: not computed */
    size_t n;
} kept;

/* Windows of a kernel: ranges of the float32 values, (windows, filters). */
typedef struct windows {
    size_t n, first;
    double g, g_real; /* of float32; of our own products, which stand for real arithmetic */
    double *lo, *hi;
} windows;

typedef struct state {
    windows w[VER_CNN_KERNELS];
    size_t width;
    double *y_lo, *y_hi; /* (features) after ReLU and maximum */
    double *drop;        /* scratch, (positions) */
} state;

/* ---- words -------------------------------------------------------------------------------- */

static void multiply(const ver_model *m, uint32_t word, products out)
{
    const float *e = m->table + word * m->dim;
    for (size_t i = 0; i < m->kernels; i++) {
        const size_t k = m->k[i];
        for (size_t f = 0; f < m->filters; f++)
            for (size_t l = 0; l < k; l++) {
                const float *w = m->conv_w[i] + f * m->dim * k + l;
                double p = 0, q = TINY;
                for (size_t d = 0; d < m->dim; d++) {
                    const double x = (double)w[d * k] * e[d]; /* exact */
                    p += x;
                    q += fabs(x);
                }
                out.p[l * m->filters + f] = p;
                out.q[l * m->filters + f] = q < OVERFLOWS ? q : INFINITY;
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
        products *word = k ? arena_znew(&w->keep, products, w->m->n_words) : NULL;
        if (!word)
            return STET_ENOMEM;
        k->word = word;
        w->kept = k;
    }
    for (size_t i = 0; i < t->start[t->n]; i++) {
        products *p = &k->word[t->word[i]];
        if (p->p)
            continue;
        double *both = arena_new(&w->keep, double, 2 * width);
        if (!both)
            return STET_ENOMEM;
        *p = (products){both, both + width};
        multiply(w->m, t->word[i], *p);
        k->n++;
    }
    return STET_OK;
}

static const products *word_at(const ver_work *w, size_t i)
{
    return &((const kept *)w->kept)->word[w->t->word[i]];
}

/* ---- windows ------------------------------------------------------------------------------ */

/* One window of one filter. Lower end: every word takes p - g q, the reference counts in full, and
 * what other words take beyond it counts within the budget. Upper end: the same with signs turned. */
static double window_end(const ver_work *w, size_t kernel, size_t at, size_t f, double g, double sign)
{
    const ver_model *m = w->m;
    const ver_task *t = w->t;
    const windows *win = &((const state *)w->state)->w[kernel];
    const double b = m->conv_b[kernel][f];
    double drop[64];
    size_t pos[64], n = 0;
    ver_sum s = {0};
    ver_add(&s, sign * b, g * fabs(b));
    for (size_t l = 0; l < m->k[kernel] && at + l < t->n; l++) {
        const size_t p = at + l, to = win->first + l * m->filters + f;
        double reference = 0, least = 0;
        for (size_t i = t->start[p]; i < t->start[p + 1]; i++) {
            const products *x = word_at(w, i);
            const double v = sign * x->p[to] - g * x->q[to];
            if (i == t->start[p])
                reference = least = v;
            least = v < least ? v : least;
        }
        ver_add(&s, reference, 0);
        drop[n] = least - reference;
        pos[n++] = p;
    }
    ver_add(&s, ver_within_budget(t, pos, drop, n), 0);
    return ver_lower(&s);
}

static stet_status open_windows(ver_work *w, size_t kernel)
{
    const ver_model *m = w->m;
    state *s = w->state;
    windows *win = &s->w[kernel];
    const size_t k = m->k[kernel];
    win->n = w->t->n < k ? 1 : w->t->n - k + 1; /* short texts go on with zero vectors */
    win->g_real = ver_gamma64(m->dim + k + 8);
    win->g = ver_gamma32(m->dim + k + 2) + win->g_real;
    win->lo = arena_new(&w->mem, double, win->n * m->filters);
    win->hi = arena_new(&w->mem, double, win->n * m->filters);
    if (!win->lo || !win->hi)
        return STET_ENOMEM;
    for (size_t t = 0; t < win->n; t++)
        for (size_t f = 0; f < m->filters; f++) {
            double *lo = &win->lo[t * m->filters + f], *hi = &win->hi[t * m->filters + f];
            *lo = window_end(w, kernel, t, f, win->g, 1);
            *hi = -window_end(w, kernel, t, f, win->g, -1);
            double *y_lo = &s->y_lo[kernel * m->filters + f], *y_hi = &s->y_hi[kernel * m->filters + f];
            *y_lo = *lo > *y_lo ? *lo : *y_lo;
            *y_hi = *hi > *y_hi ? *hi : *y_hi;
        }
    return STET_OK;
}

static stet_status open(ver_work *w)
{
    const ver_model *m = w->m;
    state *s = arena_znew(&w->mem, state, 1);
    if (!s)
        return STET_ENOMEM;
    w->state = s;
    for (size_t i = 0; i < m->kernels; i++) {
        s->w[i].first = s->width;
        s->width += m->k[i] * m->filters;
    }
    s->y_lo = arena_znew(&w->mem, double, m->features);
    s->y_hi = arena_znew(&w->mem, double, m->features);
    s->drop = arena_new(&w->mem, double, w->t->n);
    if (!s->y_lo || !s->y_hi || !s->drop)
        return STET_ENOMEM;
    TRY(need_words(w, s->width));
    for (size_t i = 0; i < m->kernels; i++)
        TRY(open_windows(w, i));
    return STET_OK;
}

/* ---- bounds ------------------------------------------------------------------------------- */

static double weight_of(const ver_model *m, int label, int other, size_t f)
{
    return (double)m->fc_w[(size_t)label * m->features + f] - m->fc_w[(size_t)other * m->features + f];
}

/* Bias and rounding of the last layer. */
static ver_sum head(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    ver_sum s = {0};
    ver_add(&s, m->fc_b[label], ver_head_error(m, label, other, ((const state *)w->state)->y_hi));
    ver_add(&s, -(double)m->fc_b[other], 0);
    return s;
}

static double interval_bound(const ver_work *w, int label, int other)
{
    const state *s = w->state;
    ver_sum sum = head(w, label, other);
    for (size_t f = 0; f < w->m->features; f++) {
        const double om = weight_of(w->m, label, other, f);
        ver_add(&sum, om * (om >= 0 ? s->y_lo[f] : s->y_hi[f]), 0);
    }
    return ver_lower(&sum);
}

/* Feature f's term is at least om (slope a + offset) with a the window at t: for om >= 0 its float32
 * value, for om < 0 the real one, because there the offset takes care of rounding. */
typedef struct use {
    size_t kernel, f, t;
    double slope, offset;
    double coef, g; /* om slope; what a is wrong by, relative to its size */
} use;

/* Words of all positions, within the budget, for a sum over uses of coef * a. */
static void add_words(const ver_work *w, const use *u, size_t n, ver_sum *sum)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    const ver_task *t = w->t;
    for (size_t p = 0; p < t->n; p++) {
        double reference = 0, least = 0;
        for (size_t i = t->start[p]; i < t->start[p + 1]; i++) {
            const products *x = word_at(w, i);
            ver_sum v = {0};
            for (size_t j = 0; j < n; j++) {
                if (u[j].coef == 0 || p < u[j].t || p >= u[j].t + m->k[u[j].kernel])
                    continue;
                const size_t to = s->w[u[j].kernel].first + (p - u[j].t) * m->filters + u[j].f;
                ver_add(&v, u[j].coef * x->p[to], fabs(u[j].coef) * u[j].g * x->q[to]);
            }
            const double low = ver_lower(&v);
            if (i == t->start[p])
                reference = least = low;
            least = low < least ? low : least;
        }
        ver_add(sum, reference, 0);
        s->drop[p] = least - reference;
    }
    ver_add(sum, ver_within_budget(t, NULL, s->drop, t->n), 0);
}

static stet_status read_use(const ver_model *m, const state *s, const json_t *row, use *u)
{
    const json_t *f = json_array_get(row, 0), *t = json_array_get(row, 1);
    const json_t *slope = json_array_get(row, 2), *offset = json_array_get(row, 3);
    if (json_array_size(row) != 4 || !json_is_integer(f) || !json_is_integer(t) ||
        !json_is_number(slope) || !json_is_number(offset))
        return error_set(STET_EFORMAT, "witness: expected [feature, window, slope, offset]");
    const json_int_t feature = json_integer_value(f), window = json_integer_value(t);
    if (feature < 0 || (uint64_t)feature >= m->features)
        return error_set(STET_EFORMAT, "witness: no feature %lld", (long long)feature);
    u->kernel = (size_t)feature / m->filters;
    u->f = (size_t)feature % m->filters;
    if (window < 0 || (uint64_t)window >= s->w[u->kernel].n)
        return error_set(STET_EFORMAT, "witness: no window %lld", (long long)window);
    u->t = (size_t)window;
    u->slope = json_number_value(slope);
    u->offset = json_number_value(offset);
    return STET_OK;
}

/* What float32 may get wrong about a window, whatever its words. */
static double window_error(const ver_work *w, const use *u)
{
    const ver_model *m = w->m;
    const ver_task *t = w->t;
    const windows *win = &((const state *)w->state)->w[u->kernel];
    double size = fabs((double)m->conv_b[u->kernel][u->f]);
    for (size_t l = 0; l < m->k[u->kernel] && u->t + l < t->n; l++) {
        double q = 0;
        for (size_t i = t->start[u->t + l]; i < t->start[u->t + l + 1]; i++)
            q = fmax(q, word_at(w, i)->q[win->first + l * m->filters + u->f]);
        size += q;
    }
    return win->g * size * (1 + 1e-12);
}

/* The least offset with slope a + offset >= the feature's float32 value, for every real value a of the window:
 * that is at most max(a + error, rest), where `rest` is what the other windows and the ReLU can reach.
 * The maximum is convex, so the ends of the window's real range decide. */
static double least_offset(const ver_work *w, const use *u)
{
    const size_t filters = w->m->filters;
    const windows *win = &((const state *)w->state)->w[u->kernel];
    double rest = 0;
    for (size_t t = 0; t < win->n; t++)
        if (t != u->t)
            rest = fmax(rest, win->hi[t * filters + u->f]);
    const double lo = window_end(w, u->kernel, u->t, u->f, win->g_real, 1);
    const double hi = -window_end(w, u->kernel, u->t, u->f, win->g_real, -1);
    const double error = window_error(w, u);
    const double at_lo = fmax(lo + error, rest) - u->slope * lo;
    const double at_hi = fmax(hi + error, rest) - u->slope * hi;
    const double size = (1 + fabs(u->slope)) * (fabs(lo) + fabs(hi) + error) + rest;
    return fmax(at_lo, at_hi) + ver_gamma64(8) * size;
}

/* The joint bound of the uses. What a witness gets wrong costs what it is wrong by: an offset that is too
 * small is raised, weights that sum to more than 1 pay for the excess, and a feature that is not used
 * counts with its range. So any witness gives a true bound. */
static stet_status joint_bound(ver_work *w, int label, int other, use *u, size_t n, double *out)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    double *total = arena_znew(&w->mem, double, m->features);
    if (!total)
        return STET_ENOMEM;
    ver_sum sum = head(w, label, other);
    for (use *x = u; x < u + n; x++) {
        const size_t f = x->kernel * m->filters + x->f;
        const windows *win = &s->w[x->kernel];
        const double om = weight_of(m, label, other, f), b = m->conv_b[x->kernel][x->f];
        if (om >= 0 && (!(x->slope >= 0) || x->offset != 0))
            return error_set(STET_EFORMAT, "witness: feature %zu: expected a weight >= 0 and offset 0", f);
        if (om < 0 && total[f] != 0)
            return error_set(STET_EFORMAT, "witness: feature %zu is used twice", f);
        total[f] = om < 0 ? 1 : total[f] + x->slope;
        x->coef = om * x->slope;
        x->g = om < 0 ? win->g_real : win->g;
        ver_add(&sum, x->coef * b, fabs(x->coef * b) * x->g);
        if (om < 0)
            ver_add(&sum, om * fmax(x->offset, least_offset(w, x)), 0);
    }
    for (size_t f = 0; f < m->features; f++) {
        const double om = weight_of(m, label, other, f);
        if (om < 0 && total[f] == 0)
            ver_add(&sum, om * s->y_hi[f], 0);
        if (om > 0 && ver_up(total[f]) > 1) /* ver_up: the total was rounded */
            ver_add(&sum, -om * (total[f] * (1 + ver_gamma64(n)) - 1) * s->y_hi[f], 0);
    }
    add_words(w, u, n, &sum);
    *out = ver_lower(&sum);
    return STET_OK;
}

static stet_status witness_bound(ver_work *w, int label, int other, const json_t *witness, double *out)
{
    const json_t *rows = json_object_get(witness, "use");
    if (!json_is_array(rows))
        return error_set(STET_EFORMAT, "witness: expected \"use\"");
    const size_t n = json_array_size(rows);
    use *u = arena_new(&w->mem, use, n + 1);
    if (!u)
        return STET_ENOMEM;
    for (size_t j = 0; j < n; j++)
        TRY(read_use(w->m, w->state, json_array_get(rows, j), &u[j]));
    return joint_bound(w, label, other, u, n, out);
}

/* Proposition 1: every entry of the growth bound matrix is the largest weight that any window puts on
 * the coordinate; it multiplies the largest change of the coordinate. The clean margin is the
 * interval bound of the references alone, which the caller passes. */
static double growth_bound(const ver_work *w, int label, int other, double clean)
{
    const ver_model *m = w->m;
    const state *s = w->state;
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
                    ver_add(&drop, fabs(weight_of(m, label, other, i * m->filters + f)) * most * delta, 0);
                }
        }
        s->drop[p] = -ver_up(drop.value + ver_error(&drop));
    }
    ver_add(&sum, ver_within_budget(t, NULL, s->drop, t->n), 0);
    return ver_lower(&sum);
}

/* The margin of the references in real arithmetic, less what float32 may lose on any text of the task:
 * features are wrong by at most the widest window error. */
static stet_status clean_margin(ver_work *w, int label, int other, double *out)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    const ver_task *t = w->t;
    ver_sum sum = head(w, label, other);
    for (size_t f = 0; f < m->features; f++) {
        const size_t i = f / m->filters, j = f % m->filters;
        const windows *win = &s->w[i];
        const double b = m->conv_b[i][j];
        double y = 0, error = 0;
        for (size_t at = 0; at < win->n; at++) {
            double a = b, size = fabs(b);
            for (size_t l = 0; l < m->k[i] && at + l < t->n; l++) {
                const size_t to = win->first + l * m->filters + j, p = at + l;
                double q = 0;
                for (size_t x = t->start[p]; x < t->start[p + 1]; x++)
                    q = word_at(w, x)->q[to] > q ? word_at(w, x)->q[to] : q;
                a += word_at(w, t->start[p])->p[to];
                size += q;
            }
            y = a > y ? a : y;
            error = win->g * size > error ? win->g * size : error;
        }
        const double om = weight_of(m, label, other, f);
        ver_add(&sum, om * y, fabs(om) * error * (1 + 1e-9));
    }
    *out = ver_lower(&sum);
    return STET_OK;
}

/* A joint claim without help, for a part that no witness came with, is the interval bound. */
static stet_status bound(ver_work *w, int label, int other, const char *method, const json_t *witness,
                         double *out)
{
    *out = interval_bound(w, label, other);
    double more = -INFINITY;
    if (witness) {
        TRY(witness_bound(w, label, other, witness, &more));
    } else if (strcmp(method, "gbm") == 0) {
        double clean;
        TRY(clean_margin(w, label, other, &clean));
        more = growth_bound(w, label, other, clean);
    }
    *out = more > *out ? more : *out;
    return STET_OK;
}

static const char *const methods[] = {"ibp", "gbm", "joint", NULL};
const ver_kind ver_cnn = {"cnn", methods, open, bound};
