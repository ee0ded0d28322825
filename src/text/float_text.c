/* text/float_text.c - correctly rounded decimal to float, and the shortest way back.
 *
 * Reading. A decimal w * 10^e with w < 2^64 and |e| <= 22 is computed in double as d = (double)w *
 * 10^e or (double)w / 10^-e. The powers are exact, so only two roundings happen and |d - x| < 3 ulp
 * of d, where x is the true value. Every midpoint between two neighbouring floats is itself a
 * double: in the range of normal floats it is one whose low 29 mantissa bits are 1 followed by 28
 * zeros. If d is more than 3 ulp away from all of those, no midpoint lies between d and x, so both
 * round to the same float and (float)d is the answer. The other cases (seven in 2^29 of random
 * input, 20 digits and more, huge or tiny exponents) go to the C library.
 *
 * Writing. Rounding x to 6, 7, 8, 9 digits in turn, the first text that reads back as x is taken.
 * Nine digits always do: their spacing is at most 1e-8 of the value, the nearest midpoint is at
 * least 2^-25 = 2.98e-8 away, so even a last digit that is off by one stays inside. A normal float
 * that 5 digits or fewer describe shows at 6 as trailing zeros, which are dropped. */
#include "text/float_text.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53 && FLT_EVAL_METHOD == 0,
               "the rounding argument needs IEEE floats, evaluated as such");

enum { EXACT_POWER = 22, MAX_DIGITS = 19 };
static const double power_of_ten[EXACT_POWER + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static bool nearest_float(uint64_t w, int e, float *out)
{
    if (w == 0) {
        *out = 0;
        return true;
    }
    if (e < -EXACT_POWER || e > EXACT_POWER)
        return false;
    const double d = e < 0 ? (double)w / power_of_ten[-e] : (double)w * power_of_ten[e];
    if (d < FLT_MIN || d > FLT_MAX)
        return false;
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    const uint32_t tail = bits & 0x1fffffff;
    if (tail - (0x10000000 - 3) <= 6)
        return false;
    *out = (float)d;
    return true;
}

/* The C library's answer. Its decimal point depends on the locale, so the "C" locale is named;
 * asking for that one neither allocates nor fails. */
static float library_float(const char *s)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const float x = strtof_l(s, NULL, c);
    freelocale(c);
    return x;
}

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* "e-12" at `p` adds to *e; without digits it is no exponent and nothing is read. */
static const char *parse_exponent(const char *p, int *e)
{
    const char *q = p + 1;
    const bool negative = *q == '-';
    q += *q == '-' || *q == '+';
    if (!is_digit(*q))
        return p;
    int value = 0;
    for (; is_digit(*q); q++)
        if (value < 10000)
            value = value * 10 + (*q - '0');
    *e += negative ? -value : value;
    return q;
}

const char *float_parse(const char *s, float *out)
{
    const char *p = s + (*s == '-' || *s == '+');
    const char *const first = p;
    uint64_t w = 0;
    for (; is_digit(*p); p++)
        w = w * 10 + (uint64_t)(*p - '0');
    ptrdiff_t digits = p - first, fraction = 0;
    if (*p == '.') {
        const char *const point = p++;
        for (; is_digit(*p); p++)
            w = w * 10 + (uint64_t)(*p - '0');
        fraction = p - point - 1;
        digits += fraction;
    }
    if (digits == 0)
        return NULL;
    int e = digits <= MAX_DIGITS ? -(int)fraction : 0;
    if (*p == 'e' || *p == 'E')
        p = parse_exponent(p, &e);
    float x;
    if (digits <= MAX_DIGITS && nearest_float(w, e, &x))
        *out = *s == '-' ? -x : x;
    else
        *out = library_float(s);
    return p;
}

/* |x| * 10^k within a few ulp, for any k. */
static double scale(double x, int k)
{
    for (; k > EXACT_POWER; k -= EXACT_POWER)
        x *= power_of_ten[EXACT_POWER];
    for (; k < -EXACT_POWER; k += EXACT_POWER)
        x /= power_of_ten[EXACT_POWER];
    return k < 0 ? x / power_of_ten[-k] : x * power_of_ten[k];
}

/* The decimal w * 10^-k: 1234 0.0001234 1.234e-05. */
static char *write_decimal(uint64_t w, int k, char *out)
{
    for (; w % 10 == 0; w /= 10)
        k--;
    char digit[MAX_DIGITS + 1];
    int n = 0;
    for (; w; w /= 10)
        digit[MAX_DIGITS - n++] = (char)('0' + w % 10);
    const char *d = digit + MAX_DIGITS + 1 - n;
    const int lead = n - 1 - k; /* power of ten of the first digit */
    if (lead >= 0 && lead <= 8) {
        for (int i = 0; i < n || i <= lead; i++) {
            if (i == lead + 1)
                *out++ = '.';
            *out++ = i < n ? d[i] : '0';
        }
        return out;
    }
    if (lead < 0 && lead >= -4) {
        *out++ = '0';
        *out++ = '.';
        for (int i = -1; i > lead; i--)
            *out++ = '0';
        memcpy(out, d, (size_t)n);
        return out + n;
    }
    *out++ = d[0];
    if (n > 1)
        *out++ = '.';
    memcpy(out, d + 1, (size_t)n - 1);
    out += n - 1;
    *out++ = 'e';
    *out++ = lead < 0 ? '-' : '+';
    *out++ = (char)('0' + abs(lead) / 10);
    *out++ = (char)('0' + abs(lead) % 10);
    return out;
}

char *float_format(float x, char *out)
{
    if (signbit(x))
        *out++ = '-';
    const float size = fabsf(x);
    if (size == 0) {
        *out++ = '0';
        return out;
    }
    const int lead = (int)floor(log10((double)size));
    for (int n = 6;; n++) {
        const int k = n - 1 - lead;
        char *const end = write_decimal((uint64_t)llround(scale(size, k)), k, out);
        *end = ' '; /* ends the number for the reader */
        float back;
        float_parse(out, &back);
        if (back == size || n == 9)
            return end;
    }
}
