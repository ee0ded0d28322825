/* certify/cert_lstm_lines.c - an LSTM step as lines, and the way back along them.
 *
 * A product of x in [xm +- xr] and y in [ym +- yr] is xm y + ym x - xm ym +- xr yr. With a line for
 * each activation this makes a line of every unit; it usually leaves less than the middle of the
 * slope's coefficients does, and where it does not, that one is taken.
 *
 * Backwards, lines have numbers for coefficients: the margin feels what a step leaves out as often
 * as |lam|, the sum over all ways to the end with their signs, and not as the sum of their sizes.
 */
#include <math.h>
#include <string.h>

#include "certify/cert_activation.h"
#include "certify/cert_lstm_rows.h"
#include "certify/cert_lstm_walk.h"

/* k + the sum of slope[q] times a deviation, +- off. */
typedef struct unit_line {
    double slope[GO + 1], constant, off;
} unit_line;

static const double own_rounding =
    0x1p-46; /* of a handful of operations, relative to their terms */

static act_line gate_line(const lstm_walk *w, size_t r)
{
    const bool is_tanh = r / w->H == GG;
    const size_t at = w->step * 4 * w->H + r;
    const ival T = ival_at(w->tube->T, at);
    return act_line_over(is_tanh, act_at(is_tanh, w->t->T[at]), act_at(is_tanh, T.lo),
                         act_at(is_tanh, T.hi));
}

/* x y for lines x and y: what each is multiplied by, the constant, and what is left. */
typedef struct product_line {
    double x, y, constant, off;
} product_line;

static product_line product_of(ival x, act_line lx, ival y, act_line ly)
{
    const double xm = ival_mid(x), ym = ival_mid(y);
    const double size = fabs(xm * ly.at) + fabs(ym * lx.at) + fabs(xm * ym);
    return (product_line){ym * lx.slope, xm * ly.slope, xm * ly.at + ym * lx.at - xm * ym,
                          fabs(xm) * ly.off + fabs(ym) * lx.off + ival_rad(x) * ival_rad(y) +
                              own_rounding * size};
}

/* The cell's unit i from the best lines: slopes of T_i T_f T_g and c. */
static unit_line cell_by_lines(const lstm_walk *w, size_t i)
{
    const size_t H = w->H, at = w->step * H;
    const double clean = w->t->c[at + i], next = w->t->c[at + H + i];
    const product_line fc = product_of(ival_at(w->act, GF * H + i), gate_line(w, GF * H + i),
                                       ival_at(w->tube->c, at + i), (act_line){1, clean, 0});
    const product_line ig = product_of(ival_at(w->act, GI * H + i), gate_line(w, GI * H + i),
                                       ival_at(w->act, GG * H + i), gate_line(w, GG * H + i));
    const double size = fabs(fc.constant) + fabs(ig.constant) + fabs(next);
    return (unit_line){{[GI] = ig.x, [GF] = fc.x, [GG] = ig.y, [GO] = fc.y},
                       fc.constant + ig.constant - next,
                       fc.off + ig.off + own_rounding * size};
}

/* The same from the middles of its coefficients. */
static unit_line cell_by_middles(const lstm_walk *w, size_t i)
{
    const size_t H = w->H, at = w->step * H;
    const ival F = ival_at(w->tube->F, at + i);
    unit_line u = {.slope[GO] = ival_mid(F), .off = ival_rad(F) * ival_mag(ival_at(w->dc, i))};
    for (size_t q = 0; q < GO; q++) {
        const ival P = ival_at(w->tube->P, 3 * at + q * H + i);
        u.slope[q] = ival_mid(P);
        u.off += ival_rad(P) * ival_mag(ival_at(w->dT, q * H + i));
    }
    u.off *= 1 + own_rounding;
    return u;
}

