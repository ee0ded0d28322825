/* verify/ver_affine.c - deviations of an LSTM's states as sums over positions. A word's generators
 * are what it adds to the deviations along the steps' lines; how far the truth is from the lines,
 * rounding, and what is known better from the boxes, is in e. In VER_LINEAR e becomes symbols after
 * each step: they go on with the signs of the coefficients, where a box would go on with their
 * sizes. */
#include <stdlib.h>
#include <string.h>

#include "verify/ver_lstm.h"

static size_t symbols_kept(const ver_read *r)
{
    return 2 * r->H;
}

stet_status ver_affine_new(const ver_read *r, arena *a, ver_affine *out)
{
    const size_t H = r->H, words = r->t->start[r->n], symbols = symbols_kept(r) + 2 * H;
    const struct {
        double **part;
        size_t n;
    } parts[] = {{&out->h, words * H},
                 {&out->c, words * H},
                 {&out->T, words * GATES * H},
                 {&out->sym_h, symbols * H},
                 {&out->sym_c, symbols * H},
                 {&out->sym_T, symbols * GATES * H},
                 {&out->m_h, H},
                 {&out->m_c, H},
                 {&out->m_T, GATES * H},
                 {&out->e_h, H},
                 {&out->e_c, H},
                 {&out->lo, GATES * H},
                 {&out->hi, GATES * H},
                 {&out->size, GATES * H},
                 {&out->hull, GATES * H},
                 {&out->rest, H},
                 {&out->B, H * H}};
    bool ok = (out->plain = arena_znew(a, bool, H)) != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ok = (*parts[i].part = arena_znew(a, double, parts[i].n)) && ok;
    return ok ? STET_OK : STET_ENOMEM;
}

/* Range of the sum over positions of v (words, width), of which each position takes one word's row
 * (the reference's is 0), and the size of all symbols' rows s (symbols, width). Widened by the
 * rounding of these sums. */
static void total(const ver_read *r, ver_affine *f, const double *v, const double *s, size_t width)
{
    const double out = 1 + ver_gamma64(r->n + f->symbols + 2);
    for (size_t q = 0; q < width; q++) {
        double lo = 0, hi = 0, hull = 0;
        for (size_t p = 0; p < r->n; p++) {
            double least = 0, most = 0;
            for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
                least = iv_min(least, v[k * width + q]);
                most = iv_max(most, v[k * width + q]);
            }
            lo += least;
            hi += most;
        }
        for (size_t k = 0; k < f->symbols; k++)
            hull += fabs(s[k * width + q]);
        f->lo[q] = lo * out;
        f->hi[q] = hi * out;
        f->hull[q] = hull * out;
    }
}

/* u . h for one row of U; *size takes the sum of the terms' sizes. */
static double times(const float *u, const double *h, size_t H, double *size)
{
    double sum = 0;
    *size = 0;
    for (size_t j = 0; j < H; j++) {
        sum += u[j] * h[j];
        *size += fabs(u[j] * h[j]);
    }
    return sum;
}

/* T = U h for words read before and symbols, x_s - x_0 for the words of this step. size: rounding
 * of all of it, no word of a position having more than the largest of its rows. */
