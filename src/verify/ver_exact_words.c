/* verify/ver_exact_words.c - see ver_exact_words.h; and the sum model, whose bound is this and its
 * biases. The formulas are those of ver_scores.c. */
#include "verify/ver_exact_words.h"

#include <stdlib.h>

#include "verify/ver_exact.h"

/* ---- scores ------------------------------------------------------------------------------- */

/* A score of the small network is a multiple of 2^-447: a float times a sum of products. */
enum { THREE = EXACT_TWO + EXACT_ONE };

typedef struct scorer {
    exact_words *of;
    mpq_t lo, hi; /* around 1 / sqrt n */
    mpq_t sum,
        wrong; /* gamma of the sum over words, times hi; what float32 gets wrong about a score
                         of the network, in units of sum |W2| q */
    mpq_t a, b, off;
    mpz_t *unit, *size; /* (units) max(0, x), and q where some evaluation lets it pass */
    mpz_t x, y, z;
} scorer;

/* Fractions on both sides of 1 / sqrt n. */
static void share_of(size_t n, mpq_t lo, mpq_t hi)
{
    const double near = 1 / sqrt((double)n);
    mpq_t square, one, times;
    mpq_inits(square, one, times, NULL);
    mpq_set_ui(one, 1, 1);
    mpq_set_ui(times, n, 1);
    for (int side = 0; side < 2; side++) {
        double x = near;
        int beyond;
        do { /* a step or two */
            x = side ? ver_up(x) : ver_down(x);
            mpq_set_d(side ? hi : lo, x);
            mpq_mul(square, side ? hi : lo, side ? hi : lo);
            mpq_mul(square, square, times);
            beyond = mpq_cmp(square, one);
        } while (side ? beyond < 0 : beyond > 0);
    }
    mpq_clears(square, one, times, NULL);
}

static void scorer_init(scorer *s, exact_words *x)
{
    const ver_model *m = x->w->m;
    s->of = x;
    mpq_inits(s->lo, s->hi, s->sum, s->wrong, s->a, s->b, s->off, NULL);
    mpz_inits(s->x, s->y, s->z, NULL);
    s->unit = exact_integers(m->word_units);
    s->size = exact_integers(m->word_units);
    share_of(x->t->n, s->lo, s->hi);
    exact_gamma(s->sum, x->t->n + 5);
    mpq_mul(s->sum, s->sum, s->hi);
    exact_gamma(s->a, m->dim + 1); /* a + b (1 + a) */
    exact_gamma(s->b, m->word_units);
    mpq_mul(s->wrong, s->a, s->b);
    mpq_add(s->wrong, s->wrong, s->a);
    mpq_add(s->wrong, s->wrong, s->b);
}

/* The units of a word's vector, times 2^TWO. A unit that no evaluation lets pass has no size. */
static void read_units(scorer *s, uint32_t word)
{
    const ver_model *m = s->of->w->m;
    const unsigned long n = m->dim + 1;
    for (size_t h = 0; h < m->word_units; h++) {
        exact_dot(m->word_w1 + h * m->dim, 1, m->table + word * m->dim, m->dim, s->unit[h],
                  s->size[h], s->x);
        exact_float(s->x, m->word_b1[h], EXACT_TWO);
        mpz_add(s->unit[h], s->unit[h], s->x);
        mpz_abs(s->x, s->x);
        mpz_add(s->size[h], s->size[h], s->x);
        mpz_set_ui(s->x, 1);
        mpz_mul_2exp(s->x, s->x, EXACT_TWO - 100); /* what underflows */
        mpz_add(s->size[h], s->size[h], s->x);
        mpz_mul_ui(s->x, s->unit[h], (1UL << 24) - n); /* x + gamma q, over gamma's denominator */
        mpz_addmul_ui(s->x, s->size[h], n);
        if (mpz_sgn(s->x) <= 0)
            mpz_set_ui(s->size[h], 0);
        if (mpz_sgn(s->unit[h]) < 0)
            mpz_set_ui(s->unit[h], 0);
    }
}

