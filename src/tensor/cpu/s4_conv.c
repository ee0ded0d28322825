/* tensor/cpu/s4_conv.c - causal convolution of every text with its channel's kernel.
 *
 * The term d u joins the kernel as d + K_0. With time reversed inside the text, all three products
 * are the same causal convolution:
 *
 *     y = K * u,   rev(du) = K * rev(dy),   rev(dK) = u * rev(dy)
 *
 * Texts of up to S4_DIRECT_MAX words are convolved term by term, longer ones in blocks by their
 * spectra; dK of all long texts is summed as a spectrum and transformed back once.
 *
 * One piece of work is a column: as many channels as a vector holds, through all texts. So sums run
 * in the order of the texts, and no two pieces write to the same place. */
#include "tensor/cpu/s4_conv.h"

#include <string.h>

#include "base/pool.h"
#include "tensor/cpu/block_fft.h"
#include "tensor/op_args.h"

_Static_assert((int)FFT_BLOCK == (int)S4_BLOCK, "certificates know the blocks by this size");

enum { IN_U, IN_K, IN_D };
enum { AHEAD = FFT_BLOCK };

typedef struct conv_fns {
    size_t lanes; /* channels of a column */
    pool_fn *forward, *backward;
} conv_fns;

typedef struct conv_job {
    node *n;
    const seq_index *seq;
    size_t channels, len, lanes, direct_max;
    bool want_dk; /* of the kernel or of d */
    fft_roots roots;
    real *scratch; /* (workers, scratch_size) */
    size_t scratch_size;
} conv_job;

typedef struct column {
    size_t first, channels;
} column;

/* One text of a (T, H) array in a column: row t starts at v + t stride. */
typedef struct rows {
    real *v;
    size_t stride, channels, len;
} rows;

static column column_of(const conv_job *job, size_t piece)
{
    const size_t first = piece * job->lanes, left = job->channels - first;
    return (column){first, left < job->lanes ? left : job->lanes};
}

static rows rows_of(const conv_job *job, real *v, size_t text, column c)
{
    const size_t start = job->seq->start[text];
    return (rows){v + start * job->channels + c.first, job->channels, c.channels,
                  job->seq->start[text + 1] - start};
}

static size_t block_count(size_t len)
{
    return (len + FFT_BLOCK - 1) / FFT_BLOCK;
}

static size_t block_len(size_t len, size_t b) /* of block b */
{
    return len - b * FFT_BLOCK < FFT_BLOCK ? len - b * FFT_BLOCK : FFT_BLOCK;
}

#define KERNEL_FILE "tensor/cpu/s4_conv_kernel.h"
#include "tensor/host/each_width.h"

static stet_status run(tape *t, node *n, size_t direct_max, bool backward)
{
    const conv_fns fns = FOR_MACHINE(conv_fns);
    conv_job job = {.n = n,
                    .seq = ((const seq_args *)n->args)->at,
                    .channels = shape_cols(n->shape),
                    .len = shape_cols(n->in[IN_K]->shape),
                    .lanes = fns.lanes,
                    .direct_max = direct_max,
                    .want_dk = n->in[IN_K]->needs_grad || n->in[IN_D]->needs_grad};
    const size_t blocks = block_count(job.seq->max_len);
    const arena_mark mark = arena_save(t->mem);
    fft_roots_init(&job.roots);
    job.scratch_size = blocks * (5 * FFT_BLOCK + 8 * FFT_STRIDE) * fns.lanes;
    job.scratch = arena_new(t->mem, real, (size_t)stet_threads() * job.scratch_size);
    if (!job.scratch)
        return STET_ENOMEM;
    pool_run((job.channels + fns.lanes - 1) / fns.lanes, backward ? fns.backward : fns.forward,
             &job);
    arena_restore(t->mem, mark);
    return STET_OK;
}

stet_status s4_conv_forward(tape *t, node *n, size_t direct_max)
{
    return run(t, n, direct_max, false);
}

stet_status s4_conv_backward(tape *t, node *n, size_t direct_max)
{
    return run(t, n, direct_max, true);
}

stet_status cpu_s4_conv_fwd(tape *t, node *n)
{
    return s4_conv_forward(t, n, S4_DIRECT_MAX);
}

stet_status cpu_s4_conv_bwd(tape *t, node *n)
{
    return s4_conv_backward(t, n, S4_DIRECT_MAX);
}
