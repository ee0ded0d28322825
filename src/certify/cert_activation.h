/* certify/cert_activation.h - sigmoid and tanh over an interval: their derivatives, their slopes
 * from a point, and the line that leaves least. Everything is rounded outward. */
#ifndef CERTIFY_CERT_ACTIVATION_H
#define CERTIFY_CERT_ACTIVATION_H

#include <stdbool.h>

#include "certify/cert_interval.h"

/* Either function at one point: value and derivative. */
typedef struct act_point {
    double x, f, d;
} act_point;
static inline act_point act_at(bool is_tanh, double x)
{
    if (is_tanh) {
        const double f = tanh(x);
        return (act_point){x, f, 1 - f * f};
    }
    const double e = exp(-fabs(x)), f = (x < 0 ? e : 1) / (1 + e);
    return (act_point){x, f, f * (1 - f)};
}

/* exp and tanh in double, and 1 - t^2 after them, are at least as accurate as this. */
static const double act_error = 0x1p-50;

/* Values between a and b. */
static inline ival act_range(bool is_tanh, act_point a, act_point b)
{
    return (ival){greater(is_tanh ? -1 : 0, a.f - act_error), lesser(1, b.f + act_error)};
}

/* Derivatives there: a bell, highest at 0. */
static inline ival act_derivatives(bool is_tanh, act_point a, act_point b)
{
    const double top = is_tanh ? 1 : 0.25, peak = a.x <= 0 && b.x >= 0 ? top : greater(a.d, b.d);
    return (ival){greater(0, lesser(a.d, b.d) - act_error), lesser(top, peak + act_error)};
}

/* (f(x) - f(m)) / (x - m) for x in [a, b], which holds m. */
ival act_slopes(bool is_tanh, act_point m, act_point a, act_point b);

/* f(x) = slope (x - m) + at +- off for x in [a, b]. */
typedef struct act_line {
    double slope, at, off;
} act_line;
act_line act_line_over(bool is_tanh, act_point m, act_point a, act_point b);

/* Slopes of the ReLU between the clean value and any of the range. */
ival relu_slopes(double clean, ival x);

#endif
