/* verify/ver_exact.h - bounds of the TextCNN in exact arithmetic (GMP), a second opinion on those in
 * double. */
#ifndef VERIFY_VER_EXACT_H
#define VERIFY_VER_EXACT_H

#include "verify/ver_impl.h"

bool ver_exact_here(void); /* is it part of this build? */
/* The bound that `witness` leads to, or, if that is NULL, the interval bound, of the open task: rounded
 * down once, at the end. The witness has been found well formed. */
stet_status ver_exact_cnn(const ver_work *w, int label, int other, const json_t *witness,
                          double *out);

#endif
