/* bound/gbm_lstm.c - see gbm_lstm.h, gbm_unit.h and docs/gbm.md. */
#include "bound/gbm_lstm.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "bound/gbm_unit.h"
#include "bound/lstm_tight.h"

/* ---- one unit, forward -------------------------------------------------------------------- */

typedef struct cell {
    const lstm_weights *w;
    gbm_cell_mode mode;
    const real *centre[2], *radius[2]; /* of v and h */
    const real *c_lo, *c_hi;
} cell;

static void unit_open(const cell *c, size_t i, real *rows, unit *u)
{
    const lstm_weights *w = c->w;
    const size_t n[2] = {w->D, w->H};
    const real *matrix[2] = {w->w_ih, w->w_hh};
    for (int s = 0; s < 2; s++) {
        segment *g = &u->seg[s];
        for (int q = 0; q < GATES; q++)
            g->w[q] = matrix[s] + ((size_t)q * w->H + i) * n[s];
        g->centre = c->centre[s];
        g->radius = c->radius[s];
        g->n = n[s];
        g->j_lo = rows;
        g->j_hi = rows + n[s];
        rows += 2 * n[s];
    }
    u->C = (iv){c->c_lo[i], c->c_hi[i]};
}

static void unit_gates(const lstm_weights *w, size_t i, unit *u)
{
    for (int q = 0; q < GATES; q++) {
        real v[2], h[2];
        row_range(u->seg[0].w[q], &u->seg[0], v);
        row_range(u->seg[1].w[q], &u->seg[1], h);
        const size_t at = (size_t)q * w->H + i;
        unit_gate(u, q, v[0] + h[0] + w->b_ih[at] + w->b_hh[at], v[1] + h[1]);
    }
}

static void unit_forward(const cell *c, size_t i, real *rows, unit *u)
{
    unit_open(c, i, rows, u);
    unit_gates(c->w, i, u);
    unit_factors(u);
    unit_cell(u, row_jacobian(&u->seg[0], u->P) + row_jacobian(&u->seg[1], u->P), c->mode);
    unit_state(u);
}

/* ---- one unit, backward ------------------------------------------------------------------- */

/* The whole problem, shared by all units. */
typedef struct job {
    cell c;
    const lstm_gbm *out;
    const lstm_gbm_loss *loss;
    const lstm_grads *grad;
    real scale;
    real *rows; /* (threads, row_count) */
    size_t row_count;
    real *value;   /* (H) */
    double *parts; /* (H, 3) */
} job;

static const real *row_of(const real *matrix, size_t i, size_t n)
{
    return matrix ? matrix + i * n : NULL;
}

/* How the rows of unit i enter the loss. */
static void weights_of(const lstm_gbm_loss *k, size_t i, const unit *u, row_weights out[2])
{
    const size_t D = u->seg[0].n, H = u->seg[1].n;
    out[0] = (row_weights){k->kv, row_of(k->Kv, i, D), row_of(k->Kahat, i, D)};
    out[1] = (row_weights){k->kh, row_of(k->Kh, i, H), row_of(k->Kbhat, i, H)};
}

