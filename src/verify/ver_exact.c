/* verify/ver_exact.c - see ver_exact.h.
 *
 * Weights and vectors are float32, so every product and every sum of products is an integer times a
 * power of two, and what float32 may make of it is p +- gamma q with gamma = n / (2^24 - n), a fraction.
 * One feature is looked at after the other: the values of all its words, over the common denominator
 * 2^298 (2^24 - n), then its windows, its range, and its share of the bound. Nothing is rounded. The
 * formulas are those of ver_cnn.c and ver_cnn_joint.c; lambda of a cap may be any numbers that sum to 1
 * and is taken as a multiple of 2^-60. */
#include "verify/ver_exact.h"

#include <gmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    ONE = 149,
    TWO = 2 * ONE,
    TINY = TWO - 100
}; /* 2^-149 is the smallest float; TINY: 2^-100 */

typedef struct exact {
    const ver_work *w;
    const ver_task *t;
    int label, other;
    const json_t *witness;
    bool limited;
    size_t words;
    /* of the feature at work */
    size_t kernel, filter, k, windows;
    mpz_t n, M;       /* gamma = n / M */
    mpq_t unit;       /* 2^-298 / M: what one is worth */
    mpz_t *lo, *hi;   /* (words, k) of float32's word at a tap */
    mpz_t b_lo, b_hi; /* of its bias */
    mpz_t *end;       /* (windows) upper ends */
    mpz_t y_lo, y_hi, x, y, z;
    /* of the bound */
    mpq_t om, by, sum, head, q, r;
    mpq_t *word; /* (words) what a word at its position adds */
    mpq_t *drop; /* (positions) */
} exact;

/* ---- numbers ------------------------------------------------------------------------------ */

