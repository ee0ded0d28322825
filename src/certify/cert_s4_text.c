/* certify/cert_s4_text.c - clean values and boxes of S4, layer by layer. */
#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "certify/cert_activation.h"
#include "certify/cert_lstm_rows.h"
#include "certify/cert_s4.h"
#include "model/spans.h"
#include "tensor/ops.h"

/* Activations are within 2 ulp (tensor/vmath.h), relatively 2^-22; twice that leaves room. */
const s4_rounding s4_float32 = {.unit = 0x1p-24, .act = 0x1p-21};
const s4_rounding s4_exact = {.plain = true};

static const double largest = 1e16; /* beyond it the squares in a norm might overflow float32 */

/* n roundings, with room for ours. */
static double gamma_of(const s4_rounding *r, size_t n)
{
    const double nu = (double)(n + 1) * r->unit;
    return nu / (1 - nu);
}

/* ---- weights ------------------------------------------------------------------------------ */

static double length_of(const double *x, size_t n, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i * stride] * x[i * stride];
    return sqrt(sum) * (1 + S4_OUTWARD);
}

static stet_status finish_mix(const s4_net64 *net, s4_layer64 *l, arena *a)
{
    const size_t H = net->H, R = s4_mixed(net);
    l->mix_t = arena_new(a, double, R *H);
    l->abs = arena_new(a, double, R *H);
    l->abs_t = arena_new(a, double, R *H);
    l->row = arena_new(a, double, R);
    l->col = arena_new(a, double, H);
    if (!l->mix_t || !l->abs || !l->abs_t || !l->row || !l->col)
        return STET_ENOMEM;
    for (size_t i = 0; i < R; i++)
        for (size_t j = 0; j < H; j++) {
            l->mix_t[j * R + i] = l->mix[i * H + j];
            l->abs[i * H + j] = l->abs_t[j * R + i] = fabs(l->mix[i * H + j]);
        }
    for (size_t i = 0; i < R; i++)
        l->row[i] = length_of(l->mix + i * H, H, 1);
    for (size_t j = 0; j < H; j++)
        l->col[j] = length_of(l->mix + j, R, H);
    return STET_OK;
}

static stet_status finish_layer(const s4_net64 *net, s4_layer64 *l, arena *a)
{
    const size_t H = net->H, last = (net->lags - 1) * H;
    double most = 0;
    l->K_norm = arena_new(a, double, net->lags *H);
    l->K_off = arena_znew(a, double, net->lags *H);
    if (!l->K_norm || !l->K_off)
        return STET_ENOMEM;
    for (size_t h = 0; h < H; h++) {
        double sum = 0, off = 0;
        for (size_t i = 0; i < net->lags; i++) {
            sum += l->K[i * H + h] * l->K[i * H + h];
            l->K_norm[i * H + h] = sqrt(sum) * (1 + S4_OUTWARD);
            off += l->K_err ? l->K_err[i * H + h] * l->K_err[i * H + h] : 0;
            l->K_off[i * H + h] = sqrt(off) * (1 + S4_OUTWARD);
        }
        most = fmax(most, l->K_norm[last + h]);
    }
    /* A trained kernel has six digits; with less than three no two programs agree on a text. A channel
     * that training has taken out of use, D against K, has none, but beside the others it is small. */
    for (size_t h = 0; h < H; h++)
        if (!(l->K_off[last + h] <= 0x1p-12 * most + 1e-20))
            return error_set(STET_EFORMAT,
                             "the kernel of channel %zu is lost to cancellation: nothing can be "
                             "certified",
                             h);
    return net->bare ? STET_OK : finish_mix(net, l, a);
}

stet_status s4_net64_finish(s4_net64 *net, arena *a)
{
    net->enc_row = arena_new(a, double, net->H);
    if (!net->enc_row)
        return STET_ENOMEM;
    for (size_t h = 0; h < net->H; h++)
        net->enc_row[h] = length_of(net->enc_t + h, net->D, net->H);
    for (size_t l = 0; l < net->layers; l++)
        TRY(finish_layer(net, &net->layer[l], a));
    return STET_OK;
}

