/* verify/ver_affine.c - deviations of an LSTM's states as sums over positions. A word's generators are what it
 * adds to the deviations if every coefficient were in the middle of its interval; how far coefficients are
 * from there, rounding, and what is known better from the boxes, is in e. */
#include <string.h>

#include "verify/ver_lstm.h"

stet_status ver_affine_new(const ver_read *r, arena *a, ver_affine *out)
{
    const size_t H = r->H, words = r->t->start[r->n];
    out->h = arena_znew(a, double, words * H);
    out->c = arena_znew(a, double, words * H);
    out->T = arena_znew(a, double, words * GATES * H);
    out->e_h = arena_znew(a, double, 2 * H);
    out->lo = arena_new(a, double, 3 * GATES * H);
    out->rest = arena_new(a, double, H);
    out->B = arena_new(a, double, H * H);
    out->plain = arena_znew(a, bool, H);
    if (!out->h || !out->c || !out->T || !out->e_h || !out->lo || !out->rest || !out->B || !out->plain)
        return STET_ENOMEM;
    out->e_c = out->e_h + H;
    out->hi = out->lo + GATES * H;
    out->size = out->hi + GATES * H;
    return STET_OK;
}

/* Range of the sum over positions of v (words, width), of which each position takes one word's row (the
 * reference's is 0), widened by the rounding of that sum. */
static void total(const ver_read *r, ver_affine *f, const double *v, size_t width)
{
    for (size_t q = 0; q < width; q++) {
        double lo = 0, hi = 0;
        for (size_t p = 0; p < r->n; p++) {
            double least = 0, most = 0;
            for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
                least = fmin(least, v[k * width + q]);
                most = fmax(most, v[k * width + q]);
            }
            lo += least;
            hi += most;
        }
        f->lo[q] = lo * (1 + ver_gamma64(r->n + 2));
        f->hi[q] = hi * (1 + ver_gamma64(r->n + 2));
    }
}

/* T = U h for words read before, x_s - x_0 for those of this step. size: rounding of all of it, no word
 * of a position having more than the largest of its rows. */
void ver_affine_gates(const ver_read *r, ver_tube *t, size_t step)
{
    ver_affine *f = &t->a;
    const size_t H = r->H, H4 = GATES * H, now = ver_place(r, step);
    memset(f->size, 0, H4 * sizeof *f->size);
    for (size_t q = 0; q < H4; q++) {
        const float *u = r->p->w_hh + q * H;
        for (size_t p = 0; p < r->n; p++) {
            double largest = 0;
            for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
                double sum = 0, size = 0;
                if (p == now) {
                    sum = r->x[k * H4 + q] - r->x[r->t->start[p] * H4 + q];
                    size = fabs(sum);
                } else if (r->reverse ? p > now : p < now) {
                    for (size_t j = 0; j < H; j++) {
                        sum += u[j] * f->h[k * H + j];
                        size += fabs(u[j] * f->h[k * H + j]);
                    }
                }
                f->T[k * H4 + q] = sum;
                largest = fmax(largest, size);
            }
            f->size[q] += ver_gamma64(H + 8) * largest;
        }
    }
    total(r, f, f->T, H4);
    const double *clean = r->T + step * H4, *e_T = r->e_T + step * H4;
    for (size_t q = 0; q < H4; q++) {
        double e = e_T[q] + f->size[q] * (1 + 0x1p-20);
        for (size_t j = 0; j < H; j++)
            e += fabs((double)r->p->w_hh[q * H + j]) * f->e_h[j];
        const iv d = iv_widen((iv){f->lo[q], f->hi[q]}, e * (1 + ver_gamma64(H + 8)));
        t->T[q] = iv_with(iv_cap(t->T[q], iv_less(d, -clean[q])), clean[q]);
    }
}

/* Error that all but the states' boxes bring into a unit's cell: coefficients off their middles, rounding
 * of the step, ours. */
static double cell_rest(const ver_read *r, const ver_tube *t, size_t step, size_t i)
{
    const ver_affine *f = &t->a;
    const size_t H = r->H;
    const iv *P = t->P + step * GATE_O * H, F = t->F[step * H + i];
    double rest = t->e_c[step * H + i] + iv_mid(F) * f->e_c[i] +
                  iv_rad(F) * iv_mag(iv_less(t->c[i], r->c[step * H + i]));
    for (size_t q = 0; q < GATE_O; q++) {
        const iv x = P[q * H + i];
        rest += iv_rad(x) * iv_mag(t->dT[q * H + i]) +
                fabs(iv_mid(x)) * (r->e_T[step * GATES * H + q * H + i] + f->size[q * H + i]);
    }
    return rest;
}

