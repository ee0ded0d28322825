/* tensor/cpu/s4_kernel.c - convolution kernels of S4 channels by their recurrence.
 *
 * With delta = 2 / dt, dh = 1 / (delta - Lambda) and gain = 2 / (1 + 2 sum |P|^2 Re dh), the
 * bilinear step is a diagonal matrix and a correction of rank one (Woodbury):
 *
 *     e = 2 delta dh - 1,   f = 2 delta gain dh P,   g = conj(P) dh
 *     z_0 = 2 dh B - 2 gain Re(g.B) dh P,   z_{l+1} = e z_l - f Re(g.z_l),   K_l = 2 Re(C.z_l)
 *
 * which is ten multiply-adds for a state and a step. Eight channels run side by side in the lanes
 * of a vector, in double, so that hundreds of steps cost the result no digit.
 *
 * Backward keeps the state of every SEGMENT-th step, recomputes the steps between, and walks them
 * in reverse; from the gradients of e, f, g and z_0 the chain to the parameters is O(n). */
#include <math.h>

#include "base/pool.h"
#include "tensor/cpu/channels.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

enum { SEGMENT = 32, BLOCK = LINE_DOUBLE };
enum { IN_A, IN_W, IN_P, IN_B, IN_C, IN_LOG_DT };

/* complex numbers of eight channels ---------------------------------------------------------- */

typedef struct vcomplex {
    vdouble re, im;
} vcomplex;

static ALWAYS_INLINE vcomplex add(vcomplex x, vcomplex y)
{
    return (vcomplex){x.re + y.re, x.im + y.im};
}

