/* certify/cert_s4_adjoint.c - from the margin back through S4's layers: see cert_s4.h. */
#include <math.h>
#include <string.h>

#include "certify/cert_activation.h"
#include "certify/cert_lstm_rows.h"
#include "certify/cert_s4.h"
#include "model/spans.h"

static const double runaway = 1e100; /* beyond it a bound is worth nothing */

/* Relative rounding of sums of n doubles, with room. */
static double own(size_t n)
{
    return (double)(n + 16) * 0x1p-52;
}

/* The derivative of GELU has its extremes at the ends of [lo, hi] and at +-sqrt(2). */
static double gelu_grad(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * (0.5 * M_SQRT1_2 * M_2_SQRTPI);
}

static ival gelu_slopes(ival x)
{
    static const double top = 1.128904145185155, error = 1e-14;
    const double a = gelu_grad(x.lo), b = gelu_grad(x.hi);
    ival s = {lesser(a, b), greater(a, b)};
    if (x.lo < M_SQRT2 && x.hi > M_SQRT2)
        s.hi = top;
    if (x.lo < -M_SQRT2 && x.hi > -M_SQRT2)
        s.lo = 1 - top;
    return ival_widen(s, error);
}

/* ---- stations, last to first -------------------------------------------------------------- */

/* The least of lam_n . (n' - n*) over the norm's box, or over the ball that holds every n': it is
 * centred and no longer than sqrt(H). */
static double norm_direct(const s4_text *t, const s4_station *s, size_t p, s4_range lam,
                          ival inverse)
{
    const size_t H = t->net->H, from = p * H;
    const double limit = sqrt((double)H - 1);
    double sum = 0, size = 0, mean = 0, dot = 0, mids = 0, rads = 0;
    for (size_t i = from; i < from + H; i++)
        mean += lam.mid[i] / (double)H;
    for (size_t i = from; i < from + H; i++) {
        const ival n =
            ival_cap(ival_mul(range_at(s->box_centred, i), inverse), (ival){-limit, limit});
        const ival x = ival_mul(range_at(lam, i), ival_with(ival_sub(n, s->norm[i]), 0));
        sum += x.lo;
        dot += ival_scale(s->norm[i], range_at(lam, i)).hi;
        mids += (lam.mid[i] - mean) * (lam.mid[i] - mean);
        rads += lam.rad[i] * lam.rad[i];
        size += ival_mag(x) + fabs(s->norm[i]) * range_mag(lam, i);
    }
    const double ball = -(sqrt(mids) + sqrt(rads)) * (1 + S4_OUTWARD) * sqrt((double)H) - dot;
    return greater(sum, ball) - own(H) * size;
}

/* lam of the layer's output, row p of `lam` (n, H), becomes lam of r: zero where the box says more.
 */
