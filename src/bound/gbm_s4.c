/* bound/gbm_s4.c - see gbm_s4.h.
 *
 * In the names of docs/gbm.md: delta = 2 / dt, dh = 1 / (delta - Lambda), x = C - kappa conj(P),
 * e = dh x the row C (delta - A)^-1, q = 2 delta e - C, g = 4 Re(e.B) + d. Everything is in double:
 * a layer has some thousand modes, and the differences of nearly equal numbers in q want the
 * digits. The modes of a channel lie side by side, so that every loop over them is one over
 * vectors. For complex X the adjoint X_ is dL / d Re X + i dL / d Im X. */
#include "bound/gbm_s4.h"

#include <math.h>

#include "base/pool.h"
#include "base/simd.h"

enum { LANES = 8 };

/* A complex number for each mode of a channel, and zeros up to a whole number of lanes. */
typedef struct cvec {
    double *re, *im;
} cvec;

typedef struct channel {
    size_t n, padded;
    double delta, rho, kappa, g, state;
    cvec lambda, p, b, c, dh, x, e, q;
    cvec dh_, x_, p_, c_; /* adjoints that are needed again */
} channel;

enum { VECTORS = 2 * 12 };

static size_t padded(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static void channel_place(channel *c, double *block, size_t n)
{
    cvec *const all[] = {&c->lambda, &c->p, &c->b,   &c->c,  &c->dh, &c->x,
                         &c->e,      &c->q, &c->dh_, &c->x_, &c->p_, &c->c_};
    c->n = n;
    c->padded = padded(n);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        all[i]->re = block + 2 * i * c->padded;
        all[i]->im = all[i]->re + c->padded;
    }
}

static void channel_load(channel *c, const s4_weights *w, size_t h)
{
    c->delta = 2 * exp(-(double)w->log_dt[h]);
    for (size_t m = 0; m < c->n; m++) {
        const size_t at = h * c->n + m;
        c->lambda.re[m] = -exp((double)w->a[at]);
        c->lambda.im[m] = -(double)w->w[at];
        c->p.re[m] = (double)w->p[2 * at];
        c->p.im[m] = (double)w->p[2 * at + 1];
        c->b.re[m] = (double)w->b[2 * at];
        c->b.im[m] = (double)w->b[2 * at + 1];
        c->c.re[m] = (double)w->c[2 * at];
        c->c.im[m] = (double)w->c[2 * at + 1];
    }
    for (size_t m = c->n; m < c->padded; m++) { /* adds nothing to any sum */
        c->lambda.re[m] = -1;
        c->lambda.im[m] = c->p.re[m] = c->p.im[m] = c->b.re[m] = c->b.im[m] = c->c.re[m] =
            c->c.im[m] = 0;
    }
}

/* Sums over the modes in a fixed order: mode m goes to lane m mod LANES. */
typedef struct lanes {
    double v[LANES];
} lanes;

static ALWAYS_INLINE double lanes_total(const lanes *l)
{
    double s = 0;
    for (int i = 0; i < LANES; i++)
        s += l->v[i];
    return s;
}

