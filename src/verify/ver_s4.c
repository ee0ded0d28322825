/* verify/ver_s4.c - ranges of S4, each station by its definition. Rounding: docs/numerics.md. */
#include "verify/ver_s4.h"

#include <complex.h>
#include <string.h>

#include "verify/ver_activation.h"

static const double UNIT = 0x1p-24, ACT = 0x1p-22, NORM_EPS = 1e-5;
static const double OVERFLOWS = 1e16; /* squares of such numbers are summed in float32 */
enum { DIRECT = 96, BLOCK = 64 };     /* longer texts are convolved by transforms of blocks */

/* ---- kernels ------------------------------------------------------------------------------ */

/* How wrong any evaluation of the recurrence below in double may be about K_l, before d is added: *at +
 * l * *step. The step is the Cayley transform of a matrix whose Hermitian part is not positive, so it
 * lengthens no error; every step adds its own roundings, relative to |z|, and |z| does not grow. */
static void kernel_error(const ver_s4 *s, size_t h, size_t states, size_t len, double *at,
                         double *step)
{
    const double u = 0x1p-53, delta = 2 / exp((double)s->log_dt[h]);
    double rho = 0, bb = 0, cc = 0, db = 0, qq = 0;
    for (size_t i = h * states; i < (h + 1) * states; i++) {
        const double re = delta + exp((double)s->log_a[i]), im = s->w[i];
        const double d2 = re > 1e-100 && re < 1e100 ? 1 / (re * re + im * im) : NAN;
        const double p2 = pow(s->p[2 * i], 2) + pow(s->p[2 * i + 1], 2);
        const double b2 = pow(s->b[2 * i], 2) + pow(s->b[2 * i + 1], 2);
        cc += pow(s->c[2 * i], 2) + pow(s->c[2 * i + 1], 2);
        rho += 2 * p2 * re * d2;
        bb += b2;
        db += b2 * d2;
        qq += p2 * d2;
    }
    const double gain = 2 / (1 + rho), count = 4.0 * (double)states + 128;
    const double z = 2 * sqrt(db) + 2 * gain * qq * sqrt(bb);
    const double local = u * (128 + count * 2 * delta * gain * qq);
    *at = 2.02 * sqrt(cc) * z * 2 * count * u + VER_TINY;
    *step = 2.02 * sqrt(cc) * z * local;
    if (!((double)len * local < 0x1p-10))
        *at = NAN;
}

/* K_l = 2 Re(C . z_l), z_0 = Bbar, z_{l+1} = Abar z_l for one channel, d added at lag 0. The
 * bilinear step is R^-1 (2 delta - R) with R = delta - A, and R^-1 by Woodbury. NaN where R is so
 * large that the program's square of it might overflow. off: how far the program's K, in float, may be
 * from this one: both recurrences have their error, and what was there before d was rounded. */
static void kernel(const ver_s4 *s, size_t h, size_t states, size_t H, size_t len,
                   double complex *z, double *K, double *off)
{
    double error, step;
    kernel_error(s, h, states, len, &error, &step);
    const double delta = 2 / exp((double)s->log_dt[h]);
    const float *p = s->p + 2 * h * states, *b = s->b + 2 * h * states, *c = s->c + 2 * h * states;
    double complex *dh = z + states; /* 1 / (delta - Lambda) */
    double rho = 0;
    for (size_t i = 0; i < states; i++) {
        const size_t at = h * states + i;
        const double decay = delta + exp((double)s->log_a[at]);
        dh[i] = decay < 1e100 ? 1 / (decay + I * (double)s->w[at]) : NAN;
        rho +=
            2 * ((double)p[2 * i] * p[2 * i] + (double)p[2 * i + 1] * p[2 * i + 1]) * creal(dh[i]);
        z[i] = b[2 * i] + I * (double)b[2 * i + 1];
    }
    for (size_t l = 0; l < len; l++) {
        double kap = 0, k = 0;
        for (size_t i = 0; i < states; i++)
            kap += 2 * creal((p[2 * i] - I * (double)p[2 * i + 1]) * dh[i] * z[i]) / (1 + rho);
        for (size_t i = 0; i < states; i++) {
            const double complex solved =
                dh[i] * (z[i] - kap * (p[2 * i] + I * (double)p[2 * i + 1]));
            z[i] = l == 0 ? 2 * solved : 2 * delta * solved - z[i];
            k += 2 * creal((c[2 * i] + I * (double)c[2 * i + 1]) * z[i]);
        }
        K[l * H + h] = k + (l == 0 ? (double)s->d[h] : 0);
        off[l * H + h] = 2 * (error + (double)l * step) + UNIT * fabs(k) * (1 + 0x1p-20);
    }
}

