/* tensor/cpu/s4_filters.c - filters of a convolution as sums of state spaces, each of which reads one
 * direction of the vectors (ops.h). A filter and all that makes it is one piece. */
#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

enum { IN_ENC, IN_K, IN_D };

typedef struct filters_job {
    node *n;
    size_t dim, len, rank;
} filters_job;

static filters_job job_of(node *n)
{
    return (filters_job){n, shape_cols(n->in[IN_ENC]->shape), shape_cols(n->in[IN_K]->shape),
                         ((const s4_filters_args *)n->args)->rank};
}

/* What state space h does with the word l before the last. */
static real tap_of(const filters_job *j, size_t h, size_t l)
{
    return j->n->in[IN_K]->value[h * j->len + l] + (l == 0 ? j->n->in[IN_D]->value[h] : 0);
}

SIMD_CLONES
static void make_filter(void *ctx, size_t f, int worker)
{
    (void)worker;
    const filters_job *j = ctx;
    real *w = j->n->value + f * j->dim * j->len;
    memset(w, 0, j->dim * j->len * sizeof *w);
    for (size_t h = f * j->rank; h < (f + 1) * j->rank; h++)
        for (size_t l = 0; l < j->len; l++) {
            const real tap = tap_of(j, h, l), *enc = j->n->in[IN_ENC]->value + h * j->dim;
            real *to = w + j->len - 1 - l;
            for (size_t i = 0; i < j->dim; i++)
                to[i * j->len] += tap * enc[i];
        }
}

SIMD_CLONES
static void unmake_filter(void *ctx, size_t f, int worker)
{
    (void)worker;
    const filters_job *j = ctx;
    const node *enc = j->n->in[IN_ENC], *k = j->n->in[IN_K], *d = j->n->in[IN_D];
    for (size_t h = f * j->rank; h < (f + 1) * j->rank; h++)
        for (size_t l = 0; l < j->len; l++) {
            const real *dw = j->n->grad + f * j->dim * j->len + j->len - 1 - l;
            const real tap = tap_of(j, h, l);
            real sum = 0;
            for (size_t i = 0; i < j->dim; i++)
                sum += dw[i * j->len] * enc->value[h * j->dim + i];
            for (size_t i = 0; enc->needs_grad && i < j->dim; i++)
                enc->grad[h * j->dim + i] += tap * dw[i * j->len];
            if (k->needs_grad)
                k->grad[h * j->len + l] += sum;
            if (d->needs_grad && l == 0)
                d->grad[h] += sum;
        }
}

stet_status cpu_s4_filters_fwd(tape *t, node *n)
{
    (void)t;
    filters_job j = job_of(n);
    pool_run(n->shape.dim[0], make_filter, &j);
    return STET_OK;
}

stet_status cpu_s4_filters_bwd(tape *t, node *n)
{
    (void)t;
    filters_job j = job_of(n);
    pool_run(n->shape.dim[0], unmake_filter, &j);
    return STET_OK;
}