static ALWAYS_INLINE vcomplex mul(vcomplex x, vcomplex y)
{
    return (vcomplex){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static ALWAYS_INLINE vcomplex mul_conj(vcomplex x, vcomplex y) /* conj(x) y */
{
    return (vcomplex){x.re * y.re + x.im * y.im, x.re * y.im - x.im * y.re};
}

static ALWAYS_INLINE vcomplex conj_of(vcomplex x)
{
    return (vcomplex){x.re, -x.im};
}

static ALWAYS_INLINE vcomplex scaled(vdouble by, vcomplex x)
{
    return (vcomplex){by * x.re, by * x.im};
}

static ALWAYS_INLINE vdouble re_mul(vcomplex x, vcomplex y) /* Re(x y) */
{
    return x.re * y.re - x.im * y.im;
}

static ALWAYS_INLINE vdouble re_mul_conj(vcomplex x, vcomplex y) /* Re(conj(x) y) */
{
    return x.re * y.re + x.im * y.im;
}

static ALWAYS_INLINE vcomplex reciprocal(vcomplex x)
{
    const vdouble by = 1 / (x.re * x.re + x.im * x.im);
    return (vcomplex){by * x.re, -by * x.im};
}

/* parameters and coefficients of a block of channels ----------------------------------------- */

typedef struct param { /* of one state */
    vcomplex lambda, p, b, dh;
} param;

typedef struct mode { /* the recurrence of one state */
    vcomplex e, f, g, c, z;
} mode;

typedef struct scratch { /* of one worker */
    param *param;        /* (n) */
    mode *mode;          /* (n) */
    mode *grad;          /* (n): gradients of e, f, g, c and of z_0 */
    vcomplex *z, *adj;   /* (SEGMENT + 1, n + 1): states of a segment and adjoints */
    vdouble *k;          /* (L): the kernel or its gradient */
} scratch;

typedef struct kernel_job {
    node *n;
    size_t channels, states, len, segments;
    vcomplex *saved; /* (blocks, segments, n), NULL without a backward pass */
    scratch *scratch;
} kernel_job;

/* Lane i of a block is its channel i; lanes after the last channel repeat it and are dropped. */
static size_t channel_of(const kernel_job *job, size_t block, size_t lane)
{
    const size_t h = block * BLOCK + lane;
    return h < job->channels ? h : job->channels - 1;
}

static ALWAYS_INLINE vdouble read_params(const kernel_job *job, size_t block, const scratch *s)
{
    node *const *in = job->n->in;
    vdouble delta;
    for (size_t lane = 0; lane < BLOCK; lane++) {
        const size_t h = channel_of(job, block, lane);
        delta[lane] = 2 * exp(-(double)in[IN_LOG_DT]->value[h]);
        for (size_t i = 0; i < job->states; i++) {
            const size_t at = h * job->states + i;
            param *p = &s->param[i];
            p->lambda.re[lane] = -exp((double)in[IN_A]->value[at]);
            p->lambda.im[lane] = -(double)in[IN_W]->value[at];
            p->p.re[lane] = (double)in[IN_P]->value[2 * at];
            p->p.im[lane] = (double)in[IN_P]->value[2 * at + 1];
            p->b.re[lane] = (double)in[IN_B]->value[2 * at];
            p->b.im[lane] = (double)in[IN_B]->value[2 * at + 1];
            s->mode[i].c.re[lane] = (double)in[IN_C]->value[2 * at];
            s->mode[i].c.im[lane] = (double)in[IN_C]->value[2 * at + 1];
        }
    }
    return delta;
}

/* Sums over the states that both passes need. */
typedef struct rank_one {
    vdouble gain, gb; /* 2 / (1 + rho), Re(g.B) */
} rank_one;

static ALWAYS_INLINE rank_one discretise(const scratch *s, size_t n, vdouble delta)
{
    vdouble rho = {0}, gb = {0};
    for (size_t i = 0; i < n; i++) {
        param *p = &s->param[i];
        p->dh = reciprocal((vcomplex){delta - p->lambda.re, -p->lambda.im});
        rho += 2 * re_mul_conj(p->p, p->p) * p->dh.re;
        s->mode[i].g = mul_conj(p->p, p->dh);
        gb += re_mul(s->mode[i].g, p->b);
    }
    const vdouble gain = 2 / (1 + rho);
    for (size_t i = 0; i < n; i++) {
        const param *p = &s->param[i];
        mode *m = &s->mode[i];
        const vcomplex q = mul(p->dh, p->p), b = mul(p->dh, p->b);
        m->e = (vcomplex){2 * delta * p->dh.re - 1, 2 * delta * p->dh.im};
        m->f = scaled(2 * delta * gain, q);
        m->z = add(scaled((vdouble){0} + 2, b), scaled(-2 * gain * gb, q));
    }
    return (rank_one){gain, gb};
}

/* forward ------------------------------------------------------------------------------------ */

static ALWAYS_INLINE vcomplex after(const mode *m, vcomplex z, vdouble gz) /* e z - f Re(g.z) */
{
    return (vcomplex){m->e.re * z.re - m->e.im * z.im - m->f.re * gz,
                      m->e.re * z.im + m->e.im * z.re - m->f.im * gz};
}

/* K_l for all l, and the state of every SEGMENT-th step. */
static ALWAYS_INLINE void run_recurrence(mode *RESTRICT m, size_t n, size_t len,
                                         vdouble *RESTRICT k, vcomplex *RESTRICT saved)
{
    vdouble gz = {0}, cz = {0};
    for (size_t i = 0; i < n; i++) {
        gz += re_mul(m[i].g, m[i].z);
        cz += re_mul(m[i].c, m[i].z);
    }
    for (size_t l = 0;; l++) {
        k[l] = 2 * cz;
        if (saved && l % SEGMENT == 0)
            for (size_t i = 0; i < n; i++)
                saved[l / SEGMENT * n + i] = m[i].z;
        if (l + 1 == len)
            return;
        vdouble next = {0};
        cz = (vdouble){0};
        for (size_t i = 0; i < n; i++) {
            const vcomplex to = after(&m[i], m[i].z, gz);
            m[i].z = to;
            next += re_mul(m[i].g, to);
            cz += re_mul(m[i].c, to);
        }
        gz = next;
    }
}

static SIMD_CLONES void forward_block(void *ctx, size_t block, int worker)
{
    const kernel_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const size_t n = job->states, len = job->len, first = block * BLOCK;
    const vdouble delta = read_params(job, block, s);
    discretise(s, n, delta);
    run_recurrence(s->mode, n, len, s->k,
                   job->saved ? job->saved + block * job->segments * n : NULL);
    for (size_t lane = 0; lane < BLOCK && first + lane < job->channels; lane++)
        for (size_t l = 0; l < len; l++)
            job->n->value[(first + lane) * len + l] = (real)s->k[l][lane];
}

static size_t block_count(size_t channels)
{
    return (channels + BLOCK - 1) / BLOCK;
}

static bool make_scratch(tape *t, kernel_job *job, bool backward)
{
    const size_t n = job->states, workers = (size_t)stet_threads();
    job->scratch = arena_new(t->mem, scratch, workers);
    for (size_t i = 0; job->scratch && i < workers; i++) {
        scratch *s = &job->scratch[i];
        *s = (scratch){.param = arena_new(t->mem, param, n),
                       .mode = arena_new(t->mem, mode, n),
                       .k = arena_new(t->mem, vdouble, job->len)};
        if (!s->param || !s->mode || !s->k)
            return false;
        if (!backward)
            continue;
        s->grad = arena_new(t->mem, mode, n);
        s->z = arena_new(t->mem, vcomplex, (SEGMENT + 1) * (n + 1));
        s->adj = arena_new(t->mem, vcomplex, (SEGMENT + 1) * (n + 1));
        if (!s->grad || !s->z || !s->adj)
            return false;
    }
    return job->scratch;
}

static kernel_job job_of(node *n)
{
    const shape a = n->in[IN_A]->shape;
    const size_t len = ((const s4_kernel_args *)n->args)->len;
    return (kernel_job){.n = n,
                        .channels = shape_rows(a),
                        .states = shape_cols(a),
                        .len = len,
                        .segments = (len + SEGMENT - 1) / SEGMENT};
}

stet_status cpu_s4_kernel_fwd(tape *t, node *n)
{
    kernel_job job = job_of(n);
    const size_t blocks = block_count(job.channels);
    if (n->needs_grad) {
        n->saved = arena_new(t->mem, vcomplex, blocks * job.segments * job.states);
        if (!n->saved)
            return STET_ENOMEM;
        job.saved = n->saved;
    }
    const arena_mark mark = arena_save(t->mem);
    if (!make_scratch(t, &job, false))
        return STET_ENOMEM;
    pool_run(blocks, forward_block, &job);
    arena_restore(t->mem, mark);
    return STET_OK;
}

/* backward ----------------------------------------------------------------------------------- */

/* What a step leaves to all states: Re(g.z), its gradient, and 2 dK. */
typedef struct step {
    vdouble gz, dgz, dk;
} step;

/* States of a segment from its first one. Rows are n + 1 apart: a power of two would crowd one
 * cache set. */
static ALWAYS_INLINE void replay(const mode *RESTRICT m, size_t n, size_t steps,
                                 vcomplex *RESTRICT z, step *RESTRICT st)
{
    vdouble gz = {0};
    for (size_t i = 0; i < n; i++)
        gz += re_mul(m[i].g, z[i]);
    for (size_t l = 0;; l++, z += n + 1) {
        st[l].gz = gz;
        if (l + 1 == steps)
            return;
        gz = (vdouble){0};
        for (size_t i = 0; i < n; i++) {
            const vcomplex to = after(&m[i], z[i], st[l].gz);
            z[n + 1 + i] = to;
            gz += re_mul(m[i].g, to);
        }
    }
}

/* Adjoints of the states of a segment from that of the state after it, which is row `steps`; *dgz
 * is -Re(conj(f).adjoint) of that and then of the first state. */
static ALWAYS_INLINE void retreat(const mode *RESTRICT m, size_t n, size_t steps, vcomplex *adj,
                                  vdouble *dgz, step *RESTRICT st)
{
    for (size_t l = steps; l-- > 0;) {
        vcomplex *RESTRICT here = adj + l * (n + 1);
        const vcomplex *RESTRICT from = here + n + 1;
        const vdouble k = *dgz, dk = st[l].dk;
        vdouble next = {0};
        for (size_t i = 0; i < n; i++) {
            const vcomplex x = from[i];
            const vcomplex to = {
                m[i].e.re * x.re + m[i].e.im * x.im + k * m[i].g.re + dk * m[i].c.re,
                m[i].e.re * x.im - m[i].e.im * x.re - k * m[i].g.im - dk * m[i].c.im};
            here[i] = to;
            next -= re_mul_conj(m[i].f, to);
        }
        st[l].dgz = k;
        *dgz = next;
    }
}

/* Gradients of the coefficients of `count` states, whose sums stay in registers. */
static ALWAYS_INLINE void collect(mode *RESTRICT grad, size_t count, size_t n, size_t steps,
                                  const vcomplex *RESTRICT z, const vcomplex *RESTRICT adj,
                                  const step *RESTRICT st)
{
    mode d[2];
    for (size_t i = 0; i < count; i++)
        d[i] = grad[i];
    for (size_t l = 0; l < steps; l++, z += n + 1, adj += n + 1) {
        const vdouble gz = st[l].gz, dgz = st[l].dgz, dk = st[l].dk;
        for (size_t i = 0; i < count; i++) {
            const vcomplex x = z[i], y = adj[i];
            d[i].e.re = d[i].e.re + x.re * y.re + x.im * y.im; /* conj(x) y */
            d[i].e.im = d[i].e.im + x.re * y.im - x.im * y.re;
            d[i].f.re -= gz * y.re;
            d[i].f.im -= gz * y.im;
            d[i].g.re += dgz * x.re;
            d[i].g.im -= dgz * x.im;
            d[i].c.re += dk * x.re;
            d[i].c.im -= dk * x.im;
        }
    }
    for (size_t i = 0; i < count; i++)
        grad[i] = d[i];
}

/* Segment by segment from the last. */
static ALWAYS_INLINE void reverse_recurrence(const scratch *s, size_t n, size_t len,
                                             const vcomplex *saved)
{
    step st[SEGMENT];
    vdouble dgz = {0};
    memset(s->grad, 0, n * sizeof *s->grad);
    memset(s->adj, 0, n * sizeof *s->adj);
    for (size_t end = len; end;) {
        const size_t begin = (end - 1) / SEGMENT * SEGMENT, steps = end - begin, row = n + 1;
        memcpy(s->z, saved + begin / SEGMENT * n, n * sizeof *s->z);
        memcpy(s->adj + steps * row, s->adj, n * sizeof *s->adj);
        for (size_t l = 0; l < steps; l++)
            st[l].dk = 2 * s->k[begin + l];
        replay(s->mode, n, steps, s->z, st);
        retreat(s->mode, n, steps, s->adj, &dgz, st);
        size_t i = 0;
        for (; i + 2 <= n; i += 2)
            collect(s->grad + i, 2, n, steps, s->z + i, s->adj + row + i, st);
        if (i < n)
            collect(s->grad + i, 1, n, steps, s->z + i, s->adj + row + i, st);
        end = begin;
    }
    for (size_t i = 0; i < n; i++)
        s->grad[i].z = s->adj[i];
}

/* From the gradients of e, f, g and z_0 to those of Lambda, P, B (left in grad[].e, .f, .z) and
 * delta. For complex x the gradient is d/dRe x + i d/dIm x, so y = h(x) gives dx = conj(h') dy. */
static ALWAYS_INLINE vdouble chain_to_params(const scratch *s, size_t n, vdouble delta, rank_one r)
{
    vdouble dgain = {0}, dgb = {0}, ddelta = {0};
    for (size_t i = 0; i < n; i++) {
        const param *p = &s->param[i];
        const mode *d = &s->grad[i];
        const vcomplex q = mul(p->dh, p->p);
        const vdouble fq = re_mul_conj(d->f, q), zq = re_mul_conj(d->z, q);
        ddelta += 2 * re_mul_conj(d->e, p->dh) + 2 * r.gain * fq;
        dgain += 2 * delta * fq - 2 * r.gb * zq;
        dgb -= 2 * r.gain * zq;
    }
    const vdouble drho = -dgain * r.gain * r.gain / 2, two = (vdouble){0} + 2;
    for (size_t i = 0; i < n; i++) {
        const param *p = &s->param[i];
        mode *d = &s->grad[i];
        const vcomplex dg = add(d->g, scaled(dgb, conj_of(p->b)));
        const vcomplex dq = add(scaled(2 * delta * r.gain, d->f), scaled(-2 * r.gain * r.gb, d->z));
        vcomplex ddh = scaled(2 * delta, d->e);
        ddh = add(ddh, scaled(two, mul_conj(p->b, d->z)));
        ddh = add(ddh, add(mul(p->p, dg), mul_conj(p->p, dq)));
        ddh.re += 2 * drho * re_mul_conj(p->p, p->p);
        const vcomplex db =
            add(scaled(two, mul_conj(p->dh, d->z)), scaled(dgb, conj_of(s->mode[i].g)));
        vcomplex dp = add(mul_conj(dg, p->dh), mul_conj(p->dh, dq));
        dp = add(dp, scaled(4 * drho * p->dh.re, p->p));
        const vcomplex dlambda = mul_conj(mul(p->dh, p->dh), ddh);
        ddelta -= dlambda.re;
        d->e = dlambda;
        d->f = dp;
        d->z = db;
    }
    return ddelta;
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

static SIMD_CLONES void backward_block(void *ctx, size_t block, int worker)
{
    const kernel_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const size_t n = job->states, len = job->len, first = block * BLOCK;
    for (size_t lane = 0; lane < BLOCK; lane++)
        for (size_t l = 0; l < len; l++)
            s->k[l][lane] = (double)job->n->grad[channel_of(job, block, lane) * len + l];
    const vdouble delta = read_params(job, block, s);
    const rank_one r = discretise(s, n, delta);
    reverse_recurrence(s, n, len, job->saved + block * job->segments * n);
    const vdouble ddelta = chain_to_params(s, n, delta, r);

    node *const *in = job->n->in;
    for (size_t lane = 0; lane < BLOCK && first + lane < job->channels; lane++) {
        const size_t h = first + lane;
        add_one(in[IN_LOG_DT], h, -delta[lane] * ddelta[lane]);
        for (size_t i = 0; i < n; i++) {
            const mode *d = &s->grad[i];
            const size_t at = h * n + i;
            add_one(in[IN_A], at, s->param[i].lambda.re[lane] * d->e.re[lane]);
            add_one(in[IN_W], at, -d->e.im[lane]);
            add_pair(in[IN_P], at, d->f.re[lane], d->f.im[lane]);
            add_pair(in[IN_B], at, d->z.re[lane], d->z.im[lane]);
            add_pair(in[IN_C], at, d->c.re[lane], d->c.im[lane]);
        }
    }
}

stet_status cpu_s4_kernel_bwd(tape *t, node *n)
{
    kernel_job job = job_of(n);
    job.saved = n->saved;
    const arena_mark mark = arena_save(t->mem);
    if (!make_scratch(t, &job, true))
        return STET_ENOMEM;
    pool_run(block_count(job.channels), backward_block, &job);
    arena_restore(t->mem, mark);
    return STET_OK;
}
