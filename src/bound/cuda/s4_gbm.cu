/* bound/cuda/s4_gbm.cu - growth bounds of S4's channels (../gbm_s4.h), in double; the names are those of
 * ../gbm_s4.c. */
#include "tensor/cuda/complex.cuh"

enum { IN_A, IN_W, IN_P, IN_B, IN_C, IN_LOG_DT, IN_D, INPUTS };

struct s4_cell {
    size_t channels, states;
    const float *in[INPUTS];
    float *grad[INPUTS]; /* NULL: not wanted */
};

static s4_cell cell_of(const node *n)
{
    s4_cell s = {};
    s.channels = shape_rows(n->in[IN_A]->shape);
    s.states = shape_cols(n->in[IN_A]->shape);
    for (int i = 0; i < INPUTS; i++) {
        s.in[i] = n->in[i]->value;
        s.grad[i] = n->in[i]->needs_grad ? n->in[i]->grad : NULL;
    }
    return s;
}

struct mode_bound { /* of one state */
    cplx lambda, p, b, c, dh, x, e, q;
};

struct channel_bound {
    double delta, rho, kappa, g, state;
};

/* A lane without a state has one that adds nothing to any sum. */
static __device__ mode_bound read_mode(const s4_cell &s, size_t h, size_t i)
{
    mode_bound m = {};
    m.lambda = cplx{-1, 0};
    if (i < s.states) {
        const size_t at = h * s.states + i;
        m.lambda = cplx{-exp((double)s.in[IN_A][at]), -(double)s.in[IN_W][at]};
        m.p = pair(s.in[IN_P], at);
        m.b = pair(s.in[IN_B], at);
        m.c = pair(s.in[IN_C], at);
    }
    return m;
}

template <int N>
static __device__ channel_bound channel_forward(const s4_cell &s, size_t h, mode_bound (&m)[N])
{
    channel_bound ch = {};
    double rho = 0, cp = 0, eb = 0, modulus = 0;
    ch.delta = 2 * exp(-(double)s.in[IN_LOG_DT][h]);
#pragma unroll
    for (int i = 0; i < N; i++) {
        m[i] = read_mode(s, h, (size_t)i * WARP + threadIdx.x);
        const cplx y = {ch.delta - m[i].lambda.re, -m[i].lambda.im};
        m[i].dh = (1 / (y.re * y.re + y.im * y.im)) * conj_of(y);
        rho += re_mul_conj(m[i].p, m[i].p) * m[i].dh.re;
        cp += re_mul(mul(m[i].c, m[i].p), m[i].dh);
    }
    ch.rho = 2 * warp_sum(rho);
    ch.kappa = 2 * warp_sum(cp) / (1 + ch.rho);
#pragma unroll
    for (int i = 0; i < N; i++) {
        m[i].x = m[i].c + -ch.kappa * conj_of(m[i].p);
        m[i].e = mul(m[i].dh, m[i].x);
        m[i].q = 2 * ch.delta * m[i].e + -1.0 * m[i].c;
        eb += re_mul(m[i].e, m[i].b);
        modulus += sqrt(re_mul_conj(m[i].q, m[i].q));
    }
    ch.g = 4 * warp_sum(eb) + (double)s.in[IN_D][h];
    ch.state = 2 * warp_sum(modulus);
    return ch;
}

template <int N> static __global__ void gbm_s4_kernel(s4_cell s, float *row)
{
    const size_t h = (size_t)blockIdx.x * CHANNELS + threadIdx.y;
    if (h >= s.channels)
        return; /* the whole warp */
    mode_bound m[N];
    const channel_bound ch = channel_forward(s, h, m);
    if (threadIdx.x == 0) {
        row[2 * h] = (float)fabs(ch.g);
        row[2 * h + 1] = (float)ch.state;
    }
}

/* Adjoints that are needed again. */
struct mode_adjoint {
    cplx dh, x, p, c;
};