void ver_affine_cell(const ver_read *r, ver_tube *t, size_t step)
{
    ver_affine *f = &t->a;
    const size_t H = r->H, words = r->t->start[r->n];
    const iv *P = t->P + step * GATE_O * H;
    for (size_t i = 0; i < H; i++) {
        const double F = iv_mid(t->F[step * H + i]);
        double mid[GATE_O], through = 0;
        for (size_t q = 0; q < GATE_O; q++)
            mid[q] = iv_mid(P[q * H + i]);
        f->rest[i] = cell_rest(r, t, step, i);
        for (size_t j = 0; j < H; j++) {
            double B = 0, size = 0;
            for (size_t q = 0; q < GATE_O; q++) {
                B += mid[q] * r->p->w_hh[(q * H + i) * H + j];
                size += fabs(mid[q] * r->p->w_hh[(q * H + i) * H + j]);
            }
            f->B[i * H + j] = B;
            f->rest[i] += ver_gamma64(8) * size * f->e_h[j];
            through += fabs(B) * f->e_h[j];
        }
        for (size_t p = 0; p < r->n; p++) {
            double largest = 0;
            for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
                double g = F * f->c[k * H + i], size = fabs(g);
                for (size_t q = 0; q < GATE_O; q++) {
                    g += mid[q] * f->T[k * GATES * H + q * H + i];
                    size += fabs(mid[q] * f->T[k * GATES * H + q * H + i]);
                }
                f->c[k * H + i] = g;
                largest = fmax(largest, size);
            }
            f->rest[i] += ver_gamma64(8) * largest;
        }
        f->rest[i] *= 1 + ver_gamma64(H + r->n + 16);
        f->e_c[i] = (f->rest[i] + through) * (1 + ver_gamma64(H + 8));
    }
    total(r, f, f->c, H);
    for (size_t i = 0; i < H; i++) {
        const double clean = r->c[(step + 1) * H + i];
        const iv d = iv_widen((iv){f->lo[i], f->hi[i]}, f->e_c[i]);
        t->c_next[i] = iv_with(iv_cap(t->c_next[i], iv_less(d, -clean)), clean);
        const double known = iv_mag(iv_less(t->c_next[i], clean));
        f->plain[i] = known < f->e_c[i]; /* the box says more than the generators */
        if (f->plain[i]) {
            f->e_c[i] = known;
            for (size_t k = 0; k < words; k++)
                f->c[k * H + i] = 0;
        }
    }
}

void ver_affine_hidden(const ver_read *r, ver_tube *t, size_t step)
{
    ver_affine *f = &t->a;
    const size_t H = r->H, words = r->t->start[r->n];
    double *next = f->size; /* (H) of (4H): its gates i f g have had their turn */
    for (size_t i = 0; i < H; i++) {
        const iv Ei = t->E[step * H + i], Gi = t->G[step * H + i];
        const double E = iv_mid(Ei), G = iv_mid(Gi);
        double e = t->e_h + fabs(E) * (r->e_T[step * GATES * H + GATE_O * H + i] + f->size[GATE_O * H + i]) +
                   iv_rad(Ei) * iv_mag(t->dT[GATE_O * H + i]) +
                   iv_rad(Gi) * iv_mag(iv_less(t->c_next[i], r->c[(step + 1) * H + i])) +
                   fabs(G) * (f->plain[i] ? f->e_c[i] : f->rest[i]);
        for (size_t j = 0; j < H; j++) {
            const double direct = E * r->p->w_hh[(GATE_O * H + i) * H + j];
            const double cell = f->plain[i] ? 0 : G * f->B[i * H + j];
            e += (fabs(direct + cell) + ver_gamma64(8) * (fabs(direct) + fabs(cell))) * f->e_h[j];
        }
        for (size_t p = 0; p < r->n; p++) {
            double largest = 0;
            for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
                const double direct = E * f->T[k * GATES * H + GATE_O * H + i], cell = G * f->c[k * H + i];
                f->h[k * H + i] = direct + cell;
                largest = fmax(largest, fabs(direct) + fabs(cell));
            }
            e += ver_gamma64(4) * largest;
        }
        next[i] = e * (1 + ver_gamma64(H + r->n + 16));
    }
    memcpy(f->e_h, next, H * sizeof *next);
    total(r, f, f->h, H);
    for (size_t i = 0; i < H; i++) {
        const double clean = r->h[(step + 1) * H + i];
        const iv d = iv_widen((iv){f->lo[i], f->hi[i]}, f->e_h[i]);
        t->h[i] = iv_with(iv_cap(t->h[i], iv_less(d, -clean)), clean);
        const double known = iv_mag(iv_less(t->h[i], clean));
        if (known < f->e_h[i]) {
            f->e_h[i] = known;
            for (size_t k = 0; k < words; k++)
                f->h[k * H + i] = 0;
        }
    }
}
