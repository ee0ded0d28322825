/* base/number.c - the C library's functions in the "C" locale. Asking for that one neither allocates
 * nor fails, and it is set for the calling thread alone. */
#include "base/number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double number_parse(const char *s, char **end)
{
    return strtod_l(s, end, c_locale());
}

int number_vprint(char *out, size_t size, const char *fmt, va_list ap)
{
    const locale_t before = uselocale(c_locale());
    const int n = vsnprintf(out, size, fmt, ap);
    uselocale(before);
    return n;
}

int number_print(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = number_vprint(out, size, fmt, ap);
    va_end(ap);
    return n;
}