void ver_affine_gates(const ver_read *r, ver_tube *t, size_t step)
{
    ver_affine *f = &t->a;
    const size_t H = r->H, H4 = GATES * H, now = ver_place(r, step);
    const double *clean = r->T + step * H4, *e_T = r->e_T + step * H4;
    for (size_t q = 0; q < H4; q++) {
        const float *u = r->p->w_hh + q * H;
        double size, all = 0;
        for (size_t p = 0; p < r->n; p++) {
            double largest = 0;
            for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
                double sum = 0;
                size = 0;
                if (p == now) {
                    sum = r->x[k * H4 + q] - r->x[r->t->start[p] * H4 + q];
                    size = fabs(sum);
                } else if (r->reverse ? p > now : p < now) {
                    sum = times(u, f->h + k * H, H, &size);
                }
                f->T[k * H4 + q] = sum;
                largest = iv_max(largest, size);
            }
            all += largest;
        }
        for (size_t k = 0; k < f->symbols; k++) {
            f->sym_T[k * H4 + q] = times(u, f->sym_h + k * H, H, &size);
            all += size;
        }
        f->m_T[q] = times(u, f->m_h, H, &size);
        f->size[q] = ver_gamma64(2 * H + 8) * (all + size);
    }
    total(r, f, f->T, f->sym_T, H4);
    for (size_t q = 0; q < H4; q++) {
        double e = e_T[q] + f->size[q] + f->hull[q];
        for (size_t j = 0; j < H; j++)
            e += fabs((double)r->p->w_hh[q * H + j]) * f->e_h[j];
        const iv d = iv_widen((iv){f->m_T[q] + f->lo[q], f->m_T[q] + f->hi[q]},
                              e * (1 + ver_gamma64(H + 8)));
        t->T[q] = iv_with(iv_cap(t->T[q], iv_less(d, -clean[q])), clean[q]);
    }
}

/* What a unit's box allows and its form says: box becomes both; true where the box says more than
 * the form's error, and then the form is the box. col: the unit's column in generators and symbols.
 */
static bool meet(const ver_read *r, const ver_tube *t, size_t i, double clean, iv *box,
                 double *gens, double *syms, double *m, double *e)
{
    const ver_affine *f = &t->a;
    const size_t H = r->H;
    const double by = e[i] + f->hull[i] + 0x1p-48 * fabs(m[i]);
    const iv d = iv_widen((iv){m[i] + f->lo[i], m[i] + f->hi[i]}, by);
    *box = iv_with(iv_cap(*box, iv_less(d, -clean)), clean);
    const iv known = iv_less(*box, clean);
    const bool centred = t->level == VER_LINEAR;
    const double radius = centred ? iv_rad(known) : iv_mag(known);
    if (radius >= e[i] + f->hull[i])
        return false;
    for (size_t k = 0; k < r->t->start[r->n]; k++)
        gens[k * H + i] = 0;
    for (size_t k = 0; k < f->symbols; k++)
        syms[k * H + i] = 0;
    m[i] = centred ? iv_mid(known) : 0;
    e[i] = radius;
    return true;
}

/* One unit of the cell: its generators, symbols, m, and what enters e beside |B| e_h. */
static void cell_unit(const ver_read *r, ver_tube *t, size_t step, size_t i)
{
    ver_affine *f = &t->a;
    const ver_lines *l = &t->lines;
    const size_t H = r->H, at = step * H;
    const double F = l->F[at + i], *e_T = r->e_T + step * GATES * H;
    double P[GATE_O], rest = t->e_c[at + i] + l->d_c[at + i] + fabs(F) * f->e_c[i], all,
                      through = 0;
    double m = l->k_c[at + i] + F * f->m_c[i];
    all = fabs(l->k_c[at + i]) + fabs(F * f->m_c[i]);
    for (size_t q = 0; q < GATE_O; q++) {
        P[q] = l->P[step * GATE_O * H + q * H + i];
        rest += fabs(P[q]) * (e_T[q * H + i] + f->size[q * H + i]);
        m += P[q] * f->m_T[q * H + i];
        all += fabs(P[q] * f->m_T[q * H + i]);
    }
    f->m_c[i] = m;
    for (size_t j = 0; j < H; j++) {
        double B = 0, size = 0;
        for (size_t q = 0; q < GATE_O; q++) {
            B += P[q] * r->p->w_hh[(q * H + i) * H + j];
            size += fabs(P[q] * r->p->w_hh[(q * H + i) * H + j]);
        }
        f->B[i * H + j] = B;
        rest += ver_gamma64(8) * size * f->e_h[j];
        through += fabs(B) * f->e_h[j];
    }
    for (size_t p = 0; p < r->n + f->symbols; p++) { /* positions, then symbols */
        double largest = 0;
        const bool symbol = p >= r->n;
        const size_t from = symbol ? p - r->n : r->t->start[p] + 1,
                     to = symbol ? from + 1 : r->t->start[p + 1];
        double *c = symbol ? f->sym_c : f->c;
        const double *T = symbol ? f->sym_T : f->T;
        for (size_t k = from; k < to; k++) {
            double g = F * c[k * H + i], size = fabs(g);
            for (size_t q = 0; q < GATE_O; q++) {
                g += P[q] * T[k * GATES * H + q * H + i];
                size += fabs(P[q] * T[k * GATES * H + q * H + i]);
            }
            c[k * H + i] = g;
            largest = iv_max(largest, size);
        }
        all += largest;
    }
    f->rest[i] = (rest + ver_gamma64(8) * all) * (1 + ver_gamma64(H + r->n + f->symbols + 16));
    f->e_c[i] = (f->rest[i] + through) * (1 + ver_gamma64(H + 8));
}