/* ---- convolution -------------------------------------------------------------------------- */

enum { LANES = 8, TIMES = 4 };

/* LANES channels of TIMES positions stay in registers over all lags: one position alone would wait
 * for each of its sums. Every sum has its terms in the order of the lags. `radii`: or middles alone. */
static ALWAYS_INLINE void convolve_block(const double *RESTRICT K, size_t n, size_t H, size_t lanes,
                                         size_t times, bool back, bool radii, size_t t,
                                         const double *RESTRICT mid, const double *RESTRICT rad,
                                         double *RESTRICT y_mid, double *RESTRICT y_rad)
{
    const size_t shared = back ? n - (t + times - 1) : t + 1; /* lags that all have */
    double m[TIMES][LANES] = {{0}}, r[TIMES][LANES] = {{0}};
    for (size_t l = 0; l < shared; l++)
        for (size_t j = 0; j < times; j++) {
            const size_t from = (back ? t + j + l : t + j - l) * H;
            for (size_t i = 0; i < lanes; i++) {
                m[j][i] += K[l * H + i] * mid[from + i];
                if (radii)
                    r[j][i] += fabs(K[l * H + i]) * rad[from + i];
            }
        }
    for (size_t j = 0; j < times; j++) {
        for (size_t l = shared; l < (back ? n - (t + j) : t + j + 1); l++) {
            const size_t from = (back ? t + j + l : t + j - l) * H;
            for (size_t i = 0; i < lanes; i++) {
                m[j][i] += K[l * H + i] * mid[from + i];
                if (radii)
                    r[j][i] += fabs(K[l * H + i]) * rad[from + i];
            }
        }
        memcpy(y_mid + (t + j) * H, m[j], lanes * sizeof *y_mid);
        if (radii)
            memcpy(y_rad + (t + j) * H, r[j], lanes * sizeof *y_rad);
    }
}

/* Every position of some channels; whole blocks have sizes that the compiler knows. */
static ALWAYS_INLINE void convolve_lanes(const double *K, size_t n, size_t H, size_t lanes,
                                         bool back, bool radii, const double *mid,
                                         const double *rad, double *y_mid, double *y_rad)
{
    size_t t = 0;
    for (; lanes == LANES && t + TIMES <= n; t += TIMES)
        convolve_block(K, n, H, LANES, TIMES, back, radii, t, mid, rad, y_mid, y_rad);
    for (; t < n; t++)
        convolve_block(K, n, H, lanes, 1, back, radii, t, mid, rad, y_mid, y_rad);
}

SIMD_CLONES
static void convolve_ranges(const double *K, size_t n, size_t H, size_t lanes, bool back,
                            const double *mid, const double *rad, double *y_mid, double *y_rad)
{
    if (back)
        convolve_lanes(K, n, H, lanes, true, true, mid, rad, y_mid, y_rad);
    else
        convolve_lanes(K, n, H, lanes, false, true, mid, rad, y_mid, y_rad);
}

SIMD_CLONES
static void convolve_values(const double *K, size_t n, size_t H, size_t lanes, const double *u,
                            double *y)
{
    convolve_lanes(K, n, H, lanes, false, false, u, NULL, y, NULL);
}

void s4_convolve(const s4_layer64 *l, size_t n, size_t H, bool back, s4_range u, s4_range y)
{
    for (size_t h = 0; h < H; h += LANES)
        convolve_ranges(l->K + h, n, H, H - h < LANES ? H - h : LANES, back, u.mid + h, u.rad + h,
                        y.mid + h, y.rad + h);
}

