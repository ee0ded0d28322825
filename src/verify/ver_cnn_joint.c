/* verify/ver_cnn_joint.c - the joint bound of the TextCNN, as its witness leads to it.
 *
 * A witness says by which sums over positions each feature is bounded, and with which weights. With
 * a the window at t, L its least value, d_l what the word at offset l adds to it, kappa the least
 * value of y_f:
 *
 *     low    [f, w, t]           y_f >= a
 *     over   [f, w, t]           y_f >= kappa + sum of max(0, d_l - h), h = max(0, kappa - L)
 *     cap    [f, w, t, ...]      y_f <= c + sum over the windows of max(0, a - c), no other window
 *                                exceeding c; each maximum is at most a sum over positions
 *     split  [f, w, t, [h], ..]  the same with
 *                                max(0, a - c) <= max(0, sum h - (c - L)) + sum max(0, d_l - h_l)
 *
 * What is left of 1 goes to the end of the feature's range. Any weights, windows and h give a true
 * bound. Scores of words are one more sum over positions: the same word serves them and the features. */
#include "verify/ver_cnn.h"

typedef enum entry_kind { LOW, OVER, CAP, SPLIT, ENTRY_KINDS } entry_kind;
static const char *const entry_names[ENTRY_KINDS] = {"low", "over", "cap", "split"};

typedef struct joint {
    ver_sum constant;
    ver_sum *word; /* (words) what a word at its position adds */
    double *total; /* (features) weights so far */
    bool limited;  /* the budget forbids something */
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
static stet_status read_entry(const ver_model *m, const cnn_state *s, const json_t *row,
                              entry_kind kind, joint *j)
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
            return error_set(STET_EFORMAT, "witness: feature %zu: expected a number for each tap",
                             j->f);
    }
    return STET_OK;
}

/* What float32 makes at most (sign 1) or at least (-1) of word i at offset l. */
static double word_end(const ver_work *w, const joint *j, size_t i, size_t l, double sign)
{
    const cnn_windows *win = &((const cnn_state *)w->state)->w[j->kernel];
    const size_t to = win->first + l * w->m->filters + j->filter;
    return ver_cnn_word(w, i)->p[to] + sign * win->g * ver_cnn_word(w, i)->q[to];
}

static size_t taps(const ver_work *w, size_t kernel)
{
    return w->m->k[kernel] < w->t->n ? w->m->k[kernel] : w->t->n;
}

/* A window's words: the least value of each position and what the largest adds to it; in sum the
 * window's least value. sign as in word_end. */
typedef struct spread {
    double least[64], width[64], low, widths, size;
} spread;

static void read_spread(const ver_work *w, const joint *j, size_t t, double sign, spread *x)
{
    const double b = w->m->conv_b[j->kernel][j->filter];
    *x = (spread){.low = b + sign * ((const cnn_state *)w->state)->w[j->kernel].g * fabs(b),
                  .size = fabs(b)};
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
    ver_add(&j->constant, by * b, by * fabs(b) * ((const cnn_state *)w->state)->w[j->kernel].g);
    for (size_t l = 0; l < taps(w, j->kernel); l++)
        for (size_t i = w->t->start[t + l]; i < w->t->start[t + l + 1]; i++)
            ver_add(&j->word[i], by * word_end(w, j, i, l, -1), 0);
}

static void add_over(ver_work *w, joint *j, size_t t)
{
    const double by = j->om * j->weight, kappa = ((const cnn_state *)w->state)->y_lo[j->f];
    spread x;
    read_spread(w, j, t, -1, &x);
    const double h = fmax(0, kappa - x.low), error = by * ver_gamma64(160) * (x.size + kappa);
    ver_add(&j->constant, by * kappa, 0);
    for (size_t l = 0; l < taps(w, j->kernel); l++)
        for (size_t i = w->t->start[t + l]; i < w->t->start[t + l + 1]; i++)
            ver_add(&j->word[i], by * fmax(0, word_end(w, j, i, l, -1) - x.least[l] - h), error);
}

