/* lexicon/nearest.c - all-pairs nearest neighbours at the speed of float matrix products, with the
 * result of double precision.
 *
 * For rows y of the table, scaled by a power of two so that none is longer than 1 (or divided by
 * their lengths, for cosines), the score
 *
 *     s(i, j) = <y_i, y_j> - h_j,    h_j = |y_j|^2 / 2 (0 for cosines)
 *
 * ranks the neighbours of i: |y_i - y_j|^2 = |y_i|^2 - 2 s(i, j). A block of products comes from
 * one sgemm and serves both (i, j) and (j, i). Each row keeps the candidates whose float score is
 * within twice its rounding error of the k-th best; only these are evaluated in double at the end,
 * so no neighbour can be lost to rounding.
 *
 * The error of a float score, in any order of summation, fused or not: a product of length n is
 * off by at most g |y_i| |y_j| with g = n u / (1 - n u), u = 2^-24; rounding h_j, the subtraction,
 * the normalised rows and the double evaluation itself add less than 2^-21 together.
 *
 * Blocks meet as teams in a round-robin tournament: within one round no block of rows plays twice,
 * so the pieces of a round write to different rows and the order of play is fixed. */
#include "lexicon/nearest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "tensor/kernels.h"

enum { BLOCK = 512, CHUNK = 64, SPARE = 32, MAX_DIM = 1 << 20 };

typedef struct candidate {
    float score;
    uint32_t id;
} candidate;

typedef struct ranked {
    double value;
    uint32_t id;
    float score;
} ranked;

typedef struct search {
    const float *x; /* (n, dim) as given */
    size_t n, dim, k, cap;
    nearest_options how;
    float *y;        /* (n, dim) scaled or normalised */
    float *half;     /* (n) h */
    float *slack;    /* (n) bound on the error of a row's scores */
    float *floor;    /* (n) lower scores are out of the running */
    candidate *list; /* (n, cap) */
    uint32_t *count; /* (n) */
    float *block;    /* (threads, BLOCK, BLOCK) */
    ranked *rank;    /* (threads, cap) */
    size_t n_blocks, round;
    uint32_t *ids; /* results */
    double *value;
} search;

double nearest_value(stet_metric metric, const float *a, const float *b, size_t dim)
{
    if (metric != STET_COS) {
        double sum = 0;
        for (size_t c = 0; c < dim; c++) {
            const double d = (double)a[c] - b[c];
            sum += d * d;
        }
        return sum;
    }
    double ab = 0, aa = 0, bb = 0;
    for (size_t c = 0; c < dim; c++) {
        ab += (double)a[c] * b[c];
        aa += (double)a[c] * a[c];
        bb += (double)b[c] * b[c];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

static double row_length(const float *row, size_t dim)
{
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)row[c] * row[c];
    return sqrt(sum);
}

/* ---- preparing ---------------------------------------------------------------------------- */

/* The largest float that is not above v. */
static float round_down(double v)
{
    const float f = (float)v;
    return f > v ? nextafterf(f, -INFINITY) : f;
}

/* The lowest score that can pass the threshold, in exact arithmetic. */
static double threshold_score(const search *s, double length, double scale)
{
    const double t = s->how.threshold;
    if (s->how.metric == STET_COS)
        return t;
    const double squared = s->how.metric == STET_L2 ? t * t : t;
    return (length * length - squared * scale * scale) / 2;
}

static void prepare_row(search *s, size_t i, double scale)
{
    const bool cosine = s->how.metric == STET_COS;
    const float *x = s->x + i * s->dim;
    float *y = s->y + i * s->dim;
    const double raw = row_length(x, s->dim);
    const double factor = !cosine ? scale : raw > 0 ? 1 / raw : 0;
    for (size_t c = 0; c < s->dim; c++)
        y[c] = (float)(x[c] * factor);
    const double length = raw * factor, nu = (double)s->dim * 0x1p-24;
    const double slack = 1.01 * nu / (1 - nu) * length + 0x1p-21;
    s->half[i] = cosine ? 0 : (float)(length * length / 2);
    s->slack[i] = (float)slack;
    s->floor[i] = round_down(threshold_score(s, length, scale) - 2 * slack);
}

static stet_status prepare(search *s)
{
    double longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double length = row_length(s->x + i * s->dim, s->dim);
        if (!isfinite(length))
            return error_set(STET_EUSAGE, "vector %zu is not finite", i);
        longest = fmax(longest, length);
    }
    int exponent = 0;
    frexp(longest, &exponent); /* longest <= 2^exponent */
    for (size_t i = 0; i < s->n; i++)
        prepare_row(s, i, ldexp(1, -exponent));
    return STET_OK;
}