void s4_lengths(s4_range x, size_t n, size_t H, double *out)
{
    memset(out, 0, H * sizeof *out);
    for (size_t p = 0; p < n; p++)
        for (size_t h = 0; h < H; h++)
            out[h] += range_mag(x, p * H + h) * range_mag(x, p * H + h);
    for (size_t h = 0; h < H; h++)
        out[h] = sqrt(out[h]);
}

/* y = K * u for values without ranges. */
static void convolve_clean(const s4_layer64 *l, size_t n, size_t H, const double *u, double *y)
{
    for (size_t h = 0; h < H; h += LANES)
        convolve_values(l->K + h, n, H, H - h < LANES ? H - h : LANES, u + h, y + h);
}

/* ---- stations ----------------------------------------------------------------------------- */

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

/* GELU falls to its least value at -0.7518, then rises. */
static ival gelu_range(ival x)
{
    static const double least_at = -0.751791524693564457, least = -0.1699712075;
    const double a = gelu(x.lo), b = gelu(x.hi);
    const double lo = x.lo < least_at && x.hi > least_at ? least : lesser(a, b);
    return (ival){lo, greater(a, b)};
}

/* The ReLU of clean values and of their boxes. */
static void relu(size_t n, const double *RESTRICT y, s4_range box, double *RESTRICT g,
                 s4_range box_g)
{
    const double *RESTRICT mid = box.mid, *RESTRICT rad = box.rad;
    double *RESTRICT g_mid = box_g.mid, *RESTRICT g_rad = box_g.rad;
    for (size_t i = 0; i < n; i++) {
        g[i] = greater(y[i], 0);
        const double lo = greater(mid[i] - rad[i], 0), hi = greater(mid[i] + rad[i], 0);
        g_mid[i] = 0.5 * (lo + hi);
        g_rad[i] = 0.5 * (hi - lo) * (1 + S4_OUTWARD) + S4_OUTWARD * fabs(g_mid[i]);
    }
}

static s4_range range_new(arena *a, size_t n)
{
    double *block = arena_new(a, double, 2 * n);
    return (s4_range){block, block ? block + n : NULL};
}

static stet_status station_alloc(s4_station *s, size_t n, size_t H, arena *a)
{
    double **const parts[] = {&s->y, &s->centred, &s->norm, &s->e_y, &s->e_g, &s->e_r, &s->e_out};
    double **const columns[] = {&s->sigma, &s->sigma_lo, &s->sigma_hi, &s->e_ab};
    bool ok = (s->ab = arena_new(a, double, n * 2 * H)) != NULL;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        ok = (*parts[k] = arena_new(a, double, n *H)) && ok;
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        ok = (*columns[k] = arena_new(a, double, n)) && ok;
    s->box_y = range_new(a, n * H);
    s->box_b = range_new(a, n * H);
    s->box_centred = range_new(a, n * H);
    return ok && s->box_y.mid && s->box_b.mid && s->box_centred.mid ? STET_OK : STET_ENOMEM;
}

/* Words past the encoder: clean u, its box in t->out. */
static void encode(s4_text *t, const double *lengths)
{
    const s4_net64 *net = t->net;
    const size_t H = net->H;
    const double g = gamma_of(&t->rounding, net->D + 2);
    for (size_t p = 0; p < t->n; p++) {
        const size_t first = t->start[p], count = t->start[p + 1] - first;
        double longest = 0;
        for (size_t k = first; k < first + count; k++) {
            longest = greater(longest, lengths[k] * (1 + S4_OUTWARD));
            for (size_t h = 0; h < H; h++)
                t->x[k * H + h] += net->enc_b[h];
        }
        const s4_range out = range_from(t->out, p * H); /* first the ends */
        rows_hull(count, H, t->x + first * H, out.mid, out.rad);
        memcpy(t->u + p * H, t->x + first * H, H * sizeof *t->u);
        for (size_t h = 0; h < H; h++) {
            const double e = g * (net->enc_row[h] * longest + fabs(net->enc_b[h]) + S4_TINY);
            t->e_x[p * H + h] = e;
            range_put(out, h, (ival){out.mid[h] - e, out.rad[h] + e});
        }
    }
}