/* Once for the model: K (layers, span, H), then off, the same. */
static stet_status make_kernels(ver_work *w)
{
    const ver_model *m = w->m;
    const size_t H = m->channels;
    const size_t all = m->layers * m->span * H;
    double *K = arena_new(&w->keep, double, 2 * all);
    double complex *z = arena_new(&w->keep, double complex, 2 * m->states);
    if (!K || !z)
        return STET_ENOMEM;
    for (size_t l = 0; l < m->layers; l++)
        for (size_t h = 0; h < H; h++)
            kernel(&m->s4[l], h, m->states, H, m->span, z, K + l * m->span * H,
                   K + all + l * m->span * H);
    w->kept = K;
    return STET_OK;
}

/* ---- functions of one number -------------------------------------------------------------- */

static double gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2));
}

static iv gelu_range(iv x) /* falls until -0.7518, then rises */
{
    const double a = gelu(x.lo), b = gelu(x.hi), lowest = -0.751791524693564457;
    iv r = {fmin(a, b), fmax(a, b)};
    if (x.lo < lowest && lowest < x.hi)
        r.lo = -0.1699712075;
    return iv_widen(r, VER_OURS * iv_mag(r));
}

double ver_s4_activation(const ver_model *m, double x)
{
    return m->relu ? fmax(x, 0) : gelu(x);
}

/* ---- forward ------------------------------------------------------------------------------ */

static stet_status alloc(ver_work *w, s4_state *s)
{
    const ver_model *m = w->m;
    const size_t n = w->t->n, H = m->channels, words = w->t->start[n];
    bool ok =
        (s->x = arena_new(&w->mem, double, words *H)) &&
        (s->e_x = arena_new(&w->mem, double, n *H)) && (s->u = arena_new(&w->mem, double, n *H)) &&
        (s->box = arena_new(&w->mem, iv, n * H)) && (s->lam = arena_new(&w->mem, iv, 4 * n * H)) &&
        (s->take = arena_new(&w->mem, double, words)) &&
        (s->drop = arena_new(&w->mem, double, n)) && (s->size = arena_new(&w->mem, double, H));
    for (size_t k = 0; ok && k < m->layers; k++) {
        s4_layer *l = &s->layer[k];
        *l = (s4_layer){.p = &m->s4[k], .K = (const double *)w->kept + k * m->span * H};
        l->K_off = l->K + m->layers * m->span * H;
        double **const parts[] = {&l->y,   &l->a,   &l->b,   &l->centred, &l->norm, &l->e_y,
                                  &l->e_g, &l->e_a, &l->e_b, &l->e_r,     &l->e_out};
        iv **const boxes[] = {&l->box_y, &l->box_b, &l->box_centred, &l->box_sigma};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            ok = (*parts[i] = arena_new(&w->mem, double, n *H)) && ok;
        for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
            ok = (*boxes[i] = arena_new(&w->mem, iv, n * H)) && ok;
        ok = (l->sigma = arena_new(&w->mem, double, n)) && ok;
    }
    if (!ok)
        return STET_ENOMEM;
    s->lam_a = s->lam + n * H;
    s->lam_b = s->lam_a + n * H;
    s->lam_y = s->lam_b + n * H;
    return STET_OK;
}

