/* tensor/cpu/attention.c - softmax(q k^T / sqrt(d)) v for every text and head, over true lengths.
 *
 * A text and a head are one piece of work. Its queries go by tiles: scores of a tile with all keys of
 * the text, their softmax, the product with the values; memory grows with the length, never with its
 * square. Forward keeps one number per query and head, the logarithm of the softmax's sum; backward
 * computes the weights again from it. */
#include <math.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/attention_mask.h"
#include "tensor/host/lanes.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"

enum { TILE = 64 }; /* queries at a time */

typedef struct attention {
    const seq_index *seq;
    const seq_index *asks; /* the texts of the queries; NULL: one query a text */
    size_t heads, H, d;    /* d = H / heads */
    real scale;
    uint64_t key;
    uint32_t limit; /* of dropout; 0: none */
    real kept;      /* factor of the weights that stay */
    const real *q, *kv;
    real *o, *lse; /* lse (queries, heads), or NULL */
    real *dq, *dkv;
    const real *dout;
    real *scratch; /* (workers, 2, TILE, max_len) */
    atomic_bool failed;
} attention;

/* What one piece sees: a text, a head and a tile of its queries. */
typedef struct tile {
    size_t row, n, keys; /* first row of the queries, how many, keys of the text */
    size_t head;
    const real *q, *k, *v; /* leading dimensions H, 2H, 2H */
} tile;

static attention attention_of(const node *n)
{
    const attention_args *args = n->args;
    attention a = {.seq = args->at, .heads = args->heads, .H = shape_cols(n->shape)};
    a.d = a.H / a.heads;
    a.asks = args->asks ? args->asks_at : shape_rows(n->shape) == a.seq->n_tokens ? a.seq : NULL;
    a.scale = (real)(1 / sqrt((double)a.d));
    a.key = args->key;
    a.limit = mask_limit(args->p);
    a.kept = (real)(1 / (1 - args->p));
    a.q = n->in[0]->value;
    a.kv = n->in[1]->value;
    a.o = n->value;
    a.lse = n->saved;
    return a;
}

static real *worker_scratch(const attention *a, int worker)
{
    return a->scratch + (size_t)worker * 2 * TILE * a->seq->max_len;
}

static size_t queries_of(const attention *a, size_t text)
{
    return a->asks ? a->asks->start[text + 1] - a->asks->start[text] : 1;
}

static tile tile_of(const attention *a, size_t text, size_t head, size_t from)
{
    const size_t start = a->seq->start[text], keys = a->seq->start[text + 1] - start;
    const size_t all = queries_of(a, text), left = all - from;
    const size_t row = (a->asks ? a->asks->start[text] : text) + from;
    const real *k = a->kv + start * 2 * a->H + head * a->d;
    return (tile){
        row, left < TILE ? left : TILE, keys, head, a->q + row * a->H + head * a->d, k, k + a->H};
}

static stet_status scores(const attention *a, const tile *t, real *s)
{
    return gemm_serial(false, true, t->n, t->keys, a->d, a->scale, t->q, a->H, t->k, 2 * a->H, 0, s,
                       t->keys);
}

/* For all texts and heads. */
static stet_status run(attention *a, arena *mem, pool_fn *piece)
{
    const arena_mark mark = arena_save(mem);
    a->scratch = arena_new(mem, real, (size_t)stet_threads() * 2 * TILE * a->seq->max_len);
    if (!a->scratch)
        return STET_ENOMEM;
    pool_run(a->seq->n_texts * a->heads, piece, a);
    arena_restore(mem, mark);
    return atomic_load(&a->failed) ? error_set(STET_ENOMEM, "out of memory for attention")
                                   : STET_OK;
}

static SIMD_CLONES real row_max(const real *x, size_t n)
{
    real top[LANES];
    for (int l = 0; l < LANES; l++)
        top[l] = x[0];
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            top[l] = x[j + l] > top[l] ? x[j + l] : top[l];
    for (; j < n; j++)
        top[0] = x[j] > top[0] ? x[j] : top[0];
    for (int l = 1; l < LANES; l++)
        top[0] = top[l] > top[0] ? top[l] : top[0];
    return top[0];
}

static SIMD_CLONES void row_shift(real *x, real by, size_t n)
{
    for (size_t j = 0; j < n; j++)
        x[j] -= by;
}

static SIMD_CLONES real row_sum(const real *x, size_t n)
{
    return lanes_sum(x, n);
}

static SIMD_CLONES void row_drop(real *x, size_t n, uint64_t row, uint32_t limit, real kept)
{
    for (size_t j = 0; j < n; j++)
        x[j] = mask_drops(row, (uint32_t)j, limit) ? 0 : kept * x[j];
}

static uint64_t mask_of(const attention *a, const tile *t, size_t i)
{
    return mask_row(a->key, (t->row + i) * a->heads + t->head);
}