/* Rounding of a convolution of n terms, relative to |K| |u|: in any order, or, of longer texts, also
 * by transforms of blocks (docs/numerics.md, lemma 6). */
static double conv_error(const s4_rounding *r, size_t n)
{
    enum { TRANSFORMS = 180, EACH_BLOCK = 6 };
    const size_t by_blocks = TRANSFORMS + EACH_BLOCK * ((n + S4_BLOCK - 1) / S4_BLOCK);
    return gamma_of(r, 3 + (n <= S4_DIRECT_MAX || n > by_blocks ? n : by_blocks));
}

/* Lags that enter a convolution of n terms, if only with weight 0: a whole last block. */
static size_t lags_of(const s4_text *t, size_t n)
{
    const size_t whole = (n + S4_BLOCK - 1) / S4_BLOCK * S4_BLOCK;
    if (n <= S4_DIRECT_MAX)
        return n;
    return whole < t->net->lags ? whole : t->net->lags;
}

/* y of the piece from word `from` to `to`, clean and as boxes without rounding, and its error. */
static void convolve_piece(const s4_text *t, s4_station *s, const s4_layer64 *l, size_t from,
                           size_t to)
{
    const size_t n = to - from, H = t->net->H, at = from * H;
    const double conv = conv_error(&t->rounding, n);
    const size_t last = (lags_of(t, n) - 1) * H;
    s4_convolve(l, n, H, false, range_from(t->out, at), range_from(s->box_y, at));
    convolve_clean(l, n, H, t->u + at, s->y + at);
    double *e_y = s->e_y + at;
    s4_lengths(range_from(t->out, at), n, H, e_y);
    for (size_t h = 0; h < H; h++)
        e_y[h] = (conv * l->K_norm[last + h] + (1 + conv) * l->K_off[last + h]) * e_y[h] +
                 conv * S4_TINY;
    for (size_t p = 1; p < n; p++)
        memcpy(e_y + p * H, e_y, H * sizeof *e_y);
}

/* y and its GELU or ReLU: clean ones in s->y and g, boxes in box_y and box_g. */
static void convolution(s4_text *t, s4_station *s, const s4_layer64 *l, double *g, s4_range box_g)
{
    const size_t n = t->n, H = t->net->H;
    const s4_rounding *r = &t->rounding;
    for (size_t p = 0; p < n; p = span_end(t->net->span, n, p))
        convolve_piece(t, s, l, p, span_end(t->net->span, n, p));
    for (size_t i = 0; i < n * H; i++)
        s->box_y.rad[i] = (s->box_y.rad[i] + s->e_y[i]) * (1 + S4_OUTWARD);
    if (t->net->relu) {
        relu(n * H, s->y, s->box_y, g, box_g);
        memset(s->e_g, 0, n * H * sizeof *s->e_g);
        return;
    }
    for (size_t i = 0; i < n * H; i++) {
        const ival x = gelu_range(range_at(s->box_y, i));
        s->e_g[i] = r->act * (ival_mag(x) + S4_TINY);
        g[i] = gelu(s->y[i]);
        range_put(box_g, i, (ival){x.lo - s->e_g[i], x.hi + s->e_g[i]});
    }
}

