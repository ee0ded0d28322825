/* verify/ver_exact_none.c - a build without GMP. */
#include "verify/ver_exact.h"

bool ver_exact_here(void)
{
    return false;
}

static stet_status no_gmp(void)
{
    return error_set(STET_ENOTSUP, "this build has no GMP: nothing can be checked exactly");
}

stet_status ver_exact_sum(const ver_work *w, int label, int other, double *out)
{
    (void)w, (void)label, (void)other, (void)out;
    return no_gmp();
}

stet_status ver_exact_cnn(const ver_work *w, int label, int other, const json_t *witness,
                          double *out)
{
    (void)w, (void)label, (void)other, (void)witness, (void)out;
    return no_gmp();
}