static void unit_backward(const job *j, size_t i, const unit *u, real *scratch)
{
    const lstm_gbm_loss *k = j->loss;
    const size_t H = j->c.w->H;
    unit_adjoint a = {0};
    real *dw[2] = {scratch, scratch + u->seg[0].n}, *j_lo_[2], *j_hi_[2];
    real *rest = dw[1] + u->seg[1].n;
    for (int s = 0; s < 2; s++) {
        j_lo_[s] = rest;
        j_hi_[s] = rest + u->seg[s].n;
        rest += 2 * u->seg[s].n;
    }
    const real kc = k->kc + (k->Kc ? k->Kc[i] : 0);
    row_weights weight[2];
    weights_of(k, i, u, weight);
    real *grad[2] = {j->grad->w_ih, j->grad->w_hh};

    /* The mean-value radius feeds |J|, so E and G must be known before J: the entries are walked
     * twice. */
    iv E_ = {0, 0}, G_ = {0, 0};
    for (int s = 0; s < 2; s++) {
        const row_sums r =
            row_entries_back(&u->seg[s], u->E, u->G, &weight[s], 0, dw[s], j_lo_[s], j_hi_[s]);
        E_.lo += r.E.lo, E_.hi += r.E.hi;
        G_.lo += r.G.lo, G_.hi += r.G.hi;
    }
    G_.hi += kc * u->act[GF].hi;
    a.act[GF].hi += kc * u->G.hi + (k->Kfmax ? k->Kfmax[i] : 0);
    const real around_ = cell_back(u, E_, G_, &a);
    if (around_ != 0)
        for (int s = 0; s < 2; s++)
            row_entries_back(&u->seg[s], u->E, u->G, &weight[s], around_, dw[s], j_lo_[s],
                             j_hi_[s]);

    /* dw of gate o is final but for its range; those of i f g come from J. */
    real *direct[GATES][2];
    for (int s = 0; s < 2; s++)
        direct[GO][s] = dw[s];
    for (int q = GI; q < GO; q++)
        for (int s = 0; s < 2; s++) {
            direct[q][s] = rest;
            rest += u->seg[s].n;
            const iv p_ = row_jacobian_back(u->seg[s].w[q], u->seg[s].n, u->P[q], j_lo_[s],
                                            j_hi_[s], direct[q][s]);
            a.P[q].lo += p_.lo;
            a.P[q].hi += p_.hi;
        }
    factors_back(u, &a);
    for (int q = 0; q < GATES; q++) {
        const real dm = a.mid[q] + a.T[q].lo + a.T[q].hi, dr = a.T[q].hi - a.T[q].lo;
        const size_t at = (size_t)q * H + i;
        for (int s = 0; s < 2; s++)
            row_range_back(u->seg[s].w[q], &u->seg[s], dm, dr, direct[q][s], j->scale,
                           grad[s] + at * u->seg[s].n);
        j->grad->b_ih[at] += j->scale * dm;
        j->grad->b_hh[at] += j->scale * dm;
    }
}

/* ---- all units ---------------------------------------------------------------------------- */

static void store_tight(const segment *s, const unit *u, real *m)
{
    for (size_t j = 0; j < s->n; j++)
        m[j] = lstm_tight_entry(s->w[GO][j], u->act[GO], u->tau, (iv){s->j_lo[j], s->j_hi[j]});
}

static void store(const lstm_gbm *o, size_t i, const unit *u)
{
    const size_t D = u->seg[0].n, H = u->seg[1].n;
    if (o->mv_tight)
        store_tight(&u->seg[0], u, o->mv_tight + i * D);
    if (o->mh_tight)
        store_tight(&u->seg[1], u, o->mh_tight + i * H);
    row_entries(&u->seg[0], u->E, u->G, o->mv ? o->mv + i * D : NULL,
                o->ahat ? o->ahat + i * D : NULL);
    row_entries(&u->seg[1], u->E, u->G, o->mh ? o->mh + i * H : NULL,
                o->bhat ? o->bhat + i * H : NULL);
    const struct {
        real *to, v;
    } scalars[] = {{o->mc, u->G.hi * u->act[GF].hi},
                   {o->fmax, u->act[GF].hi},
                   {o->h_lo, u->h.lo},
                   {o->h_hi, u->h.hi},
                   {o->c_lo, u->c.lo},
                   {o->c_hi, u->c.hi}};
    for (size_t k = 0; k < sizeof scalars / sizeof *scalars; k++)
        if (scalars[k].to)
            scalars[k].to[i] = scalars[k].v;
}

static void unit_piece(void *ctx, size_t i, int worker)
{
    const job *j = ctx;
    real *rows = j->rows + (size_t)worker * j->row_count;
    unit u;
    unit_forward(&j->c, i, rows, &u);
    if (j->out)
        store(j->out, i, &u);
    if (!j->loss)
        return;
    const lstm_gbm_loss *k = j->loss;
    real *scratch = rows + 2 * (u.seg[0].n + u.seg[1].n);
    row_weights weight[2];
    weights_of(k, i, &u, weight);
    double *part = j->parts + 3 * i;
    const real mc = u.G.hi * u.act[GF].hi;
    part[2] = (double)mc;
    j->value[i] =
        (k->kc + (k->Kc ? k->Kc[i] : 0)) * mc + (k->Kfmax ? k->Kfmax[i] * u.act[GF].hi : 0);
    for (int s = 0; s < 2; s++)
        j->value[i] += row_value(&u.seg[s], u.E, u.G, &weight[s], scratch, &part[s]);
    if (j->grad)
        unit_backward(j, i, &u, scratch);
}

