/* certify/cert_lstm_affine.c - deviations as sums of generators plus a box.
 *
 *     Dh = sum over positions p of g_p(word chosen there) + [-e_h, e_h], the same for Dc
 *
 * The middle of each coefficient acts on generators exactly; what a coefficient may differ from its
 * middle, and rounding, goes into the box. Where the box of a unit has outgrown what the tube knows
 * of it, its generators are dropped and the box becomes the tube's. Positions whose generators have
 * died down are folded into the box. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "certify/cert_lstm_rows.h"
#include "certify/cert_lstm_symbols.h"
#include "certify/cert_lstm_walk.h"

typedef struct affine {
    lstm_generators *g;
    double *GT;                /* (n, 4H) generators of the pre-activations */
    double *m_T;               /* (4H) what is always added to them */
    double *e_T;               /* (4H) rounding of the pre-activations, the program's and ours */
    double *local_c;           /* (H) box that enters the cell in this step, */
    double *round_c;           /* (H) and the part of it that is rounding */
    double *to, *ones, *zeros; /* (4H), (H), (H) */
    double *scratch;           /* (H) */
    bool *dropped;             /* (H) the cell's generators were */
    double *lo, *hi;           /* (4H) what the words add */
    lstm_symbols *s;
} affine;

static stet_status lines_alloc(lstm_lines *l, size_t n, size_t H, arena *a)
{
    double **const parts[] = {&l->F, &l->k_c, &l->d_c, &l->E, &l->G, &l->k_h, &l->d_h};
    bool ok = (l->P = arena_new(a, double, n * 3 * H)) != NULL;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        ok = (*parts[k] = arena_new(a, double, n *H)) != NULL && ok;
    return ok ? STET_OK : STET_ENOMEM;
}

stet_status affine_alloc(lstm_tube *tube, const lstm_text *t, arena *a)
{
    lstm_generators *g = &tube->gen;
    const size_t H = t->cell->H, cap = t->start[t->n] - t->n + 1;
    double **const parts[] = {&g->m_h, &g->m_c, &g->e_h, &g->e_c, &g->r_h, &g->r_c};
    bool ok = true;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        ok = (*parts[k] = arena_znew(a, double, H)) != NULL && ok;
    g->first = arena_znew(a, uint32_t, t->n + 1);
    g->pos = arena_new(a, uint32_t, t->n);
    g->h = arena_new(a, double, cap *H);
    g->c = arena_new(a, double, cap *H);
    TRY(lines_alloc(&tube->lines, t->n, H, a));
    return ok && g->first && g->pos && g->h && g->c ? STET_OK : STET_ENOMEM;
}

stet_status affine_start(lstm_walk *w, arena *a)
{
    const size_t H = w->H, cap = w->t->start[w->t->n] - w->t->n + 1;
    affine *f = arena_znew(a, affine, 1);
    if (!f)
        return STET_ENOMEM;
    f->g = &w->tube->gen;
    f->GT = arena_new(a, double, cap * 4 * H);
    f->dropped = arena_new(a, bool, H);
    struct {
        double **part;
        size_t n;
    } const parts[] = {{&f->m_T, 4},   {&f->e_T, 4},     {&f->lo, 4},      {&f->hi, 4},
                       {&f->to, 4},    {&f->local_c, 1}, {&f->round_c, 1}, {&f->ones, 1},
                       {&f->zeros, 1}, {&f->scratch, 1}};
    f->s = symbols_new(H, w->tube->level == TUBE_LINEAR ? 2 * H : 0, a);
    bool ok = f->GT && f->dropped && f->s;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        ok = (*parts[k].part = arena_znew(a, double, parts[k].n *H)) != NULL && ok;
    for (size_t i = 0; ok && i < H; i++)
        f->ones[i] = 1;
    w->affine = f;
    return ok ? STET_OK : STET_ENOMEM;
}

/* ---- groups ------------------------------------------------------------------------------- */

