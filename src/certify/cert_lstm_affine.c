/* certify/cert_lstm_affine.c - deviations as sums of generators plus a box.
 *
 *     Dh = sum over positions p of g_p(word chosen there) + [-e_h, e_h], the same for Dc
 *
 * The middle of each coefficient acts on generators exactly; what a coefficient may differ from its
 * middle, and rounding, goes into the box. Where the box of a unit has outgrown what the tube knows
 * of it, its generators are dropped and the box becomes the tube's. Positions whose generators have
 * died down are folded into the box. */
#include <math.h>
#include <string.h>

#include "certify/cert_lstm_rows.h"
#include "certify/cert_lstm_walk.h"

typedef struct affine {
    lstm_generators *g;
    double *GT;                /* (n, 4H) generators of the pre-activations */
    double *P, *E, *G, *F;     /* (3H), (H), (H), (H) middles */
    double *e_T;               /* (4H) rounding of the pre-activations, the program's and ours */
    double *local_c;           /* (H) box that enters the cell in this step, */
    double *round_c;           /* (H) and the part of it that is rounding */
    double *to, *ones, *zeros; /* (4H), (H), (H) */
    double *scratch;           /* (4H) */
    bool *dropped;             /* (H) the cell's generators were */
    double *lo, *hi;           /* (4H) */
} affine;

stet_status affine_alloc(lstm_generators *g, const lstm_text *t, arena *a)
{
    const size_t H = t->cell->H, cap = t->start[t->n] - t->n + 1;
    g->first = arena_znew(a, uint32_t, t->n + 1);
    g->pos = arena_new(a, uint32_t, t->n);
    g->h = arena_new(a, double, cap *H);
    g->c = arena_new(a, double, cap *H);
    g->e_h = arena_znew(a, double, 4 * H);
    if (!g->first || !g->pos || !g->h || !g->c || !g->e_h)
        return STET_ENOMEM;
    g->e_c = g->e_h + H;
    g->r_h = g->e_h + 2 * H;
    g->r_c = g->e_h + 3 * H;
    return STET_OK;
}