static void norm_back(const s4_text *t, const s4_station *s, const s4_layer64 *l, size_t p,
                      s4_range lam, bool *cut, double *loss, double *slack)
{
    const size_t H = t->net->H, from = p * H;
    const double share = 1 / (double)H;
    double mean = 0, rads = 0, dot = 0, dot_rad = 0, dot_size = 0, size = 0;
    for (size_t h = 0; h < H; h++) {
        const size_t i = from + h;
        *slack += range_mag(lam, i) * s->e_out[i];
        lam.mid[i] *= l->gamma[h];
        lam.rad[i] *= fabs(l->gamma[h]);
        mean += lam.mid[i] * share;
        rads += lam.rad[i] * share;
        dot += s->norm[i] * lam.mid[i];
        dot_rad += fabs(s->norm[i]) * lam.rad[i];
        dot_size += fabs(s->norm[i] * lam.mid[i]);
        size += range_mag(lam, i) * share;
    }
    dot_rad = dot_rad * (1 + S4_OUTWARD) + own(H) * dot_size;
    const ival n_lam = {dot - dot_rad, dot + dot_rad},
               inverse = ival_out(1 / s->sigma_hi[p], 1 / s->sigma_lo[p]);
    const double direct = t->rounding.plain ? -INFINITY : norm_direct(t, s, p, lam, inverse);
    const ival scale =
        ival_out(share / (s->sigma_hi[p] + s->sigma[p]), share / (s->sigma_lo[p] + s->sigma[p]));
    double felt = 0; /* of all that r may do */
    for (size_t h = 0; h < H; h++) {
        const size_t i = from + h;
        const double rad = (lam.rad[i] * (1 - 2 * share) + rads) * (1 + S4_OUTWARD) +
                           own(H) * (size + range_mag(lam, i));
        const ival centred = ival_widen((ival){lam.mid[i] - mean, lam.mid[i] - mean}, rad);
        const ival w = ival_mul(ival_widen(range_at(s->box_centred, i), 0), scale);
        const ival w_clean = ival_scale(s->centred[i], scale);
        const ival back = ival_mul(n_lam, ival_add(w, w_clean));
        const ival r = ival_mul(ival_out(centred.lo - back.hi, centred.hi - back.lo), inverse);
        range_put(lam, i, r);
        felt += range_mag(lam, i) * ival_mag(ival_sub(range_at(s->box_centred, i), s->centred[i]));
    }
    *cut = -direct < felt;
    *loss -= *cut ? direct : 0;
    for (size_t i = from; i < from + H; i++) {
        lam.mid[i] = *cut ? 0 : lam.mid[i];
        lam.rad[i] = *cut ? 0 : lam.rad[i];
        *slack += range_mag(lam, i) * s->e_r[i];
    }
}

/* lam of r to lam of a and b, (n, 2H). */
static void gate_back(const s4_text *t, const s4_station *s, const s4_layer64 *l, s4_range lam,
                      s4_range ab, double *slack)
{
    const size_t n = t->n, H = t->net->H;
    for (size_t p = 0; p < n; p++)
        for (size_t h = 0; h < H; h++) {
            const size_t i = p * H + h, a = p * 2 * H + h, b = a + H;
            const ival x = ival_with(range_at(s->box_b, i), s->ab[b]), r = range_at(lam, i);
            const act_point lo = act_at(false, x.lo), hi = act_at(false, x.hi);
            range_put(ab, a, ival_mul(r, act_range(false, lo, hi)));
            const ival slopes = act_slopes(false, act_at(false, s->ab[b]), lo, hi);
            range_put(ab, b, ival_mul(r, ival_scale(s->ab[a], slopes)));
            *slack += range_mag(ab, a) * s4_mix_error(s, l, p, h) +
                      range_mag(ab, b) * s4_mix_error(s, l, p, H + h);
        }
}

/* With ReLU, lam of the block's output is that of a, or of g, and nothing passes by. */
static void move_lam(const s4_text *t, s4_range lam, s4_range to)
{
    const size_t bytes = t->n * t->net->H * sizeof *lam.mid;
    memcpy(to.mid, lam.mid, bytes);
    memcpy(to.rad, lam.rad, bytes);
    memset(lam.mid, 0, bytes);
    memset(lam.rad, 0, bytes);
}

static void linear_back(const s4_text *t, const s4_station *s, const s4_layer64 *l, s4_range lam,
                        s4_range a, double *slack)
{
    const size_t H = t->net->H;
    move_lam(t, lam, a);
    for (size_t i = 0; i < t->n * H; i++)
        *slack += range_mag(a, i) * s4_mix_error(s, l, i / H, i % H);
}

/* lam of a and b to lam of g, (n, H). */
static void mix_back(const s4_text *t, const s4_layer64 *l, s4_range ab, s4_range g)
{
    const size_t n = t->n, H = t->net->H, R = s4_mixed(t->net);
    rows_product(n, H, R, ab.mid, l->mix, g.mid);
    rows_product(n, H, R, ab.rad, l->abs, g.rad);
    for (size_t p = 0; p < n; p++) {
        double sum = 0;
        for (size_t i = 0; i < R; i++)
            sum += range_mag(ab, p * R + i) * range_mag(ab, p * R + i);
        const double rounding = own(R) * sqrt(sum);
        for (size_t h = 0; h < H; h++)
            g.rad[p * H + h] += rounding * l->col[h];
    }
}

