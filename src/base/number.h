/* base/number.h - numbers in text with a decimal point, whatever locale the host has set. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>

double number_parse(const char *s, char **end);                /* as strtod */
int number_print(char *out, size_t size, const char *fmt, ...) /* as snprintf */
    __attribute__((format(printf, 3, 4)));
int number_vprint(char *out, size_t size, const char *fmt, va_list ap) /* as vsnprintf */
    __attribute__((format(printf, 3, 0)));

#endif
