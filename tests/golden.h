/* tests/golden.h - reading the golden vectors of tests/golden/gbm. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "base/json.h"
#include "tensor/tensor.h"
#include "test.h"

#ifdef STET_DOUBLE
static const double value_tolerance = 1e-12, gradient_tolerance = 1e-10;
#else
static const double value_tolerance = 1e-5, gradient_tolerance = 1e-5;
#endif

static inline json_t *golden(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/gbm/%s", STET_SOURCE_DIR, name);
    json_t *o;
    CHECK_OK(json_read_file(path, &o));
    return o;
}

/* Numbers of nested arrays, in order, into `wide`, or into `out` where that is NULL; how many there
 * were. */
static inline size_t golden_numbers(const json_t *v, double *wide, real *out)
{
    if (json_is_number(v)) {
        if (wide)
            *wide = json_number_value(v);
        else
            *out = (real)json_number_value(v);
        return 1;
    }
    CHECK(json_is_array(v));
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(v); i++)
        n += golden_numbers(json_array_get(v, i), wide ? wide + n : NULL, wide ? NULL : out + n);
    return n;
}

static inline size_t numbers(const json_t *v, real *out)
{
    return golden_numbers(v, NULL, out);
}

static inline size_t doubles(const json_t *v, double *out)
{
    return golden_numbers(v, out, NULL);
}

static inline void check_numbers(const char *what, const json_t *want, const real *got, double tol)
{
    real w[4096];
    const size_t n = numbers(want, w);
    CHECK(n > 0);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)w[i] - (double)got[i]) <= tol * (1 + fabs((double)w[i]))))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", what, i, (double)got[i],
                      (double)w[i]);
}

#endif
