/* tensor/cpu/s4_kernel.c - convolution kernels of S4 channels by their recurrence.
 *
 * With delta = 2 / dt, dh = 1 / (delta - Lambda) and gain = 2 / (1 + 2 sum |P|^2 Re dh), the
 * bilinear step is a diagonal matrix and a correction of rank one (Woodbury):
 *
 *     e = 2 delta dh - 1,   f = 2 delta gain dh P,   g = conj(P) dh
 *     z_0 = 2 dh B - 2 gain Re(g.B) dh P,   z_{l+1} = e z_l - f Re(g.z_l),   K_l = 2 Re(C.z_l)
 *
 * which is ten multiply-adds for a state and a step. Channels run side by side in the lanes of
 * vectors, in double, so that hundreds of steps cost the result no digit.
 *
 * Backward keeps the state of every SEGMENT-th step, recomputes the steps between, and walks them
 * in reverse; from the gradients of e, f, g and z_0 the chain to the parameters is O(n). */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

enum { SEGMENT = 32 };
enum { IN_A, IN_W, IN_P, IN_B, IN_C, IN_LOG_DT };

typedef struct kernel_fns {
    size_t lanes; /* channels of a block */
    pool_fn *forward, *backward;
} kernel_fns;

typedef struct kernel_job {
    node *n;
    size_t channels, states, len, segments, lanes;
    double *saved;   /* states (blocks, segments, n), NULL without a backward pass */
    double *scratch; /* (workers, scratch_size) */
    size_t scratch_size;
} kernel_job;

/* Lane i of a block is its channel i; lanes after the last channel repeat it and are dropped. */
static size_t channel_of(const kernel_job *job, size_t block, size_t lane)
{
    const size_t h = block * job->lanes + lane;
    return h < job->channels ? h : job->channels - 1;
}

static void add_pair(const node *x, size_t at, double re, double im)
{
    if (x->needs_grad) {
        x->grad[2 * at] += (real)re;
        x->grad[2 * at + 1] += (real)im;
    }
}

static void add_one(const node *x, size_t at, double v)
{
    if (x->needs_grad)
        x->grad[at] += (real)v;
}

#define KERNEL_FILE "tensor/cpu/s4_recurrence_kernel.h"
#include "tensor/host/each_width.h"

static stet_status run(tape *t, node *n, bool backward)
{
    const kernel_fns fns = FOR_MACHINE(kernel_fns);
    const size_t channels = shape_rows(n->in[IN_A]->shape), states = shape_cols(n->in[IN_A]->shape);
    const size_t len = ((const s4_kernel_args *)n->args)->len;
    const size_t blocks = (channels + fns.lanes - 1) / fns.lanes;
    kernel_job job = {.n = n,
                      .channels = channels,
                      .states = states,
                      .len = len,
                      .segments = (len + SEGMENT - 1) / SEGMENT,
                      .lanes = fns.lanes};
    if (n->needs_grad && !backward) {
        n->saved = arena_new(t->mem, double, blocks *job.segments *states * 2 * fns.lanes);
        if (!n->saved)
            return STET_ENOMEM;
    }
    job.saved = n->saved;
    const arena_mark mark = arena_save(t->mem);
    const size_t both = 18 * states + len, rows = (SEGMENT + 1) * (states + 1);
    job.scratch_size = (both + (backward ? 10 * states + 4 * rows : 0)) * fns.lanes;
    job.scratch = arena_new(t->mem, double, (size_t)stet_threads() * job.scratch_size);
    if (!job.scratch)
        return STET_ENOMEM;
    pool_run(blocks, backward ? fns.backward : fns.forward, &job);
    arena_restore(t->mem, mark);
    return STET_OK;
}

stet_status cpu_s4_kernel_fwd(tape *t, node *n)
{
    return run(t, n, false);
}

stet_status cpu_s4_kernel_bwd(tape *t, node *n)
{
    return run(t, n, true);
}
