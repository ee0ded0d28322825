/* verify/ver_s4_back.c - margins of S4: from the ranges, and back from the margin; lam is what it
 * feels of a station's deviation from the clean text. Of the norm,
 *
 *     n' - n* = (C D - n* (w . D)) / sigma',   w = (C r' + C r*) / (H (sigma' + sigma*)),
 *
 * of the gate, z' - z* = s(b') Da + a* S Db with S the sigmoid's slopes. */
#include <string.h>

#include "verify/ver_activation.h"
#include "verify/ver_s4.h"

static const double RUNAWAY = 1e100; /* beyond, a bound says nothing and doubles might overflow */

/* Slopes of the ReLU from the clean value: it is convex, so the ends of the range have the extremes. */
static iv relu_slopes(double clean, iv x)
{
    if (x.lo >= 0)
        return (iv){1, 1};
    if (x.hi <= 0)
        return (iv){0, 0};
    iv r = {INFINITY, -INFINITY};
    const double end[2] = {x.lo, x.hi};
    for (int k = 0; k < 2; k++) {
        const double gap = end[k] - clean, size = 1 + fabs(end[k]) + fabs(clean);
        if (fabs(gap) < 1e-9)
            return (iv){0, 1};
        const double slope = (fmax(end[k], 0) - fmax(clean, 0)) / gap;
        r = iv_with(iv_with(r, slope - 0x1p-49 * size / fabs(gap)),
                    slope + 0x1p-49 * size / fabs(gap));
    }
    return iv_cap(r, (iv){0, 1});
}

static iv gelu_derivatives(iv x) /* extremes at the ends and at +-sqrt(2) */
{
    iv r = {INFINITY, -INFINITY};
    const double at[4] = {x.lo, x.hi, -sqrt(2), sqrt(2)};
    for (int k = 0; k < 4; k++)
        if (at[k] >= x.lo && at[k] <= x.hi)
            r = iv_with(r, 0.5 * erfc(-at[k] / sqrt(2)) +
                               at[k] * exp(-at[k] * at[k] / 2) / sqrt(2 * M_PI));
    return iv_widen(r, 1e-14);
}

/* ---- margins ------------------------------------------------------------------------------ */

static double weight_of(const ver_model *m, int label, int other, size_t f)
{
    return (double)m->fc_w[(size_t)label * m->features + f] -
           m->fc_w[(size_t)other * m->features + f];
}

/* What the last layer sees of channel h: its box, and a size that no number on the way exceeds, on
 * average. */
static iv pooled(const ver_work *w, size_t h, double *size)
{
    const s4_state *s = w->state;
    const size_t n = w->t->n, H = w->m->channels;
    iv y = s->box[h];
    *size = VER_TINY;
    for (size_t p = 0; p < n; p++) {
        const iv x = s->box[p * H + h];
        y = (iv){fmax(y.lo, x.lo), fmax(y.hi, x.hi)};
        *size += iv_mag(x) / (double)n;
    }
    if (w->m->pool == VER_LARGEST)
        *size = iv_mag(y);
    return y;
}

/* Biases, rounding of the mean over the text and of the last layer. */
static ver_sum head(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    const s4_state *s = w->state;
    const size_t n = w->t->n, H = m->channels;
    const double g = ver_gamma32(n + 2) + ver_gamma64(n + 8);
    ver_sum sum = {0};
    for (size_t h = 0; h < H; h++) {
        double size;
        pooled(w, h, &size);
        s->size[h] = size * (1 + g);
        if (m->pool == VER_MEAN)
            ver_add(&sum, 0, fabs(weight_of(m, label, other, h)) * g * size);
    }
    ver_add(&sum, m->fc_b[label], ver_head_error(m, label, other, s->size));
    ver_add(&sum, -(double)m->fc_b[other], 0);
    return sum;
}

double ver_s4_margin(const ver_work *w, int label, int other)
{
    const s4_state *s = w->state;
    const size_t n = w->t->n, H = w->m->channels;
    const bool mean = w->m->pool == VER_MEAN;
    double sum = (double)w->m->fc_b[label] - w->m->fc_b[other];
    for (size_t i = 0; mean && i < n * H; i++)
        sum += weight_of(w->m, label, other, i % H) * s->u[i] / (double)n;
    for (size_t h = 0; !mean && h < H; h++) {
        double y = s->u[h];
        for (size_t i = h + H; i < n * H; i += H)
            y = fmax(y, s->u[i]);
        sum += weight_of(w->m, label, other, h) * y;
    }
    return sum + ver_scores_margin(w, label, other);
}

