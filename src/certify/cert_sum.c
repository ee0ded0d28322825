/* certify/cert_sum.c - certificates of the sum model. Words add up, so every position takes its own
 * worst word, a budget the positions that lose most, and what comes out is the worst text itself: the
 * bound is exact but for rounding.
 *
 * With the small network a score is own + W2 relu(W1 v + b1), and every evaluation of it rounds in its
 * own way. Real values and errors of all words are computed once:
 *
 *     |float32 - real| <= (gamma(D + 2) + gamma(H + 1) (1 + gamma(D + 2))) sum of |W2| q
 *
 * over the units that can be positive at all, q = |W1| |v| + |b1|. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "certify/cert_scores.h"
#include "certify/onnx.h"
#include "model/word_scores.h"

static const char *const methods[] = {"exact", NULL};
static const double largest = 0x1p90;

typedef struct shared {
    const model *m;
    const real *bias;     /* (K) */
    cert_word_scores own; /* without the small network: nothing */
} shared;

typedef struct work {
    const shared *s;
    const cert_task *t;
    arena mem;
    cert_scores scores;
} work;

/* ---- the small network -------------------------------------------------------------------- */

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
    const int w1 = model_param_id(m, "word.0.weight");
    if (w1 < 0)
        return STET_OK;
    network net = {.m = m,
                   .w1 = model_value(m, w1),
                   .b1 = model_value(m, model_param_id(m, "word.0.bias")),
                   .w2 = model_value(m, model_param_id(m, "word.1.weight")),
                   .H = m->params[w1].shape.dim[0]};
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

/* ---- the family --------------------------------------------------------------------------- */

static void shared_free(void *p)
{
    shared *s = p;
    if (!s)
        return;
    mem_free(s->own.value);
    mem_free(s->own.err);
    mem_free(s);
}

static stet_status prepare(const model *m, void **out)
{
    shared *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->m = m;
    s->bias = model_value(m, (int)m->n_params - 1);
    stet_status st = score_words(m, &s->own);
    if (st == STET_OK)
        *out = s;
    else
        shared_free(s);
    return st;
}

static stet_status work_new(const void *p, void **out)
{
    work *w = mem_zalloc(1, sizeof *w);
    if (w)
        w->s = p;
    *out = w;
    return w ? STET_OK : STET_ENOMEM;
}

static void work_free(void *p)
{
    work *w = p;
    if (w)
        arena_deinit(&w->mem);
    mem_free(w);
}

static stet_status open(void *p, const cert_task *t)
{
    work *w = p;
    for (size_t i = 0; i < t->start[t->n]; i++)
        if (t->word[i] >= w->s->m->n_words)
            return error_set(STET_EUSAGE, "word %u: the model knows %zu words", t->word[i],
                             w->s->m->n_words);
    arena_restore(&w->mem, (arena_mark){0});
    w->t = t;
    return cert_scores_open(&w->scores, w->s->m, w->s->own.value ? &w->s->own : NULL, t, &w->mem);
}

static stet_status bound(void *p, size_t method, int other, size_t refine, cert_bound *out)
{
    (void)method, (void)refine;
    work *w = p;
    const real *b = w->s->bias;
    const double a = (double)b[w->t->label], c = (double)b[other];
    const double biases = (fabs(a) + fabs(c)) * 0x1p-22; /* of adding them */
    cert_bound *sum = &w->scores.sum;
    cert_scores_against(&w->scores, other);
    out->additive = true;
    out->slack = sum->slack + biases;
    out->base = sum->base + (a - c) - biases;
    memcpy(out->drop, sum->drop, w->t->n * sizeof *out->drop);
    memcpy(out->worst, sum->worst, w->t->n * sizeof *out->worst);
    out->margin = cert_within_budget(out, w->t, w->t->budget, w->scores.scratch);
    if (!(out->margin > -1e100)) /* NaN, too, proves nothing */
        out->margin = -INFINITY;
    return STET_OK;
}

/* Words add up, so the question is one linear map. */
static stet_status onnx(const model *m, const cert_task *t, buf *graph)
{
    int64_t inputs = 0;
    for (size_t p = 0; p < t->n; p++)
        inputs += t->start[p + 1] - t->start[p] > 1 ? t->start[p + 1] - t->start[p] : 0;
    onnx_input(graph, "choice", (const int64_t[]){1, inputs, 0});
    onnx_output(graph, "logits", (const int64_t[]){1, (int64_t)m->n_classes, 0});
    return cert_scores_onnx(m, t, NULL, graph);
}

const cert_family cert_sum = {
    .methods = methods,
    .exact = true,
    .prepare = prepare,
    .shared_free = shared_free,
    .work_new = work_new,
    .work_free = work_free,
    .open = open,
    .bound = bound,
    .onnx = onnx,
};