static void encode(ver_work *w, s4_state *s)
{
    const ver_model *m = w->m;
    const ver_task *t = w->t;
    const size_t H = m->channels;
    const double g = ver_gamma32(m->dim + 2) + ver_gamma64(m->dim + 8);
    for (size_t p = 0; p < t->n; p++)
        for (size_t h = 0; h < H; h++) {
            iv box = {INFINITY, -INFINITY};
            double most = 0;
            for (size_t k = t->start[p]; k < t->start[p + 1]; k++) {
                double x = m->enc_b[h], size = fabs(x) + VER_TINY;
                for (size_t d = 0; d < m->dim; d++) {
                    const double v =
                        (double)m->enc_w[h * m->dim + d] * m->table[t->word[k] * m->dim + d];
                    x += v;
                    size += fabs(v);
                }
                s->x[k * H + h] = x;
                box = iv_with(box, x);
                most = fmax(most, size);
            }
            s->overflows = s->overflows || !(most < OVERFLOWS);
            s->e_x[p * H + h] = g * most;
            s->u[p * H + h] = s->x[t->start[p] * H + h];
            s->box[p * H + h] = iv_widen(box, g * most);
        }
}

/* Roundings of a convolution of n terms in any order, and of longer texts also by transforms. */
static size_t roundings(size_t n)
{
    const size_t by_blocks = 180 + 6 * ((n + BLOCK - 1) / BLOCK);
    return n <= DIRECT || n > by_blocks ? n : by_blocks;
}

/* Lags that the program may touch for n terms: of longer texts whole blocks. */
static size_t lags(const ver_work *w, size_t n)
{
    const size_t whole = (n + BLOCK - 1) / BLOCK * BLOCK;
    if (n <= DIRECT)
        return n;
    return whole < w->m->span ? whole : w->m->span;
}

/* y and, after it, the range of its GELU or ReLU in s->lam (scratch), of a piece. */
static void convolve(ver_work *w, s4_state *s, s4_layer *l, size_t from, size_t to)
{
    const size_t n = to - from, H = w->m->channels;
    const double g = ver_gamma32(roundings(n) + 2) + 2 * UNIT;
    for (size_t h = 0; h < H; h++) {
        double kk = 0, off = 0, uu = 0;
        for (size_t i = 0; i < lags(w, n); i++) {
            kk += l->K[i * H + h] * l->K[i * H + h];
            off += l->K_off[i * H + h] * l->K_off[i * H + h];
        }
        for (size_t p = from; p < to; p++)
            uu += iv_mag(s->box[p * H + h]) * iv_mag(s->box[p * H + h]);
        const double wrong = g * (sqrt(kk) + VER_TINY) + (1 + g) * sqrt(off);
        const double e = (wrong * sqrt(uu) + g * VER_TINY) * (1 + VER_OURS);
        for (size_t t = from; t < to; t++) {
            double y = 0, mid = 0, rad = 0;
            for (size_t i = 0; i <= t - from; i++) {
                const double k = l->K[i * H + h];
                const iv u = s->box[(t - i) * H + h];
                y += k * s->u[(t - i) * H + h];
                mid += k * iv_mid(u);
                rad += fabs(k) * iv_rad(u);
            }
            const size_t at = t * H + h;
            l->y[at] = y;
            l->e_y[at] = e;
            l->box_y[at] = iv_with(iv_widen((iv){mid, mid}, rad * (1 + VER_OURS) + e), y);
            const iv y_box = l->box_y[at];
            const iv r =
                w->m->relu ? (iv){fmax(y_box.lo, 0), fmax(y_box.hi, 0)} : gelu_range(y_box);
            l->e_g[at] = w->m->relu ? 0 : ACT * (iv_mag(r) + VER_TINY) * (1 + VER_OURS);
            s->lam[at] = iv_widen(r, l->e_g[at]);
        }
    }
}

