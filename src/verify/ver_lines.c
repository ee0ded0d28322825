/* verify/ver_lines.c - an LSTM's steps as lines, and back along them.
 *
 * A product of x in [xm +- xr] and y in [ym +- yr] is xm y + ym x - xm ym +- xr yr. With a line for
 * each activation that makes a line of every unit. The alternative is the middle of its slopes'
 * coefficients; whichever leaves less is taken. */
#include <string.h>

#include "verify/ver_lstm.h"

static const double OURS = 0x1p-46; /* relative, of a handful of operations */

typedef struct product {
    double x, y, constant, off; /* coefficients of what x and y are lines in */
} product;

static product product_of(iv x, ver_act_line lx, iv y, ver_act_line ly)
{
    const double xm = iv_mid(x), ym = iv_mid(y);
    const double size = fabs(xm * ly.at) + fabs(ym * lx.at) + fabs(xm * ym);
    return (product){ym * lx.slope, xm * ly.slope, xm * ly.at + ym * lx.at - xm * ym,
                     fabs(xm) * ly.off + fabs(ym) * lx.off + iv_rad(x) * iv_rad(y) + OURS * size};
}

static ver_act_line gate_line(const ver_read *r, const ver_tube *t, size_t step, size_t q)
{
    return ver_line_over(q / r->H == GATE_G, r->T[step * GATES * r->H + q], t->T[q]);
}

stet_status ver_lines_new(const ver_read *r, arena *a, ver_lines *out)
{
    double **const parts[] = {&out->F, &out->k_c, &out->d_c, &out->E,
                              &out->G, &out->k_h, &out->d_h};
    bool ok = (out->P = arena_new(a, double, r->n *GATE_O * r->H)) != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ok = (*parts[i] = arena_new(a, double, r->n * r->H)) && ok;
    return ok ? STET_OK : STET_ENOMEM;
}

void ver_lines_cell(const ver_read *r, ver_tube *t, size_t step)
{
    const size_t H = r->H, at = step * H;
    const ver_lines *l = &t->lines;
    for (size_t i = 0; i < H; i++) {
        const iv F = t->F[at + i];
        double *P[GATE_O];
        double off = iv_rad(F) * iv_mag(iv_less(t->c[i], r->c[at + i]));
        for (size_t q = 0; q < GATE_O; q++) {
            const iv x = t->P[step * GATE_O * H + q * H + i];
            P[q] = &l->P[step * GATE_O * H + q * H + i];
            *P[q] = iv_mid(x);
            off += iv_rad(x) * iv_mag(t->dT[q * H + i]);
        }
        l->F[at + i] = iv_mid(F);
        l->k_c[at + i] = 0;
        l->d_c[at + i] = off * (1 + OURS);
        if (t->level < VER_LINEAR)
            continue;
        const double clean = r->c[at + H + i];
        const product fc = product_of(t->act[GATE_F * H + i], gate_line(r, t, step, GATE_F * H + i),
                                      t->c[i], (ver_act_line){1, r->c[at + i], 0});
        const product ig =
            product_of(t->act[GATE_I * H + i], gate_line(r, t, step, GATE_I * H + i),
                       t->act[GATE_G * H + i], gate_line(r, t, step, GATE_G * H + i));
        off = fc.off + ig.off + OURS * (fabs(fc.constant) + fabs(ig.constant) + fabs(clean));
        if (off < l->d_c[at + i]) {
            *P[GATE_I] = ig.x;
            *P[GATE_F] = fc.x;
            *P[GATE_G] = ig.y;
            l->F[at + i] = fc.y;
            l->k_c[at + i] = fc.constant + ig.constant - clean;
            l->d_c[at + i] = off;
        }
    }
}

void ver_lines_hidden(const ver_read *r, ver_tube *t, size_t step)
{
    const size_t H = r->H, at = step * H;
    const ver_lines *l = &t->lines;
    for (size_t i = 0; i < H; i++) {
        const iv E = t->E[at + i], G = t->G[at + i], c = t->c_next[i];
        const double clean_c = r->c[at + H + i], clean = r->h[at + H + i];
        l->E[at + i] = iv_mid(E);
        l->G[at + i] = iv_mid(G);
        l->k_h[at + i] = 0;
        l->d_h[at + i] =
            (iv_rad(E) * iv_mag(t->dT[GATE_O * H + i]) + iv_rad(G) * iv_mag(iv_less(c, clean_c))) *
            (1 + OURS);
        if (t->level < VER_LINEAR)
            continue;
        const product o = product_of(t->act[GATE_O * H + i], gate_line(r, t, step, GATE_O * H + i),
                                     ver_range_of(true, c), ver_line_over(true, clean_c, c));
        const double off = o.off + OURS * (fabs(o.constant) + fabs(clean));
        if (off < l->d_h[at + i]) {
            l->E[at + i] = o.x;
            l->G[at + i] = o.y;
            l->k_h[at + i] = o.constant - clean;
            l->d_h[at + i] = off;
        }
    }
}

/* ---- backwards ---------------------------------------------------------------------------- */

typedef struct back {
    double *lam_h, *lam_c, *lam_T; /* (H), (H), (4H) */
    double lost, words;            /* so far: beside the words, and by the worst of them */
} back;