void ver_affine_cell(const ver_read *r, ver_tube *t, size_t step)
{
    ver_affine *f = &t->a;
    ver_lines_cell(r, t, step);
    for (size_t i = 0; i < r->H; i++)
        cell_unit(r, t, step, i);
    total(r, f, f->c, f->sym_c, r->H);
    for (size_t i = 0; i < r->H; i++)
        f->plain[i] = meet(r, t, i, r->c[(step + 1) * r->H + i], &t->c_next[i], f->c, f->sym_c,
                           f->m_c, f->e_c);
}

/* One unit of the hidden state; *e takes what its box becomes. */
static void hidden_unit(const ver_read *r, ver_tube *t, size_t step, size_t i, double *e)
{
    ver_affine *f = &t->a;
    const ver_lines *l = &t->lines;
    const size_t H = r->H, at = step * H, o = GATE_O * H + i;
    const double E = l->E[at + i], G = l->G[at + i];
    double sum = t->e_h + l->d_h[at + i] + fabs(E) * (r->e_T[step * GATES * H + o] + f->size[o]) +
                 fabs(G) * (f->plain[i] ? f->e_c[i] : f->rest[i]);
    double all = fabs(E * f->m_T[o]) + fabs(G * f->m_c[i]) + fabs(l->k_h[at + i]);
    for (size_t j = 0; j < H; j++) {
        const double direct = E * r->p->w_hh[o * H + j],
                     cell = f->plain[i] ? 0 : G * f->B[i * H + j];
        sum += (fabs(direct + cell) + ver_gamma64(8) * (fabs(direct) + fabs(cell))) * f->e_h[j];
    }
    for (size_t p = 0; p < r->n + f->symbols; p++) {
        double largest = 0;
        const bool symbol = p >= r->n;
        const size_t from = symbol ? p - r->n : r->t->start[p] + 1,
                     to = symbol ? from + 1 : r->t->start[p + 1];
        for (size_t k = from; k < to; k++) {
            const double direct = E * (symbol ? f->sym_T : f->T)[k * GATES * H + o];
            const double cell = G * (symbol ? f->sym_c : f->c)[k * H + i];
            (symbol ? f->sym_h : f->h)[k * H + i] = direct + cell;
            largest = iv_max(largest, fabs(direct) + fabs(cell));
        }
        all += largest;
    }
    *e = (sum + ver_gamma64(8) * all) * (1 + ver_gamma64(H + r->n + f->symbols + 16));
}

/* Words that add next to nothing join the box. This makes a bound worse by next to nothing, but what
 * comes after decides between forms and boxes, and one who decides otherwise ends elsewhere. */
