/* verify/ver_exact_cnn.c - the CNN's bounds in exact arithmetic: the formulas of ver_cnn.c. */
#include "verify/ver_exact_cnn.h"

#include <stdlib.h>

#include "verify/ver_exact.h"

void exact_add(exact_cnn *e, mpq_t sum, const mpq_t by, const mpz_t x)
{
    mpq_set_z(e->q, x);
    mpq_mul(e->q, e->q, e->unit);
    mpq_mul(e->q, e->q, by);
    mpq_add(sum, sum, e->q);
}

/* ---- a feature's words and windows -------------------------------------------------------- */

/* lo = p M - n q, hi = p M + n q, for x = p, y = q */
static void put_range(exact_cnn *e, mpz_t lo, mpz_t hi)
{
    mpz_mul(e->x, e->x, e->M);
    mpz_mul(e->y, e->y, e->n);
    mpz_sub(lo, e->x, e->y);
    mpz_add(hi, e->x, e->y);
}

static void read_feature(exact_cnn *e, size_t f)
{
    const ver_model *m = e->words.w->m;
    e->kernel = f / m->filters;
    e->filter = f % m->filters;
    e->k = m->k[e->kernel];
    e->windows = e->words.t->n < e->k ? 1 : e->words.t->n - e->k + 1;
    mpz_set_ui(e->n, m->dim * e->k + 2);
    mpz_ui_pow_ui(e->M, 2, 24);
    mpz_sub(e->M, e->M, e->n);
    mpz_set_ui(mpq_numref(e->unit), 1);
    mpz_mul_2exp(mpq_denref(e->unit), e->M, EXACT_TWO);
    for (size_t i = 0; i < e->words.n; i++)
        for (size_t l = 0; l < e->k; l++) {
            exact_dot(m->conv_w[e->kernel] + e->filter * m->dim * e->k + l, e->k,
                      m->table + e->words.t->word[i] * m->dim, m->dim, e->x, e->y, e->z);
            mpz_set_ui(e->z, 1);
            mpz_mul_2exp(e->z, e->z, EXACT_TWO - 100); /* what underflows */
            mpz_add(e->y, e->y, e->z);
            put_range(e, *exact_value(e, e->lo, i, l), *exact_value(e, e->hi, i, l));
        }
    exact_float(e->x, m->conv_b[e->kernel][e->filter], EXACT_TWO);
    mpz_abs(e->y, e->x);
    put_range(e, e->b_lo, e->b_hi);
    const float *a = m->fc_w + (size_t)e->words.label * m->features,
                *b = m->fc_w + (size_t)e->words.other * m->features;
    exact_float(e->x, a[f], EXACT_ONE);
    exact_float(e->y, b[f], EXACT_ONE);
    mpz_sub(mpq_numref(e->om), e->x, e->y);
    mpz_set_ui(mpq_denref(e->om), 1);
    mpq_div_2exp(e->om, e->om, EXACT_ONE);
}

static int rising(const void *a, const void *b)
{
    return mpz_cmp(*(const mpz_t *)a, *(const mpz_t *)b);
}