/* One window of a cap: max(0, a - c) <= sum over positions of max(0, lambda (L - c) + d), the
 * lambda summing to 1 (Jensen). */
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

/* The same where at most m positions of the window leave their reference: max(0, a - c) <= R + sum
 * over positions of (max(0, A - c + m d(word)) - R) / m, with A the references' window, d a word's
 * change, R = max(0, A - c). */
static void add_cap_limited(ver_work *w, joint *j, size_t t, double c)
{
    const ver_task *task = w->t;
    const double by = j->om * j->weight, b = w->m->conv_b[j->kernel][j->filter];
    double at = b + ((const cnn_state *)w->state)->w[j->kernel].g * fabs(b) - c, size = fabs(b) + c;
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
    const double m = most > 1 ? (double)most : 1, rest = fmax(0, at),
                 error = fabs(by) * ver_gamma64(80) * size;
    ver_add(&j->constant, by * rest, error);
    for (size_t l = 0; l < taps(w, j->kernel); l++)
        for (size_t i = task->start[t + l] + 1; i < task->start[t + l + 1]; i++) {
            const double d = word_end(w, j, i, l, 1) - word_end(w, j, task->start[t + l], l, 1);
            ver_add(&j->word[i], by * (fmax(0, at + m * d) - rest) / m, error);
        }
}

static void add_cap(ver_work *w, joint *j, const json_t *row, entry_kind kind)
{
    const cnn_windows *win = &((const cnn_state *)w->state)->w[j->kernel];
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

static stet_status add_entries(ver_work *w, int label, int other, const json_t *witness,
                               entry_kind kind, joint *j)
{
    const json_t *rows = json_object_get(witness, entry_names[kind]);
    if (!json_is_array(rows))
        return error_set(STET_EFORMAT, "witness: expected \"%s\"", entry_names[kind]);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        TRY(read_entry(w->m, w->state, row, kind, j));
        j->om = ver_cnn_weight(w->m, label, other, j->f);
        if ((j->om < 0) != (kind >= CAP))
            return error_set(STET_EFORMAT, "witness: feature %zu is bounded on the wrong side",
                             j->f);
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

/* What the weights leave, at the end of the range. Weights that sum to more than 1 make an upper
 * bound no smaller; of a lower bound the excess is taken off. */
static void add_rest(const ver_work *w, int label, int other, joint *j)
{
    const cnn_state *s = w->state;
    for (size_t f = 0; f < w->m->features; f++) {
        const double om = ver_cnn_weight(w->m, label, other, f), rest = 1 - j->total[f];
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

stet_status ver_cnn_joint(ver_work *w, int label, int other, const json_t *witness, double *out)
{
    const ver_task *t = w->t;
    const cnn_state *s = w->state;
    joint j = {.constant = ver_cnn_head(w, label, other), .limited = is_limited(t)};
    j.word = arena_znew(&w->mem, ver_sum, t->start[t->n]);
    j.total = arena_znew(&w->mem, double, w->m->features);
    if (!j.word || !j.total)
        return STET_ENOMEM;
    for (entry_kind kind = 0; kind < ENTRY_KINDS; kind++)
        TRY(add_entries(w, label, other, witness, kind, &j));
    add_rest(w, label, other, &j);
    for (size_t i = 0; i < t->start[t->n]; i++)
        ver_add(&j.word[i], ver_score_least(w, i, label, other), 0);
    for (size_t p = 0; p < t->n; p++) {
        const double reference = ver_lower(&j.word[t->start[p]]);
        double least = reference;
        for (size_t i = t->start[p] + 1; i < t->start[p + 1]; i++)
            least = fmin(least, ver_lower(&j.word[i]));
        ver_add(&j.constant, reference, 0);
        s->drop[p] = least - reference;
    }
    ver_add(&j.constant, ver_within_budget(t, 0, s->drop, t->n), 0);
    *out = ver_lower(&j.constant);
    return STET_OK;
}
