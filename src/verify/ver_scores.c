/* verify/ver_scores.c - see ver_scores.h. A score is a parameter, or that and what a small network makes
 * of the word's vector, own + W2 max(0, W1 v + b1); then float32 may be wrong about the score itself. */
#include "verify/ver_scores.h"

#include <string.h>

struct ver_word_scores {
    double *value, *off; /* (n_words, classes): real value; how far float32 may be from it */
    bool *known;         /* (n_words) */
    double *hidden, *size;
};

/* ---- words -------------------------------------------------------------------------------- */

/* One unit: its value if positive, and how large its terms are. 0 where no evaluation lets it pass. */
static double unit(const ver_model *m, const float *v, size_t h, double *size)
{
    const float *w = m->word_w1 + h * m->dim;
    double x = m->word_b1[h];
    *size = fabs(x) + VER_TINY;
    for (size_t d = 0; d < m->dim; d++) {
        const double term = (double)w[d] * v[d]; /* exact */
        x += term;
        *size += fabs(term);
    }
    if (x < -(ver_gamma32(m->dim + 1) + ver_gamma64(m->dim + 8)) * *size)
        *size = 0;
    return x > 0 ? x : 0;
}

static void score_word(const ver_model *m, struct ver_word_scores *s, uint32_t word)
{
    const size_t H = m->word_units, K = m->classes;
    double most = 0;
    for (size_t h = 0; h < H; h++) {
        s->hidden[h] = unit(m, m->table + word * m->dim, h, &s->size[h]);
        most = s->size[h] > most ? s->size[h] : most;
    }
    const double first = ver_gamma32(m->dim + 1) + ver_gamma64(m->dim + 8),
                 second = ver_gamma32(H) * (1 + first) + ver_gamma64(H + 8);
    for (size_t k = 0; k < K; k++) {
        double value = m->scores[word * K + k], size = 0;
        for (size_t h = 0; h < H; h++) {
            const double w = m->word_w2[k * H + h];
            value += w * s->hidden[h];
            size += fabs(w) * s->size[h];
        }
        const bool fits = most < VER_OVERFLOWS && size < VER_OVERFLOWS;
        s->value[word * K + k] = value;
        s->off[word * K + k] = H == 0 ? 0
                               : fits ? (first + second) * (1 + ver_gamma64(H + 8)) * size +
                                            ver_gamma64(2) * fabs(value) + VER_TINY
                                      : INFINITY;
    }
    s->known[word] = true;
}

static stet_status make(ver_work *w)
{
    const ver_model *m = w->m;
    const size_t n = m->n_words * m->classes;
    struct ver_word_scores *s = arena_znew(&w->words, struct ver_word_scores, 1);
    if (!s)
        return STET_ENOMEM;
    s->value = arena_new(&w->words, double, n);
    s->off = arena_new(&w->words, double, n);
    s->known = arena_znew(&w->words, bool, m->n_words);
    s->hidden = arena_new(&w->words, double, m->word_units + 1);
    s->size = arena_new(&w->words, double, m->word_units + 1);
    if (!s->value || !s->off || !s->known || !s->hidden || !s->size)
        return STET_ENOMEM;
    w->scores = s;
    return STET_OK;
}

stet_status ver_scores_open(ver_work *w)
{
    if (!w->m->scores)
        return STET_OK;
    if (!w->scores)
        TRY(make(w));
    for (size_t i = 0; i < w->t->start[w->t->n]; i++)
        if (!w->scores->known[w->t->word[i]])
            score_word(w->m, w->scores, w->t->word[i]);
    return STET_OK;
}

/* ---- texts -------------------------------------------------------------------------------- */

double ver_score_least(const ver_work *w, size_t i, int label, int other)
{
    const struct ver_word_scores *s = w->scores;
    if (!w->m->scores)
        return 0;
    const size_t K = w->m->classes, n = w->t->n, at = w->t->word[i] * K;
    const double a = s->value[at + (size_t)label], b = s->value[at + (size_t)other];
    const double off = s->off[at + (size_t)label] + s->off[at + (size_t)other];
    const double size = fabs(a) + fabs(b) + off;
    if (!(size * (double)n < VER_OVERFLOWS))
        return -INFINITY;
    const double g = ver_gamma32(n + 5) + ver_gamma64(8);
    return ver_down((a - b - (g * size + off) * (1 + ver_gamma64(8))) / sqrt((double)n) - VER_TINY);
}

double ver_score_drop(const ver_work *w, size_t p, int label, int other)
{
    const uint32_t *start = w->t->start;
    const double reference = ver_score_least(w, start[p], label, other);
    double drop = 0;
    for (size_t i = start[p] + 1; w->m->scores && i < start[p + 1]; i++)
        drop = fmin(drop, ver_down(ver_score_least(w, i, label, other) - reference));
    return drop;
}

double ver_scores_worst(const ver_work *w, int label, int other, double *drop)
{
    const ver_task *t = w->t;
    ver_sum s = {0};
    if (!w->m->scores)
        return 0;
    for (size_t p = 0; p < t->n; p++) {
        ver_add(&s, ver_score_least(w, t->start[p], label, other), 0);
        drop[p] = ver_score_drop(w, p, label, other);
    }
    ver_add(&s, ver_within_budget(t, 0, drop, t->n), 0);
    return ver_lower(&s);
}

double ver_scores_margin(const ver_work *w, int label, int other)
{
    const ver_task *t = w->t;
    double sum = 0;
    for (size_t p = 0; w->m->scores && p < t->n; p++) {
        const double *s = w->scores->value + t->word[t->start[p]] * w->m->classes;
        sum += s[label] - s[other];
    }
    return sum / sqrt((double)t->n);
}