/* ---- candidates of one row ---------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

static int by_distance(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_cosine(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The candidates of row i in their true order. */
static size_t rank_row(const search *s, size_t i, ranked *out)
{
    const candidate *list = s->list + i * s->cap;
    for (size_t c = 0; c < s->count[i]; c++) {
        const float *other = s->x + (size_t)list[c].id * s->dim;
        const double value = nearest_value(s->how.metric, s->x + i * s->dim, other, s->dim);
        out[c] = (ranked){value, list[c].id, list[c].score};
    }
    qsort(out, s->count[i], sizeof *out, s->how.metric == STET_COS ? by_cosine : by_distance);
    return s->count[i];
}

/* Drop candidates that k others certainly beat. If rounding cannot tell enough of them apart (many
 * equal rows), double precision can: the first k of those present are all that can still count. */
static void thin_out(search *s, size_t i, int worker)
{
    candidate *list = s->list + i * s->cap;
    qsort(list, s->count[i], sizeof *list, by_score);
    if (s->count[i] >= s->k) {
        const float floor = round_down((double)list[s->k - 1].score - 2.0 * s->slack[i]);
        s->floor[i] = fmaxf(s->floor[i], floor);
    }
    while (s->count[i] > 0 && list[s->count[i] - 1].score < s->floor[i])
        s->count[i]--;
    if (s->count[i] <= (s->k + s->cap) / 2)
        return;
    ranked *rank = s->rank + (size_t)worker * s->cap;
    rank_row(s, i, rank);
    for (size_t c = 0; c < s->k; c++)
        list[c] = (candidate){rank[c].score, rank[c].id};
    s->count[i] = (uint32_t)s->k;
}