/* a and b: clean in s->ab, boxes in `box` (n, R). */
static void mix(s4_text *t, s4_station *s, const s4_layer64 *l, const double *g, s4_range box_g,
                s4_range box)
{
    const size_t n = t->n, H = t->net->H, R = s4_mixed(t->net);
    const double gamma = gamma_of(&t->rounding, H + 2);
    rows_product(n, R, H, g, l->mix_t, s->ab);
    rows_product(n, R, H, box_g.mid, l->mix_t, box.mid);
    rows_product(n, R, H, box_g.rad, l->abs_t, box.rad);
    s->e_bias = gamma;
    for (size_t p = 0; p < n; p++) {
        double sum = 0;
        for (size_t h = 0; h < H; h++)
            sum += range_mag(box_g, p * H + h) * range_mag(box_g, p * H + h);
        s->e_ab[p] = gamma * sqrt(sum);
        for (size_t i = 0; i < R; i++) {
            const size_t k = p * R + i;
            s->ab[k] += l->mix_b[i];
            box.mid[k] += l->mix_b[i];
            box.rad[k] = (box.rad[k] + s4_mix_error(s, l, p, i)) * (1 + S4_OUTWARD);
        }
    }
}

/* z and r: clean r in s->centred, its box in box_centred, both still with their mean. */
static void gate(s4_text *t, s4_station *s, s4_range ab)
{
    const size_t n = t->n, H = t->net->H;
    const s4_rounding *r = &t->rounding;
    for (size_t p = 0; p < n; p++)
        for (size_t h = 0; h < H; h++) {
            const size_t i = p * H + h, a = p * 2 * H + h, b = a + H;
            const ival x = range_at(ab, b), u = range_at(t->out, i);
            const ival open = act_range(false, act_at(false, x.lo), act_at(false, x.hi));
            const ival z = ival_mul(range_at(ab, a), open);
            const ival sum = ival_add(u, z);
            s->e_r[i] =
                (r->act + 2 * r->unit) * (range_mag(ab, a) + S4_TINY) + 2 * r->unit * ival_mag(sum);
            range_put(s->box_b, i, x);
            range_put(s->box_centred, i, ival_widen(sum, s->e_r[i]));
            s->centred[i] = t->u[i] + s->ab[a] * act_at(false, s->ab[b]).f;
        }
}

/* A block with ReLU ends with the linear map, or with the ReLU: `clean` and `box` become the output. */
static void plain_end(s4_text *t, const double *clean, s4_range box)
{
    const size_t count = t->n * t->net->H;
    memcpy(t->u, clean, count * sizeof *t->u);
    for (size_t i = 0; i < count; i++)
        range_put(t->out, i, ival_with(range_at(box, i), t->u[i]));
}

/* What float32 may get wrong about a normed row: its mean, then the deviation, then products. */
static void norm_errors(const s4_text *t, s4_station *s, const s4_layer64 *l, size_t p,
                        const double *size)
{
    const size_t H = t->net->H;
    const s4_rounding *r = &t->rounding;
    double mean = 0;
    for (size_t h = 0; h < H; h++)
        mean += size[h];
    const double e_mean = gamma_of(r, H + 2) * mean / (double)H, off = e_mean / s->sigma_lo[p];
    const double e_sigma = 0.5 * gamma_of(r, H + 6) + 8 * r->unit + off * off;
    const double limit = sqrt((double)H - 1);
    for (size_t h = 0; h < H; h++) {
        const double n = lesser(range_mag(s->box_centred, p * H + h) / s->sigma_lo[p], limit);
        s->e_out[p * H + h] = (fabs(l->gamma[h]) * (off + (n + S4_TINY) * e_sigma) +
                               2 * r->unit * (fabs(l->beta[h]) + S4_TINY)) *
                              (1 + 0x1p-10);
    }
}

/* The least deviation of a row from its own mean: the sum of (r_i - m)^2 is least at m = mean, so
 * over a box it is the least over m of f(m) = the sum of squared distances from m to each [lo_i,
 * hi_i]. f is convex: its slope changes sign in a bracket that is halved, and a tangent there
 * bounds it from below. */
static double slope_at(const double *mid, const double *rad, size_t H, double m, double *value)
{
    double slope = 0, sum = 0;
    for (size_t h = 0; h < H; h++) {
        const double above = m - (mid[h] + rad[h]), below = mid[h] - rad[h] - m;
        const double d = greater(0, above) - greater(0, below);
        slope += 2 * d;
        sum += d * d;
    }
    *value = sum;
    return slope;
}