void lines_cell(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    const lstm_lines *l = &w->tube->lines;
    for (size_t i = 0; i < H; i++) {
        unit_line u = cell_by_middles(w, i);
        if (w->tube->level == TUBE_LINEAR) {
            const unit_line other = cell_by_lines(w, i);
            u = other.off < u.off ? other : u;
        }
        for (size_t q = 0; q < GO; q++)
            l->P[3 * at + q * H + i] = u.slope[q];
        l->F[at + i] = u.slope[GO];
        l->k_c[at + i] = u.constant;
        l->d_c[at + i] = u.off;
    }
}

void lines_hidden(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    const lstm_lines *l = &w->tube->lines;
    for (size_t i = 0; i < H; i++) {
        const ival E = ival_at(w->tube->E, at + i), G = ival_at(w->tube->G, at + i);
        const ival dT = ival_at(w->dT, GO * H + i), dc = ival_at(w->dc_next, i);
        const double off =
            (ival_rad(E) * ival_mag(dT) + ival_rad(G) * ival_mag(dc)) * (1 + own_rounding);
        product_line u = {ival_mid(E), ival_mid(G), 0, off};
        if (w->tube->level == TUBE_LINEAR) {
            const ival c = ival_at(w->tube->c, at + H + i);
            const act_line tau = act_line_over(true, act_at(true, w->t->c[at + H + i]),
                                               act_at(true, c.lo), act_at(true, c.hi));
            product_line o = product_of(ival_at(w->act, GO * H + i), gate_line(w, GO * H + i),
                                        ival_at(w->tau, i), tau);
            const double clean = w->t->h[at + H + i];
            o.off += own_rounding * (fabs(o.constant) + fabs(clean));
            o.constant -= clean;
            u = o.off < u.off ? o : u;
        }
        l->E[at + i] = u.x;
        l->G[at + i] = u.y;
        l->k_h[at + i] = u.constant;
        l->d_h[at + i] = u.off;
    }
}

/* ---- backwards ---------------------------------------------------------------------------- */

typedef struct back {
    const lstm_tube *tube;
    const lstm_text *t;
    const lstm_aim *aim;
    size_t step, H;
    double eps;
    double *lam_h, *lam_c, *kap; /* (H) */
    double *lam_T;               /* (4H) */
    double *contribution;        /* (start[n]) of this direction */
    double taken, slack;         /* so far: by what is not on the lines, and by rounding alone */
    double words;                /* sum over positions of the least contribution */
} back;

/* What each word of the step's position contributes. */
static void contributions(back *b)
{
    const size_t H4 = 4 * b->H, p = lstm_place(b->t, b->step);
    const double *clean = b->t->x + b->t->start[p] * H4;
    double least = 0;
    for (size_t k = b->t->start[p] + 1; k < b->t->start[p + 1]; k++) {
        const double *x = b->t->x + k * H4;
        double sum = 0, size = 0;
        for (size_t r = 0; r < H4; r++) {
            const double term = b->lam_T[r] * (x[r] - clean[r]);
            sum += term;
            size += fabs(term);
        }
        b->contribution[k] = sum - b->eps * size;
        least = lesser(least, b->contribution[k]);
    }
    b->words += least;
}

/* Deviation of unit i before a step, or after the last. */
static ival deviation(ivals box, const double *clean, size_t i)
{
    return ival_sub(ival_at(box, i), clean[i]);
}