/* lam of g to lam of y, in place. */
static void activation_back(const s4_text *t, const s4_station *s, s4_range lam, double *slack)
{
    double nothing[2];
    range_put((s4_range){nothing, nothing + 1}, 0, ival_mul((ival){0, 0}, (ival){0, 1}));
    for (size_t i = 0; i < t->n * t->net->H; i++) {
        if (lam.mid[i] == 0 && lam.rad[i] == 0) { /* of the largest over time most are not felt */
            lam.rad[i] = nothing[1];
            continue;
        }
        *slack += range_mag(lam, i) * s->e_g[i];
        const ival box = ival_with(range_at(s->box_y, i), s->y[i]),
                   slopes = t->net->relu ? relu_slopes(s->y[i], box) : gelu_slopes(box);
        range_put(lam, i, ival_mul(range_at(lam, i), slopes));
        *slack += range_mag(lam, i) * s->e_y[i];
    }
}

/* lam of y and, through the residual, of r, to lam of u, in `lam`: of the piece from word `from` to
 * `to`. `scratch` holds H numbers. */
static void piece_back(const s4_text *t, const s4_layer64 *l, s4_range y, s4_range through,
                       s4_range lam, size_t from, size_t to, double *scratch)
{
    const size_t n = to - from, H = t->net->H, at = from * H;
    s4_convolve(l, n, H, true, range_from(y, at), range_from(through, at));
    s4_lengths(range_from(y, at), n, H, scratch);
    for (size_t h = 0; h < H; h++)
        scratch[h] = own(n) * l->K_norm[(n - 1) * H + h] * scratch[h];
    for (size_t i = at; i < to * H; i += H)
        for (size_t h = 0; h < H; h++) {
            lam.mid[i + h] += through.mid[i + h];
            lam.rad[i + h] = (lam.rad[i + h] + through.rad[i + h] + scratch[h]) * (1 + S4_OUTWARD) +
                             S4_OUTWARD * fabs(lam.mid[i + h]);
        }
}

/* ---- words -------------------------------------------------------------------------------- */

static void words(const s4_text *t, s4_range lam, double *contribution, double *slack)
{
    const size_t H = t->net->H;
    for (size_t p = 0; p < t->n; p++) {
        const double *clean = t->x + t->start[p] * H;
        for (size_t h = 0; h < H; h++)
            *slack += range_mag(lam, p * H + h) * t->e_x[p * H + h];
        contribution[t->start[p]] = 0;
        for (size_t k = t->start[p] + 1; k < t->start[p + 1]; k++) {
            double sum = 0, size = 0;
            for (size_t h = 0; h < H; h++) {
                const double d = t->x[k * H + h] - clean[h];
                sum += d * lam.mid[p * H + h] - fabs(d) * lam.rad[p * H + h];
                size += fabs(d) * range_mag(lam, p * H + h);
            }
            contribution[k] = sum - own(H) * size;
        }
    }
}

/* ---- pooling ------------------------------------------------------------------------------ */

static void feel_mean(const s4_text *t, const double *om, double *slack)
{
    const size_t n = t->n, H = t->net->H;
    const double nu = (double)(n + 3) * t->rounding.unit, pooling = nu / (1 - nu);
    for (size_t i = 0; i < n * H; i++) {
        t->lam.mid[i] = om[i % H] / (double)n;
        t->lam.rad[i] = S4_OUTWARD * fabs(t->lam.mid[i]);
        *slack += fabs(t->lam.mid[i]) * pooling * (range_mag(t->out, i) + S4_TINY);
    }
}

/* What a channel is over the text: its clean maximum, where it is, which box is highest, and how
 * high the others are. */
typedef struct peak {
    size_t best, top;
    double most, high, others;
} peak;