static mpz_t *new_integers(size_t n)
{
    mpz_t *x = mem_alloc(n + 1, sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        mpz_init(x[i]);
    return x;
}

static void free_integers(mpz_t *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        mpz_clear(x[i]);
    mem_free(x);
}

static mpq_t *new_fractions(size_t n)
{
    mpq_t *x = mem_alloc(n + 1, sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        mpq_init(x[i]);
    return x;
}

static void free_fractions(mpq_t *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        mpq_clear(x[i]);
    mem_free(x);
}

/* x = f 2^shift for a float and a shift of at least ONE. */
static void set_float(mpz_t x, float f, unsigned long shift)
{
    mpz_set_d(x, ldexp((double)f, ONE));
    mpz_mul_2exp(x, x, shift - ONE);
}

/* Onto p the sum of products of floats, onto q that of their absolute values, times 2^(TWO + 48). A
 * product of two mantissas has 48 bits; those with the same exponent are added up as integers first. */
static void add_products(const float *a, size_t stride, const float *b, size_t n, mpz_t p, mpz_t q,
                         mpz_t x)
{
    enum { EXPONENTS = 2 * (128 + ONE) + 1 };
    int64_t sum[EXPONENTS] = {0}, size[EXPONENTS] = {0};
    for (size_t i = 0; i < n; i++) {
        int ea, eb; /* a = ma 2^(ea - 24) */
        const int64_t ma = (int64_t)ldexp(frexp((double)a[i * stride], &ea), 24),
                      mb = (int64_t)ldexp(frexp((double)b[i], &eb), 24);
        const int at = ma && mb ? ea + eb + TWO : 0;
        sum[at] += ma * mb;
        size[at] += ma * mb < 0 ? -ma * mb : ma * mb;
    }
    for (unsigned long e = 0; e < EXPONENTS; e++) {
        if (!size[e])
            continue;
        mpz_set_si(x, sum[e]);
        mpz_mul_2exp(x, x, e);
        mpz_add(p, p, x);
        mpz_set_si(x, size[e]);
        mpz_mul_2exp(x, x, e);
        mpz_add(q, q, x);
    }
}

/* The sum of products, and of their sizes, times 2^TWO: integers, no product being finer. */
static void dot(const float *a, size_t stride, const float *b, size_t n, mpz_t p, mpz_t q, mpz_t x)
{
    enum { SOME = 1 << 14 }; /* so many products of 48 bits fit 63 */
    mpz_set_ui(p, 0);
    mpz_set_ui(q, 0);
    for (size_t i = 0; i < n; i += SOME)
        add_products(a + i * stride, stride, b + i, n - i < SOME ? n - i : SOME, p, q, x);
    mpz_fdiv_q_2exp(p, p, 48);
    mpz_fdiv_q_2exp(q, q, 48);
}

/* by * x * unit onto a sum. */
static void add_to(exact *e, mpq_t sum, const mpq_t by, const mpz_t x)
{
    mpq_set_z(e->q, x);
    mpq_mul(e->q, e->q, e->unit);
    mpq_mul(e->q, e->q, by);
    mpq_add(sum, sum, e->q);
}

/* ---- a feature's words and windows -------------------------------------------------------- */

static mpz_t *value(const exact *e, mpz_t *of, size_t i, size_t l)
{
    return &of[i * e->k + l];
}

static size_t taps(const exact *e)
{
    return e->k < e->t->n ? e->k : e->t->n;
}

/* lo = p M - n q, hi = p M + n q, for x = p, y = q */
static void put_range(exact *e, mpz_t lo, mpz_t hi)
{
    mpz_mul(e->x, e->x, e->M);
    mpz_mul(e->y, e->y, e->n);
    mpz_sub(lo, e->x, e->y);
    mpz_add(hi, e->x, e->y);
}

static void read_feature(exact *e, size_t f)
{
    const ver_model *m = e->w->m;
    e->kernel = f / m->filters;
    e->filter = f % m->filters;
    e->k = m->k[e->kernel];
    e->windows = e->t->n < e->k ? 1 : e->t->n - e->k + 1;
    mpz_set_ui(e->n, m->dim * e->k + 2);
    mpz_ui_pow_ui(e->M, 2, 24);
    mpz_sub(e->M, e->M, e->n);
    mpz_set_ui(mpq_numref(e->unit), 1);
    mpz_mul_2exp(mpq_denref(e->unit), e->M, TWO);
    for (size_t i = 0; i < e->words; i++)
        for (size_t l = 0; l < e->k; l++) {
            dot(m->conv_w[e->kernel] + e->filter * m->dim * e->k + l, e->k,
                m->table + e->t->word[i] * m->dim, m->dim, e->x, e->y, e->z);
            mpz_set_ui(e->z, 1);
            mpz_mul_2exp(e->z, e->z, TINY);
            mpz_add(e->y, e->y, e->z);
            put_range(e, *value(e, e->lo, i, l), *value(e, e->hi, i, l));
        }
    set_float(e->x, m->conv_b[e->kernel][e->filter], TWO);
    mpz_abs(e->y, e->x);
    put_range(e, e->b_lo, e->b_hi);
    const float *a = m->fc_w + (size_t)e->label * m->features,
                *b = m->fc_w + (size_t)e->other * m->features;
    set_float(e->x, a[f], ONE);
    set_float(e->y, b[f], ONE);
    mpz_sub(mpq_numref(e->om), e->x, e->y);
    mpz_set_ui(mpq_denref(e->om), 1);
    mpq_div_2exp(e->om, e->om, ONE);
}

static int rising(const void *a, const void *b)
{
    return mpz_cmp(*(const mpz_t *)a, *(const mpz_t *)b);
}

/* The window's end: lower (sign 1, of lo), or upper with all signs turned (sign -1, of hi). */
static void window_end(exact *e, mpz_t *of, mpz_t bias, size_t at, int sign, mpz_t out)
{
    const ver_task *t = e->t;
    mpz_t drop[64];
    size_t n = 0;
    mpz_set(out, bias);
    for (size_t l = 0; l < e->k && at + l < t->n; l++) {
        const size_t first = t->start[at + l];
        mpz_set(e->x, *value(e, of, first, l)); /* the worst word */
        for (size_t i = first; i < t->start[at + l + 1]; i++)
            if (sign * mpz_cmp(*value(e, of, i, l), e->x) < 0)
                mpz_set(e->x, *value(e, of, i, l));
        mpz_add(out, out, *value(e, of, first, l));
        mpz_sub(e->x, e->x, *value(e, of, first, l));
        if (t->budget == VER_ANY || t->unpaid[at + l]) {
            mpz_add(out, out, e->x);
        } else {
            mpz_init(drop[n]);
            mpz_mul_si(drop[n++], e->x, sign);
        }
    }
    qsort(drop, n, sizeof *drop, rising);
    for (size_t i = 0; i < n; i++) {
        mpz_mul_si(e->x, drop[i], sign);
        if (i < t->budget)
            mpz_add(out, out, e->x);
        mpz_clear(drop[i]);
    }
}

static void read_windows(exact *e)
{
    mpz_set_ui(e->y_lo, 0);
    mpz_set_ui(e->y_hi, 0);
    for (size_t at = 0; at < e->windows; at++) {
        window_end(e, e->lo, e->b_lo, at, 1, e->y);
        if (mpz_cmp(e->y, e->y_lo) > 0)
            mpz_set(e->y_lo, e->y);
        window_end(e, e->hi, e->b_hi, at, -1, e->end[at]);
        if (mpz_cmp(e->end[at], e->y_hi) > 0)
            mpz_set(e->y_hi, e->end[at]);
    }
}

/* ---- the witness -------------------------------------------------------------------------- */

/* Least value of the words at a tap into e->x. */
static void least_at(exact *e, mpz_t *of, size_t at, size_t l)
{
    const uint32_t *start = e->t->start + at + l;
    mpz_set(e->x, *value(e, of, start[0], l));
    for (size_t i = start[0]; i < start[1]; i++)
        if (mpz_cmp(*value(e, of, i, l), e->x) < 0)
            mpz_set(e->x, *value(e, of, i, l));
}

/* The window's least value, from the least of each tap, into e->z. */
static void least_window(exact *e, mpz_t *of, const mpz_t bias, size_t at)
{
    mpz_set(e->z, bias);
    for (size_t l = 0; l < taps(e); l++) {
        least_at(e, of, at, l);
        mpz_add(e->z, e->z, e->x);
    }
}

/* by * max(0, e->y) onto the sum. */
static void add_positive(exact *e, mpq_t sum)
{
    if (mpz_sgn(e->y) > 0)
        add_to(e, sum, e->by, e->y);
}

static void add_low(exact *e, size_t at)
{
    add_to(e, e->sum, e->by, e->b_lo);
    for (size_t l = 0; l < taps(e); l++)
        for (size_t i = e->t->start[at + l]; i < e->t->start[at + l + 1]; i++)
            add_to(e, e->word[i], e->by, *value(e, e->lo, i, l));
}

static void add_over(exact *e, size_t at)
{
    mpz_t h;
    least_window(e, e->lo, e->b_lo, at);
    mpz_init(h);
    mpz_sub(h, e->y_lo, e->z);
    if (mpz_sgn(h) < 0)
        mpz_set_ui(h, 0);
    add_to(e, e->sum, e->by, e->y_lo);
    for (size_t l = 0; l < taps(e); l++) {
        least_at(e, e->lo, at, l);
        for (size_t i = e->t->start[at + l]; i < e->t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *value(e, e->lo, i, l), e->x);
            mpz_sub(e->y, e->y, h);
            add_positive(e, e->word[i]);
        }
    }
    mpz_clear(h);
}

/* How far the words of a tap differ, into e->y. */
static void width_at(exact *e, size_t at, size_t l)
{
    least_at(e, e->hi, at, l);
    mpz_set(e->y, e->x);
    for (size_t i = e->t->start[at + l]; i < e->t->start[at + l + 1]; i++)
        if (mpz_cmp(*value(e, e->hi, i, l), e->y) > 0)
            mpz_set(e->y, *value(e, e->hi, i, l));
    mpz_sub(e->y, e->y, e->x);
}

/* lambda in multiples of 2^-60, by the widths; the last tap that has a width takes what is left. */
static bool shares(exact *e, size_t at, int64_t *lambda)
{
    size_t last = SIZE_MAX;
    int64_t left = INT64_C(1) << 60;
    mpz_t widths;
    mpz_init(widths);
    for (size_t l = 0; l < taps(e); l++) {
        width_at(e, at, l);
        mpz_add(widths, widths, e->y);
    }
    for (size_t l = 0; l < taps(e); l++) {
        lambda[l] = 0;
        width_at(e, at, l);
        if (mpz_sgn(e->y) == 0)
            continue;
        mpz_mul_2exp(e->y, e->y, 60);
        mpz_fdiv_q(e->y, e->y, widths);
        lambda[l] = mpz_get_si(e->y);
        left -= lambda[l];
        last = l;
    }
    if (last < SIZE_MAX)
        lambda[last] += left;
    mpz_clear(widths);
    return last < SIZE_MAX;
}

static void add_cap(exact *e, size_t at, const mpz_t c)
{
    int64_t lambda[64];
    const bool differ = shares(e, at, lambda);
    mpz_t low;
    least_window(e, e->hi, e->b_hi, at);
    mpz_init(low);
    mpz_sub(low, e->z, c);
    if (!differ) {
        mpz_set(e->y, low);
        add_positive(e, e->sum);
    }
    for (size_t l = 0; l < taps(e) && differ; l++) {
        width_at(e, at, l);
        if (mpz_sgn(e->y) == 0)
            continue;
        for (size_t i = e->t->start[at + l]; i < e->t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *value(e, e->hi, i, l), e->x); /* x: the least, from width_at */
            mpz_mul_2exp(e->y, e->y, 60);
            mpz_set(e->z, low);
            mpz_mul_si(e->z, e->z, lambda[l]);
            mpz_add(e->y, e->y, e->z);
            if (mpz_sgn(e->y) <= 0)
                continue;
            mpq_div_2exp(e->r, e->by, 60);
            add_to(e, e->word[i], e->r, e->y);
        }
    }
    mpz_clear(low);
}

