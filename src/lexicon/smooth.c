/* lexicon/smooth.c - synonym-smoothed vectors: the table E' that minimises
 *
 *     sum of w_u |e'_u - e_u|^2 + lambda * sum over the pairs (u, v) of S of |e'_u - e'_v|^2
 *
 * is the solution of (W + lambda L) E' = W E with W the diagonal of the weights and L the Laplacian
 * of the synonym graph, in which two words that may replace each other are joined by two edges. The
 * matrix is symmetric and positive definite, and the columns of E are independent right-hand sides:
 * they are solved PANEL at a time by conjugate gradients with the diagonal as preconditioner, each column with its own scalars. A
 * panel is one piece of work and one cache line wide: gathering a neighbour's part of a row costs
 * one line, and results do not depend on the number of threads. */
#include "lexicon/subst.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"

enum { PANEL = 8, MAX_STEPS = 10000 };
static const double TOLERANCE = 1e-6;

typedef struct outcome {
    size_t steps;
    double residual; /* largest of the panel's columns, relative */
} outcome;

/* Words with both a vector and a synonym, and their edges seen from either end. */
typedef struct graph {
    size_t n;
    uint32_t *row;   /* (n) row of the table */
    uint32_t *start; /* (n + 1) where the neighbours of each word begin */
    uint32_t *other; /* (2 * pairs) */
    double *hold;    /* (n) w: how firmly a word holds on to its own vector */
} graph;

typedef struct equations {
    stet_vectors *t;
    graph g;
    double lambda;
    double *work;    /* (threads, 4, n, PANEL) */
    outcome *result; /* (panels) */
} equations;

/* ---- the graph ---------------------------------------------------------------------------- */

typedef struct vector_owner {
    const stet_vectors *t;
    const stet_vocab *v;
} vector_owner;

static uint32_t row_of(const vector_owner *o, const char *word)
{
    const uint32_t id = stet_vocab_id(o->v, word, strlen(word));
    return id >= STET_FIRST_WORD && id < o->t->n && o->t->known[id] ? id : STET_UNK;
}

static bool both_have_vectors(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    return row_of(ctx, strmap_text(&b->words, e.from)) != STET_UNK &&
           row_of(ctx, strmap_text(&b->words, e.to)) != STET_UNK;
}

/* The pairs among words with vectors. */
static stet_status restrict_pairs(const stet_subst *s, const vector_owner *o, stet_subst **out)
{
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    stet_status st = subst_add_set(b, s);
    if (st == STET_OK) {
        subst_keep_if(b, both_have_vectors, o);
        st = stet_subst_build(b, out);
    }
    stet_subst_builder_free(b);
    return st;
}

static void graph_deinit(graph *g)
{
    mem_free(g->row);
    mem_free(g->start);
    mem_free(g->other);
    mem_free(g->hold);
}

static stet_status graph_init(graph *g, const stet_subst *s, const vector_owner *o,
                              const double *weight)
{
    if (s->n_pairs > UINT32_MAX / 2)
        return error_set(STET_ENOTSUP, "%zu synonym pairs are too many to smooth", s->n_pairs);
    *g = (graph){.n = s->n_words};
    g->row = mem_alloc(g->n, sizeof *g->row);
    g->start = mem_zalloc(g->n + 2, sizeof *g->start);
    g->other = mem_alloc(2 * s->n_pairs, sizeof *g->other);
    g->hold = mem_alloc(g->n, sizeof *g->hold);
    if (!g->row || !g->start || !g->other || !g->hold) {
        graph_deinit(g);
        return STET_ENOMEM;
    }
    for (uint32_t u = 0; u < g->n; u++) {
        g->row[u] = row_of(o, stet_subst_word(s, u));
        g->hold[u] = weight ? weight[g->row[u]] : 1;
        g->start[u + 2] += s->start[u + 1] - s->start[u];
        for (uint32_t e = s->start[u]; e < s->start[u + 1]; e++)
            g->start[s->subs[e] + 2]++;
    }
    for (size_t u = 0; u < g->n; u++)
        g->start[u + 2] += g->start[u + 1];
    for (uint32_t u = 0; u < g->n; u++) /* start[u + 1] runs from the begin of u to its end */
        for (uint32_t e = s->start[u]; e < s->start[u + 1]; e++) {
            g->other[g->start[u + 1]++] = s->subs[e];
            g->other[g->start[s->subs[e] + 1]++] = u;
        }
    return STET_OK;
}

/* ---- one panel ---------------------------------------------------------------------------- */

