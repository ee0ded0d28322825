/* bound/gbm_unit.h - one unit of an LSTM's growth bound: everything that is not a row of weights
 * (lstm_rows.h), for kernels of every device.
 *
 * Names as in the paper, with its errors corrected: T_q pre-activations, P_q the factors of the
 * rows of dc', A^c and B^c together as J (one row over v, one over h), E and G the factors of dh'.
 * A tilde in the text is a suffix `_` here: x_ is d loss / d x. At a tie the branch written with >=
 * is taken, forward and backward alike. */
#ifndef BOUND_GBM_UNIT_H
#define BOUND_GBM_UNIT_H

#include "bound/gbm_lstm.h"
#include "bound/lstm_rows.h"

/* Everything of one unit that is not a row. */
typedef struct unit {
    segment seg[2];  /* over v, over h */
    iv C;            /* box of the previous cell */
    real mid[GATES]; /* pre-activations at the centre */
    iv T[GATES], act[GATES], slope[GATES];
    iv P[GO]; /* of gates i f g */
    iv c_ia, c_mv, c;
    bool lo_from_mv, hi_from_mv;
    iv tau, dtau, E, G, h;
} unit;

/* ---- small pieces ------------------------------------------------------------------------- */

IV_FN real max2(real a, real b)
{
    return a > b ? a : b;
}

/* First and second derivative of a gate's activation. */
IV_FN real d1(int gate, real x)
{
    const double s = gate == GG ? tanh((double)x) : 1 / (1 + exp(-(double)x));
    return (real)(gate == GG ? 1 - s * s : s * (1 - s));
}

IV_FN real d2(int gate, real x)
{
    const double s = gate == GG ? tanh((double)x) : 1 / (1 + exp(-(double)x));
    return (real)(gate == GG ? -2 * s * (1 - s * s) : s * (1 - s) * (1 - 2 * s));
}

/* The derivative is a bell: least at the end far from 0, greatest at the point near 0. */
IV_FN iv bell(int gate, iv t)
{
    return (iv){d1(gate, max2(-t.lo, t.hi)), d1(gate, max2(0, max2(t.lo, -t.hi)))};
}