/* LANES channels from h on, a row at a time. */
enum { LANES = 8 };
static void find_peaks(const s4_text *t, size_t h, size_t lanes, peak *peaks)
{
    static const double tie = 1e-9; /* a checker's numbers differ by less: it takes the same one */
    const size_t H = t->net->H;
    for (size_t j = 0; j < lanes; j++)
        peaks[j] = (peak){h + j, h + j, t->u[h + j], range_at(t->out, h + j).hi, -INFINITY};
    for (size_t row = h + H; row < t->n * H; row += H)
        for (size_t j = 0; j < lanes; j++) {
            peak *k = &peaks[j];
            const size_t i = row + j;
            const double u = t->u[i], hi = range_at(t->out, i).hi, best = t->u[k->best];
            k->best = u > best + tie * (1 + fabs(best)) ? i : k->best;
            k->most = greater(k->most, u);
            k->others = greater(k->others, lesser(k->high, hi));
            k->top = hi > k->high ? i : k->top;
            k->high = greater(k->high, hi);
        }
}

/* Of the largest value of a channel one position is felt, as in cert_lstm_margin.c: y >= u_p for the
 * clean text's largest; y <= max(u_p, m) for the highest box and the highest end m of all others,
 * along the chord. *loss: what that leaves of om times the clean maximum. */
static void feel_peak(const s4_text *t, const peak *k, double om, double *loss)
{
    const ival box = range_at(t->out, k->top);
    const bool chord = om < 0 && k->others > box.lo;
    const size_t at = om < 0 ? k->top : k->best;
    /* rounded upward: a steeper chord is still above */
    const double slope =
        chord ? (box.hi - k->others) / (box.hi - box.lo) * (1 + 16 * ival_step) : 1;
    const double value = chord ? k->others + slope * (t->u[at] - box.lo) : t->u[at];
    const double size =
        fabs(k->others > -INFINITY ? k->others : 0) + fabs(box.lo) + fabs(box.hi) + fabs(k->most);
    t->lam.mid[at] = om * slope;
    t->lam.rad[at] = S4_OUTWARD * fabs(t->lam.mid[at]);
    *loss += om * (k->most - value) + own(8) * fabs(om) * size;
}

static void feel_largest(const s4_text *t, const double *om, double *loss)
{
    const size_t n = t->n, H = t->net->H;
    memset(t->lam.mid, 0, n * H * sizeof *t->lam.mid);
    memset(t->lam.rad, 0, n * H * sizeof *t->lam.rad);
    for (size_t h = 0; h < H; h += LANES) {
        const size_t lanes = H - h < LANES ? H - h : LANES;
        peak peaks[LANES];
        find_peaks(t, h, lanes, peaks);
        for (size_t j = 0; j < lanes; j++)
            feel_peak(t, &peaks[j], om[h + j], loss);
    }
}

bool s4_adjoint(const s4_text *t, const double *om, double *contribution, double *loss,
                double *slack)
{
    const size_t n = t->n, H = t->net->H;
    const s4_range ab = {t->scratch, t->scratch + 2 * n * H};
    const s4_range y = {t->scratch + 4 * n * H, t->scratch + 5 * n * H};
    const s4_range through = {t->scratch + 6 * n * H, t->scratch + 7 * n * H}, lam = t->lam;
    *loss = *slack = 0;
    if (t->net->max)
        feel_largest(t, om, loss);
    else
        feel_mean(t, om, slack);
    for (size_t k = t->net->layers; k-- > 0;) {
        const s4_station *s = &t->layer[k];
        const s4_layer64 *l = &t->net->layer[k];
        for (size_t p = 0; !t->net->relu && p < n; p++)
            norm_back(t, s, l, p, lam, &t->cut[k * n + p], loss, slack);
        if (t->net->bare) {
            move_lam(t, lam, y);
        } else {
            (t->net->relu ? linear_back : gate_back)(t, s, l, lam, ab, slack);
            mix_back(t, l, ab, y);
        }
        activation_back(t, s, y, slack);
        for (size_t p = 0; p < n; p = span_end(t->net->span, n, p))
            piece_back(t, l, y, through, lam, p, span_end(t->net->span, n, p), ab.mid);
        for (size_t i = 0; i < n * H; i++)
            if (!(range_mag(lam, i) < runaway))
                return false;
    }
    words(t, lam, contribution, slack);
    *slack *= 1 + 1e-9;
    *loss *= 1 + 1e-9;
    return *slack < runaway && *loss < runaway;
}
