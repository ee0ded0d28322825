/* certify/cert_activation.c - see cert_activation.h. */
#include "certify/cert_activation.h"

/* As a function of x the slope rises, then falls: the least is at an end or f'(m), and an end is
 * the highest where the slope still rises towards it. Near m the quotient is all rounding; there
 * it is f'(m) but for the second derivative, at most 0.77, times the distance. */
ival act_slopes(bool is_tanh, act_point m, act_point a, act_point b)
{
    const ival all = act_derivatives(is_tanh, a, b);
    ival s = {m.d, all.hi};
    const act_point ends[2] = {b, a};
    for (int k = 0; k < 2; k++) {
        const double gap = fabs(ends[k].x - m.x);
        if (gap < 1e-5) {
            s.lo = lesser(s.lo, m.d - 0.77 * gap);
            continue;
        }
        const double slope = (ends[k].f - m.f) / (ends[k].x - m.x), error = 8 * ival_step / gap;
        s.lo = lesser(s.lo, slope - error);
        if (ends[k].d - act_error >= slope + error)
            s.hi = lesser(s.hi, slope + error);
    }
    return (ival){greater(s.lo - act_error, all.lo), s.hi};
}

/* Take in f(x) - slope (x - m). */
static ival with_point(ival r, double slope, double m, double x, double f)
{
    return ival_with(r, f - slope * (x - m));
}

/* The chord's slope, or the derivative where the ends are too near; 0 where 1 - slope would lose it.
 * What is above and below the line is extreme at the ends and where the derivative is the slope. */
act_line act_line_over(bool is_tanh, act_point m, act_point a, act_point b)
{
    const double steep = b.x - a.x > 1e-5 ? (b.f - a.f) / (b.x - a.x) : m.d;
    const double slope = steep > 0x1p-40 ? steep : 0;
    const double first = a.f - slope * (a.x - m.x);
    ival r = with_point((ival){first, first}, slope, m.x, b.x, b.f);
    const double root = sqrt(greater(0, is_tanh ? 1 - slope : 1 - 4 * slope));
    const double x = is_tanh ? atanh(root) : log((1 + root) / (1 - root));
    if (x <= b.x && x >= a.x)
        r = with_point(r, slope, m.x, x, is_tanh ? root : 0.5 * (1 + root));
    if (-x <= b.x && -x >= a.x)
        r = with_point(r, slope, m.x, -x, is_tanh ? -root : 0.5 * (1 - root));
    const double size = 1 + ival_mag(r) + slope * (b.x - a.x);
    return (act_line){slope, ival_mid(r), ival_rad(r) + 16 * act_error * size};
}

ival relu_slopes(double clean, ival h)
{
    if (h.lo >= 0)
        return (ival){1, 1};
    if (h.hi <= 0)
        return (ival){0, 0};
    ival s = {1, 0};
    const double ends[2] = {h.lo, h.hi};
    for (int k = 0; k < 2; k++) {
        const double gap = ends[k] - clean;
        if (fabs(gap) < 1e-9)
            return (ival){0, 1};
        const double secant = (greater(ends[k], 0) - greater(clean, 0)) / gap,
                     error = 8 * ival_step * (1 + fabs(ends[k]) + fabs(clean)) / fabs(gap);
        s = ival_hull(s, (ival){secant - error, secant + error});
    }
    return ival_cap(s, (ival){0, 1});
}
