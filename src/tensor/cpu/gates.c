/* tensor/cpu/gates.c - ops that let a part of the signal through: dropout and the gated linear
 * unit. */
#include <string.h>

#include "base/rng.h"
#include "base/simd.h"
#include "tensor/cpu/grads.h"
#include "tensor/host/ranges.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"

/* dropout ------------------------------------------------------------------------------------ */

/* One bit an entry, 32 a word. Pieces are whole numbers of words and draw from streams of their
 * own. */
enum { WORD = 32 };
_Static_assert(RANGE_ELEMENTS % WORD == 0, "pieces own whole words of the mask");

typedef struct dropout_job {
    const real *in;
    real *out;
    uint32_t *mask;
    real scale;
    const dropout_args *args;
    bool fresh;
} dropout_job;

/* Every input bit reaches every output bit. Multiplications of 32 bits, which all vector units
 * have. */
static ALWAYS_INLINE uint32_t mix32(uint32_t x)
{
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
    return x ^ x >> 16;
}

/* Entry i of a piece hashes i with the two halves of the piece's key: rng.c's scheme with half the
 * width, four times as fast. */
static SIMD_CLONES void draw_mask(uint32_t *mask, size_t n, uint64_t key, uint32_t drop)
{
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    for (size_t i = 0; i < n; i += WORD) {
        uint32_t keep[WORD], word = 0;
        for (uint32_t j = 0; j < WORD; j++)
            keep[j] = mix32(mix32(((uint32_t)i + j) * UINT32_C(0x9e3779b9) + low) ^ high) >= drop;
        for (uint32_t j = 0; j < WORD; j++)
            word |= keep[j] << j;
        mask[i / WORD] = word;
    }
}

static ALWAYS_INLINE void mask_word(const real *RESTRICT in, real *RESTRICT out, uint32_t word,
                                    real scale, bool add, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++)
        out[j] = (add ? out[j] : 0) + ((word >> j & 1) ? in[j] * scale : 0);
}

static SIMD_CLONES void apply_mask(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const dropout_job *job = ctx;
    size_t i = begin;
    for (; i + WORD <= end; i += WORD)
        mask_word(job->in + i, job->out + i, job->mask[i / WORD], job->scale, !job->fresh, WORD);
    if (i < end)
        mask_word(job->in + i, job->out + i, job->mask[i / WORD], job->scale, !job->fresh,
                  (uint32_t)(end - i));
}

static void draw_and_apply(void *ctx, size_t piece, size_t begin, size_t end)
{
    const dropout_job *job = ctx;
    rng stream = rng_stream(job->args->key, STREAM_DROPOUT, piece);
    const uint32_t drop = (uint32_t)(job->args->p * 0x1p32); /* of 2^32 equally likely values */
    draw_mask(job->mask + begin / WORD, end - begin, rng_u64(&stream), drop);
    apply_mask(ctx, piece, begin, end);
}

stet_status cpu_dropout_fwd(tape *t, node *n)
{
    const dropout_args *args = n->args;
    const size_t count = shape_count(n->shape);
    uint32_t *mask = arena_new(t->mem, uint32_t, count / WORD + 1);
    if (!mask)
        return STET_ENOMEM;
    n->saved = mask;
    dropout_job job = {n->in[0]->value, n->value, mask, (real)(1 / (1 - args->p)), args, true};
    ranges_run(count, RANGE_ELEMENTS, draw_and_apply, &job);
    return STET_OK;
}

stet_status cpu_dropout_bwd(tape *t, node *n)
{
    (void)t;
    node *x = n->in[0];
    const dropout_args *args = n->args;
    dropout_job job = {n->grad, x->grad,         n->saved, (real)(1 / (1 - args->p)),
                       args,    grad_is_fresh(x)};
    ranges_run(shape_count(n->shape), RANGE_ELEMENTS, apply_mask, &job);
    return STET_OK;
}

/* gated linear unit: y = u sigmoid(v) for x = (u, v) ----------------------------------------- */

typedef struct glu_job {
    node *n;
    bool fresh;
} glu_job;

static SIMD_CLONES void glu_rows(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    const node *n = ((const glu_job *)ctx)->n;
    const size_t c = shape_cols(n->shape);
    for (size_t i = begin; i < end; i++) {
        const real *RESTRICT u = n->in[0]->value + 2 * i * c;
        real *RESTRICT y = n->value + i * c;
        vec_sigmoid(u + c, y, c);
        for (size_t j = 0; j < c; j++)
            y[j] *= u[j];
    }
}

/* The sigmoid is computed again: that is cheaper than a trip of its values through memory. */
static SIMD_CLONES void glu_rows_bwd(void *ctx, size_t piece, size_t begin, size_t end)
{
    (void)piece;
    enum { STEP = 512 };
    real gate[STEP];
    const glu_job *job = ctx;
    const node *n = job->n, *x = n->in[0];
    const size_t c = shape_cols(n->shape);
    const bool fresh = job->fresh;
    for (size_t i = begin; i < end; i++) {
        for (size_t at = 0; at < c; at += STEP) {
            const size_t w = c - at < STEP ? c - at : STEP;
            const real *RESTRICT dy = n->grad + i * c + at;
            const real *RESTRICT u = x->value + 2 * i * c + at;
            real *RESTRICT du = x->grad + 2 * i * c + at, *RESTRICT dv = du + c;
            vec_sigmoid(u + c, gate, w);
            for (size_t j = 0; j < w; j++) {
                const real d = dy[j] * gate[j];
                du[j] = (fresh ? 0 : du[j]) + d;
                dv[j] = (fresh ? 0 : dv[j]) + d * u[j] * (1 - gate[j]);
            }
        }
    }
}

stet_status cpu_glu_fwd(tape *t, node *n)
{
    (void)t;
    ranges_run(shape_rows(n->shape), ranges_rows(2 * shape_cols(n->shape)), glu_rows,
               &(glu_job){n, false});
    return STET_OK;
}

stet_status cpu_glu_bwd(tape *t, node *n)
{
    (void)t;
    glu_job job = {n, grad_is_fresh(n->in[0])};
    ranges_run(shape_rows(n->shape), ranges_rows(2 * shape_cols(n->shape)), glu_rows_bwd, &job);
    return STET_OK;
}
