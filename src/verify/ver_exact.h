/* verify/ver_exact.h - bounds of the CNN and of the sum model in exact arithmetic (GMP), a second opinion
 * on those in double. Rounded down once, at the end. The task is open, and its bound in double finite. */
#ifndef VERIFY_VER_EXACT_H
#define VERIFY_VER_EXACT_H

#include "verify/ver_impl.h"

bool ver_exact_here(void); /* is it part of this build? */
/* The bound that `witness`, which has been found well formed, leads to; NULL: the interval bound. */
stet_status ver_exact_cnn(const ver_work *w, int label, int other, const json_t *witness,
                          double *out);
stet_status ver_exact_sum(const ver_work *w, int label, int other, double *out);

#endif
