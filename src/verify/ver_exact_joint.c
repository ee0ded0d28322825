/* verify/ver_exact_joint.c - the bound that a witness leads to, in exact arithmetic: the formulas of
 * ver_cnn_joint.c. lambda of a cap may be any numbers that sum to 1 and is taken as multiples of 2^-60. */
#include "verify/ver_exact_cnn.h"

static size_t taps(const exact_cnn *e)
{
    return e->k < e->words.t->n ? e->k : e->words.t->n;
}

/* Least value of the words at a tap into e->x. */
static void least_at(exact_cnn *e, mpz_t *of, size_t at, size_t l)
{
    const uint32_t *start = e->words.t->start + at + l;
    mpz_set(e->x, *exact_value(e, of, start[0], l));
    for (size_t i = start[0]; i < start[1]; i++)
        if (mpz_cmp(*exact_value(e, of, i, l), e->x) < 0)
            mpz_set(e->x, *exact_value(e, of, i, l));
}

/* The window's least value, from the least of each tap, into e->z. */
static void least_window(exact_cnn *e, mpz_t *of, const mpz_t bias, size_t at)
{
    mpz_set(e->z, bias);
    for (size_t l = 0; l < taps(e); l++) {
        least_at(e, of, at, l);
        mpz_add(e->z, e->z, e->x);
    }
}

/* by * max(0, e->y) onto the sum. */
static void add_positive(exact_cnn *e, mpq_t sum)
{
    if (mpz_sgn(e->y) > 0)
        exact_add(e, sum, e->by, e->y);
}

static void add_low(exact_cnn *e, size_t at)
{
    exact_add(e, e->words.sum, e->by, e->b_lo);
    for (size_t l = 0; l < taps(e); l++)
        for (size_t i = e->words.t->start[at + l]; i < e->words.t->start[at + l + 1]; i++)
            exact_add(e, e->words.of[i], e->by, *exact_value(e, e->lo, i, l));
}

static void add_over(exact_cnn *e, size_t at)
{
    mpz_t h;
    least_window(e, e->lo, e->b_lo, at);
    mpz_init(h);
    mpz_sub(h, e->y_lo, e->z);
    if (mpz_sgn(h) < 0)
        mpz_set_ui(h, 0);
    exact_add(e, e->words.sum, e->by, e->y_lo);
    for (size_t l = 0; l < taps(e); l++) {
        least_at(e, e->lo, at, l);
        for (size_t i = e->words.t->start[at + l]; i < e->words.t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *exact_value(e, e->lo, i, l), e->x);
            mpz_sub(e->y, e->y, h);
            add_positive(e, e->words.of[i]);
        }
    }
    mpz_clear(h);
}

/* How far the words of a tap differ, into e->y. */
static void width_at(exact_cnn *e, size_t at, size_t l)
{
    least_at(e, e->hi, at, l);
    mpz_set(e->y, e->x);
    for (size_t i = e->words.t->start[at + l]; i < e->words.t->start[at + l + 1]; i++)
        if (mpz_cmp(*exact_value(e, e->hi, i, l), e->y) > 0)
            mpz_set(e->y, *exact_value(e, e->hi, i, l));
    mpz_sub(e->y, e->y, e->x);
}

/* lambda in multiples of 2^-60, by the widths; the last tap that has a width takes what is left. */
static bool shares(exact_cnn *e, size_t at, int64_t *lambda)
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

static void add_cap(exact_cnn *e, size_t at, const mpz_t c)
{
    int64_t lambda[64];
    const bool differ = shares(e, at, lambda);
    mpz_t low;
    least_window(e, e->hi, e->b_hi, at);
    mpz_init(low);
    mpz_sub(low, e->z, c);
    if (!differ) {
        mpz_set(e->y, low);
        add_positive(e, e->words.sum);
    }
    for (size_t l = 0; l < taps(e) && differ; l++) {
        width_at(e, at, l);
        if (mpz_sgn(e->y) == 0)
            continue;
        for (size_t i = e->words.t->start[at + l]; i < e->words.t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *exact_value(e, e->hi, i, l), e->x); /* x: the least, from width_at */
            mpz_mul_2exp(e->y, e->y, 60);
            mpz_set(e->z, low);
            mpz_mul_si(e->z, e->z, lambda[l]);
            mpz_add(e->y, e->y, e->z);
            if (mpz_sgn(e->y) <= 0)
                continue;
            mpq_div_2exp(e->r, e->by, 60);
            exact_add(e, e->words.of[i], e->r, e->y);
        }
    }
    mpz_clear(low);
}

/* h, a double, over the feature's denominator: rounded up to it, which is as good as any h. */
static void set_share(exact_cnn *e, mpz_t out, double h)
{
    mpq_set_d(e->r, h);
    mpq_div(e->r, e->r, e->unit);
    mpz_cdiv_q(out, mpq_numref(e->r), mpq_denref(e->r));
}

static void add_split(exact_cnn *e, size_t at, const json_t *list, const mpz_t c)
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
        for (size_t i = e->words.t->start[at + l]; i < e->words.t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *exact_value(e, e->hi, i, l), e->x);
            mpz_sub(e->y, e->y, h);
            add_positive(e, e->words.of[i]);
        }
    }
    mpz_set(e->y, first);
    add_positive(e, e->words.sum);
    mpz_clear(h);
    mpz_clear(first);
}

static void add_cap_limited(exact_cnn *e, size_t at, const mpz_t c)
{
    const ver_task *t = e->words.t;
    size_t choices = 0, unpaid = 0;
    mpz_t full, rest;
    mpz_init_set(full, e->b_hi);
    mpz_sub(full, full, c);
    for (size_t l = 0; l < taps(e); l++) {
        const bool choice = t->start[at + l + 1] - t->start[at + l] > 1;
        mpz_add(full, full, *exact_value(e, e->hi, t->start[at + l], l));
        choices += choice;
        unpaid += choice && t->unpaid[at + l];
    }
    size_t most = choices - unpaid < t->budget ? choices : t->budget + unpaid;
    most = most > 1 ? most : 1;
    mpz_init_set(rest, full);
    if (mpz_sgn(rest) < 0)
        mpz_set_ui(rest, 0);
    exact_add(e, e->words.sum, e->by, rest);
    for (size_t l = 0; l < taps(e); l++)
        for (size_t i = t->start[at + l] + 1; i < t->start[at + l + 1]; i++) {
            mpz_sub(e->y, *exact_value(e, e->hi, i, l),
                    *exact_value(e, e->hi, t->start[at + l], l));
            mpz_mul_ui(e->y, e->y, most);
            mpz_add(e->y, e->y, full);
            if (mpz_sgn(e->y) < 0)
                mpz_set_ui(e->y, 0);
            mpz_sub(e->y, e->y, rest);
            mpq_set_ui(e->r, 1, most);
            mpq_mul(e->r, e->r, e->by);
            exact_add(e, e->words.of[i], e->r, e->y);
        }
    mpz_clear(full);
    mpz_clear(rest);
}

/* One row of "cap" or "split": c is what no window exceeds that the row does not name. */
static void add_caps(exact_cnn *e, const json_t *row, size_t step)
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
    exact_add(e, e->words.sum, e->by, c);
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

void exact_joint_rows(exact_cnn *e, size_t f)
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
