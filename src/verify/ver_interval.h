/* verify/ver_interval.h - intervals that contain what they claim to: every result steps outward. */
#ifndef VERIFY_VER_INTERVAL_H
#define VERIFY_VER_INTERVAL_H

#include "verify/ver_impl.h"

typedef struct iv {
    double lo, hi;
} iv;

/* fmin and fmax are calls, because of NaN; there is none here: whoever lets numbers grow stops them
 * before they overflow. */
static inline double iv_min(double a, double b)
{
    return a < b ? a : b;
}
static inline double iv_max(double a, double b)
{
    return a > b ? a : b;
}

static inline iv iv_out(double lo, double hi)
{
    return (iv){ver_down(lo), ver_up(hi)};
}
static inline iv iv_add(iv a, iv b)
{
    return iv_out(a.lo + b.lo, a.hi + b.hi);
}
static inline iv iv_widen(iv a, double by)
{
    return iv_out(a.lo - by, a.hi + by);
}
static inline iv iv_less(iv a, double x)
{
    return iv_out(a.lo - x, a.hi - x);
}
static inline iv iv_scale(double x, iv a)
{
    return x < 0 ? iv_out(x * a.hi, x * a.lo) : iv_out(x * a.lo, x * a.hi);
}
static inline iv iv_mul(iv a, iv b)
{
    const double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
    return iv_out(iv_min(iv_min(p, q), iv_min(r, s)), iv_max(iv_max(p, q), iv_max(r, s)));
}
static inline iv iv_hull(iv a, iv b)
{
    return (iv){iv_min(a.lo, b.lo), iv_max(a.hi, b.hi)};
}
static inline iv iv_with(iv a, double x)
{
    return (iv){iv_min(a.lo, x), iv_max(a.hi, x)};
}
static inline iv iv_cap(iv a, iv b) /* enclosures of the same thing always meet */
{
    return (iv){iv_max(a.lo, b.lo), iv_min(a.hi, b.hi)};
}
static inline double iv_mag(iv a)
{
    return iv_max(fabs(a.lo), fabs(a.hi));
}
static inline double iv_mid(iv a)
{
    return a.lo + (a.hi - a.lo) / 2;
}
static inline double iv_rad(iv a) /* from iv_mid, rounded up */
{
    const double m = iv_mid(a);
    return ver_up(iv_max(a.hi - m, m - a.lo));
}

#endif