IV_FN void bell_back(int gate, iv y_, iv t, iv *t_)
{
    if ((t.hi >= 0 ? t.hi : -t.hi) >= (t.lo >= 0 ? t.lo : -t.lo))
        t_->hi += y_.lo * d2(gate, t.hi);
    else
        t_->lo += y_.lo * d2(gate, t.lo);
    if (t.lo > 0)
        t_->lo += y_.hi * d2(gate, t.lo);
    if (t.hi < 0)
        t_->hi += y_.hi * d2(gate, t.hi);
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Centre and radius of gate q's pre-activation. */
IV_FN void unit_gate(unit *u, int q, real mid, real rad)
{
    u->mid[q] = mid;
    u->T[q] = (iv){mid - rad, mid + rad};
    u->act[q] = q == GG ? iv_tanh(u->T[q]) : iv_sigmoid(u->T[q]);
    u->slope[q] = bell(q, u->T[q]);
}

/* From the gates to [P]. */
IV_FN void unit_factors(unit *u)
{
    u->P[GF] = iv_mul_pos(u->slope[GF], u->C);
    u->P[GI] = iv_mul_pos(u->slope[GI], u->act[GG]);
    u->P[GG] = (iv){u->act[GI].lo * u->slope[GG].lo, u->act[GI].hi * u->slope[GG].hi};
}

/* The next cell: interval arithmetic, and value at the centre plus derivative times radius. */
IV_FN void unit_cell(unit *u, real row_radius, gbm_cell_mode mode)
{
    u->c_ia = iv_add(iv_mul_pos(u->act[GF], u->C), iv_mul_pos(u->act[GI], u->act[GG]));
    const real c0 =
        sigmoid_of(u->mid[GF]) * iv_mid(u->C) + sigmoid_of(u->mid[GI]) * tanh_of(u->mid[GG]);
    const real around = row_radius + u->act[GF].hi * iv_rad(u->C);
    u->c_mv = (iv){c0 - around, c0 + around};
    u->lo_from_mv = mode == GBM_CELL_MV || (mode == GBM_CELL_BOTH && u->c_mv.lo >= u->c_ia.lo);
    u->hi_from_mv = mode == GBM_CELL_MV || (mode == GBM_CELL_BOTH && u->c_mv.hi <= u->c_ia.hi);
    u->c = (iv){u->lo_from_mv ? u->c_mv.lo : u->c_ia.lo, u->hi_from_mv ? u->c_mv.hi : u->c_ia.hi};
}

/* From the next cell to everything about the next state. */
IV_FN void unit_state(unit *u)
{
    u->tau = iv_tanh(u->c);
    u->dtau = bell(GG, u->c);
    u->E = iv_mul_pos(u->slope[GO], u->tau);
    u->G = (iv){u->act[GO].lo * u->dtau.lo, u->act[GO].hi * u->dtau.hi};
    u->h = iv_mul_pos(u->act[GO], u->tau);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* Adjoints of a unit's scalars. */
typedef struct unit_adjoint {
    real mid[GATES];
    iv T[GATES], act[GATES], slope[GATES], P[GO];
} unit_adjoint;

/* Through dh' = slope_o tau, act_o dtau and the cell: returns the adjoint of the mean-value form's
 * radius. */
IV_FN real cell_back(const unit *u, iv E_, iv G_, unit_adjoint *a)
{
    iv tau_ = {0, 0}, c_ = {0, 0};
    a->act[GO].hi += G_.hi * u->dtau.hi;
    a->act[GO].lo += G_.lo * u->dtau.lo;
    iv_mul_pos_back(E_, u->slope[GO], u->tau, &a->slope[GO], &tau_);
    c_.lo += tau_.lo * d1(GG, u->c.lo);
    c_.hi += tau_.hi * d1(GG, u->c.hi);
    bell_back(GG, (iv){G_.lo * u->act[GO].lo, G_.hi * u->act[GO].hi}, u->c, &c_);

    const iv ia_ = {u->lo_from_mv ? 0 : c_.lo, u->hi_from_mv ? 0 : c_.hi};
    const iv mv_ = {u->lo_from_mv ? c_.lo : 0, u->hi_from_mv ? c_.hi : 0};
    iv ignored = {0, 0}; /* the box C is constant */
    iv_mul_pos_back(ia_, u->act[GF], u->C, &a->act[GF], &ignored);
    iv_mul_pos_back(ia_, u->act[GI], u->act[GG], &a->act[GI], &a->act[GG]);
    const real c0_ = mv_.lo + mv_.hi, around_ = mv_.hi - mv_.lo;
    a->act[GF].hi += around_ * iv_rad(u->C);
    const real f = sigmoid_of(u->mid[GF]), i = sigmoid_of(u->mid[GI]), g = tanh_of(u->mid[GG]);
    a->mid[GF] += c0_ * iv_mid(u->C) * f * (1 - f);
    a->mid[GI] += c0_ * g * i * (1 - i);
    a->mid[GG] += c0_ * i * (1 - g * g);
    return around_;
}

IV_FN void factors_back(const unit *u, unit_adjoint *a)
{
    iv ignored = {0, 0};
    iv_mul_pos_back(a->P[GF], u->slope[GF], u->C, &a->slope[GF], &ignored);
    iv_mul_pos_back(a->P[GI], u->slope[GI], u->act[GG], &a->slope[GI], &a->act[GG]);
    a->act[GI].lo += a->P[GG].lo * u->slope[GG].lo;
    a->act[GI].hi += a->P[GG].hi * u->slope[GG].hi;
    a->slope[GG].lo += a->P[GG].lo * u->act[GI].lo;
    a->slope[GG].hi += a->P[GG].hi * u->act[GI].hi;
    for (int q = 0; q < GATES; q++) {
        bell_back(q, a->slope[q], u->T[q], &a->T[q]);
        a->T[q].lo += a->act[q].lo * d1(q, u->T[q].lo);
        a->T[q].hi += a->act[q].hi * d1(q, u->T[q].hi);
    }
}

#endif