/* h, a double, over the feature's denominator: rounded up to it, which is as good as any h. */
static void set_share(exact *e, mpz_t out, double h)
{
    mpq_set_d(e->r, h);
    mpq_div(e->r, e->r, e->unit);
    mpz_cdiv_q(out, mpq_numref(e->r), mpq_denref(e->r));
}

static void add_split(exact *e, size_t at, const json_t *list, const mpz_t c)
{
    mpz_t h, first;
    mpz_init(h);
    mpz_init(first);
    least_window(e, e->hi, e->b_hi, at);
    mpz_sub(first, e->z, c);
    for (size_t l = 0; l < taps(e); l++) {
        set_share(e, h, json_number_value(json_array_get(list, l)));
        mpz_add(first, first, h);
        least_at(e, e->hi, at, l);
        for (size_t i = e->t->start[at + l]; i < e->t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *value(e, e->hi, i, l), e->x);
            mpz_sub(e->y, e->y, h);
            add_positive(e, e->word[i]);
        }
    }
    mpz_set(e->y, first);
    add_positive(e, e->sum);
    mpz_clear(h);
    mpz_clear(first);
}

static void add_cap_limited(exact *e, size_t at, const mpz_t c)
{
    const ver_task *t = e->t;
    size_t choices = 0, unpaid = 0;
    mpz_t full, rest;
    mpz_init_set(full, e->b_hi);
    mpz_sub(full, full, c);
    for (size_t l = 0; l < taps(e); l++) {
        const bool choice = t->start[at + l + 1] - t->start[at + l] > 1;
        mpz_add(full, full, *value(e, e->hi, t->start[at + l], l));
        choices += choice;
        unpaid += choice && t->unpaid[at + l];
    }
    size_t most = choices - unpaid < t->budget ? choices : t->budget + unpaid;
    most = most > 1 ? most : 1;
    mpz_init_set(rest, full);
    if (mpz_sgn(rest) < 0)
        mpz_set_ui(rest, 0);
    add_to(e, e->sum, e->by, rest);
    for (size_t l = 0; l < taps(e); l++)
        for (size_t i = t->start[at + l] + 1; i < t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *value(e, e->hi, i, l), *value(e, e->hi, t->start[at + l], l));
            mpz_mul_ui(e->y, e->y, most);
            mpz_add(e->y, e->y, full);
            if (mpz_sgn(e->y) < 0)
                mpz_set_ui(e->y, 0);
            mpz_sub(e->y, e->y, rest);
            mpq_set_ui(e->r, 1, most);
            mpq_mul(e->r, e->r, e->by);
            add_to(e, e->word[i], e->r, e->y);
        }
    mpz_clear(full);
    mpz_clear(rest);
}