/* The substitutes of this step's position join: their pre-activations differ by what they bring. */
static void join(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H, p = lstm_place(w->t, w->step),
                 count = w->t->start[p + 1] - w->t->start[p] - 1;
    if (count == 0)
        return;
    const double *clean = w->t->x + w->t->start[p] * 4 * H;
    for (size_t k = 0; k < count; k++)
        for (size_t r = 0; r < 4 * H; r++)
            f->GT[(g->n + k) * 4 * H + r] = clean[(k + 1) * 4 * H + r] - clean[r];
    memset(g->c + g->n * H, 0, count * H * sizeof *g->c);
    g->pos[g->groups++] = (uint32_t)p;
    g->n += count;
    g->first[g->groups] = (uint32_t)g->n;
}

/* Sum over positions of what their words may add, column by column. */
static void total(const lstm_generators *g, size_t width, const double *a, double *lo, double *hi)
{
    memset(lo, 0, width * sizeof *lo);
    memset(hi, 0, width * sizeof *hi);
    for (size_t k = 0; k < g->groups; k++)
        rows_choice(g->first[k + 1] - g->first[k], width, width, a + g->first[k] * width, lo, hi);
}

/* What the tube and the affine form clean + m + [lo, hi] +- e both allow. */
static ival meet(ivals box, size_t i, double clean, double m, ival form, double e, double eps)
{
    const double by = e + eps * (form.hi - form.lo + fabs(m));
    const ival around = ival_out(clean + (m + form.lo - by), clean + (m + form.hi + by));
    const ival both = ival_with(ival_cap(ival_at(box, i), around), clean);
    ival_put(box, i, both);
    return ival_sub(both, clean);
}

static void drop_column(double *g, size_t n, size_t H, size_t i)
{
    for (size_t k = 0; k < n; k++)
        g[k * H + i] = 0;
}

/* A unit whose box and symbols have outgrown what the tube knows becomes that. */
static bool outgrown(const lstm_walk *w, size_t i, ival known, double *g, double *s, double *m,
                     double *e, double *hull)
{
    const bool centred = w->tube->level == TUBE_LINEAR;
    const double radius = centred ? ival_rad(known) : ival_mag(known);
    if (radius >= e[i] + hull[i])
        return false;
    drop_column(g, w->affine->g->n, w->H, i);
    drop_column(s, w->affine->s->n, w->H, i);
    m[i] = centred ? ival_mid(known) : 0;
    e[i] = radius;
    hull[i] = 0;
    return true;
}

/* ---- stations ----------------------------------------------------------------------------- */

void affine_gates(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const lstm_cell64 *cell = w->t->cell;
    const size_t H = w->H, at = w->step * 4 * H;
    const ivals T = ivals_from(w->tube->T, at);
    rows_product(g->n, 4 * H, H, g->h, cell->ut, f->GT);
    double size = 0; /* sum over positions of the largest entry */
    for (size_t k = 0; k < g->groups; k++) {
        double largest = 0;
        for (size_t j = g->first[k] * H; j < g->first[k + 1] * H; j++)
            largest = greater(largest, fabs(g->h[j]));
        size += largest;
    }
    join(w);
    total(g, 4 * H, f->GT, f->lo, f->hi);
    symbols_gates(f->s, cell->ut);
    rows_range(1, 4 * H, H, cell->ut, g->m_h, g->e_h, f->m_T, f->to);
    for (size_t r = 0; r < 4 * H; r++) {
        const double x = ival_mag(ival_at(w->x, r));
        f->e_T[r] = w->t->e_T[at + r] +
                    w->eps * (cell->u_sum[r] * (size + 4) + f->to[r] + f->s->hull_T[r] + x);
        meet(T, r, w->t->T[at + r], f->m_T[r], (ival){f->lo[r], f->hi[r]},
             f->to[r] + f->s->hull_T[r] + f->e_T[r], w->eps);
    }
}

