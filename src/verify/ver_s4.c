/* verify/ver_s4.c - bounds of S4, each station by its definition.
 *
 *     u = W v + b;  a layer:  y = K * u,  g = gelu(y),  (a, b) = M g + m,  z = a s(b),  r = u + z,
 *                             u' = gamma C r / sigma + beta,  C: less the mean;   mean over the text, linear
 *
 * Ranges hold what float32 makes of any choice of words; `e` is what a station may get wrong by itself.
 * For convolutions by block transforms that is not proved: CONV is ten times what is measured. Back
 * from the margin, lam is what it feels of a station's deviation from the clean text. */
#include <complex.h>
#include <string.h>

#include "verify/ver_interval.h"

static const double UNIT = 0x1p-24, ACT = 0x1p-22, CONV = 2e-6, NORM_EPS = 1e-5;
static const double OURS = 0x1p-40; /* relative, of a few operations in double */
static const double OVERFLOWS = 1e30, RUNAWAY = 1e100;
enum { DIRECT = 96 }; /* longer texts are convolved by transforms */

/* A layer of the open text; (n, H) each unless said. */
typedef struct layer {
    const ver_s4 *p;
    const double *K;                      /* (max_len, H) */
    double *y, *a, *b, *centred, *norm;   /* clean */
    double *sigma;                        /* (n) clean */
    iv *box_y, *box_b, *box_centred, *box_sigma; /* box_sigma (n) */
    double *e_y, *e_g, *e_a, *e_b, *e_r, *e_out;
} layer;

typedef struct state {
    double *x, *e_x; /* (words, H), (n, H) */
    double *u;       /* clean output of the last layer */
    iv *box;         /* its range */
    layer layer[VER_S4_LAYERS];
    bool overflows;
    iv *lam, *lam_a, *lam_b, *lam_y; /* (n, H) */
    double *take, *drop, *size;      /* (words), (n), (H) */
} state;

/* ---- kernels ------------------------------------------------------------------------------ */

/* K_l = 2 Re(C . z_l), z_0 = Bbar, z_{l+1} = Abar z_l for one channel, d added at lag 0. The bilinear step
 * is R^-1 (2 delta - R) with R = delta - A, and R^-1 by Woodbury. */
static void kernel(const ver_s4 *s, size_t h, size_t states, size_t H, size_t len, double complex *z, double *K)
{
    const double delta = 2 / exp((double)s->log_dt[h]);
    double rho = 0;
    for (size_t i = 0; i < states; i++) {
        const size_t at = h * states + i;
        const double complex dh = 1 / (delta + exp((double)s->log_a[at]) + I * (double)s->w[at]);
        rho += 2 * (pow(s->p[2 * at], 2) + pow(s->p[2 * at + 1], 2)) * creal(dh);
        z[i] = s->b[2 * at] + I * (double)s->b[2 * at + 1];
    }
    for (size_t l = 0; l < len; l++) {
        double kap = 0, k = 0;
        for (size_t i = 0; i < states; i++) {
            const size_t at = h * states + i;
            const double complex dh = 1 / (delta + exp((double)s->log_a[at]) + I * (double)s->w[at]);
            kap += 2 * creal((s->p[2 * at] - I * (double)s->p[2 * at + 1]) * dh * z[i]) / (1 + rho);
        }
        for (size_t i = 0; i < states; i++) {
            const size_t at = h * states + i;
            const double complex dh = 1 / (delta + exp((double)s->log_a[at]) + I * (double)s->w[at]);
            const double complex solved = dh * (z[i] - kap * (s->p[2 * at] + I * (double)s->p[2 * at + 1]));
            z[i] = l == 0 ? 2 * solved : 2 * delta * solved - z[i];
            k += 2 * creal((s->c[2 * at] + I * (double)s->c[2 * at + 1]) * z[i]);
        }
        K[l * H + h] = k + (l == 0 ? (double)s->d[h] : 0);
    }
}

/* Once for the model: (layers, max_len, H). */
static stet_status make_kernels(ver_work *w)
{
    const ver_model *m = w->m;
    const size_t H = m->channels;
    double *K = arena_new(&w->keep, double, m->layers * m->max_len * H);
    double complex *z = arena_new(&w->keep, double complex, m->states);
    if (!K || !z)
        return STET_ENOMEM;
    for (size_t l = 0; l < m->layers; l++)
        for (size_t h = 0; h < H; h++)
            kernel(&m->s4[l], h, m->states, H, m->max_len, z, K + l * m->max_len * H);
    w->kept = K;
    return STET_OK;
}

