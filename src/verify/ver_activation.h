/* verify/ver_activation.h - sigmoid and tanh over an interval, in double and rounded outward. */
#ifndef VERIFY_VER_ACTIVATION_H
#define VERIFY_VER_ACTIVATION_H

#include "verify/ver_interval.h"

double ver_activation(bool is_tanh, double x);
double ver_derivative(bool is_tanh, double f); /* from the value */
iv ver_range_of(bool is_tanh, iv x);
iv ver_derivatives(bool is_tanh, iv x);
iv ver_slopes(bool is_tanh, double m,
              iv x); /* (phi(y) - phi(m)) / (y - m) for y in x, which holds m */
typedef struct ver_act_line {
    double slope, at, off; /* phi(x) = slope (x - m) + at +- off */
} ver_act_line;
ver_act_line ver_line_over(bool is_tanh, double m, iv x);

#endif
