/* report/ticks.c - see ticks.h. */
#include "report/ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "1e-05" as "1e-5" */
static void shorten(char *text)
{
    char *e = strchr(text, 'e');
    if (e && e[2] == '0')
        memmove(e + 2, e + 3, strlen(e + 3) + 1);
}

static void add(ticks *t, double at, const char *fmt, int digits)
{
    if (t->n == MAX_TICKS)
        return;
    t->at[t->n] = at;
    snprintf(t->text[t->n], TICK_TEXT, fmt, digits, at);
    shorten(t->text[t->n++]);
}

/* 1, 2 or 5 times a power of ten, at least `step`. */
static double round_up(double step, int *exponent)
{
    *exponent = (int)floor(log10(step));
    const double power = pow(10, *exponent), share = step / power;
    const double nice = share <= 1.0001 ? 1 : share <= 2.0001 ? 2 : share <= 5.0001 ? 5 : 10;
    *exponent += nice == 10;
    return nice * power;
}

static void linear(double lo, double hi, int want, ticks *out)
{
    int exponent;
    const double step = round_up((hi - lo) / want, &exponent);
    const double size = fmax(fabs(lo), fabs(hi));
    const bool plain = size < 1e6 && exponent > -5;
    const double first = ceil(lo / step - 1e-9);
    for (double k = first; k * step <= hi + 1e-9 * step && out->n < MAX_TICKS; k++)
        if (plain)
            add(out, k == 0 ? 0 : k * step, "%.*f", exponent < 0 ? -exponent : 0);
        else
            add(out, k == 0 ? 0 : k * step, "%.*g", 3);
}

static void logarithmic(double lo, double hi, int want, ticks *out)
{
    const int from = (int)ceil(log10(lo) - 1e-9), to = (int)floor(log10(hi) + 1e-9);
    const int decades = to - from + 1, every = decades > want ? (decades + want - 1) / want : 1;
    if (decades < 2) {
        for (int e = from - 1; e <= to; e++)
            for (int k = 0; k < 3; k++) {
                const double at = (k == 0 ? 1 : k == 1 ? 2 : 5) * pow(10, e);
                if (at >= lo * (1 - 1e-9) && at <= hi * (1 + 1e-9))
                    add(out, at, "%.*g", 3);
            }
        return;
    }
    for (int e = from; e <= to; e += every)
        add(out, pow(10, e), "%.*g", 6);
}

void ticks_make(double lo, double hi, stet_scale scale, int want, ticks *out)
{
    out->n = 0;
    (scale == STET_LOG ? logarithmic : linear)(lo, hi, want, out);
}