static stet_status check_box(const char *name, const real *lo, const real *hi, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(lo[i] <= hi[i]))
            return error_set(STET_EUSAGE, "box %s, coordinate %zu: [%g, %g] is no interval", name,
                             i, (double)lo[i], (double)hi[i]);
    return STET_OK;
}

static stet_status open_cell(const lstm_weights *w, const lstm_boxes *x, gbm_cell_mode mode,
                             arena *a, cell *c)
{
    TRY(check_box("v", x->v_lo, x->v_hi, w->D));
    TRY(check_box("h", x->h_lo, x->h_hi, w->H));
    TRY(check_box("c", x->c_lo, x->c_hi, w->H));
    *c = (cell){.w = w, .mode = mode, .c_lo = x->c_lo, .c_hi = x->c_hi};
    const real *lo[2] = {x->v_lo, x->h_lo}, *hi[2] = {x->v_hi, x->h_hi};
    const size_t n[2] = {w->D, w->H};
    for (int s = 0; s < 2; s++) {
        real *centre = arena_new(a, real, n[s]), *radius = arena_new(a, real, n[s]);
        if (!centre || !radius)
            return STET_ENOMEM;
        for (size_t j = 0; j < n[s]; j++) {
            centre[j] = (hi[s][j] + lo[s][j]) / 2;
            radius[j] = (hi[s][j] - lo[s][j]) / 2;
        }
        c->centre[s] = centre;
        c->radius[s] = radius;
    }
    return STET_OK;
}

static stet_status run(job *j, const lstm_weights *w, const lstm_boxes *x, gbm_cell_mode mode,
                       arena *a)
{
    TRY(open_cell(w, x, mode, a, &j->c));
    j->row_count = (2 + (j->grad ? 6 : 1)) * (w->D + w->H);
    j->rows = arena_new(a, real, (size_t)stet_threads() * j->row_count);
    j->value = arena_new(a, real, w->H);
    j->parts = arena_new(a, double, 3 * w->H);
    if (!j->rows || !j->value || !j->parts)
        return STET_ENOMEM;
    pool_run(w->H, unit_piece, j);
    return STET_OK;
}

/* A bound that cannot be computed is no bound: NaN becomes infinity. */
static void widen(real *m, size_t n)
{
    for (size_t i = 0; m && i < n; i++)
        if (isnan(m[i]))
            m[i] = (real)INFINITY;
}

stet_status gbm_lstm(const lstm_weights *w, const lstm_boxes *x, gbm_cell_mode mode,
                     const lstm_gbm *out)
{
    arena a = {0};
    job j = {.out = out};
    const stet_status st = run(&j, w, x, mode, &a);
    arena_deinit(&a);
    TRY(st);
    widen(out->mv, w->H * w->D);
    widen(out->ahat, w->H * w->D);
    widen(out->mh, w->H * w->H);
    widen(out->bhat, w->H * w->H);
    widen(out->mv_tight, w->H * w->D);
    widen(out->mh_tight, w->H * w->H);
    widen(out->mc, w->H);
    widen(out->fmax, w->H);
    return STET_OK;
}

stet_status gbm_lstm_sum(const lstm_weights *w, const lstm_boxes *x, gbm_cell_mode mode,
                         const lstm_gbm_loss *loss, real scale, const lstm_grads *grad,
                         arena *scratch, real *value, real *by_unit, double by_part[3])
{
    const arena_mark mark = arena_save(scratch);
    job j = {.loss = loss, .grad = grad, .scale = scale};
    const stet_status st = run(&j, w, x, mode, scratch);
    if (st == STET_OK) {
        double sum = 0, part[3] = {0, 0, 0};
        for (size_t i = 0; i < w->H; i++) {
            sum += (double)j.value[i];
            for (int p = 0; p < 3; p++)
                part[p] += j.parts[3 * i + (size_t)p];
        }
        *value = (real)sum;
        if (by_unit)
            memcpy(by_unit, j.value, w->H * sizeof *by_unit);
        if (by_part)
            memcpy(by_part, part, sizeof part);
    }
    arena_restore(scratch, mark);
    return st;
}
