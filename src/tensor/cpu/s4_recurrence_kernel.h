/* tensor/cpu/s4_recurrence_kernel.h - the work of s4_kernel.c, included by each_width.h: a block of
 * channels, as many as a vector holds doubles, through all steps. */
#ifndef TENSOR_CPU_S4_RECURRENCE_H
#define TENSOR_CPU_S4_RECURRENCE_H

/* The sums over states are chains; two states a turn leave more to overlap with them. */
#if defined(__clang__)
#define IN_PAIRS _Pragma("clang loop unroll_count(2)")
#else
#define IN_PAIRS _Pragma("GCC unroll 2")
#endif

#define vdouble NAME(vdouble)
#define DOUBLES (VECTOR_BYTES / sizeof(double))
#define vcomplex NAME(vcomplex)
#define add NAME(add)
#define mul NAME(mul)
#define mul_conj NAME(mul_conj)
#define conj_of NAME(conj_of)
#define scaled NAME(scaled)
#define re_mul NAME(re_mul)
#define re_mul_conj NAME(re_mul_conj)
#define reciprocal NAME(reciprocal)
#define param NAME(param)
#define mode NAME(mode)
#define buffers NAME(buffers)
#define buffers_of NAME(buffers_of)
#define saved_of NAME(saved_of)
#define read_params NAME(read_params)
#define rank_one NAME(rank_one)
#define discretise NAME(discretise)
#define after NAME(after)
#define run_recurrence NAME(run_recurrence)
#define step NAME(step)
#define replay NAME(replay)
#define retreat NAME(retreat)
#define collect NAME(collect)
#define reverse_recurrence NAME(reverse_recurrence)
#define chain_to_params NAME(chain_to_params)

#endif

typedef double vdouble __attribute__((vector_size(VECTOR_BYTES)));

/* complex numbers of some channels ----------------------------------------------------------- */

typedef struct vcomplex {
    vdouble re, im;
} vcomplex;

TARGET static ALWAYS_INLINE vcomplex add(vcomplex x, vcomplex y)
{
    return (vcomplex){x.re + y.re, x.im + y.im};
}