double ver_s4_box(const ver_work *w, int label, int other)
{
    const s4_state *s = w->state;
    const size_t n = w->t->n, H = w->m->channels;
    const bool mean = w->m->pool == VER_MEAN;
    ver_sum sum = head(w, label, other);
    for (size_t i = 0; mean && i < n * H; i++)
        ver_add(&sum, iv_scale(weight_of(w->m, label, other, i % H), s->box[i]).lo / (double)n, 0);
    for (size_t h = 0; !mean && h < H; h++) {
        double size;
        ver_add(&sum, iv_scale(weight_of(w->m, label, other, h), pooled(w, h, &size)).lo, 0);
    }
    ver_add(&sum, ver_scores_worst(w, label, other, s->drop), 0);
    return ver_lower(&sum);
}

/* The least of lam . (n' - n*) for a position, over the norm's box or over the ball of radius
 * sqrt(H). */
static double norm_direct(const s4_layer *l, size_t p, const iv *lam, size_t H)
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
    ver_add(&ball, -(sqrt(mids) + sqrt(rads)) * sqrt((double)H) * (1 + VER_OURS), 0);
    return fmax(ver_lower(&box), ver_lower(&ball));
}

/* lam of the layer's output to lam of r at position p, in place. `cut`: 1 end here, 0 go on, -1 as
 * seems best. */
