/* certify/cert_lstm_adjoint.c - from the margin back along a tube: what each word can do to it.
 *
 * The deviations of a tube are linear with unknown coefficients in known intervals; this is the
 * transpose of that system. lam_h and lam_c enclose what the margin feels of hidden state and cell
 * after a step. */
#include <math.h>

#include "certify/cert_lstm.h"
#include "certify/cert_lstm_rows.h"

typedef struct back {
    const lstm_tube *tube;
    const lstm_text *t;
    size_t step, H;
    double eps;
    ivals lam_h, lam_c, lam_E, kap; /* (H) */
    ivals one, two;                 /* (H) */
} back;

/* Beyond this a bound is worth nothing, and the next step might overflow. */
static const double runaway = 1e100;

/* The least that each word of the step's position can contribute. */
static void contributions(const back *b, double *contribution)
{
    const size_t H = b->H, at = b->step * H, p = lstm_place(b->t, b->step);
    const double *clean = b->t->x + b->t->start[p] * 4 * H;
    for (size_t k = b->t->start[p] + 1; k < b->t->start[p + 1]; k++) {
        const double *x = b->t->x + k * 4 * H;
        double sum = 0, size = 0;
        for (size_t i = 0; i < H; i++) {
            ival cell = {0, 0};
            for (size_t q = 0; q < GO; q++)
                cell = ival_add(cell, ival_scale(x[q * H + i] - clean[q * H + i],
                                                 ival_at(b->tube->P, 3 * at + q * H + i)));
            const double least =
                ival_scale(x[GO * H + i] - clean[GO * H + i], ival_at(b->lam_E, i)).lo +
                ival_mul(ival_at(b->kap, i), cell).lo;
            sum += least;
            size += fabs(least);
        }
        contribution[k] += sum - 2 * b->eps * size;
    }
}

/* What the rounding of this step can do. */
static double local_slack(const back *b)
{
    const size_t H = b->H, at = b->step * H;
    const double *e_T = b->t->e_T + 4 * at;
    double slack = 0;
    for (size_t i = 0; i < H; i++) {
        double cell = b->tube->e_c[at + i];
        for (size_t q = 0; q < GO; q++)
            cell += ival_mag(ival_at(b->tube->P, 3 * at + q * H + i)) * e_T[q * H + i];
        slack += ival_mag(ival_at(b->kap, i)) * cell +
                 ival_mag(ival_at(b->lam_E, i)) * e_T[GO * H + i] +
                 ival_mag(ival_at(b->lam_h, i)) * b->tube->e_h;
    }
    return slack * (1 + b->eps);
}

/* To the state before the step; false where the numbers run away. */
static bool step_back(back *b)
{
    const size_t H = b->H, at = b->step * H;
    const lstm_cell64 *cell = b->t->cell;
    const rows_back x = {
        ivals_from(b->tube->P, 3 * at),
        ivals_from(b->tube->E, at),
        ivals_from(b->tube->G, at),
        b->lam_h,
        b->lam_c,
        b->lam_E,
        b->kap,
    };
    rows_adjoint(H, cell->u, &x, b->one, b->two);
    double size = 0; /* no sum over units has larger terms in all */
    for (size_t i = 0; i < H; i++) {
        double jacobian = 0;
        for (size_t q = 0; q < GO; q++)
            jacobian += ival_mag(ival_at(x.P, q * H + i)) * cell->u_max[q * H + i];
        const double h = ival_mag(ival_at(b->lam_h, i)), c = ival_mag(ival_at(b->lam_c, i));
        size += h * ival_mag(ival_at(x.E, i)) * cell->u_max[GO * H + i] +
                (h * x.G.hi[i] + c) * jacobian;
    }
    bool fine = size < runaway;
    for (size_t i = 0; i < H; i++) {
        const ival lam =
            ival_widen(ival_cap(ival_at(b->one, i), ival_at(b->two, i)), 2 * b->eps * size);
        ival_put(b->lam_h, i, lam);
        ival_put(b->lam_c, i, ival_mul(ival_at(b->kap, i), ival_at(b->tube->F, at + i)));
        fine = fine && ival_mag(lam) < runaway && ival_mag(ival_at(b->lam_c, i)) < runaway;
    }
    return fine;
}

bool lstm_adjoint(const lstm_tube *tube, const lstm_text *t, const lstm_aim *aim,
                  double *contribution, double *slack, double *scratch)
{
    const size_t H = t->cell->H;
    back b = {.tube = tube, .t = t, .H = H, .eps = (double)(2 * H + 32) * ival_step};
    ivals *const parts[] = {&b.lam_h, &b.lam_c, &b.lam_E, &b.kap, &b.one, &b.two};
    for (size_t k = 0; k < 6; k++)
        *parts[k] = (ivals){scratch + 2 * k * H, scratch + (2 * k + 1) * H};
    for (size_t i = 0; i < H; i++) {
        ival_put(b.lam_h, i, aim_at(aim, t->n, i));
        ival_put(b.lam_c, i, (ival){0, 0});
    }
    *slack = 0;
    for (b.step = t->n; b.step-- > 0;) {
        const size_t at = b.step * H;
        for (size_t i = 0; i < H; i++) {
            const ival lam_h = ival_at(b.lam_h, i);
            ival_put(b.lam_E, i, ival_mul(lam_h, ival_at(tube->E, at + i)));
            ival_put(b.kap, i,
                     ival_add(ival_mul(lam_h, ival_at(tube->G, at + i)), ival_at(b.lam_c, i)));
        }
        contributions(&b, contribution);
        *slack += local_slack(&b);
        if (!step_back(&b))
            return false;
        for (size_t i = 0; i < H; i++)
            if (!aim->at || aim->at[i] == b.step)
                ival_put(b.lam_h, i, ival_add(ival_at(b.lam_h, i), ival_at(aim->lam, i)));
    }
    return true;
}
