/* text/embed.c - word vectors from a corpus: GloVe (Pennington, Socher, Manning, EMNLP 2014).
 *
 * With X_ij the weighted co-occurrence of words i and j, word vectors w, context vectors c and
 * their biases minimise the sum over the nonzero X_ij of
 *
 *     f(X_ij) (w_i . c_j + a_i + b_j - log X_ij)^2,    f(x) = min(1, (x / x_max)^alpha)
 *
 * by AdaGrad, one entry at a time; the result is w + c.
 *
 * In parallel and still deterministic: entries lie in blocks by groups of rows and columns
 * (cooccur.h). A step takes the blocks (p, (p + shift) mod GROUPS) of all p; no two of them share a
 * row or a column, so workers never meet and the order in which they run does not matter. GROUPS
 * steps make an epoch. */
#include "text/embed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/simd.h"
#include "text/vectors.h"

enum { LANES = 16 }; /* vectors are padded with zeros, which stay zero, to a multiple of this */

/* The vectors of one side (words or contexts) with the sums of their squared steps. */
typedef struct side {
    float
        *row; /* (n, 2 * stride): vector, then sums, together in memory as they are used together */
    float *bias; /* (n, 2) */
} side;

typedef struct trainer {
    const stet_embed_options *how;
    cooc *x;
    size_t stride; /* dim, padded */
    side word, context;
    size_t epoch, shift;
    double loss[COOC_GROUPS];
} trainer;

static ALWAYS_INLINE float dot(const float *RESTRICT a, const float *RESTRICT b, size_t n)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += a[i + k] * b[i + k];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

static ALWAYS_INLINE void step(float *value, float *sum, float gradient)
{
    *value -= gradient / sqrtf(*sum);
    *sum += gradient * gradient;
}

/* All entries of a block once, in their order; returns the sum of their losses. Gradients carry the
 * rate, as in the authors' program, whose default rate 0.05 we share. */
SIMD_CLONES static double train_entries(const trainer *t, const cooc_entry *e, size_t n)
{
    const size_t stride = t->stride;
    const float rate = (float)t->how->rate, alpha = (float)t->how->alpha;
    const float log_max = (float)log(t->how->x_max);
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        float *RESTRICT const w = t->word.row + e[i].row * 2 * stride;
        float *RESTRICT const c = t->context.row + e[i].col * 2 * stride;
        float *const a = t->word.bias + 2 * e[i].row, *const b = t->context.bias + 2 * e[i].col;
        const float log_x = logf(e[i].x);
        const float error = dot(w, c, stride) + a[0] + b[0] - log_x;
        const float f = log_x < log_max ? expf(alpha * (log_x - log_max)) : 1;
        loss += 0.5 * f * error * error;
        const float g = rate * f * error;
        for (size_t k = 0; k < stride; k++) {
            const float gw = g * c[k], gc = g * w[k];
            step(&w[k], &w[stride + k], gw);
            step(&c[k], &c[stride + k], gc);
        }
        step(&a[0], &a[1], g);
        step(&b[0], &b[1], g);
    }
    return loss;
}

static void shuffle(cooc_entry *e, size_t n, rng r)
{
    for (size_t i = n; i > 1; i--) {
        const size_t k = rng_below(&r, i);
        const cooc_entry other = e[k];
        e[k] = e[i - 1];
        e[i - 1] = other;
    }
}

static void train_block(void *ctx, size_t p, int worker)
{
    (void)worker;
    trainer *const t = ctx;
    const size_t q = (p + t->shift) % COOC_GROUPS;
    cooc_block *const b = &t->x->block[p][q];
    const uint64_t turn = (t->epoch * COOC_GROUPS + p) * COOC_GROUPS + q;
    shuffle(b->v, b->n, rng_stream(t->how->seed, STREAM_SHUFFLE, turn));
    t->loss[p] += train_entries(t, b->v, b->n);
}

static stet_status train_epoch(trainer *t, double *loss)
{
    uint32_t order[COOC_GROUPS];
    rng r = rng_stream(t->how->seed, STREAM_EMBED, t->epoch);
    rng_permutation(&r, order, COOC_GROUPS);
    memset(t->loss, 0, sizeof t->loss);
    for (size_t i = 0; i < COOC_GROUPS; i++) {
        t->shift = order[i];
        pool_run(COOC_GROUPS, train_block, t);
        TRY(interrupt_status());
    }
    double sum = 0;
    for (size_t p = 0; p < COOC_GROUPS; p++)
        sum += t->loss[p];
    *loss = sum / (double)t->x->n;
    if (!isfinite(*loss))
        return error_set(STET_EUSAGE,
                         "training of word vectors diverged in epoch %zu: a rate below %g may help",
                         t->epoch + 1, t->how->rate);
    return STET_OK;
}

/* Small random vectors, sums of one. */
static stet_status side_init(side *s, const trainer *t, size_t n, size_t which)
{
    const size_t dim = t->how->dim, stride = t->stride;
    s->row = mem_aligned(n, 2 * stride * sizeof *s->row);
    s->bias = mem_alloc(n, 2 * sizeof *s->bias);
    if (!s->row || !s->bias)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        rng r = rng_stream(t->how->seed, STREAM_INIT, 2 * i + which);
        float *const v = s->row + i * 2 * stride;
        for (size_t k = 0; k < stride; k++) {
            v[k] = k < dim ? (rng_float(&r) - 0.5f) / (float)dim : 0;
            v[stride + k] = 1;
        }
        s->bias[2 * i] = (rng_float(&r) - 0.5f) / (float)dim;
        s->bias[2 * i + 1] = 1;
    }
    return STET_OK;
}