TARGET static ALWAYS_INLINE vcomplex mul(vcomplex x, vcomplex y)
{
    return (vcomplex){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

TARGET static ALWAYS_INLINE vcomplex mul_conj(vcomplex x, vcomplex y) /* conj(x) y */
{
    return (vcomplex){x.re * y.re + x.im * y.im, x.re * y.im - x.im * y.re};
}

TARGET static ALWAYS_INLINE vcomplex conj_of(vcomplex x)
{
    return (vcomplex){x.re, -x.im};
}

TARGET static ALWAYS_INLINE vcomplex scaled(vdouble by, vcomplex x)
{
    return (vcomplex){by * x.re, by * x.im};
}

TARGET static ALWAYS_INLINE vdouble re_mul(vcomplex x, vcomplex y) /* Re(x y) */
{
    return x.re * y.re - x.im * y.im;
}

TARGET static ALWAYS_INLINE vdouble re_mul_conj(vcomplex x, vcomplex y) /* Re(conj(x) y) */
{
    return x.re * y.re + x.im * y.im;
}

TARGET static ALWAYS_INLINE vcomplex reciprocal(vcomplex x)
{
    const vdouble by = 1 / (x.re * x.re + x.im * x.im);
    return (vcomplex){by * x.re, -by * x.im};
}

/* parameters and coefficients ---------------------------------------------------------------- */

typedef struct param { /* of one state */
    vcomplex lambda, p, b, dh;
} param;

typedef struct mode { /* the recurrence of one state */
    vcomplex e, f, g, c, z;
} mode;

typedef struct buffers { /* of one worker */
    param *params;       /* (n) */
    mode *modes;         /* (n) */
    mode *grad;          /* (n): gradients of e, f, g, c and of z_0 */
    vcomplex *z, *adj;   /* (SEGMENT + 1, n + 1): states of a segment and adjoints */
    vdouble *k;          /* (L): the kernel or its gradient */
} buffers;

TARGET static ALWAYS_INLINE buffers buffers_of(const kernel_job *job, int worker)
{
    const size_t n = job->states, rows = (SEGMENT + 1) * (n + 1);
    vdouble *v = (vdouble *)(job->scratch + (size_t)worker * job->scratch_size);
    buffers s = {.params = (param *)v};
    s.modes = (mode *)(s.params + n);
    s.k = (vdouble *)(s.modes + n);
    s.grad = (mode *)(s.k + job->len);
    s.z = (vcomplex *)(s.grad + n);
    s.adj = s.z + rows;
    return s;
}

TARGET static ALWAYS_INLINE vcomplex *saved_of(const kernel_job *job, size_t block)
{
    return (vcomplex *)job->saved + block * job->segments * job->states;
}

TARGET static ALWAYS_INLINE vdouble read_params(const kernel_job *job, size_t block,
                                                const buffers *s)
{
    node *const *in = job->n->in;
    vdouble delta;
    for (size_t lane = 0; lane < DOUBLES; lane++) {
        const size_t h = channel_of(job, block, lane);
        delta[lane] = 2 * exp(-(double)in[IN_LOG_DT]->value[h]);
        for (size_t i = 0; i < job->states; i++) {
            const size_t at = h * job->states + i;
            param *p = &s->params[i];
            p->lambda.re[lane] = -exp((double)in[IN_A]->value[at]);
            p->lambda.im[lane] = -(double)in[IN_W]->value[at];
            p->p.re[lane] = (double)in[IN_P]->value[2 * at];
            p->p.im[lane] = (double)in[IN_P]->value[2 * at + 1];
            p->b.re[lane] = (double)in[IN_B]->value[2 * at];
            p->b.im[lane] = (double)in[IN_B]->value[2 * at + 1];
            s->modes[i].c.re[lane] = (double)in[IN_C]->value[2 * at];
            s->modes[i].c.im[lane] = (double)in[IN_C]->value[2 * at + 1];
        }
    }
    return delta;
}

/* Sums over the states that both passes need. */
typedef struct rank_one {
    vdouble gain, gb; /* 2 / (1 + rho), Re(g.B) */
} rank_one;

TARGET static ALWAYS_INLINE rank_one discretise(const buffers *s, size_t n, vdouble delta)
{
    vdouble rho = {0}, gb = {0};
    for (size_t i = 0; i < n; i++) {
        param *p = &s->params[i];
        p->dh = reciprocal((vcomplex){delta - p->lambda.re, -p->lambda.im});
        rho += 2 * re_mul_conj(p->p, p->p) * p->dh.re;
        s->modes[i].g = mul_conj(p->p, p->dh);
        gb += re_mul(s->modes[i].g, p->b);
    }
    const vdouble gain = 2 / (1 + rho);
    for (size_t i = 0; i < n; i++) {
        const param *p = &s->params[i];
        mode *m = &s->modes[i];
        const vcomplex q = mul(p->dh, p->p), b = mul(p->dh, p->b);
        m->e = (vcomplex){2 * delta * p->dh.re - 1, 2 * delta * p->dh.im};
        m->f = scaled(2 * delta * gain, q);
        m->z = add(scaled((vdouble){0} + 2, b), scaled(-2 * gain * gb, q));
    }
    return (rank_one){gain, gb};
}

/* forward ------------------------------------------------------------------------------------ */

TARGET static ALWAYS_INLINE vcomplex after(const mode *m, vcomplex z,
                                           vdouble gz) /* e z - f Re(g.z) */
{
    return (vcomplex){m->e.re * z.re - m->e.im * z.im - m->f.re * gz,
                      m->e.re * z.im + m->e.im * z.re - m->f.im * gz};
}

/* K_l for all l, and the state of every SEGMENT-th step. */
TARGET static ALWAYS_INLINE void run_recurrence(mode *RESTRICT m, size_t n, size_t len,
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
        IN_PAIRS
        for (size_t i = 0; i < n; i++) {
            const vcomplex to = after(&m[i], m[i].z, gz);
            m[i].z = to;
            next += re_mul(m[i].g, to);
            cz += re_mul(m[i].c, to);
        }
        gz = next;
    }
}

TARGET static void NAME(forward_block)(void *ctx, size_t block, int worker)
{
    const kernel_job *job = ctx;
    const buffers buf = buffers_of(job, worker), *s = &buf;
    const size_t n = job->states, len = job->len, first = block * DOUBLES;
    const vdouble delta = read_params(job, block, s);
    discretise(s, n, delta);
    run_recurrence(s->modes, n, len, s->k, job->saved ? saved_of(job, block) : NULL);
    for (size_t lane = 0; lane < DOUBLES && first + lane < job->channels; lane++)
        for (size_t l = 0; l < len; l++)
            job->n->value[(first + lane) * len + l] = (real)s->k[l][lane];
}

/* backward ----------------------------------------------------------------------------------- */

/* What a step leaves to all states: Re(g.z), its gradient, and 2 dK. */
typedef struct step {
    vdouble gz, dgz, dk;
} step;

/* States of a segment from its first one. Rows are n + 1 apart: a power of two would crowd one
 * cache set. */
TARGET static ALWAYS_INLINE void replay(const mode *RESTRICT m, size_t n, size_t steps,
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
        IN_PAIRS
        for (size_t i = 0; i < n; i++) {
            const vcomplex to = after(&m[i], z[i], st[l].gz);
            z[n + 1 + i] = to;
            gz += re_mul(m[i].g, to);
        }
    }
}