static double least_squares(const double *mid, const double *rad, size_t H)
{
    enum { HALVINGS = 24 };
    double lo = INFINITY, hi = -INFINITY, value;
    for (size_t h = 0; h < H; h++) {
        lo = lesser(lo, mid[h] - rad[h]);
        hi = greater(hi, mid[h] + rad[h]);
    }
    for (int k = 0; k < HALVINGS; k++) {
        const double m = 0.5 * (lo + hi);
        if (slope_at(mid, rad, H, m, &value) < 0)
            lo = m;
        else
            hi = m;
    }
    const double slope = slope_at(mid, rad, H, lo, &value);
    return greater(0, (value + lesser(0, slope) * (hi - lo)) * (1 - 1e-9));
}

/* Centre and norm one row; clean output to t->u, box to t->out. `size` (H) is scratch. */
static void normalise(s4_text *t, s4_station *s, const s4_layer64 *l, size_t p, double *size)
{
    const size_t H = t->net->H, from = p * H;
    const double share = 1 / (double)H, limit = sqrt((double)H - 1);
    double *x = s->centred + from, *mid = s->box_centred.mid + from,
           *rad = s->box_centred.rad + from;
    double mean = 0, mid_mean = 0, rads = 0, squares = 0, mids = 0, rad_squares = 0;
    for (size_t h = 0; h < H; h++) {
        size[h] = fabs(mid[h]) + rad[h];
        mean += x[h] * share;
        mid_mean += mid[h] * share;
        rads += rad[h] * share;
        rad_squares += rad[h] * rad[h];
    }
    const double least = t->rounding.plain ? 0 : least_squares(mid, rad, H);
    for (size_t h = 0; h < H; h++) {
        x[h] -= mean;
        mid[h] -= mid_mean;
        rad[h] = (rad[h] * (1 - 2 * share) + rads) * (1 + S4_OUTWARD) + S4_OUTWARD * size[h];
        squares += x[h] * x[h];
        mids += mid[h] * mid[h];
    }
    const double nc = sqrt(mids), nr = sqrt(rad_squares);
    double near = greater(0, nc * (1 - S4_OUTWARD) - nr * (1 + S4_OUTWARD));
    const double far = (nc + nr) * (1 + S4_OUTWARD);
    if (!t->rounding.plain)
        near = greater(near, sqrt(least));
    s->sigma[p] = sqrt(squares * share + t->net->eps);
    s->sigma_lo[p] =
        lesser(s->sigma[p], sqrt(near * near * share + t->net->eps) * (1 - S4_OUTWARD));
    s->sigma_hi[p] = greater(s->sigma[p], sqrt(far * far * share + t->net->eps) * (1 + S4_OUTWARD));
    norm_errors(t, s, l, p, size);
    const ival inverse = ival_out(1 / s->sigma_hi[p], 1 / s->sigma_lo[p]);
    for (size_t h = 0; h < H; h++) {
        const ival n =
            ival_cap(ival_mul(range_at(s->box_centred, from + h), inverse), (ival){-limit, limit});
        s->norm[from + h] = x[h] / s->sigma[p];
        t->u[from + h] = l->gamma[h] * s->norm[from + h] + l->beta[h];
        const ival y = ival_widen(ival_scale(l->gamma[h], n), s->e_out[from + h]);
        range_put(t->out, from + h, (ival){y.lo + l->beta[h], y.hi + l->beta[h]});
    }
}

/* Sizes that float32 can hold with room to spare. */
static stet_status check_size(const double *x, size_t n)
{
    size_t large = 0;
    for (size_t i = 0; i < n; i++)
        large += !(fabs(x[i]) < largest); /* so is a NaN */
    return large == 0 ? STET_OK
                      : error_set(STET_EFORMAT,
                                  "the model's numbers are not finite, overflow float32, or lose "
                                  "all their digits to cancellation");
}