/* One of a and b of a position: clean value, range, error. */
static iv mix_row(const ver_work *w, const s4_layer *l, size_t p, size_t row, double *clean,
                  double *e)
{
    const s4_state *s = w->state;
    const size_t H = w->m->channels;
    const float *m = l->p->mix_w + row * H;
    const double b = l->p->mix_b[row];
    double x = b, mid = b, rad = 0, size = fabs(b) + VER_TINY;
    for (size_t h = 0; h < H; h++) {
        const iv g = s->lam[p * H + h];
        x += m[h] * ver_s4_activation(w->m, l->y[p * H + h]);
        mid += m[h] * iv_mid(g);
        rad += fabs((double)m[h]) * iv_rad(g);
        size += fabs((double)m[h]) * iv_mag(g);
    }
    *clean = x;
    *e = (ver_gamma32(H + 2) + ver_gamma64(H + 8)) * size;
    return iv_with(iv_widen((iv){mid, mid}, rad * (1 + VER_OURS) + *e), x);
}

static void gate(ver_work *w, s4_state *s, s4_layer *l)
{
    const size_t H = w->m->channels;
    for (size_t p = 0; p < w->t->n; p++)
        for (size_t h = 0; h < H; h++) {
            const size_t i = p * H + h;
            const iv a = mix_row(w, l, p, h, &l->a[i], &l->e_a[i]);
            l->box_b[i] = mix_row(w, l, p, H + h, &l->b[i], &l->e_b[i]);
            const iv r = iv_add(s->box[i], iv_mul(a, ver_range_of(false, l->box_b[i])));
            l->e_r[i] =
                ((ACT + 2 * UNIT) * (iv_mag(a) + VER_TINY) + 2 * UNIT * iv_mag(r)) * (1 + VER_OURS);
            l->box_centred[i] = iv_widen(r, l->e_r[i]);
            l->centred[i] = s->u[i] + l->a[i] * ver_activation(false, l->b[i]);
        }
}

/* A block with ReLU ends with the linear map, or with the ReLU. */
static void plain_end(ver_work *w, s4_state *s, s4_layer *l)
{
    const size_t H = w->m->channels;
    for (size_t i = 0; i < w->t->n * H; i++) {
        if (w->m->bare) {
            s->u[i] = ver_s4_activation(w->m, l->y[i]);
            s->box[i] = s->lam[i];
        } else {
            s->box[i] = mix_row(w, l, i / H, i % H, &l->a[i], &l->e_a[i]);
            s->u[i] = l->a[i];
        }
        l->box_b[i] = l->box_centred[i] = s->box[i];
    }
}

/* Sum of squared distances from m to the ranges, and its slope. */
static double distance(const iv *r, size_t H, double m, double *slope)
{
    double sum = *slope = 0;
    for (size_t h = 0; h < H; h++) {
        const double d = fmax(0, m - r[h].hi) - fmax(0, r[h].lo - m);
        sum += d * d;
        *slope += 2 * d;
    }
    return sum;
}

/* The least that |C r|^2 can be: a convex function of the mean, bounded by a tangent near its
 * bottom. */
static double least_spread(const iv *r, size_t H)
{
    double lo = r[0].lo, hi = r[0].hi, slope;
    for (size_t h = 0; h < H; h++) {
        lo = fmin(lo, r[h].lo);
        hi = fmax(hi, r[h].hi);
    }
    for (int k = 0; k < 60; k++) {
        const double m = lo + (hi - lo) / 2;
        distance(r, H, m, &slope);
        *(slope < 0 ? &lo : &hi) = m;
    }
    const double value = distance(r, H, lo, &slope);
    return fmax(0, (value + fmin(0, slope) * (hi - lo)) * (1 - 1e-10));
}