static void side_deinit(side *s)
{
    mem_free_aligned(s->row);
    mem_free(s->bias);
}

static stet_status run_epochs(trainer *t, double *losses)
{
    for (t->epoch = 0; t->epoch < t->how->epochs; t->epoch++) {
        double loss;
        TRY(train_epoch(t, &loss));
        if (losses)
            losses[t->epoch] = loss;
        char note[32];
        snprintf(note, sizeof note, "loss %.4f", loss);
        progress("training word vectors", t->epoch + 1, t->how->epochs, note);
    }
    return STET_OK;
}

stet_status glove_train(cooc *x, size_t n_words, const stet_embed_options *how, float *out,
                        double *loss)
{
    trainer t = {.how = how, .x = x, .stride = (how->dim + LANES - 1) / LANES * LANES};
    stet_status st = side_init(&t.word, &t, n_words, 0);
    if (st == STET_OK)
        st = side_init(&t.context, &t, n_words, 1);
    if (st == STET_OK)
        st = run_epochs(&t, loss);
    if (st == STET_OK)
        for (size_t i = 0; i < n_words; i++)
            for (size_t k = 0; k < how->dim; k++)
                out[i * how->dim + k] =
                    t.word.row[i * 2 * t.stride + k] + t.context.row[i * 2 * t.stride + k];
    side_deinit(&t.word);
    side_deinit(&t.context);
    return st;
}

/* ---- the public function ------------------------------------------------------------------ */

static stet_status check_options(const stet_embed_options *how)
{
    if (how->dim < 1 || how->dim > 65536)
        return error_set(STET_EUSAGE, "dim is %zu, expected 1 to 65536", how->dim);
    if (how->window < 1 || how->window > 1000)
        return error_set(STET_EUSAGE, "window is %zu, expected 1 to 1000", how->window);
    if (how->epochs < 1)
        return error_set(STET_EUSAGE, "epochs is 0, expected at least 1");
    if (!(how->rate > 0 && how->x_max > 0 && how->alpha >= 0))
        return error_set(STET_EUSAGE,
                         "rate %g, x_max %g, alpha %g: expected above 0, above 0 and at least 0",
                         how->rate, how->x_max, how->alpha);
    return STET_OK;
}

static stet_status build_vocab(const stet_dataset *d, stet_tokenizer kind, uint64_t min_count,
                               stet_vocab **v)
{
    stet_counter *count;
    TRY(stet_counter_new(&count));
    stet_status st = stet_counter_add_dataset(count, d, kind);
    if (st == STET_OK)
        st = stet_vocab_build(count, min_count, 0, v);
    stet_counter_free(count);
    return st;
}

static stet_status train_vectors(const stet_corpus *corpus, const stet_vocab *v,
                                 const stet_embed_options *how, stet_vectors *out)
{
    cooc x;
    TRY(cooc_count(corpus, stet_vocab_size(v), how->window, &x));
    log_info("word vectors: %zu words, %zu tokens, %zu pairs", stet_vocab_size(v) - STET_FIRST_WORD,
             corpus->n_tokens, x.n);
    stet_status st =
        x.n > 0 ? vectors_init(out, stet_vocab_size(v), how->dim)
                : error_set(STET_EUSAGE,
                            "no two words that occur at least %llu times appear near each other",
                            (unsigned long long)how->min_count);
    if (st == STET_OK)
        st = glove_train(&x, out->n, how, out->data, NULL);
    cooc_deinit(&x);
    if (st != STET_OK)
        return st;
    memset(out->data, 0,
           STET_FIRST_WORD * out->dim * sizeof *out->data); /* these two never occurred */
    out->n_known = out->n - STET_FIRST_WORD;
    memset(out->known + STET_FIRST_WORD, 1, out->n_known);
    vectors_fill_unknown(out);
    return STET_OK;
}

void stet_embed_options_init(stet_embed_options *a, size_t size)
{
    const stet_embed_options defaults = STET_EMBED_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_embed_train(const stet_dataset *d, stet_tokenizer kind,
                             const stet_embed_options *given, stet_vocab **v, stet_vectors *out)
{
    stet_embed_options own = STET_EMBED_DEFAULTS, *how = &own;
    *v = NULL;
    *out = (stet_vectors){0};
    TRY(ARGS_TAKE(how, given));
    TRY(check_options(how));
    TRY(build_vocab(d, kind, how->min_count, v));
    stet_corpus corpus;
    stet_status st = stet_corpus_encode(d, *v, kind, 0, &corpus);
    if (st == STET_OK) {
        st = train_vectors(&corpus, *v, how, out);
        stet_corpus_deinit(&corpus);
    }
    if (st != STET_OK) {
        stet_vectors_deinit(out);
        stet_vocab_free(*v);
        *v = NULL;
    }
    return st;
}