static void norm_back(const ver_work *w, const s4_layer *l, size_t p, int cut, ver_sum *loss)
{
    const size_t H = w->m->channels;
    iv *lam = ((s4_state *)w->state)->lam + p * H;
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
        const iv centred =
            iv_widen((iv){m, m}, r * (1 + VER_OURS) + ver_gamma64(H + 8) * (size + iv_mag(lam[h])));
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

/* lam of r to lam of a and b at position p; with ReLU, of the block's output, which is a or g. */
static void gate_back(const ver_work *w, const s4_layer *l, size_t p, ver_sum *loss)
{
    const size_t H = w->m->channels;
    const s4_state *s = w->state;
    for (size_t h = 0; h < H; h++) {
        const size_t i = p * H + h;
        if (w->m->relu) {
            s->lam_a[i] = s->lam[i];
            s->lam[i] = (iv){0, 0}; /* no residual */
            if (!w->m->bare)
                ver_add(loss, 0, iv_mag(s->lam_a[i]) * l->e_a[i]);
            continue;
        }
        s->lam_a[i] = iv_mul(s->lam[i], ver_range_of(false, l->box_b[i]));
        s->lam_b[i] = iv_mul(s->lam[i], iv_scale(l->a[i], ver_slopes(false, l->b[i], l->box_b[i])));
        ver_add(loss, 0, iv_mag(s->lam_a[i]) * l->e_a[i]);
        ver_add(loss, 0, iv_mag(s->lam_b[i]) * l->e_b[i]);
    }
}

/* lam of a and b to lam of g at position p and channel h. */
static iv mix_back(const ver_work *w, const s4_layer *l, size_t p, size_t h)
{
    const size_t H = w->m->channels;
    const s4_state *s = w->state;
    double mid = 0, rad = 0, size = 0;
    for (size_t k = 0; k < H; k++) {
        const iv a = s->lam_a[p * H + k], b = w->m->relu ? (iv){0, 0} : s->lam_b[p * H + k];
        const double ma = l->p->mix_w[k * H + h],
                     mb = w->m->relu ? 0 : l->p->mix_w[(H + k) * H + h];
        mid += ma * iv_mid(a) + mb * iv_mid(b);
        rad += fabs(ma) * iv_rad(a) + fabs(mb) * iv_rad(b);
        size += fabs(ma) * iv_mag(a) + fabs(mb) * iv_mag(b);
    }
    return iv_widen((iv){mid, mid}, rad * (1 + VER_OURS) + ver_gamma64(2 * H + 8) * size);
}

/* lam of a and b, or of g itself, to lam of y at position p. */
static void activation_back(const ver_work *w, const s4_layer *l, size_t p, ver_sum *loss)
{
    const size_t H = w->m->channels;
    const s4_state *s = w->state;
    for (size_t h = 0; h < H; h++) {
        const size_t i = p * H + h;
        const iv g = w->m->bare ? s->lam_a[i] : mix_back(w, l, p, h);
        s->lam_y[i] = iv_mul(g, w->m->relu ? relu_slopes(l->y[i], l->box_y[i])
                                           : gelu_derivatives(l->box_y[i]));
        ver_add(loss, 0, iv_mag(g) * l->e_g[i]);
        ver_add(loss, 0, iv_mag(s->lam_y[i]) * l->e_y[i]);
    }
}

/* lam of y and r to lam of u; false: too large to go on. */
static bool convolve_back(const ver_work *w, const s4_layer *l)
{
    const size_t n = w->t->n, H = w->m->channels;
    const s4_state *s = w->state;
    bool fine = true;
    for (size_t h = 0; h < H; h++)
        for (size_t t = 0; t < n; t++) {
            double mid = 0, rad = 0, size = 0;
            size_t from, to;
            ver_s4_piece(w->m, n, t, &from, &to);
            for (size_t i = 0; t + i < to; i++) {
                const double k = l->K[i * H + h];
                const iv y = s->lam_y[(t + i) * H + h];
                mid += k * iv_mid(y);
                rad += fabs(k) * iv_rad(y);
                size += fabs(k) * iv_mag(y);
            }
            iv *lam = &s->lam[t * H + h];
            *lam = iv_add(
                *lam, iv_widen((iv){mid, mid}, rad * (1 + VER_OURS) + ver_gamma64(n + 8) * size));
            fine = fine && lam->lo > -RUNAWAY && lam->hi < RUNAWAY; /* false for NaN */
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
        if (!json_is_integer(p) || json_integer_value(p) < 0 ||
            (uint64_t)json_integer_value(p) >= w->t->n)
            return error_set(STET_EFORMAT, "witness: no such position");
        cut[json_integer_value(p)] = 1;
    }
    return STET_OK;
}

/* Of the largest of a channel one position is felt: y >= u_p for the clean text's largest where it
 * should be large; where it should be small, y <= max(u_p, rest) with p of the highest box and `rest`
 * the highest end of all others, along the chord over that box. */
static void feel_largest(const ver_work *w, int label, int other, ver_sum *sum)
{
    const double tie = 1e-9; /* the first of equals, whoever computes them */
    const s4_state *s = w->state;
    const size_t n = w->t->n, H = w->m->channels;
    memset(s->lam, 0, n * H * sizeof *s->lam);
    for (size_t h = 0; h < H; h++) {
        const double om = weight_of(w->m, label, other, h);
        size_t best = h, top = h;
        double rest = -INFINITY;
        for (size_t i = h + H; i < n * H; i += H) {
            best = s->u[i] > s->u[best] + tie * (1 + fabs(s->u[best])) ? i : best;
            top = s->box[i].hi > s->box[top].hi ? i : top;
        }
        for (size_t i = h; i < n * H; i += H)
            rest = i == top ? rest : fmax(rest, s->box[i].hi);
        const iv box = s->box[top];
        const bool chord = om < 0 && rest > box.lo;
        const size_t at = om < 0 ? top : best;
        /* rounded upward: a steeper chord is above, too */
        const double slope = chord ? (box.hi - rest) / (box.hi - box.lo) * (1 + 0x1p-48) : 1,
                     value = chord ? rest + slope * (s->u[at] - box.lo) : s->u[at];
        const double size = iv_mag(box) + fabs(s->u[at]) + (chord ? fabs(rest) : 0);
        s->lam[at] = iv_out(om * slope, om * slope);
        ver_add(sum, om * value, fabs(om) * size * VER_OURS);
    }
}

stet_status ver_s4_adjoint(ver_work *w, int label, int other, const json_t *witness, double *out)
{
    const ver_task *t = w->t;
    s4_state *s = w->state;
    const size_t n = t->n, H = w->m->channels;
    int *cut = arena_new(&w->mem, int, n);
    if (!cut)
        return STET_ENOMEM;
    *out = -INFINITY;
    ver_sum sum = head(w, label, other);
    if (w->m->pool == VER_LARGEST)
        feel_largest(w, label, other, &sum);
    for (size_t i = 0; w->m->pool == VER_MEAN && i < n * H; i++) {
        const double om = weight_of(w->m, label, other, i % H) / (double)n;
        s->lam[i] = iv_out(om, om);
        ver_add(&sum, om * s->u[i], fabs(om * s->u[i]) * VER_OURS);
    }
    for (size_t k = w->m->layers; k-- > 0;) {
        TRY(read_cuts(w, witness, k, cut));
        for (size_t p = 0; p < n; p++) {
            if (!w->m->relu)
                norm_back(w, &s->layer[k], p, cut[p], &sum);
            gate_back(w, &s->layer[k], p, &sum);
            activation_back(w, &s->layer[k], p, &sum);
        }
        if (!convolve_back(w, &s->layer[k]))
            return STET_OK;
    }
    for (size_t p = 0; p < n; p++) {
        const double own = ver_score_least(w, t->start[p], label, other);
        s->drop[p] = 0;
        ver_add(&sum, own, 0);
        for (size_t h = 0; h < H; h++)
            ver_add(&sum, 0, iv_mag(s->lam[p * H + h]) * s->e_x[p * H + h]);
        for (size_t k = t->start[p] + 1; k < t->start[p + 1]; k++) {
            ver_sum word = {0};
            ver_add(&word, ver_score_least(w, k, label, other) - own, 0);
            for (size_t h = 0; h < H; h++)
                ver_add(&word,
                        iv_scale(s->x[k * H + h] - s->x[t->start[p] * H + h], s->lam[p * H + h]).lo,
                        0);
            s->drop[p] = fmin(s->drop[p], ver_lower(&word));
        }
    }
    ver_add(&sum, ver_within_budget(t, 0, s->drop, n), 0);
    *out = ver_lower(&sum);
    return STET_OK;
}