/* The box that enters the cell beside |B| e_h, and what is always added to it. */
static void cell_box(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H, at = w->step * H;
    const lstm_lines *l = &w->tube->lines;
    for (size_t i = 0; i < H; i++) {
        double error = w->tube->e_c[at + i],
               size = fabs(l->k_c[at + i]) + fabs(l->F[at + i] * g->m_c[i]);
        double m = l->k_c[at + i] + l->F[at + i] * g->m_c[i];
        for (size_t q = 0; q < GO; q++) {
            const size_t r = q * H + i;
            const double P = l->P[3 * at + r];
            m += P * f->m_T[r];
            error += fabs(P) * f->e_T[r];
            size += fabs(P) * (f->hi[r] - f->lo[r] + f->s->hull_T[r] + fabs(f->m_T[r]));
        }
        g->m_c[i] = m;
        f->local_c[i] =
            (l->d_c[at + i] + error + l->F[at + i] * g->e_c[i]) * (1 + w->eps) + w->eps * size;
        f->round_c[i] = error + l->F[at + i] * g->r_c[i];
    }
}

void affine_cell(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H, at = w->step * H;
    const double *ut = w->t->cell->ut;
    const lstm_lines *l = &w->tube->lines;
    lines_cell(w);
    cell_box(w);
    for (size_t k = 0; k < g->n; k++)
        rows_cell(H, l->P + 3 * at, l->F + at, f->GT + k * 4 * H, g->c + k * H);
    total(g, H, g->c, f->lo, f->hi);
    symbols_cell(f->s, l->P + 3 * at, l->F + at);
    rows_error(H, ut, l->P + 3 * at, f->zeros, f->ones, g->e_h, f->to);
    rows_error(H, ut, l->P + 3 * at, f->zeros, f->ones, g->r_h, f->scratch);
    for (size_t i = 0; i < H; i++) {
        f->local_c[i] += w->eps * (f->hi[i] - f->lo[i] + f->s->hull_c[i]);
        g->e_c[i] = f->to[i] * (1 + w->eps) + f->local_c[i];
        const ival known = meet(ivals_from(w->tube->c, at + H), i, w->t->c[at + H + i], g->m_c[i],
                                (ival){f->lo[i], f->hi[i]}, g->e_c[i] + f->s->hull_c[i], w->eps);
        f->dropped[i] = outgrown(w, i, known, g->c, f->s->c, g->m_c, g->e_c, f->s->hull_c);
        g->r_c[i] = lesser(f->scratch[i] + f->round_c[i], g->e_c[i]);
    }
}

/* |E U_o + G B| e for the units whose cell kept its generators, |E U_o| e for the others, whose
 * cell comes as a box. */
static void hidden_error(lstm_walk *w, const double *e, double *through)
{
    affine *f = w->affine;
    const size_t H = w->H, at = w->step * H;
    const lstm_lines *l = &w->tube->lines;
    for (size_t i = 0; i < H; i++)
        f->scratch[i] = f->dropped[i] ? 0 : l->G[at + i];
    rows_error(H, w->t->cell->ut, l->P + 3 * at, l->E + at, f->scratch, e, through);
}

static void fold(lstm_walk *w);

void affine_hidden(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H, at = w->step * H;
    const lstm_lines *l = &w->tube->lines;
    lines_hidden(w);
    double *through = f->to, *rounding = f->to + H;
    hidden_error(w, g->e_h, through);
    hidden_error(w, g->r_h, rounding);
    for (size_t k = 0; k < g->n; k++)
        rows_hidden(H, l->E + at, l->G + at, f->GT + k * 4 * H, g->c + k * H, g->h + k * H);
    symbols_hidden(f->s, l->E + at, l->G + at);
    total(g, H, g->h, f->lo, f->hi); /* what they hold of gate o, behind, is still to be read */
    for (size_t i = 0; i < H; i++) {
        const size_t o = GO * H + i;
        const double E = l->E[at + i], G = l->G[at + i];
        const double error = w->tube->e_h + fabs(E) * f->e_T[o];
        const double cell = G * (f->dropped[i] ? g->e_c[i] : f->local_c[i]);
        const double size = fabs(E) * (f->hi[o] - f->lo[o] + f->s->hull_T[o] + fabs(f->m_T[o])) +
                            f->s->hull_h[i] + f->hi[i] - f->lo[i] + fabs(l->k_h[at + i]) +
                            fabs(G * g->m_c[i]);
        g->m_h[i] = E * f->m_T[o] + G * g->m_c[i] + l->k_h[at + i];
        g->e_h[i] = (through[i] + cell + l->d_h[at + i] + error) * (1 + w->eps) + w->eps * size;
        g->r_h[i] = rounding[i] + G * (f->dropped[i] ? g->r_c[i] : f->round_c[i]) + error;
        const ival known = meet(ivals_from(w->tube->h, at + H), i, w->t->h[at + H + i], g->m_h[i],
                                (ival){f->lo[i], f->hi[i]}, g->e_h[i] + f->s->hull_h[i], w->eps);
        outgrown(w, i, known, g->h, f->s->h, g->m_h, g->e_h, f->s->hull_h);
        g->r_h[i] = lesser(g->r_h[i], g->e_h[i]);
    }
    fold(w);
    symbols_renew(f->s, g->e_h, g->e_c);
}

