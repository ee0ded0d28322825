/* tensor/cuda/s4_kernel.cu - convolution kernels of S4 channels by their recurrence; the formulas
 * are those of cpu/s4_kernel.c, in double. A warp has a channel, a lane some of its states.
 * Forward keeps every state and Re(g.z) of every step, so that the way back recomputes nothing. */
#include "tensor/cuda/complex.cuh"

enum { IN_A, IN_W, IN_P, IN_B, IN_C, IN_LOG_DT };

/* parameters and coefficients ---------------------------------------------------------------- */

struct s4 {
    size_t channels, states, len;
    const float *in[6];
    float *grad[6]; /* NULL: not wanted */
    double *gz;     /* (H, L): Re(g.z) of every step; NULL: no backward pass */
    cplx *z;        /* (H, L, n): every state */
};

struct param { /* of one state */
    cplx lambda, p, b, c, dh;
};

struct mode { /* the recurrence of one state */
    cplx e, f, g, z;
};

/* Sums over the states that both passes need. */
struct rank_one {
    double delta, gain, gb; /* 2 / dt, 2 / (1 + rho), Re(g.B) */
};

/* A lane without a state has one that takes no part: P, B and C are 0. */
static __device__ param read_param(const s4 &s, size_t h, size_t i)
{
    param p = {{-1, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
    if (i < s.states) {
        const size_t at = h * s.states + i;
        p.lambda = cplx{-exp((double)s.in[IN_A][at]), -(double)s.in[IN_W][at]};
        p.p = pair(s.in[IN_P], at);
        p.b = pair(s.in[IN_B], at);
        p.c = pair(s.in[IN_C], at);
    }
    return p;
}

template <int N>
static __device__ rank_one discretise(const s4 &s, size_t h, param (&p)[N], mode (&m)[N])
{
    rank_one r = {2 * exp(-(double)s.in[IN_LOG_DT][h]), 0, 0};
    double rho = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        p[i] = read_param(s, h, (size_t)i * WARP + threadIdx.x);
        const cplx x = {r.delta - p[i].lambda.re, -p[i].lambda.im};
        p[i].dh = (1 / (x.re * x.re + x.im * x.im)) * conj_of(x);
        rho += 2 * re_mul_conj(p[i].p, p[i].p) * p[i].dh.re;
        m[i].g = mul_conj(p[i].p, p[i].dh);
        r.gb += re_mul(m[i].g, p[i].b);
    }
    r.gain = 2 / (1 + warp_sum(rho));
    r.gb = warp_sum(r.gb);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const cplx q = mul(p[i].dh, p[i].p);
        m[i].e = cplx{2 * r.delta * p[i].dh.re - 1, 2 * r.delta * p[i].dh.im};
        m[i].f = 2 * r.delta * r.gain * q;
        m[i].z = 2.0 * mul(p[i].dh, p[i].b) + -2 * r.gain * r.gb * q;
    }
    return r;
}

/* forward ------------------------------------------------------------------------------------ */

template <int N> static __global__ void s4_fwd_kernel(s4 s, float *k)
{
    const size_t h = (size_t)blockIdx.x * CHANNELS + threadIdx.y;
    if (h >= s.channels)
        return; /* the whole warp */
    param p[N];
    mode m[N];
    discretise(s, h, p, m);
    for (size_t l = 0; l < s.len; l++) {
        double gz = 0, cz = 0;
#pragma unroll
        for (int i = 0; i < N; i++) {
            gz += re_mul(m[i].g, m[i].z);
            cz += re_mul(p[i].c, m[i].z);
        }
        gz = warp_sum(gz);
        cz = warp_sum(cz);
        if (threadIdx.x == 0)
            k[h * s.len + l] = (float)(2 * cz);
        if (s.gz && threadIdx.x == 0)
            s.gz[h * s.len + l] = gz;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const size_t at = (size_t)i * WARP + threadIdx.x;
            if (s.gz && at < s.states)
                s.z[(h * s.len + l) * s.states + at] = m[i].z;
            m[i].z = mul(m[i].e, m[i].z) + -gz * m[i].f;
        }
    }
}

/* backward ----------------------------------------------------------------------------------- */

struct mode_grad { /* of e, f, g, c, and the adjoint of the state, in the end of z_0 */
    cplx e, f, g, c, z;
};

/* What forward kept of a step, and the gradient of its tap. */
template <int N> struct step_kept {
    double gz, two_dk;
    cplx z[N];
};

/* Zeros outside the steps. */
template <int N>
static __device__ step_kept<N> kept_at(const s4 &s, size_t h, const float *dk, size_t l)
{
    step_kept<N> k = {};
    if (l < s.len) {
        k.gz = s.gz[h * s.len + l];
        k.two_dk = 2 * (double)dk[h * s.len + l];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const size_t at = (size_t)i * WARP + threadIdx.x;
            if (at < s.states)
                k.z[i] = s.z[(h * s.len + l) * s.states + at];
        }
    }
    return k;
}

/* One step in reverse: the adjoint of z_{l+1} meets z_l, then becomes that of z_l. dgz is
 * -Re(conj(f).adjoint). */
template <int N>
static __device__ void step_back(const step_kept<N> &k, const param (&p)[N], const mode (&m)[N],
                                 mode_grad (&d)[N], double *dgz)
{
    double next = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const cplx z = k.z[i], x = d[i].z;
        d[i].e = d[i].e + mul_conj(z, x);
        d[i].f = d[i].f + -k.gz * x;
        d[i].g = d[i].g + *dgz * conj_of(z);
        d[i].c = d[i].c + k.two_dk * conj_of(z);
        d[i].z = mul_conj(m[i].e, x) + (*dgz * conj_of(m[i].g) + k.two_dk * conj_of(p[i].c));
        next -= re_mul_conj(m[i].f, d[i].z);
    }
    *dgz = warp_sum(next);
}