#define FOR_MODES(ch, m, l)                                                                        \
    for (size_t m##_0 = 0; m##_0 < (ch)->padded; m##_0 += LANES)                                   \
        for (size_t l = 0, m = m##_0; l < LANES; l++, m++)

/* ---- values ------------------------------------------------------------------------------- */

SIMD_CLONES
static void s4_channel_forward(channel *ch, double d)
{
    const double delta = ch->delta;
    const cvec la = ch->lambda, p = ch->p, b = ch->b, c = ch->c, dh = ch->dh, x = ch->x, e = ch->e,
               q = ch->q;
    lanes rho = {{0}}, s = {{0}}, eb = {{0}}, modulus = {{0}};
    FOR_MODES(ch, m, l)
    {
        const double re = delta - la.re[m], im = -la.im[m], by = 1 / (re * re + im * im);
        dh.re[m] = re * by;
        dh.im[m] = -im * by;
        rho.v[l] += (p.re[m] * p.re[m] + p.im[m] * p.im[m]) * dh.re[m];
        const double cp_re = c.re[m] * p.re[m] - c.im[m] * p.im[m],
                     cp_im = c.re[m] * p.im[m] + c.im[m] * p.re[m];
        s.v[l] += cp_re * dh.re[m] - cp_im * dh.im[m];
    }
    ch->rho = 2 * lanes_total(&rho);
    const double kappa = ch->kappa = 2 * lanes_total(&s) / (1 + ch->rho);
    FOR_MODES(ch, m, l)
    {
        x.re[m] = c.re[m] - kappa * p.re[m];
        x.im[m] = c.im[m] + kappa * p.im[m];
        e.re[m] = dh.re[m] * x.re[m] - dh.im[m] * x.im[m];
        e.im[m] = dh.re[m] * x.im[m] + dh.im[m] * x.re[m];
        q.re[m] = 2 * delta * e.re[m] - c.re[m];
        q.im[m] = 2 * delta * e.im[m] - c.im[m];
        eb.v[l] += e.re[m] * b.re[m] - e.im[m] * b.im[m];
        modulus.v[l] += sqrt(q.re[m] * q.re[m] + q.im[m] * q.im[m]);
    }
    ch->g = 4 * lanes_total(&eb) + d;
    ch->state = 2 * lanes_total(&modulus);
}

/* ---- gradients ---------------------------------------------------------------------------- */

/* From the adjoints of |g| and of the sum of 2 |q| to those of x, dh, C; returns delta's. */
SIMD_CLONES
static double s4_rows_back(channel *ch, double g_, double state_)
{
    const double delta = ch->delta;
    const cvec b = ch->b, dh = ch->dh, x = ch->x, e = ch->e, q = ch->q, dh_ = ch->dh_, x_ = ch->x_,
               c_ = ch->c_;
    lanes delta_ = {{0}};
    FOR_MODES(ch, m, l)
    {
        const double modulus = sqrt(q.re[m] * q.re[m] + q.im[m] * q.im[m]);
        const double by = modulus > 0 ? 2 * state_ / modulus : 0;
        const double q_re = by * q.re[m], q_im = by * q.im[m];
        const double e_re = 2 * delta * q_re + 4 * g_ * b.re[m],
                     e_im = 2 * delta * q_im - 4 * g_ * b.im[m];
        delta_.v[l] += q_re * e.re[m] + q_im * e.im[m];
        dh_.re[m] = x.re[m] * e_re + x.im[m] * e_im; /* conj(x) e_ */
        dh_.im[m] = x.re[m] * e_im - x.im[m] * e_re;
        x_.re[m] = dh.re[m] * e_re + dh.im[m] * e_im;
        x_.im[m] = dh.re[m] * e_im - dh.im[m] * e_re;
        c_.re[m] = x_.re[m] - q_re;
        c_.im[m] = x_.im[m] - q_im;
    }
    return 2 * lanes_total(&delta_);
}

/* Through kappa = s / (1 + rho) and both sums, into the adjoints of P, C and dh. */
SIMD_CLONES
static void s4_woodbury_back(channel *ch)
{
    const double kappa = ch->kappa;
    const cvec p = ch->p, c = ch->c, dh = ch->dh, dh_ = ch->dh_, x_ = ch->x_, p_ = ch->p_,
               c_ = ch->c_;
    lanes sum = {{0}};
    FOR_MODES(ch, m, l)
    {
        sum.v[l] += x_.re[m] * p.re[m] - x_.im[m] * p.im[m];
    }
    const double kappa_ = -lanes_total(&sum);
    const double s_ = 2 * kappa_ / (1 + ch->rho), rho_ = -2 * kappa * kappa_ / (1 + ch->rho);
    FOR_MODES(ch, m, l)
    {
        const double pr = p.re[m], pi = p.im[m], cr = c.re[m], ci = c.im[m], dr = dh.re[m],
                     di = dh.im[m];
        c_.re[m] += s_ * (dr * pr - di * pi); /* s_ conj(dh P) */
        c_.im[m] -= s_ * (dr * pi + di * pr);
        dh_.re[m] += s_ * (cr * pr - ci * pi) + rho_ * (pr * pr + pi * pi);
        dh_.im[m] -= s_ * (cr * pi + ci * pr);
        p_.re[m] = -kappa * x_.re[m] + s_ * (cr * dr - ci * di) + 2 * rho_ * pr * dr;
        p_.im[m] = kappa * x_.im[m] - s_ * (cr * di + ci * dr) + 2 * rho_ * pi * dr;
    }
}

static void add2(real *to, size_t at, double re, double im)
{
    if (to) {
        to[2 * at] += (real)re;
        to[2 * at + 1] += (real)im;
    }
}

static void channel_backward(channel *ch, size_t h, double g_, double state_, const s4_grads *grad)
{
    double delta_ = s4_rows_back(ch, g_, state_);
    s4_woodbury_back(ch);
    for (size_t m = 0; m < ch->n; m++) {
        const size_t at = h * ch->n + m;
        const double dr = ch->dh.re[m], di = ch->dh.im[m], re = dr * dr - di * di,
                     im = -2 * dr * di; /* conj(dh^2) */
        const double la_re = re * ch->dh_.re[m] - im * ch->dh_.im[m],
                     la_im = re * ch->dh_.im[m] + im * ch->dh_.re[m];
        delta_ -= la_re;
        if (grad->a)
            grad->a[at] += (real)(ch->lambda.re[m] * la_re); /* lambda.re = -exp(a) */
        if (grad->w)
            grad->w[at] -= (real)la_im;
        add2(grad->p, at, ch->p_.re[m], ch->p_.im[m]);
        add2(grad->b, at, 4 * g_ * ch->e.re[m], -4 * g_ * ch->e.im[m]);
        add2(grad->c, at, ch->c_.re[m], ch->c_.im[m]);
    }
    if (grad->log_dt)
        grad->log_dt[h] -= (real)(ch->delta * delta_);
    if (grad->d)
        grad->d[h] += (real)g_;
}

/* ---- all channels ------------------------------------------------------------------------- */

typedef struct job {
    const s4_weights *w;
    real *input, *state, *row;
    const real *row_;
    const s4_grads *grad;
    double *block; /* (workers, VECTORS, padded n) */
} job;

static real widened(double m)
{
    return isnan(m) ? (real)INFINITY : (real)m;
}

static void channel_piece(void *ctx, size_t h, int worker)
{
    const job *j = ctx;
    channel c;
    channel_place(&c, j->block + (size_t)worker * VECTORS * padded(j->w->n), j->w->n);
    channel_load(&c, j->w, h);
    s4_channel_forward(&c, (double)j->w->d[h]);
    if (j->input)
        j->input[h] = widened(fabs(c.g));
    for (size_t m = 0; j->state && m < c.n; m++)
        j->state[h * c.n + m] = widened(2 * sqrt(c.q.re[m] * c.q.re[m] + c.q.im[m] * c.q.im[m]));
    if (j->row) {
        j->row[2 * h] = (real)fabs(c.g);
        j->row[2 * h + 1] = (real)c.state;
    }
    if (j->grad) {
        const double sign = c.g > 0 ? 1 : c.g < 0 ? -1 : 0;
        channel_backward(&c, h, sign * (double)j->row_[2 * h], (double)j->row_[2 * h + 1], j->grad);
    }
}

static stet_status run(job j, arena *scratch)
{
    const arena_mark mark = arena_save(scratch);
    j.block = arena_new(scratch, double, (size_t)stet_threads() * VECTORS * padded(j.w->n));
    if (!j.block)
        return STET_ENOMEM;
    pool_run(j.w->H, channel_piece, &j);
    arena_restore(scratch, mark);
    return STET_OK;
}

stet_status gbm_s4(const s4_weights *w, arena *scratch, real *input, real *state)
{
    return run((job){.w = w, .input = input, .state = state}, scratch);
}

stet_status gbm_s4_rows(const s4_weights *w, arena *scratch, real *row)
{
    return run((job){.w = w, .row = row}, scratch);
}

stet_status gbm_s4_rows_back(const s4_weights *w, const real *row_, arena *scratch,
                             const s4_grads *grad)
{
    return run((job){.w = w, .row_ = row_, .grad = grad}, scratch);
}