stet_status affine_start(lstm_walk *w, arena *a)
{
    const size_t H = w->H, cap = w->t->start[w->t->n] - w->t->n + 1;
    affine *f = arena_znew(a, affine, 1);
    double *block = arena_znew(a, double, 30 * H);
    if (!f || !block)
        return STET_ENOMEM;
    f->g = &w->tube->gen;
    f->GT = arena_new(a, double, cap * 4 * H);
    f->dropped = arena_new(a, bool, H);
    if (!f->GT || !f->dropped)
        return STET_ENOMEM;
    struct {
        double **part;
        size_t n;
    } parts[] = {{&f->P, 3},       {&f->E, 1},       {&f->G, 1},      {&f->F, 1},    {&f->e_T, 4},
                 {&f->local_c, 1}, {&f->round_c, 1}, {&f->to, 4},     {&f->ones, 1}, {&f->zeros, 1},
                 {&f->lo, 4},      {&f->hi, 4},      {&f->scratch, 4}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        *parts[k].part = block;
        block += parts[k].n * H;
    }
    for (size_t i = 0; i < H; i++)
        f->ones[i] = 1;
    w->affine = f;
    return STET_OK;
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

/* What the tube and the affine form c + [lo, hi] +- e both allow. */
static void meet(ivals box, size_t i, double clean, double lo, double hi, double e, double eps)
{
    const double by = e + eps * (hi - lo);
    const ival form = ival_out(clean + (lo - by), clean + (hi + by));
    ival_put(box, i, ival_with(ival_cap(ival_at(box, i), form), clean));
}

static void drop_column(double *g, size_t n, size_t H, size_t i)
{
    for (size_t k = 0; k < n; k++)
        g[k * H + i] = 0;
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
    rows_range(H, 4 * H, cell->ut, g->e_h, g->e_h, f->scratch, f->to);
    for (size_t r = 0; r < 4 * H; r++) {
        const double x = ival_mag(ival_at(w->x, r));
        f->e_T[r] = w->t->e_T[at + r] + w->eps * (cell->u_sum[r] * size + f->to[r] + x);
        meet(T, r, w->t->T[at + r], f->lo[r], f->hi[r], f->to[r] + f->e_T[r], w->eps);
    }
}

/* Middles of the coefficients; the box that enters the cell beside |B| e_h. */
static void cell_box(lstm_walk *w)
{
    affine *f = w->affine;
    const size_t H = w->H, at = w->step * H;
    for (size_t i = 0; i < H; i++) {
        const ival F = ival_at(w->tube->F, at + i);
        f->F[i] = ival_mid(F);
        double local = ival_rad(F) * ival_mag(ival_at(w->dc, i)), error = w->tube->e_c[at + i],
               ours = 0;
        for (size_t q = 0; q < GO; q++) {
            const size_t r = q * H + i;
            const ival P = ival_at(w->tube->P, 3 * at + r);
            f->P[r] = ival_mid(P);
            local += ival_rad(P) * ival_mag(ival_at(w->dT, r));
            error += fabs(f->P[r]) * f->e_T[r];
            ours += fabs(f->P[r]) * (f->hi[r] - f->lo[r]);
        }
        f->local_c[i] = local + error + w->eps * (ours + local + error);
        f->round_c[i] = error;
    }
}

void affine_cell(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H, at = w->step * H;
    const ivals c = ivals_from(w->tube->c, at + H);
    cell_box(w);
    for (size_t k = 0; k < g->n; k++)
        rows_cell(H, f->P, f->F, f->GT + k * 4 * H, g->c + k * H);
    total(g, H, g->c, f->lo, f->hi);
    rows_error(H, w->t->cell->ut, f->P, f->zeros, f->ones, g->e_h, f->to);
    for (size_t i = 0; i < H; i++) {
        f->local_c[i] =
            (f->local_c[i] + f->F[i] * g->e_c[i]) * (1 + w->eps) + w->eps * (f->hi[i] - f->lo[i]);
        g->e_c[i] = f->to[i] * (1 + w->eps) + f->local_c[i];
        const double clean = w->t->c[at + H + i];
        meet(c, i, clean, f->lo[i], f->hi[i], g->e_c[i], w->eps);
        const double known = ival_mag(ival_sub(ival_at(c, i), clean));
        f->dropped[i] = known < g->e_c[i];
        if (f->dropped[i]) {
            drop_column(g->c, g->n, H, i);
            g->e_c[i] = known;
        }
    }
    rows_error(H, w->t->cell->ut, f->P, f->zeros, f->ones, g->r_h, f->to);
    for (size_t i = 0; i < H; i++) {
        f->round_c[i] += f->F[i] * g->r_c[i];
        g->r_c[i] = lesser(f->to[i] + f->round_c[i], g->e_c[i]);
    }
}

/* |E U_o + G B| e for the units whose cell kept its generators, |E U_o| e for the others, whose
 * cell comes as a box. */
static void hidden_error(lstm_walk *w, const double *e, double *through)
{
    affine *f = w->affine;
    const size_t H = w->H;
    for (size_t i = 0; i < H; i++)
        f->scratch[i] = f->dropped[i] ? 0 : f->G[i];
    rows_error(H, w->t->cell->ut, f->P, f->E, f->scratch, e, through);
}

static void fold(lstm_walk *w);

void affine_hidden(lstm_walk *w)
{
    affine *f = w->affine;
    lstm_generators *g = f->g;
    const size_t H = w->H, at = w->step * H;
    const ivals h = ivals_from(w->tube->h, at + H);
    for (size_t i = 0; i < H; i++) {
        f->E[i] = ival_mid(ival_at(w->tube->E, at + i));
        f->G[i] = ival_mid(ival_at(w->tube->G, at + i));
    }
    double *through = f->to, *rounding = f->to + H, *size = f->to + 2 * H;
    hidden_error(w, g->e_h, through);
    hidden_error(w, g->r_h, rounding);
    for (size_t i = 0; i < H; i++)
        size[i] = fabs(f->E[i]) * (f->hi[GO * H + i] - f->lo[GO * H + i]);
    for (size_t k = 0; k < g->n; k++)
        rows_hidden(H, f->E, f->G, f->GT + k * 4 * H, g->c + k * H, g->h + k * H);
    total(g, H, g->h, f->lo, f->hi);
    for (size_t i = 0; i < H; i++) {
        const double error = w->tube->e_h + fabs(f->E[i]) * f->e_T[GO * H + i];
        const double kinks =
            ival_rad(ival_at(w->tube->E, at + i)) * ival_mag(ival_at(w->dT, GO * H + i)) +
            ival_rad(ival_at(w->tube->G, at + i)) * ival_mag(ival_at(w->dc_next, i));
        const double cell = f->G[i] * (f->dropped[i] ? g->e_c[i] : f->local_c[i]);
        const double ours = w->eps * (size[i] + f->hi[i] - f->lo[i]);
        g->e_h[i] = (through[i] + cell + kinks + error) * (1 + w->eps) + ours;
        g->r_h[i] = rounding[i] + f->G[i] * (f->dropped[i] ? g->r_c[i] : f->round_c[i]) + error;
        const double clean = w->t->h[at + H + i];
        meet(h, i, clean, f->lo[i], f->hi[i], g->e_h[i], w->eps);
        const double known = ival_mag(ival_sub(ival_at(h, i), clean));
        if (known < g->e_h[i]) {
            drop_column(g->h, g->n, H, i);
            g->e_h[i] = known;
            g->r_h[i] = lesser(g->r_h[i], known);
        }
    }
    fold(w);
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
    static const double small = 1e-7;
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
    const lstm_generators *g = &tube->gen;
    const size_t H = t->cell->H, last = t->n * H;
    const double eps = (double)(H + 32) * ival_step;
    *box = *slack = 0;
    for (size_t i = 0; i < H; i++) {
        const ival x = ival_at(lam, i), dh = ival_sub(ival_at(tube->h, last + i), t->h[last + i]);
        const double mid = fabs(ival_mid(x));
        *box += mid * g->e_h[i] + ival_rad(x) * ival_mag(dh);
        *slack += mid * g->r_h[i];
    }
    *box *= 1 + eps;
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
