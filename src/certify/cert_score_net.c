/* certify/cert_score_net.c - word scores that a small network computes from vectors: a score is
 * own + W2 relu(W1 v + b1), and every evaluation of it rounds in its own way. Real values and errors of
 * all words are computed once:
 *
 *     |float32 - real| <= (gamma(D + 2) + gamma(H + 1) (1 + gamma(D + 2))) sum of |W2| q
 *
 * over the units that can be positive at all, q = |W1| |v| + |b1|. */
#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "certify/cert_scores.h"
#include "model/word_scores.h"

static const double largest = 0x1p90;

typedef struct network {
    const model *m;
    const real *w1, *b1, *w2; /* (H, D), (H), (K, H) */
    size_t H;
    cert_word_scores out;
    double *w1_t;    /* (D, H) */
    double *scratch; /* (workers, 2 H) */
} network;

static double gamma_of(size_t n)
{
    const double nu = (double)n * 0x1p-24;
    return nu / (1 - nu) * (1 + 0x1p-40);
}

/* p (H) += x w, q (H) += |x w|. */
SIMD_CLONES
static void add_column(double *RESTRICT p, double *RESTRICT q, const double *RESTRICT w, double x,
                       size_t n)
{
    for (size_t h = 0; h < n; h++) {
        p[h] += x * w[h];
        q[h] += fabs(x * w[h]);
    }
}

/* p and q are scratch (H each). */
static void score_word(const network *net, size_t word, double *p, double *q)
{
    const model *m = net->m;
    const size_t H = net->H, K = m->n_classes;
    for (size_t h = 0; h < H; h++) {
        p[h] = (double)net->b1[h];
        q[h] = fabs(p[h]) + 0x1p-100; /* what underflows */
    }
    for (size_t d = 0; d < m->dim; d++)
        add_column(p, q, net->w1_t + d * H, (double)m->table[word * m->dim + d], H);
    const double first = gamma_of(m->dim + 2), second = gamma_of(H + 1) * (1 + first);
    for (size_t k = 0; k < K; k++) {
        double sum = (double)model_value(m, m->scores)[word * K + k], err = 0;
        bool fits = true; /* in float32, whatever the order */
        for (size_t h = 0; h < H; h++) {
            const double w2 = (double)net->w2[k * H + h];
            fits = fits && q[h] < largest && fabs(w2) * q[h] < largest;
            if (!(p[h] > -2 * first * q[h])) /* 0 in every evaluation */
                continue;
            sum += w2 * fmax(p[h], 0);
            err += fabs(w2) * q[h];
        }
        const double ours = (double)(m->dim + H + 16) * DBL_EPSILON;
        net->out.value[word * K + k] = sum;
        net->out.err[word * K + k] =
            fits && err < largest
                ? (first + second + ours) * err * (1 + 0x1p-20) + fabs(sum) * DBL_EPSILON + 0x1p-120
                : INFINITY;
    }
}

enum { WORDS = 256 }; /* of a piece */

static void score_piece(void *ctx, size_t piece, int worker)
{
    const network *net = ctx;
    double *p = net->scratch + (size_t)worker * 2 * net->H;
    for (size_t w = piece * WORDS; w < (piece + 1) * WORDS && w < net->m->n_words; w++)
        score_word(net, w, p, p + net->H);
}

static stet_status score_words(const model *m, cert_word_scores *out)
{
    network net = {.m = m,
                   .w1 = model_value(m, m->score_net),
                   .b1 = model_value(m, m->score_net + 1),
                   .w2 = model_value(m, m->score_net + 2),
                   .H = model_score_hidden(m)};
    const size_t n = m->n_words * m->n_classes;
    net.out.value = out->value = mem_alloc(n, sizeof *out->value);
    net.out.err = out->err = mem_alloc(n, sizeof *out->err);
    net.w1_t = mem_alloc(net.H * m->dim, sizeof *net.w1_t);
    net.scratch = mem_alloc((size_t)stet_threads() * 2 * net.H, sizeof *net.scratch);
    const bool fits = net.out.value && net.out.err && net.w1_t && net.scratch;
    for (size_t h = 0; fits && h < net.H; h++)
        for (size_t d = 0; d < m->dim; d++)
            net.w1_t[d * net.H + h] = (double)net.w1[h * m->dim + d];
    if (fits)
        pool_run((m->n_words + WORDS - 1) / WORDS, score_piece, &net);
    mem_free(net.w1_t);
    mem_free(net.scratch);
    return fits ? STET_OK : STET_ENOMEM;
}

/* ---- kept with the model ------------------------------------------------------------------ */

static void release(void *p)
{
    cert_word_scores *s = p;
    mem_free(s->value);
    mem_free(s->err);
    mem_free(s);
}

static stet_status make(const model *m, void **out)
{
    cert_word_scores *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    const stet_status st = score_words(m, s);
    if (st == STET_OK)
        *out = s;
    else
        release(s);
    return st;
}

stet_status cert_word_scores_of(const model *m, const cert_word_scores **out)
{
    static const char key;
    void *made = NULL;
    const stet_status st =
        m->score_net >= 0 ? model_prepared(m, &key, make, release, &made) : STET_OK;
    *out = made;
    return st;
}