/* Through one step. `size` collects what our own rounding multiplies. */
static void step_back(back *b)
{
    const size_t H = b->H, at = b->step * H;
    const lstm_lines *l = &b->tube->lines;
    const double *e_T = b->t->e_T + 4 * at;
    double constant = 0, off = 0, rounding = 0, size = 0;
    for (size_t i = 0; i < H; i++) {
        const double lam = b->lam_h[i], lam_c = b->lam_c[i], kap = lam * l->G[at + i] + lam_c;
        const double after = ival_mag(deviation(b->tube->c, b->t->c, at + H + i));
        const double before = ival_mag(deviation(b->tube->c, b->t->c, at + i));
        constant += lam * l->k_h[at + i] + kap * l->k_c[at + i];
        off += fabs(lam) * l->d_h[at + i] + fabs(kap) * l->d_c[at + i];
        rounding += fabs(lam) * b->tube->e_h + fabs(kap) * b->tube->e_c[at + i];
        size += fabs(lam * l->k_h[at + i]) +
                (fabs(lam) * l->G[at + i] + fabs(lam_c)) * (after + fabs(l->k_c[at + i]) + before);
        for (size_t q = 0; q < GO; q++)
            b->lam_T[q * H + i] = kap * l->P[3 * at + q * H + i];
        b->lam_T[GO * H + i] = lam * l->E[at + i];
        b->lam_c[i] = kap * l->F[at + i];
    }
    for (size_t r = 0; r < 4 * H; r++) {
        rounding += fabs(b->lam_T[r]) * e_T[r];
        const double dT = ival_mag(deviation(b->tube->T, b->t->T, 4 * at + r));
        size += fabs(b->lam_T[r]) * (4 * b->t->cell->u_sum[r] + dT);
    }
    b->taken += (off + rounding) * (1 + b->eps) - constant + b->eps * size;
    b->slack += rounding;
    contributions(b);
    rows_range(1, H, 4 * H, b->t->cell->u, b->lam_T, b->lam_T, b->lam_h, b->kap);
}

/* What the state before the step can take, by its box: the way back may end here. */
static double box_takes(const back *b)
{
    double sum = 0, size = 0;
    for (size_t i = 0, at = b->step * b->H; i < b->H; i++, at++) {
        const double h = ival_scale(b->lam_h[i], deviation(b->tube->h, b->t->h, at)).lo;
        const double c = ival_scale(b->lam_c[i], deviation(b->tube->c, b->t->c, at)).lo;
        sum -= h + c;
        size += fabs(h) + fabs(c);
    }
    return sum + b->eps * size;
}

/* What the margin feels of this very state. */
static void feel_state(back *b)
{
    const bool last = b->step == b->t->n;
    for (size_t i = 0; i < b->H; i++) {
        if (b->aim->at && b->aim->at[i] != b->step)
            continue;
        const ival x = ival_at(b->aim->lam, i);
        const double mid = ival_mid(x);
        b->lam_h[i] += mid;
        b->taken += ival_rad(x) * ival_mag(deviation(b->tube->h, b->t->h, b->step * b->H + i));
        if (!last)
            b->taken += 4 * b->eps * fabs(mid); /* rounding of this sum; |Dh| < 4 */
    }
}

/* Where it is best to end, and what is taken up to there. */
typedef struct ending {
    size_t step;
    double taken, slack, words;
} ending;

static void consider(const back *b, ending *best)
{
    const double taken = b->taken + box_takes(b) + b->aim->below[b->step];
    if (taken - b->words < best->taken - best->words)
        *best = (ending){b->step, taken, b->slack, b->words};
}

bool lstm_back_lines(const lstm_tube *tube, const lstm_text *t, const lstm_aim *aim, bool all,
                     double *contribution, double *box, double *slack, double *scratch)
{
    const size_t H = t->cell->H;
    back b = {.tube = tube,
              .t = t,
              .aim = aim,
              .step = t->n,
              .H = H,
              .eps = (double)(4 * H + 64) * ival_step};
    b.lam_h = scratch;
    b.lam_c = scratch + H;
    b.kap = scratch + 2 * H;
    b.lam_T = scratch + 3 * H;
    b.contribution = scratch + 12 * H;
    memset(b.lam_h, 0, 2 * H * sizeof *b.lam_h); /* lam_c, too */
    feel_state(&b);
    ending best = {.taken = INFINITY};
    if (!all)
        consider(&b, &best);
    while (b.step-- > 0 && b.taken < 1e100) {
        step_back(&b);
        feel_state(&b);
        if (!all || b.step == 0)
            consider(&b, &best);
    }
    *box = best.taken;
    *slack = best.slack;
    for (size_t step = best.step; step < t->n; step++)
        for (size_t p = lstm_place(t, step), k = t->start[p] + 1; k < t->start[p + 1]; k++)
            contribution[k] += b.contribution[k];
    return best.taken < INFINITY;
}
