/* certify/cert_scores.c - see cert_scores.h.
 *
 * Rounding: the program adds n scores in float32, in any order, divides by n, multiplies by a rounded
 * root of n, and adds the result to the network's logit. The bounds of networks count that last addition
 * as one of their own last layer's; all others are counted here, for the largest words of each
 * position: gamma(n + 8) times the sum of sizes. */
#include "certify/cert_scores.h"

#include <float.h>
#include <math.h>

#include "model/word_scores.h"

enum { ROUNDINGS = 8 }; /* beside the n - 1 additions; the real number is 6 */
static const double largest = 0x1p100;

stet_status cert_scores_check(const model *m)
{
    const double most = largest / (double)m->max_len;
    const cert_word_scores *of; /* made here, by all threads, rather than by the first text */
    bool fits = true;
    TRY(cert_word_scores_of(m, &of));
    for (size_t i = 0; has_word_scores(m) && i < m->n_words * m->n_classes; i++)
        fits = fits && fabs((double)m->score_table[i]) < most; /* false for NaN */
    return fits ? STET_OK
                : error_set(STET_EFORMAT, "the model's word scores are not finite or too large: "
                                          "nothing can be certified");
}

stet_status cert_scores_open(cert_scores *s, const model *m, const cert_task *t, arena *a)
{
    *s = (cert_scores){.m = m, .t = t};
    if (!has_word_scores(m))
        return STET_OK;
    TRY(cert_word_scores_of(m, &s->of));
    s->lead = arena_new(a, double, t->start[t->n]);
    s->sum.drop = arena_new(a, double, t->n);
    s->sum.worst = arena_new(a, uint32_t, t->n);
    s->scratch = arena_new(a, double, t->n);
    return s->lead && s->sum.drop && s->sum.worst && s->scratch ? STET_OK : STET_ENOMEM;
}

/* Of word i of the task: its lead over `other`, the size of both scores, what may be wrong about
 * them. */
static double lead_of(const cert_scores *s, size_t i, int other, double *size, double *err)
{
    const size_t at = s->t->word[i] * s->m->n_classes, y = at + (size_t)s->t->label,
                 k = at + (size_t)other;
    const double a = s->of ? s->of->value[y] : (double)s->m->score_table[y],
                 b = s->of ? s->of->value[k] : (double)s->m->score_table[k];
    *size = fabs(a) + fabs(b);
    *err = s->of ? s->of->err[y] + s->of->err[k] : 0;
    return a - b;
}

static double rounding(size_t n, double size, double err)
{
    const double nu = (double)(n + ROUNDINGS) * 0x1p-24;
    if (nu >= 0.5)
        return INFINITY;
    const double doubles = (double)(n + 16) * DBL_EPSILON;
    return (nu / (1 - nu) * (size + err) + err + doubles * (size + err)) * (1 + 0x1p-20) + 0x1p-120;
}

void cert_scores_against(cert_scores *s, int other)
{
    const cert_task *t = s->t;
    if (!s->lead)
        return;
    const double share = 1 / sqrt((double)t->n);
    double base = 0, size = 0, err = 0;
    for (size_t p = 0; p < t->n; p++) {
        double most = 0, off = 0;
        uint32_t worst = t->start[p];
        for (uint32_t i = worst; i < t->start[p + 1]; i++) {
            double a, e;
            s->lead[i] = lead_of(s, i, other, &a, &e) * share;
            most = a > most ? a : most;
            off = e > off ? e : off;
            worst = s->lead[i] < s->lead[worst] ? i : worst;
        }
        s->sum.drop[p] = s->lead[t->start[p]] - s->lead[worst];
        s->sum.worst[p] = worst - t->start[p];
        base += s->lead[t->start[p]];
        size += most;
        err += off;
    }
    s->sum.additive = true;
    s->sum.slack = rounding(t->n, size * share, err * share);
    s->sum.base = base - s->sum.slack;
    s->sum.margin = cert_within_budget(&s->sum, t, t->budget, s->scratch);
}

void cert_scores_add(const cert_scores *s, cert_bound *b)
{
    if (!s->lead)
        return;
    b->margin += s->sum.margin;
    b->margin -= DBL_EPSILON * fabs(b->margin);
    b->slack += s->sum.slack;
}

void cert_scores_add_words(const cert_scores *s, cert_bound *b, double *contribution)
{
    const cert_task *t = s->t;
    if (!s->lead)
        return;
    b->base += s->sum.base;
    b->slack += s->sum.slack;
    for (size_t p = 0; p < t->n; p++)
        for (uint32_t i = t->start[p] + 1; i < t->start[p + 1]; i++)
            contribution[i] += s->lead[i] - s->lead[t->start[p]];
}