/* From the adjoints of |g| and of the sum of 2 |q| to those of x, dh, C; returns delta's. */
template <int N>
static __device__ double rows_back(const channel_bound &ch, const mode_bound (&m)[N], double g_,
                                   double state_, mode_adjoint (&a)[N])
{
    double delta_ = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const double modulus = sqrt(re_mul_conj(m[i].q, m[i].q));
        const cplx q_ = (modulus > 0 ? 2 * state_ / modulus : 0) * m[i].q;
        const cplx e_ = 2 * ch.delta * q_ + 4 * g_ * conj_of(m[i].b);
        delta_ += re_mul_conj(q_, m[i].e);
        a[i].dh = mul_conj(m[i].x, e_);
        a[i].x = mul_conj(m[i].dh, e_);
        a[i].c = a[i].x + -1.0 * q_;
    }
    return 2 * warp_sum(delta_);
}

/* Through kappa = s / (1 + rho) and both sums, into the adjoints of P, C and dh. */
template <int N>
static __device__ void woodbury_back(const channel_bound &ch, const mode_bound (&m)[N],
                                     mode_adjoint (&a)[N])
{
    double sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        sum += re_mul(a[i].x, m[i].p);
    const double kappa_ = -warp_sum(sum);
    const double s_ = 2 * kappa_ / (1 + ch.rho), rho_ = -2 * ch.kappa * kappa_ / (1 + ch.rho);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const cplx p = m[i].p, c = m[i].c, dh = m[i].dh;
        a[i].c = a[i].c + s_ * conj_of(mul(dh, p));
        a[i].dh = a[i].dh + s_ * conj_of(mul(c, p));
        a[i].dh.re += rho_ * re_mul_conj(p, p);
        a[i].p = -ch.kappa * conj_of(a[i].x) + s_ * conj_of(mul(c, dh)) + 2 * rho_ * dh.re * p;
    }
}

template <int N> static __global__ void gbm_s4_bwd_kernel(s4_cell s, const float *row_)
{
    const size_t h = (size_t)blockIdx.x * CHANNELS + threadIdx.y;
    if (h >= s.channels)
        return;
    mode_bound m[N];
    mode_adjoint a[N];
    const channel_bound ch = channel_forward(s, h, m);
    const double g_ = (ch.g > 0 ? 1 : ch.g < 0 ? -1 : 0) * (double)row_[2 * h];
    double delta_ = rows_back(ch, m, g_, (double)row_[2 * h + 1], a), lambda_ = 0;
    woodbury_back(ch, m, a);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const size_t state = (size_t)i * WARP + threadIdx.x, at = h * s.states + state;
        const cplx la = mul_conj(mul(m[i].dh, m[i].dh), a[i].dh);
        if (state >= s.states)
            continue;
        lambda_ += la.re;
        add_one(s.grad[IN_A], at, m[i].lambda.re * la.re); /* lambda.re = -exp(a) */
        add_one(s.grad[IN_W], at, -la.im);
        add_pair(s.grad[IN_P], at, a[i].p);
        add_pair(s.grad[IN_B], at, 4 * g_ * conj_of(m[i].e));
        add_pair(s.grad[IN_C], at, a[i].c);
    }
    delta_ -= warp_sum(lambda_);
    if (threadIdx.x == 0) {
        add_one(s.grad[IN_LOG_DT], h, -ch.delta * delta_);
        add_one(s.grad[IN_D], h, g_);
    }
}

/* (H, 2): |g| and the sum of 2 |q| of each channel. */
extern "C" stet_status cuda_gbm_s4_fwd(tape *, node *n)
{
    const s4_cell s = cell_of(n);
    TRY(s4_states(n, s.states));
    FOR_STATES(gbm_s4_kernel, s.channels, s.states, s, n->value);
    return cuda_launched(cuda_now(), n->op->name);
}

extern "C" stet_status cuda_gbm_s4_bwd(tape *, node *n)
{
    const s4_cell s = cell_of(n);
    TRY(s4_states(n, s.states));
    FOR_STATES(gbm_s4_bwd_kernel, s.channels, s.states, s, n->grad);
    return cuda_launched(cuda_now(), n->op->name);
}
