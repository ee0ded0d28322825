/* verify/ver_activation.c - see ver_activation.h. */
#include "verify/ver_activation.h"

static const double LIBM = 0x1p-50; /* exp and tanh, and a product or two after them */

double ver_activation(bool is_tanh, double x)
{
    if (is_tanh)
        return tanh(x);
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

double ver_derivative(bool is_tanh, double f)
{
    return is_tanh ? 1 - f * f : f * (1 - f);
}

iv ver_range_of(bool is_tanh, iv x)
{
    const double lo = ver_activation(is_tanh, x.lo), hi = ver_activation(is_tanh, x.hi);
    return (iv){fmax(is_tanh ? -1 : 0, lo - LIBM), fmin(1, hi + LIBM)};
}

/* The derivative is a bell with its top at 0. */
iv ver_derivatives(bool is_tanh, iv x)
{
    const double lo = ver_derivative(is_tanh, ver_activation(is_tanh, x.lo));
    const double hi = ver_derivative(is_tanh, ver_activation(is_tanh, x.hi));
    const double top = is_tanh ? 1 : 0.25;
    return (iv){fmax(0, fmin(lo, hi) - LIBM),
                fmin(top, (x.lo <= 0 && x.hi >= 0 ? top : fmax(lo, hi)) + LIBM)};
}

/* Slopes (phi(y) - phi(m)) / (y - m) for y in x, which holds m: they rise, then fall, along x. So
 * the least is that of an end or phi'(m); the most is that of an end where the slope still rises
 * towards the end, or at most the largest derivative. Next to m a quotient says nothing; the second
 * derivative, which is at most 0.77, does. */
iv ver_slopes(bool is_tanh, double m, iv x)
{
    const iv all = ver_derivatives(is_tanh, x);
    const double f = ver_activation(is_tanh, m), ends[2] = {x.lo, x.hi};
    iv s = {ver_derivative(is_tanh, f) - LIBM, all.hi};
    for (int k = 0; k < 2; k++) {
        const double gap = fabs(ends[k] - m);
        if (gap < 1e-5) {
            s.lo = fmin(s.lo, ver_derivative(is_tanh, f) - LIBM - 0.77 * gap);
            continue;
        }
        const double at = ver_activation(is_tanh, ends[k]), error = 0x1p-49 / gap;
        const double secant = (at - f) / (ends[k] - m);
        s.lo = fmin(s.lo, fmax(all.lo, secant - error));
        if (ver_derivative(is_tanh, at) - LIBM >= secant + error)
            s.hi = fmin(s.hi, secant + error);
    }
    return (iv){fmax(s.lo, all.lo), s.hi};
}

/* The chord's slope, or the derivative where the ends are close, or 0 where it is so small that
 * 1 - slope is 1. phi(x) - slope (x - m) is extreme at the ends and where the derivative is the
 * slope: there tanh is +-root, the sigmoid (1 +- root) / 2. */
ver_act_line ver_line_over(bool is_tanh, double m, iv x)
{
    const double a = ver_activation(is_tanh, x.lo), b = ver_activation(is_tanh, x.hi);
    const double steep = x.hi - x.lo > 1e-5 ? (b - a) / (x.hi - x.lo)
                                            : ver_derivative(is_tanh, ver_activation(is_tanh, m));
    const double slope = steep < 0x1p-40 ? 0 : steep;
    iv r = iv_with((iv){a - slope * (x.lo - m), a - slope * (x.lo - m)}, b - slope * (x.hi - m));
    const double root = sqrt(fmax(0, is_tanh ? 1 - slope : 1 - 4 * slope));
    for (int sign = -1; sign <= 1; sign += 2) {
        const double y = sign * (is_tanh ? atanh(root) : log((1 + root) / (1 - root)));
        if (y > x.lo && y < x.hi)
            r = iv_with(r, (is_tanh ? sign * root : 0.5 * (1 + sign * root)) - slope * (y - m));
    }
    const double size = 1 + iv_mag(r) + slope * (x.hi - x.lo);
    return (ver_act_line){slope, iv_mid(r), iv_rad(r) + 16 * LIBM * size};
}