/* ---- forward ------------------------------------------------------------------------------ */

static stet_status tile_forward(const attention *a, const tile *t, real *s)
{
    real share[TILE];
    TRY(scores(a, t, s));
    for (size_t i = 0; i < t->n; i++) {
        real *x = s + i * t->keys;
        const real top = row_max(x, t->keys);
        row_shift(x, top, t->keys);
        vec_exp(x, x, t->keys);
        const real sum = row_sum(x, t->keys);
        share[i] = 1 / sum;
        if (a->lse)
            a->lse[(t->row + i) * a->heads + t->head] = top + (real)log((double)sum);
        if (a->limit)
            row_drop(x, t->keys, mask_of(a, t, i), a->limit, a->kept);
    }
    real *o = a->o + t->row * a->H + t->head * a->d;
    TRY(gemm_serial(false, false, t->n, a->d, t->keys, 1, s, t->keys, t->v, 2 * a->H, 0, o, a->H));
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < a->d; j++)
            o[i * a->H + j] *= share[i];
    return STET_OK;
}

static void forward_piece(void *ctx, size_t piece, int worker)
{
    attention *a = ctx;
    const size_t text = piece / a->heads;
    for (size_t from = 0; from < queries_of(a, text); from += TILE) {
        const tile t = tile_of(a, text, piece % a->heads, from);
        if (tile_forward(a, &t, worker_scratch(a, worker)) != STET_OK)
            atomic_store(&a->failed, true);
    }
}

stet_status cpu_attention_fwd(tape *t, node *n)
{
    if (n->needs_grad) {
        n->saved = arena_new(t->mem, real,
                             shape_rows(n->shape) * ((const attention_args *)n->args)->heads);
        if (!n->saved)
            return STET_ENOMEM;
    }
    attention a = attention_of(n);
    return run(&a, t->mem, forward_piece);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* dp becomes p (dp - D): the slope of the scores. */
static SIMD_CLONES void row_slope(const real *p, real *dp, real D, size_t n)
{
    for (size_t j = 0; j < n; j++)
        dp[j] = p[j] * (dp[j] - D);
}

static SIMD_CLONES real row_dot(const real *x, const real *y, size_t n)
{
    return lanes_dot(x, y, n);
}

/* Weights p again, with dropout where it was, and the slopes ds of the scores from dp. */
static void rows_backward(const attention *a, const tile *t, const real *dout, real *p, real *dp)
{
    const real *o = a->o + (dout - a->dout);
    for (size_t i = 0; i < t->n; i++, p += t->keys, dp += t->keys) {
        row_shift(p, a->lse[(t->row + i) * a->heads + t->head], t->keys);
        vec_exp(p, p, t->keys);
        if (a->limit)
            row_drop(dp, t->keys, mask_of(a, t, i), a->limit, a->kept);
        row_slope(p, dp, row_dot(dout + i * a->H, o + i * a->H, a->d), t->keys);
        if (a->limit)
            row_drop(p, t->keys, mask_of(a, t, i), a->limit, a->kept);
    }
}

static stet_status tile_backward(const attention *a, const tile *t, real *p, real *dp)
{
    const size_t first = t->row * a->H + t->head * a->d, ld = 2 * a->H;
    const real *dout = a->dout + first;
    TRY(scores(a, t, p));
    TRY(gemm_serial(false, true, t->n, t->keys, a->d, 1, dout, a->H, t->v, ld, 0, dp, t->keys));
    rows_backward(a, t, dout, p, dp);
    if (a->dq)
        TRY(gemm_serial(false, false, t->n, a->d, t->keys, a->scale, dp, t->keys, t->k, ld, 1,
                        a->dq + first, a->H));
    if (!a->dkv)
        return STET_OK;
    real *dk = a->dkv + (t->k - a->kv);
    TRY(gemm_serial(true, false, t->keys, a->d, t->n, a->scale, dp, t->keys, t->q, a->H, 1, dk,
                    ld));
    return gemm_serial(true, false, t->keys, a->d, t->n, 1, p, t->keys, dout, a->H, 1, dk + a->H,
                       ld);
}

static void backward_piece(void *ctx, size_t piece, int worker)
{
    attention *a = ctx;
    const size_t text = piece / a->heads;
    real *p = worker_scratch(a, worker);
    for (size_t from = 0; from < queries_of(a, text); from += TILE) {
        const tile t = tile_of(a, text, piece % a->heads, from);
        if (tile_backward(a, &t, p, p + TILE * a->seq->max_len) != STET_OK)
            atomic_store(&a->failed, true);
    }
}

stet_status cpu_attention_bwd(tape *t, node *n)
{
    attention a = attention_of(n);
    a.dout = n->grad;
    a.dq = n->in[0]->grad;
    a.dkv = n->in[1]->grad;
    return run(&a, t->mem, backward_piece);
}