/* One row of "cap" or "split": c is what no window exceeds that the row does not name. */
static void add_caps(exact *e, const json_t *row, size_t step)
{
    const size_t n = json_array_size(row);
    mpz_t c;
    mpz_init(c);
    for (size_t at = 0; at < e->windows; at++) {
        bool named = false;
        for (size_t i = 2; i < n; i += step)
            named = named || (size_t)json_integer_value(json_array_get(row, i)) == at;
        if (!named && mpz_cmp(e->end[at], c) > 0)
            mpz_set(c, e->end[at]);
    }
    add_to(e, e->sum, e->by, c);
    for (size_t i = 2; i < n; i += step) {
        const size_t at = (size_t)json_integer_value(json_array_get(row, i));
        if (step == 2)
            add_split(e, at, json_array_get(row, i + 1), c);
        else if (e->limited)
            add_cap_limited(e, at, c);
        else
            add_cap(e, at, c);
    }
    mpz_clear(c);
}

/* The rows of feature f; what their weights leave of 1 into e->r. */
static void add_rows(exact *e, size_t f)
{
    static const char *const names[] = {"low", "over", "cap", "split"};
    mpq_t weight, rest;
    mpq_init(weight);
    mpq_init(rest);
    mpq_set_ui(rest, 1, 1);
    for (int kind = 0; kind < 4 && e->witness; kind++) {
        const json_t *rows = json_object_get(e->witness, names[kind]);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            if ((size_t)json_integer_value(json_array_get(row, 0)) != f)
                continue;
            const size_t at = (size_t)json_integer_value(json_array_get(row, 2));
            mpq_set_d(weight, json_number_value(json_array_get(row, 1)));
            mpq_sub(rest, rest, weight);
            mpq_mul(e->by, e->om, weight);
            if (kind == 0)
                add_low(e, at);
            else if (kind == 1)
                add_over(e, at);
            else
                add_caps(e, row, kind == 3 ? 2 : 1);
        }
    }
    mpq_set(e->r, rest);
    mpq_clear(weight);
    mpq_clear(rest);
}