/* ---- functions of one number -------------------------------------------------------------- */

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

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
    return iv_widen(r, OURS * iv_mag(r));
}

static iv gelu_derivatives(iv x) /* extremes at the ends and at +-sqrt(2) */
{
    iv r = {INFINITY, -INFINITY};
    const double at[4] = {x.lo, x.hi, -sqrt(2), sqrt(2)};
    for (int k = 0; k < 4; k++)
        if (at[k] >= x.lo && at[k] <= x.hi)
            r = iv_with(r, 0.5 * erfc(-at[k] / sqrt(2)) + at[k] * exp(-at[k] * at[k] / 2) / sqrt(2 * M_PI));
    return iv_widen(r, 1e-14);
}

static iv sigmoid_range(iv x)
{
    return iv_cap(iv_widen((iv){sigmoid(x.lo), sigmoid(x.hi)}, 0x1p-50), (iv){0, 1});
}

/* (s(y) - s(m)) / (y - m) for y in x, which holds m: see ver_lstm.c. */
static iv sigmoid_slopes(double m, iv x)
{
    const double f = sigmoid(m), ends[2] = {x.lo, x.hi}, error = 0x1p-50;
    double d[2], least, most;
    for (int k = 0; k < 2; k++)
        d[k] = sigmoid(ends[k]) * (1 - sigmoid(ends[k]));
    least = fmin(d[0], d[1]) - error;
    most = (x.lo <= 0 && x.hi >= 0 ? 0.25 : fmax(d[0], d[1])) + error;
    iv s = {f * (1 - f) - error, most};
    for (int k = 0; k < 2; k++) {
        const double gap = fabs(ends[k] - m), secant = (sigmoid(ends[k]) - f) / (ends[k] - m);
        if (gap < 1e-9) {
            s.lo = least;
            continue;
        }
        s.lo = fmin(s.lo, fmax(least, secant - 0x1p-49 / gap));
        if (d[k] - error >= secant + 0x1p-49 / gap)
            s.hi = fmin(s.hi, secant + 0x1p-49 / gap);
    }
    return (iv){fmax(s.lo, least), s.hi};
}

/* ---- forward ------------------------------------------------------------------------------ */

