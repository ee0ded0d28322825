/* bound/lstm_tight.c - see lstm_tight.h. The expression is linear in a, so only a's ends count; for
 * each the maximum over the rectangle of (s, tau) is at a corner, at a stationary point of an edge,
 * or at one of the inside. */
#include "bound/lstm_tight.h"

typedef struct search {
    double w, a;
    iv s, tau;
    double best;
} search;

static void offer(search *f, double s, double tau)
{
    const double v = fabs(s * ((1 - s) * f->w * tau + (1 - tau * tau) * f->a));
    f->best = v > f->best || isnan(v) ? v : f->best;
}

static double clip(double x, iv range)
{
    return x < (double)range.lo ? (double)range.lo : x > (double)range.hi ? (double)range.hi : x;
}

static bool within(double x, iv range)
{
    return x >= (double)range.lo && x <= (double)range.hi;
}

/* Along s = const the expression is a parabola in tau, along tau = const one in s; each peaks where
 * its slope is 0. */
static void edges(search *f)
{
    const double s_end[2] = {(double)f->s.lo, (double)f->s.hi},
                 tau_end[2] = {(double)f->tau.lo, (double)f->tau.hi};
    for (int k = 0; k < 2; k++) {
        const double s = s_end[k], tau = tau_end[k], bend = 2 * f->w * tau;
        offer(f, s, tau_end[0]);
        offer(f, s, tau_end[1]);
        if (f->a != 0)
            offer(f, s, clip(f->w * (1 - s) / (2 * f->a), f->tau));
        if (bend != 0)
            offer(f, clip((f->w * tau + (1 - tau * tau) * f->a) / bend, f->s), tau);
    }
}

/* Both slopes 0: tau = (w +- sqrt(w^2 - 12 a^2)) / (6 a), s = 1 - 2 a tau / w. */
static void inside(search *f)
{
    const double root = f->w * f->w - 12 * f->a * f->a;
    if (f->a == 0 || f->w == 0 || !(root >= 0))
        return;
    for (int sign = -1; sign <= 1; sign += 2) {
        const double tau = (f->w + sign * sqrt(root)) / (6 * f->a), s = 1 - 2 * f->a * tau / f->w;
        if (within(tau, f->tau) && within(s, f->s))
            offer(f, s, tau);
    }
}

real lstm_tight_entry(real w, iv s, iv tau, iv a)
{
    search f = {.w = (double)w, .s = s, .tau = tau};
    const double end[2] = {(double)a.lo, (double)a.hi};
    for (int k = 0; k < 2; k++) {
        f.a = end[k];
        edges(&f);
        inside(&f);
    }
    return (real)f.best;
}