/* ---- the bound ---------------------------------------------------------------------------- */

static void add_feature(exact *e, size_t f)
{
    const ver_model *m = e->w->m;
    read_feature(e, f);
    read_windows(e);
    add_rows(e, f);
    const int sign = mpq_sgn(e->om);
    if (sign < 0 && mpq_sgn(e->r) < 0)
        mpq_set_ui(e->r, 0, 1);
    const bool low = sign >= 0 && mpq_sgn(e->r) >= 0;
    mpq_mul(e->by, e->om, e->r);
    add_to(e, e->sum, e->by, low ? e->y_lo : e->y_hi);
    set_float(e->x, fabsf(m->fc_w[(size_t)e->label * m->features + f]), ONE);
    set_float(e->y, fabsf(m->fc_w[(size_t)e->other * m->features + f]), ONE);
    mpz_add(mpq_numref(e->by), e->x, e->y);
    mpz_set_ui(mpq_denref(e->by), 1);
    mpq_div_2exp(e->by, e->by, ONE);
    add_to(e, e->head, e->by, e->y_hi);
}

/* Biases of the last layer: their difference, and their sizes for its rounding. */
static void add_head(exact *e)
{
    const ver_model *m = e->w->m;
    const unsigned long n = m->features + (m->scores ? 3 : 2);
    mpq_set_d(e->q, (double)m->fc_b[e->label]);
    mpq_add(e->sum, e->sum, e->q);
    mpq_abs(e->q, e->q);
    mpq_add(e->head, e->head, e->q);
    mpq_set_d(e->q, (double)m->fc_b[e->other]);
    mpq_sub(e->sum, e->sum, e->q);
    mpq_abs(e->q, e->q);
    mpq_add(e->head, e->head, e->q);
    mpq_set_ui(e->q, n, (1UL << 24) - n);
    mpq_canonicalize(e->q);
    mpq_mul(e->head, e->head, e->q);
    mpq_set_d(e->q, 0x1p-100);
    mpq_add(e->head, e->head, e->q);
    mpq_sub(e->sum, e->sum, e->head);
}

/* Fractions on both sides of 1 / sqrt n. */
static void share_of(exact *e, size_t n, mpq_t lo, mpq_t hi)
{
    const double near = 1 / sqrt((double)n);
    mpq_t square, one;
    mpq_inits(square, one, NULL);
    mpq_set_ui(one, 1, 1);
    mpq_set_ui(e->q, n, 1);
    for (int side = 0; side < 2; side++) {
        double x = near;
        int beyond;
        do { /* a step or two */
            x = side ? ver_up(x) : ver_down(x);
            mpq_set_d(side ? hi : lo, x);
            mpq_mul(square, side ? hi : lo, side ? hi : lo);
            mpq_mul(square, square, e->q);
            beyond = mpq_cmp(square, one);
        } while (side ? beyond < 0 : beyond > 0);
    }
    mpq_clears(square, one, NULL);
}