/* Adjoints of the states of a segment from that of the state after it, which is row `steps`; *dgz
 * is -Re(conj(f).adjoint) of that and then of the first state. */
TARGET static ALWAYS_INLINE void retreat(const mode *RESTRICT m, size_t n, size_t steps,
                                         vcomplex *adj, vdouble *dgz, step *RESTRICT st)
{
    for (size_t l = steps; l-- > 0;) {
        vcomplex *RESTRICT here = adj + l * (n + 1);
        const vcomplex *RESTRICT from = here + n + 1;
        const vdouble k = *dgz, dk = st[l].dk;
        vdouble next = {0};
        IN_PAIRS
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
TARGET static ALWAYS_INLINE void collect(mode *RESTRICT grad, size_t count, size_t n, size_t steps,
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
TARGET static ALWAYS_INLINE void reverse_recurrence(const buffers *s, size_t n, size_t len,
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
        replay(s->modes, n, steps, s->z, st);
        retreat(s->modes, n, steps, s->adj, &dgz, st);
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
TARGET static ALWAYS_INLINE vdouble chain_to_params(const buffers *s, size_t n, vdouble delta,
                                                    rank_one r)
{
    vdouble dgain = {0}, dgb = {0}, ddelta = {0};
    for (size_t i = 0; i < n; i++) {
        const param *p = &s->params[i];
        const mode *d = &s->grad[i];
        const vcomplex q = mul(p->dh, p->p);
        const vdouble fq = re_mul_conj(d->f, q), zq = re_mul_conj(d->z, q);
        ddelta += 2 * re_mul_conj(d->e, p->dh) + 2 * r.gain * fq;
        dgain += 2 * delta * fq - 2 * r.gb * zq;
        dgb -= 2 * r.gain * zq;
    }
    const vdouble drho = -dgain * r.gain * r.gain / 2, two = (vdouble){0} + 2;
    for (size_t i = 0; i < n; i++) {
        const param *p = &s->params[i];
        mode *d = &s->grad[i];
        const vcomplex dg = add(d->g, scaled(dgb, conj_of(p->b)));
        const vcomplex dq = add(scaled(2 * delta * r.gain, d->f), scaled(-2 * r.gain * r.gb, d->z));
        vcomplex ddh = scaled(2 * delta, d->e);
        ddh = add(ddh, scaled(two, mul_conj(p->b, d->z)));
        ddh = add(ddh, add(mul(p->p, dg), mul_conj(p->p, dq)));
        ddh.re += 2 * drho * re_mul_conj(p->p, p->p);
        const vcomplex db =
            add(scaled(two, mul_conj(p->dh, d->z)), scaled(dgb, conj_of(s->modes[i].g)));
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

TARGET static void NAME(backward_block)(void *ctx, size_t block, int worker)
{
    const kernel_job *job = ctx;
    const buffers buf = buffers_of(job, worker), *s = &buf;
    const size_t n = job->states, len = job->len, first = block * DOUBLES;
    for (size_t lane = 0; lane < DOUBLES; lane++)
        for (size_t l = 0; l < len; l++)
            s->k[l][lane] = (double)job->n->grad[channel_of(job, block, lane) * len + l];
    const vdouble delta = read_params(job, block, s);
    const rank_one r = discretise(s, n, delta);
    reverse_recurrence(s, n, len, saved_of(job, block));
    const vdouble ddelta = chain_to_params(s, n, delta, r);

    node *const *in = job->n->in;
    for (size_t lane = 0; lane < DOUBLES && first + lane < job->channels; lane++) {
        const size_t h = first + lane;
        add_one(in[IN_LOG_DT], h, -delta[lane] * ddelta[lane]);
        for (size_t i = 0; i < n; i++) {
            const mode *d = &s->grad[i];
            const size_t at = h * n + i;
            add_one(in[IN_A], at, s->params[i].lambda.re[lane] * d->e.re[lane]);
            add_one(in[IN_W], at, -d->e.im[lane]);
            add_pair(in[IN_P], at, d->f.re[lane], d->f.im[lane]);
            add_pair(in[IN_B], at, d->z.re[lane], d->z.im[lane]);
            add_pair(in[IN_C], at, d->c.re[lane], d->c.im[lane]);
        }
    }
}

static const kernel_fns NAME(kernel_fns) = {DOUBLES, NAME(forward_block), NAME(backward_block)};
