/* verify/ver_exact_number.h - exact numbers (GMP), and their memory.
 *
 * A float is an integer times 2^-149, a product of two floats one times 2^-298. What float32 makes of a
 * sum is within gamma_n of its terms' sizes, gamma_n = n / (2^24 - n): a fraction. */
#ifndef VERIFY_VER_EXACT_NUMBER_H
#define VERIFY_VER_EXACT_NUMBER_H

#include <gmp.h>

#include "verify/ver_impl.h"

enum { EXACT_ONE = 149, EXACT_TWO = 2 * EXACT_ONE };

/* Run `fn`. Where memory runs out GMP would end the program; here fn is left and STET_ENOMEM returned.
 * What numbers have taken is given back in either case, so that none outlives the call. */
stet_status exact_run(void (*fn)(void *), void *ctx);

/* Inside exact_run: n numbers that are 0. */
mpz_t *exact_integers(size_t n);
mpq_t *exact_fractions(size_t n);

/* x = f 2^shift, for a shift of at least EXACT_ONE. */
void exact_float(mpz_t x, float f, unsigned long shift);
/* The sum of a[i stride] b[i], and that of the absolute values, times 2^EXACT_TWO. x is scratch. */
void exact_dot(const float *a, size_t stride, const float *b, size_t n, mpz_t p, mpz_t q, mpz_t x);
void exact_gamma(mpq_t g, unsigned long n);

#endif
