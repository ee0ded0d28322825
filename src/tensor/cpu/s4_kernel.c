/* tensor/cpu/s4_kernel.c - convolution kernels of S4 channels by their recurrence.
 *
 * With delta = 2 / dt, dh = 1 / (delta - Lambda) and gain = 2 / (1 + 2 sum |P|^2 Re dh), the
 * bilinear step is a diagonal matrix and a correction of rank one (Woodbury):
 *
 *     e = 2 delta dh - 1,   f = 2 delta gain dh P,   g = conj(P) dh
 *     z_0 = 2 dh B - 2 gain Re(g.B) dh P,   z_{l+1} = e z_l - f Re(g.z_l),   K_l = 2 Re(C.z_l)
 *
 * which is ten multiply-adds for a state and a step. Eight channels run side by side in the lanes
 * of a vector, in double: 512 steps would cost float half of its digits, and the whole is cheap.
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
    mode *grad;          /* (n): gradients of e, f, g, c and the adjoint of z */
    vcomplex *z;         /* (SEGMENT, n): recomputed states */
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

static ALWAYS_INLINE vdouble re_dot(const mode *m, size_t n) /* Re(g.z) */
{
    vdouble sum = {0};
    for (size_t i = 0; i < n; i++)
        sum += re_mul(m[i].g, m[i].z);
    return sum;
}

/* One step of every state; *gz is Re(g.z) before and after; the result is Re(c.z) after. */
static ALWAYS_INLINE vdouble advance(mode *RESTRICT m, size_t n, vdouble *gz)
{
    const vdouble k = *gz;
    vdouble next = {0}, cz = {0};
    for (size_t i = 0; i < n; i++) {
        const vcomplex z = m[i].z;
        const vcomplex to = {m[i].e.re * z.re - m[i].e.im * z.im - m[i].f.re * k,
                             m[i].e.re * z.im + m[i].e.im * z.re - m[i].f.im * k};
        m[i].z = to;
        next += re_mul(m[i].g, to);
        cz += re_mul(m[i].c, to);
    }
    *gz = next;
    return cz;
}

static ALWAYS_INLINE void run_recurrence(const scratch *s, size_t n, size_t len, vcomplex *saved)
{
    vdouble gz = re_dot(s->mode, n), cz = {0};
    for (size_t i = 0; i < n; i++)
        cz += re_mul(s->mode[i].c, s->mode[i].z);
    for (size_t l = 0; l < len; l++) {
        if (l)
            cz = advance(s->mode, n, &gz);
        s->k[l] = 2 * cz;
        if (saved && l % SEGMENT == 0)
            for (size_t i = 0; i < n; i++)
                saved[l / SEGMENT * n + i] = s->mode[i].z;
    }
}

static SIMD_CLONES void forward_block(void *ctx, size_t block, int worker)
{
    const kernel_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const size_t n = job->states, len = job->len, first = block * BLOCK;
    const vdouble delta = read_params(job, block, s);
    discretise(s, n, delta);
    run_recurrence(s, n, len, job->saved ? job->saved + block * job->segments * n : NULL);
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
                       .grad = backward ? arena_new(t->mem, mode, n) : NULL,
                       .z = backward ? arena_new(t->mem, vcomplex, SEGMENT * n) : NULL,
                       .k = arena_new(t->mem, vdouble, job->len)};
        if (!s->param || !s->mode || !s->k || (backward && (!s->grad || !s->z)))
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

/* One step back: the adjoint of the state after step l, in grad[].z, becomes that of the state
 * before it, to which K_l adds `dk` = 2 dK_l; *fz is -Re(conj(f).adjoint) before and after. */
static ALWAYS_INLINE void retreat(const mode *RESTRICT m, mode *RESTRICT grad, size_t n,
                                  const vcomplex *RESTRICT z, vdouble gz, vdouble dk, vdouble *fz)
{
    const vdouble dgz = *fz;
    vdouble next = {0};
    for (size_t i = 0; i < n; i++) {
        mode *d = &grad[i];
        const vcomplex adj = d->z, zi = z[i];
        d->e = add(d->e, mul_conj(zi, adj));
        d->f = add(d->f, scaled(-gz, adj));
        d->g = add(d->g, scaled(dgz, conj_of(zi)));
        d->c = add(d->c, scaled(dk, conj_of(zi)));
        vcomplex to = mul_conj(m[i].e, adj);
        to = add(to, scaled(dgz, conj_of(m[i].g)));
        to = add(to, scaled(dk, conj_of(m[i].c)));
        d->z = to;
        next -= re_mul_conj(m[i].f, to);
    }
    *fz = next;
}

/* Segment by segment from the last: states forwards from the saved one, then adjoints back. */
static ALWAYS_INLINE void reverse_recurrence(const scratch *s, size_t n, size_t len,
                                             const vcomplex *saved)
{
    vdouble gz[SEGMENT], fz = {0};
    memset(s->grad, 0, n * sizeof *s->grad);
    for (size_t end = len; end;) {
        const size_t begin = (end - 1) / SEGMENT * SEGMENT;
        for (size_t i = 0; i < n; i++)
            s->mode[i].z = saved[begin / SEGMENT * n + i];
        gz[0] = re_dot(s->mode, n);
        for (size_t l = begin; l < end; l++) {
            vcomplex *z = s->z + (l - begin) * n;
            for (size_t i = 0; i < n; i++)
                z[i] = s->mode[i].z;
            if (l + 1 < end) {
                gz[l + 1 - begin] = gz[l - begin];
                advance(s->mode, n, &gz[l + 1 - begin]);
            }
        }
        for (; end > begin; end--) {
            const size_t l = end - 1 - begin;
            retreat(s->mode, s->grad, n, s->z + l * n, gz[l], 2 * s->k[end - 1], &fz);
        }
    }
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
