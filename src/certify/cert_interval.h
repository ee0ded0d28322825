/* certify/cert_interval.h - intervals of doubles that only ever widen: each result steps outward by
 * more than its own rounding (a sum or product is within 2^-53 of the exact one, relatively), so an
 * enclosure of the operands gives an enclosure of the result. */
#ifndef CERTIFY_CERT_INTERVAL_H
#define CERTIFY_CERT_INTERVAL_H

#include <math.h>
#include <stddef.h>

typedef struct ival {
    double lo, hi;
} ival;

/* Many of them: column k of row t is lo[t * width + k], hi[t * width + k]. */
typedef struct ivals {
    double *lo, *hi;
} ivals;

static const double ival_step = 0x1p-52, ival_least = 1e-300;

/* fmin and fmax are calls, because of NaN; there is none here. */
static inline double lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double greater(double a, double b)
{
    return a > b ? a : b;
}

static inline ival ival_at(ivals a, size_t i)
{
    return (ival){a.lo[i], a.hi[i]};
}

static inline void ival_put(ivals a, size_t i, ival x)
{
    a.lo[i] = x.lo;
    a.hi[i] = x.hi;
}

static inline ivals ivals_from(ivals a, size_t first)
{
    return (ivals){a.lo + first, a.hi + first};
}

/* Rounded ends, one step further out. */
static inline ival ival_out(double lo, double hi)
{
    return (ival){lo - fabs(lo) * ival_step - ival_least, hi + fabs(hi) * ival_step + ival_least};
}

static inline ival ival_widen(ival a, double by)
{
    return ival_out(a.lo - by, a.hi + by);
}

static inline double ival_mag(ival a)
{
    return greater(fabs(a.lo), fabs(a.hi));
}

static inline double ival_mid(ival a)
{
    return 0.5 * (a.lo + a.hi);
}

/* At least the distance from the rounded ival_mid() to either end. */
static inline double ival_rad(ival a)
{
    return 0.5 * (a.hi - a.lo) * (1 + 4 * ival_step) + ival_mag(a) * ival_step + ival_least;
}

static inline ival ival_add(ival a, ival b)
{
    return ival_out(a.lo + b.lo, a.hi + b.hi);
}

static inline ival ival_sub(ival a, double x)
{
    return ival_out(a.lo - x, a.hi - x);
}

static inline ival ival_scale(double x, ival a)
{
    return x < 0 ? ival_out(x * a.hi, x * a.lo) : ival_out(x * a.lo, x * a.hi);
}

static inline ival ival_mul(ival a, ival b)
{
    const double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
    return ival_out(lesser(lesser(p, q), lesser(r, s)), greater(greater(p, q), greater(r, s)));
}

static inline ival ival_hull(ival a, ival b)
{
    return (ival){lesser(a.lo, b.lo), greater(a.hi, b.hi)};
}

static inline ival ival_with(ival a, double x)
{
    return (ival){lesser(a.lo, x), greater(a.hi, x)};
}

/* What both hold; enclosures of one value always meet. */
static inline ival ival_cap(ival a, ival b)
{
    return (ival){greater(a.lo, b.lo), lesser(a.hi, b.hi)};
}

#endif