stet_status s4_text_read(s4_text *t, const s4_net64 *net, s4_rounding rounding, size_t n,
                         const uint32_t *start, const cert_encoded *words, arena *a)
{
    const size_t H = net->H;
    *t = (s4_text){.net = net, .rounding = rounding, .n = n, .start = start, .x = words->x};
    t->e_x = arena_new(a, double, n *H);
    t->u = arena_new(a, double, n *H);
    t->out = range_new(a, n * H);
    t->layer = arena_znew(a, s4_station, net->layers);
    t->scratch = arena_new(a, double, 8 * n * H);
    t->cut = arena_znew(a, bool, net->layers *n);
    t->lam = range_new(a, n * H);
    if (!t->e_x || !t->u || !t->out.mid || !t->layer || !t->scratch || !t->cut || !t->lam.mid)
        return STET_ENOMEM;
    encode(t, words->length);
    TRY(check_size(t->x, start[n] * H));
    double *g = t->scratch, *size = g;
    const s4_range box_g = {g + n * H, g + 2 * n * H}, ab = {g + 4 * n * H, g + 6 * n * H};
    for (size_t k = 0; k < net->layers; k++) {
        s4_station *s = &t->layer[k];
        const s4_layer64 *l = &net->layer[k];
        TRY(station_alloc(s, n, H, a));
        convolution(t, s, l, g, box_g);
        if (!net->bare)
            mix(t, s, l, g, box_g, ab);
        TRY(check_size(s->box_y.mid, 2 * n * H)); /* each with its radii behind it */
        if (net->relu) {
            plain_end(t, net->bare ? g : s->ab, net->bare ? box_g : ab);
            TRY(check_size(t->out.mid, 2 * n * H));
            continue;
        }
        gate(t, s, ab);
        TRY(check_size(ab.mid, 4 * n * H));
        TRY(check_size(s->box_centred.mid, 2 * n * H));
        for (size_t p = 0; p < n; p++)
            normalise(t, s, l, p, size);
    }
    return check_size(t->out.mid, 2 * n * H);
}

static void largest_of(const s4_text *t, double *RESTRICT clean, s4_range box)
{
    const size_t H = t->net->H;
    double *RESTRICT lo = box.mid, *RESTRICT hi = box.rad; /* first the ends */
    memcpy(clean, t->u, H * sizeof *clean);
    for (size_t h = 0; h < H; h++) {
        const ival x = range_at(t->out, h);
        lo[h] = x.lo;
        hi[h] = x.hi;
    }
    for (size_t p = 1; p < t->n; p++) {
        const double *RESTRICT u = t->u + p * H, *RESTRICT mid = t->out.mid + p * H,
                               *RESTRICT rad = t->out.rad + p * H;
        for (size_t h = 0; h < H; h++) {
            clean[h] = greater(clean[h], u[h]);
            lo[h] = greater(lo[h], mid[h] - rad[h]);
            hi[h] = greater(hi[h], mid[h] + rad[h]);
        }
    }
    for (size_t h = 0; h < H; h++)
        range_put(box, h, (ival){lo[h], hi[h]});
}

void s4_pooled(const s4_text *t, double *clean, s4_range box)
{
    if (t->net->max) {
        largest_of(t, clean, box);
        return;
    }
    const size_t H = t->net->H;
    const double share = 1 / (double)t->n;
    for (size_t h = 0; h < H; h++) {
        double x = 0, m = 0, r = 0, size = 0;
        for (size_t p = 0; p < t->n; p++) {
            x += t->u[p * H + h];
            m += t->out.mid[p * H + h];
            r += t->out.rad[p * H + h];
            size += range_mag(t->out, p * H + h) + S4_TINY;
        }
        clean[h] = x * share;
        box.mid[h] = m * share;
        box.rad[h] = (r + gamma_of(&t->rounding, t->n + 2) * size) * share * (1 + S4_OUTWARD);
    }
}