/* The window's end: lower (sign 1, of lo), or upper with all signs turned (sign -1, of hi). */
static void window_end(exact_cnn *e, mpz_t *of, mpz_t bias, size_t at, int sign, mpz_t out)
{
    const ver_task *t = e->words.t;
    mpz_t drop[64];
    size_t n = 0;
    mpz_set(out, bias);
    for (size_t l = 0; l < e->k && at + l < t->n; l++) {
        const size_t first = t->start[at + l];
        mpz_set(e->x, *exact_value(e, of, first, l)); /* the worst word */
        for (size_t i = first; i < t->start[at + l + 1]; i++)
            if (sign * mpz_cmp(*exact_value(e, of, i, l), e->x) < 0)
                mpz_set(e->x, *exact_value(e, of, i, l));
        mpz_add(out, out, *exact_value(e, of, first, l));
        mpz_sub(e->x, e->x, *exact_value(e, of, first, l));
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

static void read_windows(exact_cnn *e)
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

/* ---- the bound ---------------------------------------------------------------------------- */

static void add_feature(exact_cnn *e, size_t f)
{
    const ver_model *m = e->words.w->m;
    read_feature(e, f);
    read_windows(e);
    exact_joint_rows(e, f);
    const int sign = mpq_sgn(e->om);
    if (sign < 0 && mpq_sgn(e->r) < 0)
        mpq_set_ui(e->r, 0, 1);
    const bool low = sign >= 0 && mpq_sgn(e->r) >= 0;
    mpq_mul(e->by, e->om, e->r);
    exact_add(e, e->words.sum, e->by, low ? e->y_lo : e->y_hi);
    exact_float(e->x, fabsf(m->fc_w[(size_t)e->words.label * m->features + f]), EXACT_ONE);
    exact_float(e->y, fabsf(m->fc_w[(size_t)e->words.other * m->features + f]), EXACT_ONE);
    mpz_add(mpq_numref(e->by), e->x, e->y);
    mpz_set_ui(mpq_denref(e->by), 1);
    mpq_div_2exp(e->by, e->by, EXACT_ONE);
    exact_add(e, e->head, e->by, e->y_hi);
}

/* Biases of the last layer: their difference, and their sizes for its rounding. */
static void add_head(exact_cnn *e)
{
    const ver_model *m = e->words.w->m;
    const unsigned long n = m->features + (m->scores ? 3 : 2);
    mpq_set_d(e->q, (double)m->fc_b[e->words.label]);
    mpq_add(e->words.sum, e->words.sum, e->q);
    mpq_abs(e->q, e->q);
    mpq_add(e->head, e->head, e->q);
    mpq_set_d(e->q, (double)m->fc_b[e->words.other]);
    mpq_sub(e->words.sum, e->words.sum, e->q);
    mpq_abs(e->q, e->q);
    mpq_add(e->head, e->head, e->q);
    mpq_set_ui(e->q, n, (1UL << 24) - n);
    mpq_canonicalize(e->q);
    mpq_mul(e->head, e->head, e->q);
    mpq_set_d(e->q, 0x1p-100);
    mpq_add(e->head, e->head, e->q);
    mpq_sub(e->words.sum, e->words.sum, e->head);
}

static void init(exact_cnn *e, const ver_work *w, int label, int other)
{
    const ver_task *t = w->t;
    size_t paid = 0, k = 1;
    for (size_t p = 0; p < t->n; p++)
        paid += t->start[p + 1] - t->start[p] > 1 && !t->unpaid[p];
    for (size_t i = 0; i < w->m->kernels; i++)
        k = w->m->k[i] > k ? w->m->k[i] : k;
    exact_words_init(&e->words, w, label, other);
    e->limited = t->budget < paid;
    e->lo = exact_integers(e->words.n * k);
    e->hi = exact_integers(e->words.n * k);
    e->end = exact_integers(t->n);
    mpz_inits(e->n, e->M, e->b_lo, e->b_hi, e->y_lo, e->y_hi, e->x, e->y, e->z, NULL);
    mpq_inits(e->unit, e->om, e->by, e->head, e->q, e->r, NULL);
}

typedef struct question {
    const ver_work *w;
    int label, other;
    const json_t *witness;
    double out;
} question;

static void answer(void *ctx)
{
    question *q = ctx;
    exact_cnn e = {.witness = q->witness};
    init(&e, q->w, q->label, q->other);
    for (size_t f = 0; f < q->w->m->features; f++)
        add_feature(&e, f);
    add_head(&e);
    exact_words_scores(&e.words);
    exact_words_worst(&e.words);
    q->out = ver_down(mpq_get_d(e.words.sum));
}

bool ver_exact_here(void)
{
    return true;
}

stet_status ver_exact_cnn(const ver_work *w, int label, int other, const json_t *witness,
                          double *out)
{
    question q = {w, label, other, witness, 0};
    const stet_status st = exact_run(answer, &q);
    *out = q.out;
    return st;
}