/* The least that the state before `step` does, by its box. */
static double state_least(const ver_read *r, const ver_tube *t, size_t step, const back *b)
{
    ver_sum sum = {0};
    for (size_t i = 0, at = step * r->H; i < r->H; i++, at++) {
        ver_add(&sum, iv_scale(b->lam_h[i], iv_less(t->h_at[at], r->h[at])).lo, 0);
        ver_add(&sum, iv_scale(b->lam_c[i], iv_less(t->c_at[at], r->c[at])).lo, 0);
    }
    return ver_lower(&sum);
}

/* Through one step. `ours` collects what rounding of our coefficients multiplies. */
static void step_back(const ver_read *r, const ver_tube *t, size_t step, back *b)
{
    const size_t H = r->H, at = step * H;
    const ver_lines *l = &t->lines;
    double lost = 0, ours = 0;
    for (size_t i = 0; i < H; i++) {
        const double lam = b->lam_h[i], kap = lam * l->G[at + i] + b->lam_c[i];
        const double size = fabs(lam * l->G[at + i]) + fabs(b->lam_c[i]);
        lost +=
            fabs(lam) * (l->d_h[at + i] + t->e_h) + fabs(kap) * (l->d_c[at + i] + t->e_c[at + i]);
        lost -= lam * l->k_h[at + i] + kap * l->k_c[at + i];
        ours += fabs(lam * l->k_h[at + i]) +
                size * (iv_mag(iv_less(t->c_at[at + H + i], r->c[at + H + i])) +
                        fabs(l->k_c[at + i]) + iv_mag(iv_less(t->c_at[at + i], r->c[at + i])));
        for (size_t q = 0; q < GATE_O; q++)
            b->lam_T[q * H + i] = kap * l->P[step * GATE_O * H + q * H + i];
        b->lam_T[GATE_O * H + i] = lam * l->E[at + i];
        b->lam_c[i] = kap * l->F[at + i];
    }
    for (size_t q = 0; q < GATES * H; q++) {
        double u = 0;
        for (size_t j = 0; j < H; j++)
            u += fabs((double)r->p->w_hh[q * H + j]);
        lost += fabs(b->lam_T[q]) * r->e_T[step * GATES * H + q];
        ours += fabs(b->lam_T[q]) * (4 * u + t->far_T[step * GATES * H + q]); /* |Dh| < 4 */
    }
    b->lost += lost + ver_gamma64(8 * H + 64) * (ours + fabs(lost));
    for (size_t j = 0; j < H; j++) {
        b->lam_h[j] = 0;
        for (size_t q = 0; q < GATES * H; q++)
            b->lam_h[j] += r->p->w_hh[q * H + j] * b->lam_T[q];
    }
}

/* What the words of the step's position contribute, into add (words). */
static void step_words(const ver_read *r, size_t step, back *b, double *add)
{
    const size_t H4 = GATES * r->H, p = ver_place(r, step);
    double least = 0;
    for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
        ver_sum sum = {0};
        for (size_t q = 0; q < H4; q++)
            ver_add(&sum, b->lam_T[q] * (r->x[k * H4 + q] - r->x[r->t->start[p] * H4 + q]), 0);
        add[k] = ver_lower(&sum);
        least = fmin(least, add[k]);
    }
    b->words += least;
}

/* below[s]: the most that is lost by what is felt before state s, all of it taken from the boxes. */
static void lost_below(const ver_read *r, const ver_tube *t, const ver_aim *aim, double *below)
{
    ver_sum sum = {0};
    for (size_t s = 1; s <= r->n; s++) {
        below[s] = -ver_lower(&sum);
        for (size_t i = 0, at = s * r->H; i < r->H; i++, at++)
            ver_add(&sum, iv_scale(ver_feels(aim, s, i), iv_less(t->h_at[at], r->h[at])).lo, 0);
    }
}

/* What is felt of the state before `step` itself; |Dh| < 4. */
static void feel(const ver_read *r, const ver_aim *aim, size_t step, back *b)
{
    for (size_t i = 0; i < r->H; i++) {
        const double om = ver_feels(aim, step, i);
        b->lam_h[i] += om;
        b->lost += step < r->n ? 4 * ver_gamma64(4 * r->H + 8) * fabs(om) : 0;
    }
}

stet_status ver_lines_back(const ver_read *r, const ver_tube *t, const ver_aim *aim, bool all,
                           arena *a, double *take, double *loss)
{
    const size_t H = r->H;
    double *add = arena_znew(a, double, r->t->start[r->n]), *room = arena_znew(a, double, 6 * H),
           *below = arena_znew(a, double, r->n + 1);
    if (!add || !room || !below)
        return STET_ENOMEM;
    back b = {.lam_h = room, .lam_c = room + H, .lam_T = room + 2 * H};
    lost_below(r, t, aim, below);
    feel(r, aim, r->n, &b);
    /* It may end before any step, with the box of the state there; where is best? */
    size_t end = r->n;
    double best = all ? INFINITY : below[r->n] - state_least(r, t, r->n, &b);
    *loss = best;
    for (size_t step = r->n; step-- > 0 && b.lost < 1e100;) {
        step_back(r, t, step, &b);
        step_words(r, step, &b, add);
        feel(r, aim, step, &b);
        const double lost = b.lost + below[step] - state_least(r, t, step, &b);
        if (lost - b.words < best && (!all || step == 0)) {
            best = lost - b.words;
            *loss = lost;
            end = step;
        }
    }
    for (size_t step = end; step < r->n; step++)
        for (size_t p = ver_place(r, step), k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++)
            take[k] += add[k];
    *loss *= 1 + (*loss > 0 ? 0x1p-40 : 0);
    return STET_OK;
}