/* ---- folding ------------------------------------------------------------------------------ */

static void fold_group(affine *f, size_t k, size_t H)
{
    lstm_generators *g = f->g;
    for (size_t i = 0; i < H; i++) {
        double h = 0, c = 0;
        for (size_t j = g->first[k]; j < g->first[k + 1]; j++) {
            h = greater(h, fabs(g->h[j * H + i]));
            c = greater(c, fabs(g->c[j * H + i]));
        }
        g->e_h[i] += h;
        g->e_c[i] += c;
    }
}

/* Largest entry of a position's generators. */
static double group_size(const lstm_generators *g, size_t k, size_t H)
{
    double largest = 0;
    for (size_t j = g->first[k] * H; j < g->first[k + 1] * H; j++) {
        largest = greater(largest, fabs(g->h[j]));
        largest = greater(largest, fabs(g->c[j]));
    }
    return largest;
}

static void fold(lstm_walk *w)
{
    static const double small = 1e-4;
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H;
    size_t groups = 0, n = 0;
    for (size_t k = 0; k < g->groups; k++) {
        const size_t from = g->first[k], count = g->first[k + 1] - from;
        if (group_size(g, k, H) <= small) {
            fold_group(f, k, H);
            continue;
        }
        memmove(g->h + n * H, g->h + from * H, count * H * sizeof *g->h);
        memmove(g->c + n * H, g->c + from * H, count * H * sizeof *g->c);
        g->pos[groups] = g->pos[k];
        n += count;
        groups++;
    }
    /* the ends of the groups that stayed: counts are those of their positions */
    g->n = 0;
    for (size_t k = 0; k < groups; k++) {
        g->n += w->t->start[g->pos[k] + 1] - w->t->start[g->pos[k]] - 1;
        g->first[k + 1] = (uint32_t)g->n;
    }
    g->groups = groups;
}

/* ---- the margin --------------------------------------------------------------------------- */

void lstm_affine(const lstm_tube *tube, const lstm_text *t, ivals lam, double *contribution,
                 double *box, double *slack)
{
    assert(tube->level == TUBE_AFFINE);
    const lstm_generators *g = &tube->gen;
    const size_t H = t->cell->H, last = t->n * H;
    const double eps = (double)(H + 32) * ival_step;
    *box = *slack = 0;
    for (size_t i = 0; i < H; i++) {
        const ival x = ival_at(lam, i), dh = ival_sub(ival_at(tube->h, last + i), t->h[last + i]);
        const double mid = fabs(ival_mid(x));
        *box += mid * (g->e_h[i] + eps * fabs(g->m_h[i])) - ival_mid(x) * g->m_h[i] +
                ival_rad(x) * ival_mag(dh);
        *slack += mid * g->r_h[i];
    }
    *box += eps * fabs(*box);
    for (size_t k = 0; k < g->groups; k++)
        for (size_t j = g->first[k]; j < g->first[k + 1]; j++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < H; i++) {
                const double x = ival_mid(ival_at(lam, i)) * g->h[j * H + i];
                sum += x;
                size += fabs(x);
            }
            contribution[t->start[g->pos[k]] + 1 + (j - g->first[k])] += sum - eps * size;
        }
}
