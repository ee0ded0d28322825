/* tensor/cpu/s4_conv.c - causal convolution of every text with its channel's kernel.
 *
 * The term d u joins the kernel as d + K_0. With time reversed inside the text, all three products
 * are the same causal convolution:
 *
 *     y = K * u,   rev(du) = K * rev(dy),   rev(dK) = u * rev(dy)
 *
 * One piece of work is a cache line of channels through all texts, so dK is summed in the order of
 * the texts and no two pieces write to the same place. */
#include "base/pool.h"
#include "tensor/cpu/toeplitz.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

enum { IN_U, IN_K, IN_D };

typedef struct scratch { /* of one worker, each with room for the longest text */
    vreal *k, *x, *e, *y, *dk;
} scratch;

typedef struct conv_job {
    node *n;
    const seq_index *seq;
    size_t channels, len;
    bool fresh_du;
    scratch *scratch;
} conv_job;

/* A cache line of channels: the first and how many there are. */
typedef struct column {
    size_t first, lanes;
} column;

static column column_of(const conv_job *job, size_t piece)
{
    const size_t first = piece * LINE, left = job->channels - first;
    return (column){first, left < LINE ? left : LINE};
}

static ALWAYS_INLINE void read_kernel(const conv_job *job, column c, vreal *k)
{
    const node *kernel = job->n->in[IN_K];
    const size_t longest = job->seq->max_len;
    memset(k, 0, toeplitz_room(longest) * sizeof *k);
    for (size_t lane = 0; lane < c.lanes; lane++) {
        for (size_t l = 0; l < longest; l++)
            k[l][lane] = kernel->value[(c.first + lane) * job->len + l];
        k[0][lane] += job->n->in[IN_D]->value[c.first + lane];
    }
}

/* The rows of one text, filled up with zeros. */
static ALWAYS_INLINE void read_text(const real *rows, size_t stride, size_t len, column c,
                                    bool reverse, vreal *x)
{
    for (size_t t = 0; t < len; t++)
        line_load(&x[reverse ? len - 1 - t : t], rows + t * stride + c.first, c.lanes);
    memset(x + len, 0, (toeplitz_room(len) - len) * sizeof *x);
}

static SIMD_CLONES void forward_column(void *ctx, size_t piece, int worker)
{
    const conv_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const column c = column_of(job, piece);
    const size_t stride = job->channels;
    read_kernel(job, c, s->k);
    for (size_t b = 0; b < job->seq->n_texts; b++) {
        const size_t start = job->seq->start[b], len = job->seq->start[b + 1] - start;
        read_text(job->n->in[IN_U]->value + start * stride, stride, len, c, false, s->x);
        toeplitz_mul(s->x, s->k, len, s->y);
        for (size_t t = 0; t < len; t++)
            line_store(&s->y[t], job->n->value + (start + t) * stride + c.first, c.lanes);
    }
}

static ALWAYS_INLINE void add_kernel_grad(const conv_job *job, column c, const vreal *dk)
{
    const node *kernel = job->n->in[IN_K], *d = job->n->in[IN_D];
    for (size_t lane = 0; lane < c.lanes; lane++) {
        if (d->needs_grad)
            d->grad[c.first + lane] += dk[0][lane];
        if (kernel->needs_grad)
            for (size_t l = 0; l < job->seq->max_len; l++)
                kernel->grad[(c.first + lane) * job->len + l] += dk[l][lane];
    }
}

static SIMD_CLONES void backward_column(void *ctx, size_t piece, int worker)
{
    const conv_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const column c = column_of(job, piece);
    const size_t stride = job->channels;
    node *u = job->n->in[IN_U];
    const bool want_du = u->needs_grad,
               want_dk = job->n->in[IN_K]->needs_grad || job->n->in[IN_D]->needs_grad;
    read_kernel(job, c, s->k);
    memset(s->dk, 0, job->seq->max_len * sizeof *s->dk);
    for (size_t b = 0; b < job->seq->n_texts; b++) {
        const size_t start = job->seq->start[b], len = job->seq->start[b + 1] - start;
        read_text(job->n->grad + start * stride, stride, len, c, true, s->e);
        if (want_du) {
            toeplitz_mul(s->e, s->k, len, s->y);
            for (size_t t = 0; t < len; t++) {
                real *du = u->grad + (start + t) * stride + c.first;
                vreal sum = {0};
                if (!job->fresh_du)
                    line_load(&sum, du, c.lanes);
                sum += s->y[len - 1 - t];
                line_store(&sum, du, c.lanes);
            }
        }
        if (want_dk) {
            read_text(u->value + start * stride, stride, len, c, false, s->x);
            toeplitz_mul(s->e, s->x, len, s->y);
            for (size_t l = 0; l < len; l++)
                s->dk[l] += s->y[len - 1 - l];
        }
    }
    if (want_dk)
        add_kernel_grad(job, c, s->dk);
}

static stet_status run(tape *t, node *n, pool_fn *fn)
{
    conv_job job = {.n = n,
                    .seq = ((const s4_conv_args *)n->args)->seq,
                    .channels = shape_cols(n->shape),
                    .len = shape_cols(n->in[IN_K]->shape)};
    if (n->in[IN_U]->grad)
        job.fresh_du = grad_is_fresh(n->in[IN_U]);
    const size_t room = toeplitz_room(job.seq->max_len), workers = (size_t)stet_threads();
    const arena_mark mark = arena_save(t->mem);
    job.scratch = arena_new(t->mem, scratch, workers);
    for (size_t i = 0; i < workers; i++) {
        vreal *mem = job.scratch ? arena_new(t->mem, vreal, 5 * room) : NULL;
        if (!mem)
            return STET_ENOMEM;
        job.scratch[i] = (scratch){mem, mem + room, mem + 2 * room, mem + 3 * room, mem + 4 * room};
    }
    pool_run((job.channels + LINE - 1) / LINE, fn, &job);
    arena_restore(t->mem, mark);
    return STET_OK;
}

stet_status cpu_s4_conv_fwd(tape *t, node *n)
{
    return run(t, n, forward_column);
}

stet_status cpu_s4_conv_bwd(tape *t, node *n)
{
    return run(t, n, backward_column);
}