static stet_status alloc(ver_work *w, state *s)
{
    const ver_model *m = w->m;
    const size_t n = w->t->n, H = m->channels, words = w->t->start[n];
    bool ok = (s->x = arena_new(&w->mem, double, words * H)) && (s->e_x = arena_new(&w->mem, double, n * H)) &&
              (s->u = arena_new(&w->mem, double, n * H)) && (s->box = arena_new(&w->mem, iv, n * H)) &&
              (s->lam = arena_new(&w->mem, iv, 4 * n * H)) && (s->take = arena_new(&w->mem, double, words)) &&
              (s->drop = arena_new(&w->mem, double, n)) && (s->size = arena_new(&w->mem, double, H));
    for (size_t k = 0; ok && k < m->layers; k++) {
        layer *l = &s->layer[k];
        *l = (layer){.p = &m->s4[k], .K = (const double *)w->kept + k * m->max_len * H};
        double **const parts[] = {&l->y, &l->a, &l->b, &l->centred, &l->norm, &l->e_y, &l->e_g, &l->e_a, &l->e_b, &l->e_r, &l->e_out};
        iv **const boxes[] = {&l->box_y, &l->box_b, &l->box_centred, &l->box_sigma};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            ok = (*parts[i] = arena_new(&w->mem, double, n * H)) && ok;
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

static void encode(ver_work *w, state *s)
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
                double x = m->enc_b[h], size = fabs(x);
                for (size_t d = 0; d < m->dim; d++) {
                    const double v = (double)m->enc_w[h * m->dim + d] * m->table[t->word[k] * m->dim + d];
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

/* y and, after it, the range of its GELU in s->lam (scratch). */
static void convolve(ver_work *w, state *s, layer *l)
{
    const size_t n = w->t->n, H = w->m->channels;
    const double g = (n <= DIRECT ? ver_gamma32(n + 2) : CONV + 2 * UNIT) + 2 * UNIT;
    for (size_t h = 0; h < H; h++) {
        double kk = 0, uu = 0;
        for (size_t p = 0; p < n; p++) {
            kk += l->K[p * H + h] * l->K[p * H + h];
            uu += iv_mag(s->box[p * H + h]) * iv_mag(s->box[p * H + h]);
        }
        const double e = g * sqrt(kk) * sqrt(uu) * (1 + OURS);
        for (size_t t = 0; t < n; t++) {
            double y = 0, mid = 0, rad = 0;
            for (size_t i = 0; i <= t; i++) {
                const double k = l->K[i * H + h];
                const iv u = s->box[(t - i) * H + h];
                y += k * s->u[(t - i) * H + h];
                mid += k * iv_mid(u);
                rad += fabs(k) * iv_rad(u);
            }
            const size_t at = t * H + h;
            l->y[at] = y;
            l->e_y[at] = e;
            l->box_y[at] = iv_with(iv_widen((iv){mid, mid}, rad * (1 + OURS) + e), y);
            const iv r = gelu_range(l->box_y[at]);
            l->e_g[at] = ACT * iv_mag(r) * (1 + OURS);
            s->lam[at] = iv_widen(r, l->e_g[at]);
        }
    }
}

/* One of a and b of a position: clean value, range, error. */
static iv mix_row(const state *s, const layer *l, size_t p, size_t row, size_t H, double *clean, double *e)
{
    const float *m = l->p->mix_w + row * H;
    const double b = l->p->mix_b[row];
    double x = b, mid = b, rad = 0, size = fabs(b);
    for (size_t h = 0; h < H; h++) {
        const iv g = s->lam[p * H + h];
        x += m[h] * gelu(l->y[p * H + h]);
        mid += m[h] * iv_mid(g);
        rad += fabs((double)m[h]) * iv_rad(g);
        size += fabs((double)m[h]) * iv_mag(g);
    }
    *clean = x;
    *e = (ver_gamma32(H + 2) + ver_gamma64(H + 8)) * size;
    return iv_with(iv_widen((iv){mid, mid}, rad * (1 + OURS) + *e), x);
}

static void gate(ver_work *w, state *s, layer *l)
{
    const size_t H = w->m->channels;
    for (size_t p = 0; p < w->t->n; p++)
        for (size_t h = 0; h < H; h++) {
            const size_t i = p * H + h;
            const iv a = mix_row(s, l, p, h, H, &l->a[i], &l->e_a[i]);
            l->box_b[i] = mix_row(s, l, p, H + h, H, &l->b[i], &l->e_b[i]);
            const iv r = iv_add(s->box[i], iv_mul(a, sigmoid_range(l->box_b[i])));
            l->e_r[i] = ((ACT + 2 * UNIT) * iv_mag(a) + 2 * UNIT * iv_mag(r)) * (1 + OURS);
            l->box_centred[i] = iv_widen(r, l->e_r[i]);
            l->centred[i] = s->u[i] + l->a[i] * sigmoid(l->b[i]);
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

/* The least that |C r|^2 can be: a convex function of the mean, bounded by a tangent near its bottom. */
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
static void normalise(ver_work *w, state *s, layer *l, size_t p)
{
    const size_t H = w->m->channels;
    iv *box = l->box_centred + p * H;
    double *x = l->centred + p * H, mean = 0, mid = 0, rad = 0, size = 0, squares = 0, mids = 0, rads = 0;
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
        box[h] = iv_with(iv_widen((iv){m, m}, r * (1 + OURS) + OURS * size), x[h]);
    }
    const double far = (sqrt(mids) + sqrt(rads)) * (1 + OURS);
    l->sigma[p] = sqrt(squares / (double)H + NORM_EPS);
    l->box_sigma[p] = iv_with((iv){sqrt(near / (double)H + NORM_EPS) * (1 - OURS),
                                   sqrt(far * far / (double)H + NORM_EPS) * (1 + OURS)}, l->sigma[p]);
    const double least = l->box_sigma[p].lo, limit = sqrt((double)H - 1);
    const double off = (ver_gamma32(H + 2) + ver_gamma64(H + 8)) * size / least;
    const double off_sigma = 0.5 * ver_gamma32(H + 6) + 8 * UNIT + off * off;
    const iv inverse = iv_out(1 / l->box_sigma[p].hi, 1 / least);
    for (size_t h = 0; h < H; h++) {
        const double gamma = l->p->norm_w[h], beta = l->p->norm_b[h];
        const iv n = iv_cap(iv_mul(box[h], inverse), (iv){-limit, limit});
        const double far_n = fmin(iv_mag(box[h]) / least, limit);
        const double e = (fabs(gamma) * (off + far_n * off_sigma) + 2 * UNIT * fabs(beta)) * (1 + 0x1p-10);
        l->e_out[p * H + h] = e;
        l->norm[p * H + h] = x[h] / l->sigma[p];
        s->u[p * H + h] = gamma * l->norm[p * H + h] + beta;
        s->box[p * H + h] = iv_with(iv_widen(iv_less(iv_scale(gamma, n), -beta), e), s->u[p * H + h]);
    }
}

static stet_status open(ver_work *w)
{
    const size_t n = w->t->n, H = w->m->channels;
    state *s = arena_znew(&w->mem, state, 1);
    if (!s)
        return STET_ENOMEM;
    w->state = s;
    if (!w->kept)
        TRY(make_kernels(w));
    TRY(alloc(w, s));
    encode(w, s);
    for (size_t k = 0; k < w->m->layers; k++) {
        layer *l = &s->layer[k];
        convolve(w, s, l);
        gate(w, s, l);
        for (size_t i = 0; i < n * H; i++)
            s->overflows = s->overflows || !(iv_mag(l->box_centred[i]) < OVERFLOWS);
        for (size_t p = 0; p < n; p++)
            normalise(w, s, l, p);
    }
    return STET_OK;
}

/* ---- margins ------------------------------------------------------------------------------ */

static double weight_of(const ver_model *m, int label, int other, size_t f)
{
    return (double)m->fc_w[(size_t)label * m->features + f] - m->fc_w[(size_t)other * m->features + f];
}

/* Biases, rounding of the mean over the text and of the last layer. */
static ver_sum head(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    const size_t n = w->t->n, H = m->channels;
    const double g = ver_gamma32(n + 2) + ver_gamma64(n + 8);
    ver_sum sum = {0};
    for (size_t h = 0; h < H; h++) {
        double size = 0;
        for (size_t p = 0; p < n; p++)
            size += iv_mag(s->box[p * H + h]) / (double)n;
        s->size[h] = size * (1 + g);
        ver_add(&sum, 0, fabs(weight_of(m, label, other, h)) * g * size);
    }
    ver_add(&sum, m->fc_b[label], ver_head_error(m, label, other, s->size));
    ver_add(&sum, -(double)m->fc_b[other], 0);
    return sum;
}

static double box_bound(const ver_work *w, int label, int other)
{
    const state *s = w->state;
    const size_t n = w->t->n, H = w->m->channels;
    ver_sum sum = head(w, label, other);
    for (size_t i = 0; i < n * H; i++)
        ver_add(&sum, iv_scale(weight_of(w->m, label, other, i % H), s->box[i]).lo / (double)n, 0);
    return ver_lower(&sum);
}

/* The least of lam . (n' - n*) for a position, over the norm's box or over the ball of radius sqrt(H). */
static double norm_direct(const layer *l, size_t p, const iv *lam, size_t H)
{
    const iv inverse = iv_out(1 / l->box_sigma[p].hi, 1 / l->box_sigma[p].lo);
    const double limit = sqrt((double)H - 1);
    ver_sum box = {0}, ball = {0};
    double mean = 0, mids = 0, rads = 0;
    for (size_t h = 0; h < H; h++)
        mean += iv_mid(lam[h]) / (double)H;
    for (size_t h = 0; h < H; h++) {
        const double n = l->norm[p * H + h], d = iv_mid(lam[h]) - mean;
        const iv x = iv_cap(iv_mul(l->box_centred[p * H + h], inverse), (iv){-limit, limit});
        ver_add(&box, iv_mul(lam[h], iv_with(iv_less(x, n), 0)).lo, 0);
        ver_add(&ball, -iv_scale(n, lam[h]).hi, 0);
        mids += d * d;
        rads += iv_rad(lam[h]) * iv_rad(lam[h]);
    }
    ver_add(&ball, -(sqrt(mids) + sqrt(rads)) * sqrt((double)H) * (1 + OURS), 0);
    return fmax(ver_lower(&box), ver_lower(&ball));
}

/* lam of the layer's output to lam of r at position p, in place. `cut`: 1 end here, 0 go on, -1 as seems best. */
static void norm_back(const ver_work *w, const layer *l, size_t p, int cut, ver_sum *loss)
{
    const size_t H = w->m->channels;
    iv *lam = ((state *)w->state)->lam + p * H;
    const iv sigma = l->box_sigma[p];
    double mid = 0, rad = 0, size = 0, felt = 0;
    iv dot = {0, 0};
    for (size_t h = 0; h < H; h++) {
        ver_add(loss, 0, iv_mag(lam[h]) * l->e_out[p * H + h]);
        lam[h] = iv_scale(l->p->norm_w[h], lam[h]);
        mid += iv_mid(lam[h]) / (double)H;
        rad += iv_rad(lam[h]) / (double)H;
        size += iv_mag(lam[h]) / (double)H;
        dot = iv_add(dot, iv_scale(l->norm[p * H + h], lam[h]));
    }
    const double direct = norm_direct(l, p, lam, H), share = 1 / (double)H;
    const iv inverse = iv_out(1 / sigma.hi, 1 / sigma.lo);
    const iv scale = iv_out(share / (sigma.hi + l->sigma[p]), share / (sigma.lo + l->sigma[p]));
    for (size_t h = 0; h < H; h++) {
        const double m = iv_mid(lam[h]) - mid, r = iv_rad(lam[h]) * (1 - 2 * share) + rad;
        const iv centred = iv_widen((iv){m, m}, r * (1 + OURS) + ver_gamma64(H + 8) * (size + iv_mag(lam[h])));
        const iv c = l->box_centred[p * H + h];
        const iv wide = iv_add(iv_mul(c, scale), iv_scale(l->centred[p * H + h], scale));
        const iv back = iv_mul(dot, wide);
        lam[h] = iv_mul(iv_out(centred.lo - back.hi, centred.hi - back.lo), inverse);
        felt += iv_mag(lam[h]) * iv_mag(iv_less(c, l->centred[p * H + h]));
    }
    if (cut == 1 || (cut < 0 && -direct < felt)) {
        ver_add(loss, 0, -direct);
        memset(lam, 0, H * sizeof *lam);
    }
    for (size_t h = 0; h < H; h++)
        ver_add(loss, 0, iv_mag(lam[h]) * l->e_r[p * H + h]);
}

/* lam of r to lam of y at position p. */
static void gate_back(const ver_work *w, const layer *l, size_t p, ver_sum *loss)
{
    const size_t H = w->m->channels;
    const state *s = w->state;
    for (size_t h = 0; h < H; h++) {
        const size_t i = p * H + h;
        s->lam_a[i] = iv_mul(s->lam[i], sigmoid_range(l->box_b[i]));
        s->lam_b[i] = iv_mul(s->lam[i], iv_scale(l->a[i], sigmoid_slopes(l->b[i], l->box_b[i])));
        ver_add(loss, 0, iv_mag(s->lam_a[i]) * l->e_a[i]);
        ver_add(loss, 0, iv_mag(s->lam_b[i]) * l->e_b[i]);
    }
    for (size_t h = 0; h < H; h++) {
        double mid = 0, rad = 0, size = 0;
        for (size_t k = 0; k < H; k++) {
            const iv a = s->lam_a[p * H + k], b = s->lam_b[p * H + k];
            const double ma = l->p->mix_w[k * H + h], mb = l->p->mix_w[(H + k) * H + h];
            mid += ma * iv_mid(a) + mb * iv_mid(b);
            rad += fabs(ma) * iv_rad(a) + fabs(mb) * iv_rad(b);
            size += fabs(ma) * iv_mag(a) + fabs(mb) * iv_mag(b);
        }
        const size_t i = p * H + h;
        const iv g = iv_widen((iv){mid, mid}, rad * (1 + OURS) + ver_gamma64(2 * H + 8) * size);
        s->lam_y[i] = iv_mul(g, gelu_derivatives(l->box_y[i]));
        ver_add(loss, 0, iv_mag(g) * l->e_g[i]);
        ver_add(loss, 0, iv_mag(s->lam_y[i]) * l->e_y[i]);
    }
}

/* lam of y and r to lam of u; false: too large to go on. */
static bool convolve_back(const ver_work *w, const layer *l)
{
    const size_t n = w->t->n, H = w->m->channels;
    const state *s = w->state;
    bool fine = true;
    for (size_t h = 0; h < H; h++)
        for (size_t t = 0; t < n; t++) {
            double mid = 0, rad = 0, size = 0;
            for (size_t i = 0; t + i < n; i++) {
                const double k = l->K[i * H + h];
                const iv y = s->lam_y[(t + i) * H + h];
                mid += k * iv_mid(y);
                rad += fabs(k) * iv_rad(y);
                size += fabs(k) * iv_mag(y);
            }
            iv *lam = &s->lam[t * H + h];
            *lam = iv_add(*lam, iv_widen((iv){mid, mid}, rad * (1 + OURS) + ver_gamma64(n + 8) * size));
            fine = fine && iv_mag(*lam) < RUNAWAY;
        }
    return fine;
}

/* Positions of layer k that the witness cuts. */
static stet_status read_cuts(const ver_work *w, const json_t *witness, size_t k, int *cut)
{
    const json_t *layers = json_object_get(witness, "cut"), *list = json_array_get(layers, k);
    for (size_t p = 0; p < w->t->n; p++)
        cut[p] = witness ? 0 : -1;
    if (witness && (json_array_size(layers) != w->m->layers || !json_is_array(list)))
        return error_set(STET_EFORMAT, "witness: expected \"cut\" with a list for each layer");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i);
        if (!json_is_integer(p) || json_integer_value(p) < 0 || (uint64_t)json_integer_value(p) >= w->t->n)
            return error_set(STET_EFORMAT, "witness: no such position");
        cut[json_integer_value(p)] = 1;
    }
    return STET_OK;
}

static stet_status adjoint_bound(ver_work *w, int label, int other, const json_t *witness, double *out)
{
    const ver_task *t = w->t;
    state *s = w->state;
    const size_t n = t->n, H = w->m->channels;
    int *cut = arena_new(&w->mem, int, n);
    if (!cut)
        return STET_ENOMEM;
    *out = -INFINITY;
    ver_sum sum = head(w, label, other);
    for (size_t i = 0; i < n * H; i++) {
        const double om = weight_of(w->m, label, other, i % H) / (double)n;
        s->lam[i] = iv_out(om, om);
        ver_add(&sum, om * s->u[i], fabs(om * s->u[i]) * OURS);
    }
    for (size_t k = w->m->layers; k-- > 0;) {
        TRY(read_cuts(w, witness, k, cut));
        for (size_t p = 0; p < n; p++) {
            norm_back(w, &s->layer[k], p, cut[p], &sum);
            gate_back(w, &s->layer[k], p, &sum);
        }
        if (!convolve_back(w, &s->layer[k]))
            return STET_OK;
    }
    for (size_t p = 0; p < n; p++) {
        s->drop[p] = 0;
        for (size_t h = 0; h < H; h++)
            ver_add(&sum, 0, iv_mag(s->lam[p * H + h]) * s->e_x[p * H + h]);
        for (size_t k = t->start[p] + 1; k < t->start[p + 1]; k++) {
            ver_sum word = {0};
            for (size_t h = 0; h < H; h++)
                ver_add(&word, iv_scale(s->x[k * H + h] - s->x[t->start[p] * H + h], s->lam[p * H + h]).lo, 0);
            s->drop[p] = fmin(s->drop[p], ver_lower(&word));
        }
    }
    ver_add(&sum, ver_within_budget(t, NULL, s->drop, n), 0);
    *out = ver_lower(&sum);
    return STET_OK;
}

static stet_status bound(ver_work *w, int label, int other, const char *method, const json_t *witness, double *out)
{
    *out = -INFINITY;
    if (((const state *)w->state)->overflows)
        return STET_OK;
    double more = -INFINITY;
    if (strcmp(method, "adjoint") == 0)
        TRY(adjoint_bound(w, label, other, witness, &more));
    *out = fmax(box_bound(w, label, other), more);
    return STET_OK;
}

static const char *const methods[] = {"ibp", "adjoint", NULL};
const ver_kind ver_s4_kind = {"s4", methods, "adjoint", open, bound};