/* A word's score for a class, in real arithmetic; what float32 may get wrong about it onto s->off. */
static void score(scorer *s, uint32_t word, int class, mpq_t out)
{
    const ver_model *m = s->of->w->m;
    mpq_set_d(out, (double)m->scores[word * m->classes + (size_t) class]);
    if (m->word_units == 0)
        return;
    mpz_set_ui(s->x, 0);
    mpz_set_ui(s->y, 0);
    for (size_t h = 0; h < m->word_units; h++) {
        exact_float(s->z, m->word_w2[(size_t) class * m->word_units + h], EXACT_ONE);
        mpz_addmul(s->x, s->z, s->unit[h]);
        mpz_abs(s->z, s->z);
        mpz_addmul(s->y, s->z, s->size[h]);
    }
    exact_words *x = s->of;
    mpq_set_z(x->q, s->x);
    mpq_div_2exp(x->q, x->q, THREE);
    mpq_add(out, out, x->q);
    mpq_set_z(x->q, s->y);
    mpq_div_2exp(x->q, x->q, THREE);
    mpq_mul(x->q, x->q, s->wrong);
    mpq_add(s->off, s->off, x->q);
    mpq_set_d(x->q, 0x1p-100);
    mpq_add(s->off, s->off, x->q);
}

/* lead = a - b - off, times whichever share makes it least, less gamma (|a| + |b| + off) hi. */
static void add_score(scorer *s, size_t i)
{
    exact_words *x = s->of;
    const uint32_t word = x->t->word[i];
    mpq_set_ui(s->off, 0, 1);
    read_units(s, word);
    score(s, word, x->label, s->a);
    score(s, word, x->other, s->b);
    mpq_sub(x->q, s->a, s->b);
    mpq_sub(x->q, x->q, s->off);
    mpq_mul(x->q, x->q, mpq_sgn(x->q) < 0 ? s->hi : s->lo);
    mpq_add(x->of[i], x->of[i], x->q);
    mpq_abs(s->a, s->a);
    mpq_abs(s->b, s->b);
    mpq_add(x->q, s->a, s->b);
    mpq_add(x->q, x->q, s->off);
    mpq_mul(x->q, x->q, s->sum);
    mpq_sub(x->of[i], x->of[i], x->q);
    mpq_set_d(x->q, 0x1p-100);
    mpq_sub(x->of[i], x->of[i], x->q);
}

void exact_words_scores(exact_words *x)
{
    scorer s;
    if (!x->w->m->scores)
        return;
    scorer_init(&s, x);
    for (size_t i = 0; i < x->n; i++)
        add_score(&s, i);
}

/* ---- words -------------------------------------------------------------------------------- */

void exact_words_init(exact_words *x, const ver_work *w, int label, int other)
{
    *x = (exact_words){.w = w, .t = w->t, .label = label, .other = other};
    x->n = w->t->start[w->t->n];
    x->of = exact_fractions(x->n);
    mpq_inits(x->sum, x->q, x->r, NULL);
}

static int rising(const void *a, const void *b)
{
    return mpq_cmp(*(const mpq_t *)a, *(const mpq_t *)b);
}

void exact_words_worst(exact_words *x)
{
    const ver_task *t = x->t;
    mpq_t *drop = exact_fractions(t->n);
    size_t n = 0;
    for (size_t p = 0; p < t->n; p++) {
        const size_t first = t->start[p];
        mpq_set(x->q, x->of[first]);
        for (size_t i = first; i < t->start[p + 1]; i++)
            if (mpq_cmp(x->of[i], x->q) < 0)
                mpq_set(x->q, x->of[i]);
        mpq_add(x->sum, x->sum, x->of[first]);
        mpq_sub(x->q, x->q, x->of[first]);
        if (t->budget == VER_ANY || t->unpaid[p])
            mpq_add(x->sum, x->sum, x->q);
        else
            mpq_set(drop[n++], x->q);
    }
    qsort(drop, n, sizeof *drop, rising);
    for (size_t i = 0; i < n && i < t->budget; i++)
        mpq_add(x->sum, x->sum, drop[i]);
}

/* ---- the sum model ------------------------------------------------------------------------ */

typedef struct question {
    const ver_work *w;
    int label, other;
    double out;
} question;

/* A bias passes through at most two roundings. */
static void add_bias(exact_words *x, float bias, int sign)
{
    mpq_set_d(x->q, sign * (double)bias);
    mpq_add(x->sum, x->sum, x->q);
    exact_gamma(x->r, 2);
    mpq_abs(x->q, x->q);
    mpq_mul(x->q, x->q, x->r);
    mpq_sub(x->sum, x->sum, x->q);
}

static void answer(void *ctx)
{
    question *q = ctx;
    exact_words x;
    exact_words_init(&x, q->w, q->label, q->other);
    add_bias(&x, q->w->m->fc_b[q->label], 1);
    add_bias(&x, q->w->m->fc_b[q->other], -1);
    exact_words_scores(&x);
    exact_words_worst(&x);
    q->out = ver_down(mpq_get_d(x.sum));
}

stet_status ver_exact_sum(const ver_work *w, int label, int other, double *out)
{
    question q = {w, label, other, 0};
    const stet_status st = exact_run(answer, &q);
    *out = q.out;
    return st;
}