/* All steps in reverse; the AHEAD steps before are on their way while one is computed. */
template <int N>
static __device__ void reverse(const s4 &s, size_t h, const float *dk, const param (&p)[N],
                               const mode (&m)[N], mode_grad (&d)[N])
{
    enum { AHEAD = 8 / N };
    step_kept<N> ahead[AHEAD];
    double dgz = 0;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        ahead[i] = kept_at<N>(s, h, dk, s.len - 1 - i); /* below 0 it is no step */
    for (size_t l = s.len; l > 0;) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (l > 0) {
                const step_kept<N> now = ahead[i];
                l--;
                ahead[i] = kept_at<N>(s, h, dk, l - AHEAD);
                step_back(now, p, m, d, &dgz);
            }
    }
}

/* From the gradients of e, f, g and z_0 to those of the parameters: cpu/s4_recurrence_kernel.h. */
template <int N>
static __device__ void give_params(const s4 &s, size_t h, rank_one r, const param (&p)[N],
                                   const mode (&m)[N], const mode_grad (&d)[N])
{
    double dgain = 0, dgb = 0, ddelta = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const cplx q = mul(p[i].dh, p[i].p);
        const double fq = re_mul_conj(d[i].f, q), zq = re_mul_conj(d[i].z, q);
        ddelta += 2 * re_mul_conj(d[i].e, p[i].dh) + 2 * r.gain * fq;
        dgain += 2 * r.delta * fq - 2 * r.gb * zq;
        dgb -= 2 * r.gain * zq;
    }
    dgain = warp_sum(dgain);
    dgb = warp_sum(dgb);
    const double drho = -dgain * r.gain * r.gain / 2;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const cplx dg = d[i].g + dgb * conj_of(p[i].b);
        const cplx dq = 2 * r.delta * r.gain * d[i].f + -2 * r.gain * r.gb * d[i].z;
        cplx ddh = 2 * r.delta * d[i].e + 2.0 * mul_conj(p[i].b, d[i].z);
        ddh = ddh + (mul(p[i].p, dg) + mul_conj(p[i].p, dq));
        ddh.re += 2 * drho * re_mul_conj(p[i].p, p[i].p);
        const cplx db = 2.0 * mul_conj(p[i].dh, d[i].z) + dgb * conj_of(m[i].g);
        const cplx dp =
            mul_conj(dg, p[i].dh) + mul_conj(p[i].dh, dq) + 4 * drho * p[i].dh.re * p[i].p;
        const cplx dlambda = mul_conj(mul(p[i].dh, p[i].dh), ddh);
        const size_t state = (size_t)i * WARP + threadIdx.x, at = h * s.states + state;
        if (state >= s.states)
            continue;
        ddelta -= dlambda.re;
        add_one(s.grad[IN_A], at, p[i].lambda.re * dlambda.re);
        add_one(s.grad[IN_W], at, -dlambda.im);
        add_pair(s.grad[IN_P], at, dp);
        add_pair(s.grad[IN_B], at, db);
        add_pair(s.grad[IN_C], at, d[i].c);
    }
    ddelta = warp_sum(ddelta);
    if (threadIdx.x == 0)
        add_one(s.grad[IN_LOG_DT], h, -r.delta * ddelta);
}

template <int N> static __global__ void s4_bwd_kernel(s4 s, const float *dk)
{
    const size_t h = (size_t)blockIdx.x * CHANNELS + threadIdx.y;
    if (h >= s.channels)
        return;
    param p[N];
    mode m[N];
    mode_grad d[N] = {};
    const rank_one r = discretise(s, h, p, m);
    reverse(s, h, dk, p, m, d);
    give_params(s, h, r, p, m, d);
}

/* the op ------------------------------------------------------------------------------------- */

static stet_status s4_of(const node *n, s4 *out)
{
    s4 s = {};
    s.channels = shape_rows(n->in[IN_A]->shape);
    s.states = shape_cols(n->in[IN_A]->shape);
    s.len = ((const s4_kernel_args *)n->args)->len;
    for (int i = 0; i < 6; i++) {
        s.in[i] = n->in[i]->value;
        s.grad[i] = n->in[i]->needs_grad ? n->in[i]->grad : NULL;
    }
    s.gz = (double *)n->saved;
    s.z = (cplx *)(s.gz + 2 * ((s.channels * s.len + 1) / 2));
    *out = s;
    return s4_states(n, s.states);
}

extern "C" stet_status cuda_s4_kernel_fwd(tape *t, node *n)
{
    s4 s;
    if (n->needs_grad) {
        const size_t steps = shape_count(n->shape), states = shape_cols(n->in[IN_A]->shape);
        n->saved = store_arena_alloc(t->values, steps + 1 + steps * 2 * states, sizeof(double));
        if (!n->saved)
            return STET_ENOMEM;
    }
    TRY(s4_of(n, &s));
    FOR_STATES(s4_fwd_kernel, s.channels, s.states, s, n->value);
    return cuda_launched(cuda_now(), "s4_kernel");
}

extern "C" stet_status cuda_s4_kernel_bwd(tape *, node *n)
{
    s4 s;
    TRY(s4_of(n, &s));
    FOR_STATES(s4_bwd_kernel, s.channels, s.states, s, n->grad);
    return cuda_launched(cuda_now(), "s4_kernel");
}