static void fold_words(const ver_read *r, ver_affine *f)
{
    static const double small = 1e-4;
    const size_t H = r->H;
    for (size_t p = 0; p < r->n; p++) {
        const size_t from = (r->t->start[p] + 1) * H, to = r->t->start[p + 1] * H;
        double largest = 0;
        for (size_t j = from; j < to; j++)
            largest = iv_max(largest, iv_max(fabs(f->h[j]), fabs(f->c[j])));
        if (largest > small)
            continue;
        for (size_t i = 0; i < H; i++) {
            double h = 0, c = 0;
            for (size_t j = from + i; j < to; j += H) {
                h = iv_max(h, fabs(f->h[j]));
                c = iv_max(c, fabs(f->c[j]));
                f->h[j] = f->c[j] = 0;
            }
            f->e_h[i] = ver_up(f->e_h[i] + h);
            f->e_c[i] = ver_up(f->e_c[i] + c);
        }
    }
}

/* ---- symbols ------------------------------------------------------------------------------ */

/* What a symbol would add if it became a box: its size less its largest entry. */
static double spread_of(const ver_affine *f, size_t k, size_t H)
{
    double sum = 0, largest = 0;
    for (size_t i = k * H; i < (k + 1) * H; i++) {
        sum += fabs(f->sym_h[i]) + fabs(f->sym_c[i]);
        largest = iv_max(largest, iv_max(fabs(f->sym_h[i]), fabs(f->sym_c[i])));
    }
    return sum - largest;
}

static void remove_symbol(ver_affine *f, size_t k, size_t H)
{
    for (size_t i = 0; i < H; i++) {
        f->e_h[i] = ver_up(f->e_h[i] + fabs(f->sym_h[k * H + i]));
        f->e_c[i] = ver_up(f->e_c[i] + fabs(f->sym_c[k * H + i]));
    }
    f->symbols--;
    memmove(f->sym_h + k * H, f->sym_h + f->symbols * H, H * sizeof *f->sym_h);
    memmove(f->sym_c + k * H, f->sym_c + f->symbols * H, H * sizeof *f->sym_c);
}

/* The smallest ones join the box until there is room, and with them all that lose nothing by it; then
 * the box becomes symbols, one an entry. */
static void renew_symbols(const ver_read *r, ver_affine *f)
{
    const size_t H = r->H;
    while (f->symbols > 0) {
        size_t least = 0;
        for (size_t k = 1; k < f->symbols; k++)
            least = spread_of(f, k, H) < spread_of(f, least, H) ? k : least;
        if (f->symbols <= symbols_kept(r) && spread_of(f, least, H) > 0)
            break;
        remove_symbol(f, least, H);
    }
    for (size_t i = 0; i < 2 * H; i++) {
        double *e = i < H ? &f->e_h[i] : &f->e_c[i - H];
        if (*e > 0) {
            memset(f->sym_h + f->symbols * H, 0, H * sizeof *f->sym_h);
            memset(f->sym_c + f->symbols * H, 0, H * sizeof *f->sym_c);
            (i < H ? f->sym_h : f->sym_c)[f->symbols++ * H + i % H] = *e;
        }
        *e = 0;
    }
}

void ver_affine_hidden(const ver_read *r, ver_tube *t, size_t step)
{
    ver_affine *f = &t->a;
    const ver_lines *l = &t->lines;
    const size_t H = r->H;
    ver_lines_hidden(r, t, step);
    double *next = f->size; /* (H) of (4H): its gates i f g have had their turn */
    for (size_t i = 0; i < H; i++)
        hidden_unit(r, t, step, i, &next[i]);
    memcpy(f->e_h, next, H * sizeof *next);
    for (size_t i = 0; i < H; i++)
        f->m_h[i] = l->E[step * H + i] * f->m_T[GATE_O * H + i] + l->G[step * H + i] * f->m_c[i] +
                    l->k_h[step * H + i];
    total(r, f, f->h, f->sym_h, H);
    for (size_t i = 0; i < H; i++)
        meet(r, t, i, r->h[(step + 1) * H + i], &t->h[i], f->h, f->sym_h, f->m_h, f->e_h);
    fold_words(r, f);
    if (t->level == VER_LINEAR)
        renew_symbols(r, f);
}
