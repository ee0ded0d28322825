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
    double g;
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
static double window_end(const ver_work *w, size_t kernel, size_t at, size_t f, double sign)
{
    const ver_model *m = w->m;
    const ver_task *t = w->t;
    const windows *win = &((const state *)w->state)->w[kernel];
    const double b = m->conv_b[kernel][f];
    double drop[64];
    size_t pos[64], n = 0;
    ver_sum s = {0};
    ver_add(&s, sign * b, win->g * fabs(b));
    for (size_t l = 0; l < m->k[kernel] && at + l < t->n; l++) {
        const size_t p = at + l, to = win->first + l * m->filters + f;
        double reference = 0, least = 0;
        for (size_t i = t->start[p]; i < t->start[p + 1]; i++) {
            const products *x = word_at(w, i);
            const double v = sign * x->p[to] - win->g * x->q[to];
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
    win->g = ver_gamma32(m->dim + k + 2) + ver_gamma64(m->dim + k + 8);
    win->lo = arena_new(&w->mem, double, win->n * m->filters);
    win->hi = arena_new(&w->mem, double, win->n * m->filters);
    if (!win->lo || !win->hi)
        return STET_ENOMEM;
    for (size_t t = 0; t < win->n; t++)
        for (size_t f = 0; f < m->filters; f++) {
            double *lo = &win->lo[t * m->filters + f], *hi = &win->hi[t * m->filters + f];
            *lo = window_end(w, kernel, t, f, 1);
            *hi = -window_end(w, kernel, t, f, -1);
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

/* ---- the joint bound ---------------------------------------------------------------------- */

/* A witness says by which sums over positions each feature is bounded, and with which weights. With a_t
 * the window at t, L its least value, d_l what the word at offset l adds to it, kappa the least value of y_f:
 *
 *     low   [f, w, t]               y_f >= a_t
 *     over  [f, w, t]               y_f >= kappa + sum of max(0, d_l - h), h = max(0, kappa - L)
 *     cap   [f, w, t, ...]          y_f <= c + sum over the windows t of max(0, a_t - c), where no other
 *                                   window exceeds c, and each maximum is at most a sum over its positions
 *     split [f, w, t, [h...], ...]  the same: max(0, a_t - c) <= max(0, sum of h - (c - L)) + sum of max(0, d_l - h_l)
 *
 * What is left of 1 goes to the end of the feature's range. Any weights, windows and h give a true bound. */
typedef enum entry_kind { LOW, OVER, CAP, SPLIT, ENTRY_KINDS } entry_kind;
static const char *const entry_names[ENTRY_KINDS] = {"low", "over", "cap", "split"};

typedef struct joint {
    ver_sum constant;
    ver_sum *word;  /* (words) what a word at its position adds */
    double *total;  /* (features) weights so far */
    bool limited;   /* the budget forbids something */
    double om, weight;
    size_t f, kernel, filter;
} joint;

static bool is_below(const json_t *v, size_t n)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && (uint64_t)json_integer_value(v) < n;
}

/* Is `v` a list of n numbers? */
static bool are_numbers(const json_t *v, size_t n)
{
    bool fine = json_array_size(v) == n;
    for (size_t i = 0; fine && i < n; i++)
        fine = json_is_number(json_array_get(v, i));
    return fine;
}

/* At least one window, none twice; each followed by its h where they are needed. */
static stet_status read_entry(const ver_model *m, const state *s, const json_t *row, entry_kind kind, joint *j)
{
    const size_t n = json_array_size(row), step = kind == SPLIT ? 2 : 1;
    const json_t *f = json_array_get(row, 0), *weight = json_array_get(row, 1);
    if (n < 2 + step || (n - 2) % step || (kind < CAP && n != 3) || !json_is_number(weight))
        return error_set(STET_EFORMAT, "witness: bad entry of \"%s\"", entry_names[kind]);
    if (!is_below(f, m->features))
        return error_set(STET_EFORMAT, "witness: no such feature");
    j->f = (size_t)json_integer_value(f);
    j->kernel = j->f / m->filters;
    j->filter = j->f % m->filters;
    j->weight = json_number_value(weight);
    if (!(j->weight >= 0 && j->weight <= 1.0000001))
        return error_set(STET_EFORMAT, "witness: feature %zu: expected a weight from 0 to 1", j->f);
    for (size_t i = 2; i < n; i += step) {
        const json_t *t = json_array_get(row, i);
        if (!is_below(t, s->w[j->kernel].n))
            return error_set(STET_EFORMAT, "witness: feature %zu has no such window", j->f);
        for (size_t k = 2; k < i; k += step)
            if (json_equal(t, json_array_get(row, k)))
                return error_set(STET_EFORMAT, "witness: feature %zu: a window twice", j->f);
        if (kind == SPLIT && !are_numbers(json_array_get(row, i + 1), m->k[j->kernel]))
            return error_set(STET_EFORMAT, "witness: feature %zu: expected a number for each tap", j->f);
    }
    return STET_OK;
}

/* What float32 makes at most (sign 1) or at least (-1) of word i at offset l. */
static double word_end(const ver_work *w, const joint *j, size_t i, size_t l, double sign)
{
    const windows *win = &((const state *)w->state)->w[j->kernel];
    const size_t to = win->first + l * w->m->filters + j->filter;
    return word_at(w, i)->p[to] + sign * win->g * word_at(w, i)->q[to];
}

static size_t taps(const ver_work *w, size_t kernel)
{
    return w->m->k[kernel] < w->t->n ? w->m->k[kernel] : w->t->n;
}

/* A window's words: the least value of each position and what the largest adds to it; in sum the window's
 * least value. sign as in word_end. */
typedef struct spread {
    double least[64], width[64], low, widths, size;
} spread;

static void read_spread(const ver_work *w, const joint *j, size_t t, double sign, spread *x)
{
    const double b = w->m->conv_b[j->kernel][j->filter];
    *x = (spread){.low = b + sign * ((const state *)w->state)->w[j->kernel].g * fabs(b), .size = fabs(b)};
    for (size_t l = 0; l < taps(w, j->kernel); l++) {
        double most = x->least[l] = word_end(w, j, w->t->start[t + l], l, sign);
        for (size_t i = w->t->start[t + l]; i < w->t->start[t + l + 1]; i++) {
            x->least[l] = fmin(x->least[l], word_end(w, j, i, l, sign));
            most = fmax(most, word_end(w, j, i, l, sign));
        }
        x->width[l] = most - x->least[l];
        x->widths += x->width[l];
        x->low += x->least[l];
        x->size += fmax(fabs(x->least[l]), fabs(most));
    }
}

static void add_low(ver_work *w, joint *j, size_t t)
{
    const double by = j->om * j->weight, b = w->m->conv_b[j->kernel][j->filter];
    ver_add(&j->constant, by * b, by * fabs(b) * ((const state *)w->state)->w[j->kernel].g);
    for (size_t l = 0; l < taps(w, j->kernel); l++)
        for (size_t i = w->t->start[t + l]; i < w->t->start[t + l + 1]; i++)
            ver_add(&j->word[i], by * word_end(w, j, i, l, -1), 0);
}

static void add_over(ver_work *w, joint *j, size_t t)
{
    const double by = j->om * j->weight, kappa = ((const state *)w->state)->y_lo[j->f];
    spread x;
    read_spread(w, j, t, -1, &x);
    const double h = fmax(0, kappa - x.low), error = by * ver_gamma64(160) * (x.size + kappa);
    ver_add(&j->constant, by * kappa, 0);
    for (size_t l = 0; l < taps(w, j->kernel); l++)
        for (size_t i = w->t->start[t + l]; i < w->t->start[t + l + 1]; i++)
            ver_add(&j->word[i], by * fmax(0, word_end(w, j, i, l, -1) - x.least[l] - h), error);
}

/* One window of a cap: max(0, a - c) <= sum over positions of max(0, lambda (L - c) + d), the lambda summing
 * to 1 (Jensen). */
static void add_cap_window(ver_work *w, joint *j, size_t t, double c)
{
    const ver_task *task = w->t;
    const double by = j->om * j->weight;
    spread x;
    read_spread(w, j, t, 1, &x);
    const double low = x.low - c, error = fabs(by) * ver_gamma64(160) * (x.size + c);
    if (x.widths == 0)
        ver_add(&j->constant, by * fmax(0, low), error);
    for (size_t l = 0; l < taps(w, j->kernel) && x.widths > 0; l++)
        for (size_t i = task->start[t + l]; i < task->start[t + l + 1] && x.width[l] > 0; i++) {
            const double d = word_end(w, j, i, l, 1) - x.least[l];
            ver_add(&j->word[i], by * fmax(0, x.width[l] / x.widths * low + d), error);
        }
}

static void add_split_window(ver_work *w, joint *j, size_t t, const json_t *list, double c)
{
    const double by = j->om * j->weight;
    spread x;
    read_spread(w, j, t, 1, &x);
    double first = x.low - c, size = x.size + c;
    for (size_t l = 0; l < taps(w, j->kernel); l++) {
        first += json_number_value(json_array_get(list, l));
        size += fabs(json_number_value(json_array_get(list, l)));
    }
    const double error = fabs(by) * ver_gamma64(160) * size;
    ver_add(&j->constant, by * fmax(0, first), error);
    for (size_t l = 0; l < taps(w, j->kernel); l++) {
        const double h = json_number_value(json_array_get(list, l));
        for (size_t i = w->t->start[t + l]; i < w->t->start[t + l + 1]; i++)
            ver_add(&j->word[i], by * fmax(0, word_end(w, j, i, l, 1) - x.least[l] - h), error);
    }
}

/* The same where at most m positions of the window leave their reference: max(0, a - c) <= R + sum over positions of
 * (max(0, A - c + m d(word)) - R) / m, with A the references' window, d a word's change, R = max(0, A - c). */
static void add_cap_limited(ver_work *w, joint *j, size_t t, double c)
{
    const ver_task *task = w->t;
    const double by = j->om * j->weight, b = w->m->conv_b[j->kernel][j->filter];
    double at = b + ((const state *)w->state)->w[j->kernel].g * fabs(b) - c, size = fabs(b) + c;
    size_t choices = 0, unpaid = 0;
    for (size_t l = 0; l < taps(w, j->kernel); l++) {
        const size_t first = task->start[t + l];
        const bool choice = task->start[t + l + 1] - first > 1;
        at += word_end(w, j, first, l, 1);
        for (size_t i = first; i < task->start[t + l + 1]; i++)
            size += fabs(word_end(w, j, i, l, 1));
        choices += choice;
        unpaid += choice && task->unpaid[t + l];
    }
    const size_t most = choices - unpaid < task->budget ? choices : task->budget + unpaid;
    const double m = most > 1 ? (double)most : 1, rest = fmax(0, at), error = fabs(by) * ver_gamma64(80) * size;
    ver_add(&j->constant, by * rest, error);
    for (size_t l = 0; l < taps(w, j->kernel); l++)
        for (size_t i = task->start[t + l] + 1; i < task->start[t + l + 1]; i++) {
            const double d = word_end(w, j, i, l, 1) - word_end(w, j, task->start[t + l], l, 1);
            ver_add(&j->word[i], by * (fmax(0, at + m * d) - rest) / m, error);
        }
}

static void add_cap(ver_work *w, joint *j, const json_t *row, entry_kind kind)
{
    const windows *win = &((const state *)w->state)->w[j->kernel];
    const size_t n = json_array_size(row), step = kind == SPLIT ? 2 : 1;
    double c = 0;
    for (size_t t = 0; t < win->n; t++) {
        bool named = false;
        for (size_t i = 2; i < n; i += step)
            named = named || (size_t)json_integer_value(json_array_get(row, i)) == t;
        c = named ? c : fmax(c, win->hi[t * w->m->filters + j->filter]);
    }
    ver_add(&j->constant, j->om * j->weight * c, 0);
    for (size_t i = 2; i < n; i += step) {
        const size_t t = (size_t)json_integer_value(json_array_get(row, i));
        if (kind == SPLIT)
            add_split_window(w, j, t, json_array_get(row, i + 1), c);
        else if (j->limited)
            add_cap_limited(w, j, t, c);
        else
            add_cap_window(w, j, t, c);
    }
}

static stet_status add_entries(ver_work *w, int label, int other, const json_t *witness, entry_kind kind, joint *j)
{
    const json_t *rows = json_object_get(witness, entry_names[kind]);
    if (!json_is_array(rows))
        return error_set(STET_EFORMAT, "witness: expected \"%s\"", entry_names[kind]);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        TRY(read_entry(w->m, w->state, row, kind, j));
        j->om = weight_of(w->m, label, other, j->f);
        if ((j->om < 0) != (kind >= CAP))
            return error_set(STET_EFORMAT, "witness: feature %zu is bounded on the wrong side", j->f);
        j->total[j->f] += j->weight;
        const size_t t = (size_t)json_integer_value(json_array_get(row, 2));
        if (kind == LOW)
            add_low(w, j, t);
        else if (kind == OVER)
            add_over(w, j, t);
        else
            add_cap(w, j, row, kind);
    }
    return STET_OK;
}

/* What the weights leave, at the end of the range. Weights that sum to more than 1 make an upper bound no
 * smaller; of a lower bound the excess is taken off. */
static void add_rest(const ver_work *w, int label, int other, joint *j)
{
    const state *s = w->state;
    for (size_t f = 0; f < w->m->features; f++) {
        const double om = weight_of(w->m, label, other, f), rest = 1 - j->total[f];
        const double error = fabs(om) * 0x1p-40 * s->y_hi[f]; /* of the sum of weights */
        if (om < 0)
            ver_add(&j->constant, om * fmax(0, rest) * s->y_hi[f], error);
        else
            ver_add(&j->constant, om * rest * (rest >= 0 ? s->y_lo[f] : s->y_hi[f]), error);
    }
}

static bool is_limited(const ver_task *t)
{
    size_t paid = 0;
    for (size_t p = 0; p < t->n; p++)
        paid += t->start[p + 1] - t->start[p] > 1 && !t->unpaid[p];
    return t->budget < paid;
}

static stet_status joint_bound(ver_work *w, int label, int other, const json_t *witness, double *out)
{
    const ver_task *t = w->t;
    const state *s = w->state;
    joint j = {.constant = head(w, label, other), .limited = is_limited(t)};
    j.word = arena_znew(&w->mem, ver_sum, t->start[t->n]);
    j.total = arena_znew(&w->mem, double, w->m->features);
    if (!j.word || !j.total)
        return STET_ENOMEM;
    for (entry_kind kind = 0; kind < ENTRY_KINDS; kind++)
        TRY(add_entries(w, label, other, witness, kind, &j));
    add_rest(w, label, other, &j);
    for (size_t p = 0; p < t->n; p++) {
        const double reference = ver_lower(&j.word[t->start[p]]);
        double least = reference;
        for (size_t i = t->start[p] + 1; i < t->start[p + 1]; i++)
            least = fmin(least, ver_lower(&j.word[i]));
        ver_add(&j.constant, reference, 0);
        s->drop[p] = least - reference;
    }
    ver_add(&j.constant, ver_within_budget(t, NULL, s->drop, t->n), 0);
    *out = ver_lower(&j.constant);
    return STET_OK;
}

/* ---- growth bounds ------------------------------------------------------------------------ */

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

static stet_status bound(ver_work *w, int label, int other, const char *method, const json_t *witness,
                         double *out)
{
    *out = interval_bound(w, label, other);
    double more = -INFINITY;
    if (witness) {
        TRY(joint_bound(w, label, other, witness, &more));
    } else if (strcmp(method, "gbm") == 0) {
        double clean;
        TRY(clean_margin(w, label, other, &clean));
        more = growth_bound(w, label, other, clean);
    }
    *out = more > *out ? more : *out;
    return STET_OK;
}

/* Intervals are at least as tight as the window form of the growth bound. */
static const char *const methods[] = {"ibp", "joint", "gbm", "gbm-window", NULL};
const ver_kind ver_cnn = {"cnn", methods, "ibp", open, bound};