/* Scores of words: what float32 makes of each at least, as ver_scores.h has it. */
static void add_scores(exact *e)
{
    const ver_model *m = e->w->m;
    const unsigned long n = e->t->n + 5;
    if (!m->scores)
        return;
    mpq_t lo, hi, wrong;
    mpq_inits(lo, hi, wrong, NULL);
    share_of(e, e->t->n, lo, hi);
    mpq_set_ui(wrong, n, (1UL << 24) - n);
    mpq_canonicalize(wrong);
    mpq_mul(wrong, wrong, hi);
    for (size_t i = 0; i < e->words; i++) {
        const float *s = m->scores + e->t->word[i] * m->classes;
        mpq_set_d(e->q, (double)s[e->label]);
        mpq_set_d(e->r, (double)s[e->other]);
        mpq_sub(e->by, e->q, e->r);
        mpq_mul(e->by, e->by, mpq_sgn(e->by) < 0 ? hi : lo);
        mpq_add(e->word[i], e->word[i], e->by);
        mpq_abs(e->q, e->q);
        mpq_abs(e->r, e->r);
        mpq_add(e->q, e->q, e->r);
        mpq_mul(e->q, e->q, wrong);
        mpq_sub(e->word[i], e->word[i], e->q);
        mpq_set_d(e->q, 0x1p-100);
        mpq_sub(e->word[i], e->word[i], e->q);
    }
    mpq_clears(lo, hi, wrong, NULL);
}

static int rising_fraction(const void *a, const void *b)
{
    return mpq_cmp(*(const mpq_t *)a, *(const mpq_t *)b);
}

/* Every position takes its worst word, within the budget. */
static void add_words(exact *e)
{
    const ver_task *t = e->t;
    size_t n = 0;
    for (size_t p = 0; p < t->n; p++) {
        const size_t first = t->start[p];
        mpq_set(e->q, e->word[first]);
        for (size_t i = first; i < t->start[p + 1]; i++)
            if (mpq_cmp(e->word[i], e->q) < 0)
                mpq_set(e->q, e->word[i]);
        mpq_add(e->sum, e->sum, e->word[first]);
        mpq_sub(e->q, e->q, e->word[first]);
        if (t->budget == VER_ANY || t->unpaid[p])
            mpq_add(e->sum, e->sum, e->q);
        else
            mpq_set(e->drop[n++], e->q);
    }
    qsort(e->drop, n, sizeof *e->drop, rising_fraction);
    for (size_t i = 0; i < n && i < t->budget; i++)
        mpq_add(e->sum, e->sum, e->drop[i]);
}

bool ver_exact_here(void)
{
    return true;
}

stet_status ver_exact_cnn(const ver_work *w, int label, int other, const json_t *witness,
                          double *out)
{
    const ver_task *t = w->t;
    exact e = {.w = w,
               .t = t,
               .label = label,
               .other = other,
               .witness = witness,
               .words = t->start[t->n]};
    size_t paid = 0, k = 1;
    for (size_t p = 0; p < t->n; p++)
        paid += t->start[p + 1] - t->start[p] > 1 && !t->unpaid[p];
    e.limited = t->budget < paid;
    for (size_t i = 0; i < w->m->kernels; i++)
        k = w->m->k[i] > k ? w->m->k[i] : k;
    e.lo = new_integers(e.words * k);
    e.hi = new_integers(e.words * k);
    e.end = new_integers(t->n);
    e.word = new_fractions(e.words);
    e.drop = new_fractions(t->n);
    const bool room = e.lo && e.hi && e.end && e.word && e.drop;
    mpz_inits(e.n, e.M, e.b_lo, e.b_hi, e.y_lo, e.y_hi, e.x, e.y, e.z, NULL);
    mpq_inits(e.unit, e.om, e.by, e.sum, e.head, e.q, e.r, NULL);
    if (room) {
        for (size_t f = 0; f < w->m->features; f++)
            add_feature(&e, f);
        add_head(&e);
        add_scores(&e);
        add_words(&e);
        *out = ver_down(mpq_get_d(e.sum));
    }
    mpz_clears(e.n, e.M, e.b_lo, e.b_hi, e.y_lo, e.y_hi, e.x, e.y, e.z, NULL);
    mpq_clears(e.unit, e.om, e.by, e.sum, e.head, e.q, e.r, NULL);
    free_integers(e.lo, e.words * k);
    free_integers(e.hi, e.words * k);
    free_integers(e.end, t->n);
    free_fractions(e.word, e.words);
    free_fractions(e.drop, t->n);
    return room ? STET_OK : STET_ENOMEM;
}
