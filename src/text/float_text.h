/* text/float_text.h - decimal text of a float and back, exactly and whatever the locale.
 *
 *     for (size_t k = 0; k < dim; k++)
 *         if (!(p = float_parse(p, &row[k]))) ... */
#ifndef TEXT_FLOAT_TEXT_H
#define TEXT_FLOAT_TEXT_H

/* Read [+-]digits[.digits][e[+-]digits] from `s`, which must be followed by some byte that is no
 * part of a number (a space, a line end, NUL). Gives the float nearest to the decimal (ties to
 * even), as strtof does in the C locale; too large a number is an infinity. Returns the byte after
 * the number, or NULL if none stands there ("nan", "inf" and hexadecimal are none). */
const char *float_parse(const char *s, float *out);

enum { FLOAT_TEXT_MAX = 24 };
/* Write the finite `x` with the fewest digits whose nearest float is `x` again: at most 9, and 6 at
 * most are tried for subnormals. `out` has room for FLOAT_TEXT_MAX bytes; returns the byte after
 * the text, no NUL is written. */
char *float_format(float x, char *out);

#endif