static void offer(search *s, size_t i, size_t j, float score, int worker)
{
    if (s->count[i] == s->cap)
        thin_out(s, i, worker);
    if (score >= s->floor[i])
        s->list[i * s->cap + s->count[i]++] = (candidate){score, (uint32_t)j};
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* Which chunks of a row of products hold a candidate, for the row or for a column? */
SIMD_CLONES static void scan_row(const float *RESTRICT dot, const float *RESTRICT half,
                                 const float *RESTRICT floor, float row_half, float row_floor,
                                 size_t width, unsigned char *RESTRICT hit)
{
    for (size_t at = 0; at < width; at += CHUNK) {
        const size_t end = at + CHUNK < width ? at + CHUNK : width;
        int any = 0;
        for (size_t j = at; j < end; j++)
            any |= (dot[j] - half[j] >= row_floor) | (dot[j] - row_half >= floor[j]);
        hit[at / CHUNK] = any != 0;
    }
}

/* Two blocks of rows meet; a == b is a block with itself. */
static void meet(search *s, size_t a, size_t b, int worker)
{
    const size_t row = a * BLOCK, col = b * BLOCK;
    const size_t rows = s->n - row < BLOCK ? s->n - row : BLOCK;
    const size_t cols = s->n - col < BLOCK ? s->n - col : BLOCK;
    float *dot = s->block + (size_t)worker * BLOCK * BLOCK;
    (void)gemm_serial(false, true, rows, cols, s->dim, 1, s->y + row * s->dim, s->dim,
                      s->y + col * s->dim, s->dim, 0, dot, BLOCK); /* transposed: cannot fail */
    for (size_t r = 0; r < rows; r++) {
        const float *d = dot + r * BLOCK;
        const size_t i = row + r, from = a == b ? r + 1 : 0;
        unsigned char hit[BLOCK / CHUNK];
        scan_row(d, s->half + col, s->floor + col, s->half[i], s->floor[i], cols, hit);
        for (size_t chunk = from / CHUNK; chunk * CHUNK < cols; chunk++) {
            if (!hit[chunk])
                continue;
            const size_t end = (chunk + 1) * CHUNK < cols ? (chunk + 1) * CHUNK : cols;
            for (size_t c = chunk * CHUNK < from ? from : chunk * CHUNK; c < end; c++) {
                const size_t j = col + c;
                if (d[c] - s->half[j] >= s->floor[i])
                    offer(s, i, j, d[c] - s->half[j], worker);
                if (d[c] - s->half[i] >= s->floor[j])
                    offer(s, j, i, d[c] - s->half[i], worker);
            }
        }
    }
}

static void meet_itself(void *ctx, size_t i, int worker)
{
    meet(ctx, i, i, worker);
}

/* Game i of a round, by the circle method: one team stays, the others turn. */
static void play(void *ctx, size_t i, int worker)
{
    search *s = ctx;
    const size_t teams = s->n_blocks + s->n_blocks % 2, ring = teams - 1;
    const size_t a = i == 0 ? ring : (s->round + i) % ring;
    const size_t b = (s->round + ring - i) % ring;
    if (a < s->n_blocks && b < s->n_blocks) /* with an odd number of teams one pauses */
        meet(s, a < b ? a : b, a < b ? b : a, worker);
}

static stet_status tournament(search *s)
{
    const size_t teams = s->n_blocks + s->n_blocks % 2, rounds = teams ? teams - 1 : 0;
    pool_run(s->n_blocks, meet_itself, s);
    if (s->n_blocks < 2)
        return STET_OK;
    for (s->round = 0; s->round < rounds; s->round++) {
        pool_run(teams / 2, play, s);
        progress("nearest neighbours", s->round + 1, rounds, NULL);
        TRY(interrupt_status());
    }
    return STET_OK;
}

/* ---- results ------------------------------------------------------------------------------ */

static bool passes(const nearest_options *how, double value)
{
    const double t = how->threshold;
    if (how->metric == STET_COS)
        return how->strict ? value > t : value >= t;
    const double distance = how->metric == STET_L2 ? sqrt(value) : value;
    return how->strict ? distance < t : distance <= t;
}

static void finish_block(void *ctx, size_t block, int worker)
{
    search *s = ctx;
    ranked *rank = s->rank + (size_t)worker * s->cap;
    const size_t end = (block + 1) * BLOCK < s->n ? (block + 1) * BLOCK : s->n;
    for (size_t i = block * BLOCK; i < end; i++) {
        const size_t found = rank_row(s, i, rank);
        for (size_t j = 0; j < s->k; j++) {
            const bool in = j < found && passes(&s->how, rank[j].value);
            s->ids[i * s->k + j] = in ? rank[j].id : NEAREST_NONE;
            if (s->value)
                s->value[i * s->k + j] = in ? rank[j].value : NAN;
        }
    }
}

static stet_status allocate(search *s)
{
    const size_t threads = (size_t)stet_threads(), n = s->n;
    s->y = mem_aligned(n, s->dim * sizeof *s->y);
    s->half = mem_alloc(n, sizeof *s->half);
    s->slack = mem_alloc(n, sizeof *s->slack);
    s->floor = mem_alloc(n, sizeof *s->floor);
    s->list = mem_alloc(n, s->cap * sizeof *s->list);
    s->count = mem_zalloc(n, sizeof *s->count);
    s->block = mem_aligned(threads, BLOCK * BLOCK * sizeof *s->block);
    s->rank = mem_alloc(threads, s->cap * sizeof *s->rank);
    const bool ok =
        s->y && s->half && s->slack && s->floor && s->list && s->count && s->block && s->rank;
    return ok ? STET_OK : STET_ENOMEM;
}

static void release(search *s)
{
    mem_free_aligned(s->y);
    mem_free(s->half);
    mem_free(s->slack);
    mem_free(s->floor);
    mem_free(s->list);
    mem_free(s->count);
    mem_free_aligned(s->block);
    mem_free(s->rank);
}

stet_status nearest_find(const float *x, size_t n, size_t dim, const nearest_options *how,
                         uint32_t *ids, double *value)
{
    if (n >= NEAREST_NONE || how->k >= NEAREST_NONE || dim > MAX_DIM)
        return error_set(STET_ENOTSUP, "%zu nearest neighbours of %zu vectors of length %zu",
                         how->k, n, dim);
    if (isnan(how->threshold))
        return error_set(STET_EUSAGE, "the threshold of nearest neighbours is not a number");
    if (how->k == 0 || n == 0)
        return STET_OK;
    TRY(gemm_prepare());
    search s = {.x = x, .n = n, .dim = dim, .k = how->k, .how = *how, .ids = ids, .value = value};
    s.cap = s.k + (s.k / 2 > SPARE ? s.k / 2 : SPARE);
    s.n_blocks = (n + BLOCK - 1) / BLOCK;
    stet_status st = allocate(&s);
    if (st == STET_OK)
        st = prepare(&s);
    if (st == STET_OK)
        st = tournament(&s);
    if (st == STET_OK)
        pool_run(s.n_blocks, finish_block, &s);
    release(&s);
    return st;
}