static inline double diagonal_of(const graph *g, double lambda, size_t u)
{
    return g->hold[u] + lambda * (g->start[u + 1] - g->start[u]);
}

/* q = (W + lambda L) p; pq gets the products of their columns. */
SIMD_CLONES static void apply(const graph *g, double lambda, const double *RESTRICT p,
                              double *RESTRICT q, double pq[PANEL])
{
    double dot[PANEL] = {0};
    for (size_t u = 0; u < g->n; u++) {
        double sum[PANEL] = {0};
        for (uint32_t e = g->start[u]; e < g->start[u + 1]; e++)
            for (int c = 0; c < PANEL; c++)
                sum[c] += p[(size_t)g->other[e] * PANEL + c];
        const double diagonal = diagonal_of(g, lambda, u);
        for (int c = 0; c < PANEL; c++) {
            const double pu = p[u * PANEL + c], qu = diagonal * pu - lambda * sum[c];
            q[u * PANEL + c] = qu;
            dot[c] += pu * qu;
        }
    }
    memcpy(pq, dot, sizeof dot);
}

/* x += alpha p, r -= alpha q; rr and rz get the squares of r, plain and preconditioned. */
SIMD_CLONES static void advance(const graph *g, double lambda, const double alpha[PANEL],
                                const double *RESTRICT p, const double *RESTRICT q,
                                double *RESTRICT x, double *RESTRICT r, double rr[PANEL],
                                double rz[PANEL])
{
    double plain[PANEL] = {0}, scaled[PANEL] = {0};
    for (size_t u = 0; u < g->n; u++) {
        const double inverse = 1 / diagonal_of(g, lambda, u);
        for (int c = 0; c < PANEL; c++) {
            x[u * PANEL + c] += alpha[c] * p[u * PANEL + c];
            const double ru = r[u * PANEL + c] - alpha[c] * q[u * PANEL + c];
            r[u * PANEL + c] = ru;
            plain[c] += ru * ru;
            scaled[c] += ru * ru * inverse;
        }
    }
    memcpy(rr, plain, sizeof plain);
    memcpy(rz, scaled, sizeof scaled);
}

/* p = r / diagonal + beta p */
SIMD_CLONES static void turn(const graph *g, double lambda, const double beta[PANEL],
                             const double *RESTRICT r, double *RESTRICT p)
{
    for (size_t u = 0; u < g->n; u++) {
        const double inverse = 1 / diagonal_of(g, lambda, u);
        for (int c = 0; c < PANEL; c++)
            p[u * PANEL + c] = r[u * PANEL + c] * inverse + beta[c] * p[u * PANEL + c];
    }
}

/* Columns [first, first + PANEL) of the table, zero beyond the last. */
static void load_panel(const equations *s, size_t first, double *e)
{
    for (size_t u = 0; u < s->g.n; u++)
        for (size_t c = 0; c < PANEL; c++)
            e[u * PANEL + c] =
                first + c < s->t->dim ? s->t->data[s->g.row[u] * s->t->dim + first + c] : 0;
}

/* The right-hand side of those columns, W E; bb: its squares. */
static void load_sides(const equations *s, size_t first, double *b, double bb[PANEL])
{
    load_panel(s, first, b);
    memset(bb, 0, PANEL * sizeof *bb);
    for (size_t u = 0; u < s->g.n; u++)
        for (size_t c = 0; c < PANEL; c++) {
            b[u * PANEL + c] *= s->g.hold[u];
            bb[c] += b[u * PANEL + c] * b[u * PANEL + c];
        }
}

static void store_panel(const equations *s, size_t first, const double *x)
{
    for (size_t u = 0; u < s->g.n; u++)
        for (size_t c = 0; c < PANEL && first + c < s->t->dim; c++)
            s->t->data[s->g.row[u] * s->t->dim + first + c] = (float)x[u * PANEL + c];
}

/* Squares of the columns of b - q. */
static void difference(const double *b, const double *q, size_t size, double rr[PANEL])
{
    memset(rr, 0, PANEL * sizeof *rr);
    for (size_t i = 0; i < size; i++) {
        const double d = b[i] - q[i];
        rr[i % PANEL] += d * d;
    }
}

static double largest_ratio(const double rr[PANEL], const double bb[PANEL])
{
    double worst = 0;
    for (int c = 0; c < PANEL; c++)
        if (bb[c] > 0)
            worst = fmax(worst, sqrt(rr[c] / bb[c]));
    return worst;
}