/* The norm of position p, from r in centred and box_centred, which become C r. */
static void normalise(ver_work *w, s4_state *s, s4_layer *l, size_t p)
{
    const size_t H = w->m->channels;
    iv *box = l->box_centred + p * H;
    double *x = l->centred + p * H, mean = 0, mid = 0, rad = 0, size = 0, squares = 0, mids = 0,
           rads = 0;
    const double near = least_spread(box, H);
    for (size_t h = 0; h < H; h++) {
        mean += x[h] / (double)H;
        mid += iv_mid(box[h]) / (double)H;
        rad += iv_rad(box[h]) / (double)H;
        size += iv_mag(box[h]) / (double)H;
        rads += iv_rad(box[h]) * iv_rad(box[h]);
    }
    for (size_t h = 0; h < H; h++) {
        const double m = iv_mid(box[h]) - mid, r = iv_rad(box[h]) * (1 - 2 / (double)H) + rad;
        x[h] -= mean;
        squares += x[h] * x[h];
        mids += m * m;
        box[h] = iv_with(iv_widen((iv){m, m}, r * (1 + VER_OURS) + VER_OURS * size), x[h]);
    }
    const double far = (sqrt(mids) + sqrt(rads)) * (1 + VER_OURS);
    l->sigma[p] = sqrt(squares / (double)H + NORM_EPS);
    l->box_sigma[p] = iv_with((iv){sqrt(near / (double)H + NORM_EPS) * (1 - VER_OURS),
                                   sqrt(far * far / (double)H + NORM_EPS) * (1 + VER_OURS)},
                              l->sigma[p]);
    const double least = l->box_sigma[p].lo, limit = sqrt((double)H - 1);
    const double off = (ver_gamma32(H + 2) + ver_gamma64(H + 8)) * size / least;
    const double off_sigma = 0.5 * ver_gamma32(H + 6) + 8 * UNIT + off * off;
    const iv inverse = iv_out(1 / l->box_sigma[p].hi, 1 / least);
    for (size_t h = 0; h < H; h++) {
        const double gamma = l->p->norm_w[h], beta = l->p->norm_b[h];
        const iv n = iv_cap(iv_mul(box[h], inverse), (iv){-limit, limit});
        const double far_n = fmin(iv_mag(box[h]) / least, limit);
        const double e = (fabs(gamma) * (off + (far_n + VER_TINY) * off_sigma) +
                          2 * UNIT * (fabs(beta) + VER_TINY)) *
                         (1 + 0x1p-10);
        l->e_out[p * H + h] = e;
        l->norm[p * H + h] = x[h] / l->sigma[p];
        s->u[p * H + h] = gamma * l->norm[p * H + h] + beta;
        s->box[p * H + h] =
            iv_with(iv_widen(iv_less(iv_scale(gamma, n), -beta), e), s->u[p * H + h]);
    }
}

static bool fits(iv x)
{
    return x.lo > -OVERFLOWS && x.hi < OVERFLOWS; /* false for NaN */
}

static stet_status open(ver_work *w)
{
    const size_t n = w->t->n, H = w->m->channels;
    s4_state *s = arena_znew(&w->mem, s4_state, 1);
    if (!s)
        return STET_ENOMEM;
    w->state = s;
    TRY(ver_scores_open(w));
    if (!w->kept)
        TRY(make_kernels(w));
    TRY(alloc(w, s));
    encode(w, s);
    for (size_t k = 0; k < w->m->layers; k++) {
        s4_layer *l = &s->layer[k];
        for (size_t from = 0, to; from < n; from = to) {
            ver_s4_piece(w->m, n, from, &from, &to);
            convolve(w, s, l, from, to);
        }
        (w->m->relu ? plain_end : gate)(w, s, l);
        for (size_t i = 0; i < n * H; i++)
            s->overflows = s->overflows || !fits(l->box_y[i]) || !fits(l->box_b[i]) ||
                           !fits(l->box_centred[i]);
        for (size_t p = 0; !w->m->relu && p < n; p++)
            normalise(w, s, l, p);
    }
    return STET_OK;
}

static stet_status bound(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out)
{
    *out = -INFINITY;
    if (((const s4_state *)w->state)->overflows)
        return STET_OK;
    double more = -INFINITY;
    if (strcmp(method, "adjoint") == 0)
        TRY(ver_s4_adjoint(w, label, other, witness, &more));
    *out = fmax(ver_s4_box(w, label, other), more);
    return STET_OK;
}

static const char *const methods[] = {"ibp", "adjoint", NULL};
const ver_kind ver_s4_kind = {"s4", methods, "adjoint", open, bound, ver_s4_margin};