/* top / bottom, 0 for a column that is done. */
static void divide(const double top[PANEL], const double bottom[PANEL], double out[PANEL])
{
    for (int c = 0; c < PANEL; c++)
        out[c] = bottom[c] > 0 ? top[c] / bottom[c] : 0;
}

static void solve_panel(const equations *s, size_t first, double *work, outcome *result)
{
    const graph *g = &s->g;
    const size_t size = g->n * PANEL;
    double *x = work, *r = x + size, *p = r + size, *q = p + size;
    double bb[PANEL], pq[PANEL], rr[PANEL], rz[PANEL], next[PANEL], alpha[PANEL], beta[PANEL];
    const double zero[PANEL] = {0}, one[PANEL] = {1, 1, 1, 1, 1, 1, 1, 1};

    load_panel(s, first, p); /* the start x = E, by a step of length 1 from x = 0 */
    load_sides(s, first, r, bb);
    memset(x, 0, size * sizeof *x);
    apply(g, s->lambda, p, q, pq);
    advance(g, s->lambda, one, p, q, x, r, rr, rz);
    turn(g, s->lambda, zero, r, p);
    result->steps = 0;
    while (largest_ratio(rr, bb) > TOLERANCE && result->steps < MAX_STEPS) {
        apply(g, s->lambda, p, q, pq);
        divide(rz, pq, alpha);
        advance(g, s->lambda, alpha, p, q, x, r, rr, next);
        divide(next, rz, beta);
        memcpy(rz, next, sizeof rz);
        turn(g, s->lambda, beta, r, p);
        result->steps++;
    }
    /* The residual that is reported is computed afresh: the one carried along drifts. */
    load_sides(s, first, r, bb);
    apply(g, s->lambda, x, q, pq);
    difference(r, q, size, rr);
    result->residual = largest_ratio(rr, bb);
    store_panel(s, first, x);
}

static void solve_piece(void *ctx, size_t i, int worker)
{
    const equations *s = ctx;
    double *work = s->work + (size_t)worker * 4 * s->g.n * PANEL;
    solve_panel(s, i * PANEL, work, &s->result[i]);
}

/* ---- all of them -------------------------------------------------------------------------- */

static stet_status solve(equations *s, double *residual)
{
    const size_t panels = (s->t->dim + PANEL - 1) / PANEL;
    s->work = mem_aligned((size_t)stet_threads(), s->g.n * 4 * PANEL * sizeof *s->work);
    s->result = mem_zalloc(panels, sizeof *s->result);
    const bool ok = s->work && s->result;
    if (ok) {
        pool_run(panels, solve_piece, s);
        size_t steps = 0;
        for (size_t i = 0; i < panels; i++) {
            *residual = fmax(*residual, s->result[i].residual);
            steps = s->result[i].steps > steps ? s->result[i].steps : steps;
        }
        log_at(*residual > 2 * TOLERANCE ? STET_LOG_WARN : STET_LOG_INFO,
               "smoothed %zu vectors over %u synonym pairs: %zu steps, residual %.1e", s->g.n,
               s->g.start[s->g.n] / 2, steps, *residual);
    }
    mem_free_aligned(s->work);
    mem_free(s->result);
    return ok ? STET_OK : STET_ENOMEM;
}

stet_status stet_vectors_smooth(stet_vectors *t, const stet_vocab *v, const stet_subst *s,
                                double lambda, const double *weight, double *residual)
{
    *residual = 0;
    if (!(lambda >= 0 && lambda <= 1e12))
        return error_set(STET_EUSAGE, "lambda %g: expected a number from 0 to 1e12", lambda);
    if (stet_vocab_size(v) != t->n)
        return error_set(STET_EUSAGE, "%zu vectors for a vocabulary of %zu words", t->n,
                         stet_vocab_size(v));
    for (size_t i = 0; weight && i < t->n; i++)
        if (!(weight[i] > 0 && weight[i] <= 1e12))
            return error_set(STET_EUSAGE, "weight %g of word %zu: expected a positive number",
                             weight[i], i);
    if (lambda == 0)
        return STET_OK;
    const vector_owner owner = {t, v};
    stet_subst *pairs;
    TRY(restrict_pairs(s, &owner, &pairs));
    equations e = {.t = t, .lambda = lambda};
    stet_status st = graph_init(&e.g, pairs, &owner, weight);
    stet_subst_free(pairs);
    if (st != STET_OK)
        return st;
    if (e.g.n > 0)
        st = solve(&e, residual);
    graph_deinit(&e.g);
    return st;
}
